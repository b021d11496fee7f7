//! A fresh place for one test: its sandbox, the agent's private home and temporary folder, and the stub's log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::leftovers;

/// How texts name the folders.
pub(crate) const FOLDERS: [&str; 3] = ["${sandbox}", "${home}", "${temp}"];

/// The folders of one test. They are removed when the cell is dropped, unless it was kept.
#[derive(Debug)]
pub struct Cell {
    root: PathBuf,
    kept: Option<tempfile::TempDir>,
    /// Locked for as long as the folders are in use.
    _owner: Option<File>,
    /// The workspace that the agent sees.
    pub sandbox: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
    /// The agent's temporary folder.
    pub temp: PathBuf,
    /// What the stub MCP server writes down.
    pub mcp_log: PathBuf,
}

impl Cell {
    /// Makes the folders, under `keep` with the test's name when the user wants to look at them afterwards.
    pub fn make(name: &str, keep: Option<&Path>) -> io::Result<Cell> {
        let (root, kept, owner) = match keep {
            Some(folder) => {
                // As plain as the names of temporary folders: an agent that looks for paths in words may stop at a dot.
                let root = folder.join(name.replace('.', "-"));
                if root.exists() {
                    std::fs::remove_dir_all(&root)?;
                }
                std::fs::create_dir_all(&root)?;
                (root.canonicalize()?, None, None)
            }
            None => {
                static ONCE: std::sync::Once = std::sync::Once::new();
                ONCE.call_once(|| leftovers::remove(&std::env::temp_dir()));
                // What agents keep in their homes is nobody else's to read.
                let private = std::fs::Permissions::from_mode(0o700);
                let temp =
                    tempfile::Builder::new().prefix(leftovers::PREFIX).permissions(private).tempdir()?;
                let owner = leftovers::claim(temp.path())?;
                (temp.path().canonicalize()?, Some(temp), Some(owner))
            }
        };
        let cell = Cell {
            sandbox: root.join("sandbox"),
            home: root.join("home"),
            temp: root.join("tmp"),
            mcp_log: root.join("mcp.log"),
            root,
            kept,
            _owner: owner,
        };
        for folder in [&cell.sandbox, &cell.home, &cell.temp] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(cell)
    }

    /// Writes the files that a test declares. The paths were checked when the test was parsed.
    pub fn fill(&self, files: &[acp_comply::SandboxFile]) -> io::Result<()> {
        for file in files {
            let path = self.sandbox.join(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, &file.contents)?;
        }
        Ok(())
    }

    /// Puts the cell's folders in place of `${sandbox}`, `${home}` and `${temp}`.
    pub fn fill_in(&self, text: &str) -> String {
        let folders = [&self.sandbox, &self.home, &self.temp];
        FOLDERS
            .iter()
            .zip(folders)
            .fold(text.to_owned(), |text, (name, folder)| text.replace(name, &folder.to_string_lossy()))
    }

    /// The folder that holds everything.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the folders stay after the run.
    pub fn is_kept(&self) -> bool {
        self.kept.is_none()
    }

    /// What stands outside the sandbox now, by size and time of change.
    pub fn outside(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.visit(&self.root, &self.root, &self.sandbox);
        snapshot
    }
}

/// Files and folders with their size and time of change, relative to the cell's root.
#[derive(Debug, Default, Clone)]
pub struct Snapshot(BTreeMap<PathBuf, (u64, Option<std::time::SystemTime>)>);

impl Snapshot {
    fn visit(&mut self, root: &Path, folder: &Path, except: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path == except || self.0.len() > 10_000 {
                continue;
            }
            let Ok(meta) = entry.metadata() else { continue };
            let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            if meta.is_dir() {
                self.0.insert(name, (0, None));
                self.visit(root, &path, except);
            } else {
                self.0.insert(name, (meta.len(), meta.modified().ok()));
            }
        }
    }

    /// What appeared or changed since `before`.
    pub fn changes_since(&self, before: &Snapshot) -> Vec<PathBuf> {
        self.0
            .iter()
            .filter(|(path, stamp)| before.0.get(*path) != Some(stamp))
            .map(|(path, _)| path.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_a_test_are_for_their_owner_alone() {
        let cell = Cell::make("a.test", None).expect("a cell");
        let mode = std::fs::metadata(&cell.root).expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
