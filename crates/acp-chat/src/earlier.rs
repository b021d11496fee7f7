//! The lines that were typed in earlier conversations, kept in the person's state folder.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// At most this many lines are kept.
const MAX_LINES: usize = 1000;
/// A longer line is not kept.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Earlier lines, oldest first, and the file that has them: each line as a JSON string, because it may hold several.
pub(super) struct Earlier {
    path: Option<PathBuf>,
    lines: VecDeque<String>,
}

impl Earlier {
    /// Reads the file. What cannot be read is nothing to fail for.
    pub(super) fn read(path: Option<PathBuf>) -> Earlier {
        let lines = path.as_deref().map(lines_of).unwrap_or_default();
        Earlier { path, lines }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &String> {
        self.lines.iter()
    }

    /// Keeps a line, unless it begins with a blank.
    pub(super) fn add(&mut self, line: &str) {
        let is_kept = !line.starts_with(' ') && !line.trim().is_empty() && line.len() <= MAX_LINE_BYTES;
        if !is_kept || self.lines.back().is_some_and(|last| last == line) {
            return;
        }
        self.lines.push_back(line.to_owned());
        let is_full = self.lines.len() > MAX_LINES;
        if is_full {
            self.lines.drain(..self.lines.len() - MAX_LINES / 2);
        }
        if let Some(path) = &self.path {
            // A history that cannot be written is no reason to end a conversation.
            let _ = if is_full { self.rewrite(path) } else { append(path, line) };
        }
    }

    /// Writes the whole file again.
    fn rewrite(&self, path: &Path) -> std::io::Result<()> {
        let line = |line: &String| format!("{}\n", serde_json::Value::from(line.as_str()));
        let text: String = self.lines.iter().map(line).collect();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    }
}

fn lines_of(path: &Path) -> VecDeque<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let skipped = lines.len().saturating_sub(MAX_LINES);
    lines.into_iter().skip(skipped).collect()
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    writeln!(file, "{}", serde_json::Value::from(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_in_a_private_file_and_read_again() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("acp/chat-history");
        let mut earlier = Earlier { path: Some(path.clone()), lines: VecDeque::new() };
        for line in ["one", "one", " secret", "two\nlines", ""] {
            earlier.add(line);
        }
        assert_eq!(lines_of(&path), ["one", "two\nlines"]);
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        for number in 0..MAX_LINES {
            earlier.add(&number.to_string());
        }
        assert!(lines_of(&path).len() <= MAX_LINES);
        assert_eq!(lines_of(&path).back().map(String::as_str), Some("999"));
    }
}
