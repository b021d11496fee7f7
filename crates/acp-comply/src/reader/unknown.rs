//! What the format does not know: it is ignored, and said so, with the nearest name that it does know.

use super::Reader;
use super::nearest::nearest;
use crate::json::Json;
use serde::Deserialize;
use std::ops::Range;
use std::sync::LazyLock;

/// The fields of each object of the format. `send`, `expectMcp` and the bodies of messages hold whatever they like.
pub(super) const FILE: &[&str] = &[
    "side",
    "title",
    "description",
    "severity",
    "docs",
    "requirements",
    "needs",
    "mayEnd",
    "aliases",
    "area",
    "dialect",
    "protocolVersions",
    "model",
    "preconditions",
    "sandbox",
    "init",
    "exercised",
    "steps",
];
/// The same for a test of a client.
pub(super) const CLIENT_FILE: &[&str] = &[
    "side",
    "title",
    "description",
    "severity",
    "docs",
    "requirements",
    "needs",
    "own",
    "aliases",
    "area",
    "protocolVersions",
    "preconditions",
    "sandbox",
    "init",
    "exercised",
    "steps",
    "provokes",
];
pub(super) const CLIENT_SANDBOX: &[&str] = &["files", "outside"];
pub(super) const CLIENT_FILES: &[&str] = &["path", "text", "base64", "link"];
pub(super) const CLIENT_INIT: &[&str] = &[
    "agentCapabilities",
    "authMethods",
    "protocolVersion",
    "answers",
    "hold",
    "permission",
    "stub",
    "workspace",
];
pub(super) const CLIENT_PRECONDITION: &[&str] = &["cap", "client", "driver", "mustBe", "mustNotBe"];
pub(super) const AGENT_ANSWER: &[&str] = &["result", "error", "merge", "never", "afterMs", "before", "until"];
pub(super) const STUB: &[&str] = &["ignores", "child", "wrapped", "environment"];
pub(super) const ANSWER: &[&str] = &["to", "result", "error", "merge", "all"];
pub(super) const ALIVE: &[&str] = &["timeoutMs"];
pub(super) const STDERR: &[&str] = &["text", "base64", "times", "timeoutMs"];
pub(super) const EXIT: &[&str] = &["code"];
pub(super) const PROCESS: &[&str] = &["pid", "running", "timeoutMs"];
pub(super) const JUDGED: &[&str] = &["none"];
pub(super) const CLIENT_ENVELOPE: &[&str] = &["launch", "withinMs"];
pub(super) const SANDBOX: &[&str] = &["files"];
pub(super) const SANDBOX_FILE: &[&str] = &["path", "text", "base64"];
pub(super) const INIT: &[&str] = &["clientCapabilities", "permissionPolicy", "handshake"];
pub(super) const PRECONDITION: &[&str] = &["agentCap", "cap", "agent", "session", "mustBe"];
pub(super) const BESIDE_STEP: &[&str] = &["shows", "witness", "provides", "unless", "expectError"];
pub(super) const NEW_SESSION: &[&str] = &["mcpServers", "capture"];
pub(super) const EXPECT: &[&str] =
    &["timeoutMs", "messages", "captures", "ordered", "fresh", "otherwiseNa", "mayWait"];
pub(super) const ENVELOPE: &[&str] =
    &["response", "notification", "clientRequest", "reply", "noReply", "witness", "provides", "shows"];
pub(super) const BESIDE_MESSAGE: &[&str] = &["anyOf", "optional", "times", "captures", "accepts"];
pub(super) const BESIDE_ACCEPTED: &[&str] = &["breaks", "inconclusive"];
pub(super) const CAPTURE: &[&str] = &["path", "or", "unlike", "unless", "match", "var", "note"];
pub(super) const FORBID: &[&str] = &["timeoutMs", "methods", "messages"];
pub(super) const RAW: &[&str] = &["text", "base64"];
pub(super) const PAUSE_READ: &[&str] = &["ms"];
pub(super) const REPEAT: &[&str] = &["times", "steps"];
pub(super) const EXPECT_EXIT: &[&str] = &["timeoutMs", "code"];
pub(super) const EXPECT_FILE: &[&str] = &["path", "text", "exact", "base64", "absent", "timeoutMs"];

/// The capabilities that some published schema of the protocol has.
#[derive(Deserialize)]
struct Capabilities {
    agent: Vec<String>,
    client: Vec<String>,
}

static KNOWN: LazyLock<Capabilities> = LazyLock::new(|| {
    let known = serde_json::from_str(include_str!("../../data/capabilities.json"));
    known.unwrap_or_else(|error| unreachable!("the built-in list is checked by a test: {error}"))
});

impl Reader<'_> {
    /// Warns about fields that are in none of these lists. Names that begin with `_` or `$` are left alone.
    pub(super) fn known_fields(&mut self, json: &Json, lists: &[&[&str]]) {
        let known = || lists.iter().copied().flatten().copied();
        let strange: Vec<(String, Range<usize>)> = json
            .members()
            .iter()
            .filter(|member| !member.key.starts_with(['_', '$']) && !known().any(|name| name == member.key))
            .map(|member| (member.key.clone(), member.key_span.clone()))
            .collect();
        for (name, span) in strange {
            let hint = match nearest(&name, known()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known here: {}", known().collect::<Vec<_>>().join(", ")),
            };
            self.warning(span, format!("unknown field {name:?}: it is ignored")).hint(hint);
        }
    }

    /// Remembers that the test must not be run, because a part of it means nothing to this version.
    pub(super) fn not_understood(&mut self, words: String) {
        self.not_understood.get_or_insert(words);
    }

    /// A precondition on a capability that no schema has is a slip: the test would be NA on every agent, unseen.
    pub(super) fn check_capability(&mut self, path: &str, span: Range<usize>, is_client: bool) {
        let known = if is_client { &KNOWN.client } else { &KNOWN.agent };
        let plain = path.strip_prefix("client.").unwrap_or(path);
        let is_known = |name: &String| name == plain || name.starts_with(&format!("{plain}."));
        if plain.is_empty() || plain.contains("_meta") || known.iter().any(is_known) {
            return;
        }
        let hint = match nearest(plain, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "no published schema of the protocol has it".to_owned(),
        };
        self.warning(span, format!("unknown capability {path:?}: the test is not run")).hint(hint);
        self.not_understood(format!("the precondition on {path:?} was not understood"));
    }
}

#[cfg(test)]
mod tests {
    use super::KNOWN;

    #[test]
    fn the_built_in_list_of_capabilities_can_be_read() {
        assert!(KNOWN.agent.iter().any(|name| name == "loadSession"));
        assert!(KNOWN.client.iter().any(|name| name == "fs.readTextFile"));
    }
}
