//! Where transcripts go: one file per conversation, and a second one for the agent's wire where its form is another.

use std::path::{Path, PathBuf};

/// The file of a conversation: the first one's is as given, the others' have their number before the extension.
pub(crate) fn of_client(path: &Path, number: u64) -> PathBuf {
    if number == 1 { path.to_owned() } else { marked(path, &number.to_string()) }
}

/// The file of the agent's own wire.
pub(crate) fn of_agent(path: &Path, number: u64) -> PathBuf {
    marked(&of_client(path, number), "agent")
}

fn marked(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(mark);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_conversation_has_its_own_file() {
        let path = Path::new("a/talk.ndjson");
        assert_eq!(of_client(path, 1), path);
        assert_eq!(of_client(path, 12), Path::new("a/talk.12.ndjson"));
        assert_eq!(of_agent(path, 1), Path::new("a/talk.agent.ndjson"));
        assert_eq!(of_agent(path, 2), Path::new("a/talk.2.agent.ndjson"));
        assert_eq!(of_client(Path::new("talk"), 2), Path::new("talk.2"));
    }
}
