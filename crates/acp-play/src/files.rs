//! The files of one test, in memory.

use std::collections::{BTreeMap, BTreeSet};

/// Absolute paths and what they hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
}

/// Why a file could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Missing,
    Folder,
}

impl Files {
    /// Makes a folder and those above it.
    pub(crate) fn make_folder(&mut self, path: &str) {
        let mut path = normal(path);
        while path != "/" && self.folders.insert(path.clone()) {
            path = parent(&path);
        }
    }

    pub(crate) fn is_folder(&self, path: &str) -> bool {
        let path = normal(path);
        path == "/" || self.folders.contains(&path)
    }

    pub(crate) fn write(&mut self, path: &str, contents: Vec<u8>) -> Result<(), Trouble> {
        let path = normal(path);
        if self.is_folder(&path) {
            return Err(Trouble::Folder);
        }
        self.make_folder(&parent(&path));
        self.files.insert(path, contents);
        Ok(())
    }

    pub(crate) fn append(&mut self, path: &str, more: &[u8]) -> Result<(), Trouble> {
        let mut contents = self.read(path).map(<[u8]>::to_vec).unwrap_or_default();
        contents.extend_from_slice(more);
        self.write(path, contents)
    }

    pub(crate) fn read(&self, path: &str) -> Result<&[u8], Trouble> {
        let path = normal(path);
        match self.files.get(&path) {
            Some(contents) => Ok(contents),
            None if self.is_folder(&path) => Err(Trouble::Folder),
            None => Err(Trouble::Missing),
        }
    }

    pub(crate) fn remove(&mut self, path: &str) -> bool {
        self.files.remove(&normal(path)).is_some()
    }

    /// The names in a folder, in order.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let folder = normal(folder);
        let start = if folder == "/" { folder } else { format!("{folder}/") };
        let inside = |path: &String| {
            path.strip_prefix(&start)
                .filter(|rest| !rest.is_empty() && !rest.contains('/'))
                .map(str::to_owned)
        };
        let names: BTreeSet<String> = self.files.keys().chain(&self.folders).filter_map(inside).collect();
        names.into_iter().collect()
    }

    /// The files below a folder, in order.
    pub(crate) fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &[u8])> {
        let start = format!("{}/", normal(folder).trim_end_matches('/'));
        self.files
            .iter()
            .filter(move |(path, _)| path.starts_with(&start))
            .map(|(path, contents)| (path.as_str(), contents.as_slice()))
    }
}

/// The same path without `.`, `..` and double slashes.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// A path as seen from a folder.
pub(crate) fn from(folder: &str, path: &str) -> String {
    if path.starts_with('/') { normal(path) } else { normal(&format!("{folder}/{path}")) }
}

/// Whether a path lies in a folder, or is it.
pub(crate) fn is_within(folder: &str, path: &str) -> bool {
    let (folder, path) = (normal(folder), normal(path));
    path == folder || path.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/') || folder == "/")
}

fn parent(path: &str) -> String {
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(end) => path[..end].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_makes_its_folders_and_a_folder_is_no_file() {
        let mut files = Files::default();
        files.write("/box/a/b.txt", b"x".to_vec()).unwrap();
        assert!(files.is_folder("/box/a") && files.is_folder("/box"));
        assert_eq!(files.read("/box/a/../a/b.txt"), Ok(b"x".as_slice()));
        assert_eq!(files.read("/box/a"), Err(Trouble::Folder));
        assert_eq!(files.write("/box/a", Vec::new()), Err(Trouble::Folder));
        assert_eq!(files.names("/box"), ["a"]);
        assert_eq!(files.read("/box/none"), Err(Trouble::Missing));
    }

    #[test]
    fn a_name_that_only_begins_alike_is_not_within() {
        assert!(is_within("/box", "/box/a") && is_within("/box", "/box/"));
        assert!(!is_within("/box", "/boxes/a") && !is_within("/box", "/box/../a"));
    }
}
