//! `file:` `dir:` `ext:` `lang:`: what is known of a file before it is read.

use std::path::Path;

use ast_grep_language::SupportLang;

use crate::lang;

/// A condition on a file's path, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// `*` and `?` as in a shell; without them, a part of the path.
    File(String),
    /// A folder on the way, or several in a row.
    Dir(String),
    /// One of these extensions.
    Ext(Vec<String>),
    /// One of these languages.
    Lang(Vec<SupportLang>),
}

impl Filter {
    /// Whether a path below the root passes.
    pub(super) fn passes(&self, path: &str) -> bool {
        let lower = path.to_lowercase();
        match self {
            Self::File(pattern) if pattern.contains(['*', '?']) => {
                let name = lower.rsplit('/').next().unwrap_or_default();
                fits(pattern.as_bytes(), lower.as_bytes())
                    || (!pattern.contains('/') && fits(pattern.as_bytes(), name.as_bytes()))
            }
            Self::File(part) => lower.contains(part.as_str()),
            Self::Dir(folder) => {
                let parents = lower.rsplit_once('/').map_or("", |(parents, _)| parents);
                format!("/{parents}/").contains(&format!("/{folder}/"))
            }
            Self::Ext(list) => Path::new(&lower)
                .extension()
                .and_then(|ext| ext.to_str())
                .is_some_and(|ext| list.iter().any(|one| one == ext)),
            Self::Lang(list) => lang::of(Path::new(path)).is_some_and(|language| list.contains(&language)),
        }
    }
}

/// Whether a text fits a pattern with `*` (any row of characters) and `?` (any one byte).
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_filter_is_a_part_or_a_shell_pattern() {
        assert!(Filter::File("walk".to_owned()).passes("src/Walk.rs"));
        assert!(Filter::File("*.rs".to_owned()).passes("src/walk.rs"));
        assert!(Filter::File("src/*.rs".to_owned()).passes("src/walk.rs"));
        assert!(!Filter::File("*.rs".to_owned()).passes("src/walk.rs.txt"));
        assert!(!Filter::File("w?lk.rs".to_owned()).passes("src/wlk.rs"));
    }

    #[test]
    fn a_folder_filter_wants_whole_names() {
        assert!(Filter::Dir("src".to_owned()).passes("a/src/b.rs"));
        assert!(Filter::Dir("a/src".to_owned()).passes("a/src/b.rs"));
        assert!(!Filter::Dir("src".to_owned()).passes("a/srcs/b.rs"));
        assert!(!Filter::Dir("b.rs".to_owned()).passes("a/src/b.rs"));
    }
}
