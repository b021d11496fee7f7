//! The subjects, and how ids become parts of them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Longer ids are hashed: a subject must fit into a line of the NATS protocol.
const MAX_TOKEN_BYTES: usize = 120;

/// An id as one token of a subject. Ids of `[A-Za-z0-9_-]` stay as they are; others are `=` and their base64url; ids
/// that are too long for that are `+` and the base64url of their SHA-256. No two ids have the same token.
#[must_use]
pub fn token(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.len() > MAX_TOKEN_BYTES {
        format!("+{}", URL_SAFE_NO_PAD.encode(Sha256::digest(id)))
    } else if !id.is_empty() && id.bytes().all(plain) {
        id.to_owned()
    } else {
        format!("={}", URL_SAFE_NO_PAD.encode(id))
    }
}

/// The id of a token, where it can be told from it.
#[must_use]
pub fn id_of(token: &str) -> Option<String> {
    match token.split_at_checked(1)? {
        ("=", rest) => String::from_utf8(URL_SAFE_NO_PAD.decode(rest).ok()?).ok(),
        ("+", _) => None,
        _ => Some(token.to_owned()),
    }
}

/// Which names the subjects of tasks have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// `acp.v1.agent.<agent>.task`, `acp.v1.task.<task>.result`, `acp.v1.task.<task>.status`.
    #[default]
    Acp,
    /// `agent.tasks.<agent>`, `agent.results.<task>`, `agent.status.<task>`.
    Tasks,
}

impl Style {
    /// The one that is not this one.
    #[must_use]
    pub const fn other(self) -> Style {
        match self {
            Style::Acp => Style::Tasks,
            Style::Tasks => Style::Acp,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Style::Acp => "acp",
            Style::Tasks => "tasks",
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no style of subjects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no subject style {0:?}; use acp or tasks")]
pub struct UnknownStyle(String);

impl FromStr for Style {
    type Err = UnknownStyle;

    fn from_str(word: &str) -> Result<Style, UnknownStyle> {
        match word {
            "acp" => Ok(Style::Acp),
            "tasks" => Ok(Style::Tasks),
            other => Err(UnknownStyle(other.to_owned())),
        }
    }
}

/// Every subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    /// The names that the subjects of tasks have.
    pub style: Style,
}

impl Subjects {
    /// Where tasks for an agent are put.
    #[must_use]
    pub fn task(self, agent: &str) -> String {
        match self.style {
            Style::Acp => format!("acp.v1.agent.{}.task", token(agent)),
            Style::Tasks => format!("agent.tasks.{}", token(agent)),
        }
    }

    /// The subjects of all tasks.
    #[must_use]
    pub const fn tasks(self) -> &'static str {
        match self.style {
            Style::Acp => "acp.v1.agent.*.task",
            Style::Tasks => "agent.tasks.*",
        }
    }

    /// The agent of a subject for tasks, where it can be told from it.
    #[must_use]
    pub fn agent_of(self, subject: &str) -> Option<String> {
        let token = match self.style {
            Style::Acp => subject.strip_prefix("acp.v1.agent.")?.strip_suffix(".task")?,
            Style::Tasks => subject.strip_prefix("agent.tasks.")?,
        };
        id_of(token)
    }

    /// Where tasks go that cannot be done.
    #[must_use]
    pub fn dead(self, agent: &str) -> String {
        match self.style {
            Style::Acp => format!("acp.v1.agent.{}.dead", token(agent)),
            Style::Tasks => format!("agent.dead.{}", token(agent)),
        }
    }

    /// Where it is told that a task has begun, and that it has ended.
    #[must_use]
    pub fn status(self, task: &str) -> String {
        match self.style {
            Style::Acp => format!("acp.v1.task.{}.status", token(task)),
            Style::Tasks => format!("agent.status.{}", token(task)),
        }
    }

    /// Where a task's result is put.
    #[must_use]
    pub fn result(self, task: &str) -> String {
        match self.style {
            Style::Acp => format!("acp.v1.task.{}.result", token(task)),
            Style::Tasks => format!("agent.results.{}", token(task)),
        }
    }

    /// What happens in a session, stored.
    #[must_use]
    pub fn event(self, session: &str) -> String {
        format!("acp.v1.session.{}.event", token(session))
    }

    /// Where permission is asked for.
    #[must_use]
    pub fn permission(self, session: &str) -> String {
        format!("acp.v1.session.{}.permission", token(session))
    }

    /// Where a session is cancelled and closed.
    #[must_use]
    pub fn control(self, session: &str) -> String {
        format!("acp.v1.session.{}.control", token(session))
    }

    /// Every frame of a session, not stored.
    #[must_use]
    pub fn live(self, session: &str) -> String {
        format!("acp.v1.live.{}", token(session))
    }

    /// Where every proxy says which permission requests are open.
    #[must_use]
    pub const fn open_requests(self) -> &'static str {
        "acp.v1.permissions"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_ids_stay_and_hostile_ones_are_one_token() {
        assert_eq!(token("sess_01-A"), "sess_01-A");
        let long = "x".repeat(5000);
        let hostile = ["", "a.b", ">", "*", "a b", "a\r\nPUB x 0\r\n", "é", "=YQ", "+a", "a/../b", &long];
        for id in hostile {
            let token = token(id);
            assert!(token.starts_with(['=', '+']), "{token}");
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"=+_-".contains(&b)), "{token}");
            assert!(token.len() <= 200, "{token}");
        }
    }

    #[test]
    fn a_token_names_one_id_and_most_can_be_read_back() {
        let ids = ["a", "YQ", "=YQ", "a.b", "", "=", "+", "*", ">", "a\0b"];
        let tokens: std::collections::BTreeSet<String> = ids.iter().map(|id| token(id)).collect();
        assert_eq!(tokens.len(), ids.len());
        for id in ids {
            assert_eq!(id_of(&token(id)).as_deref(), Some(id));
        }
        assert_eq!(id_of(&token(&"y".repeat(500))), None);
    }

    #[test]
    fn both_styles_have_their_names() {
        let acp = Subjects::default();
        assert_eq!(acp.task("my agent"), "acp.v1.agent.=bXkgYWdlbnQ.task");
        let tasks = Subjects { style: Style::Tasks };
        assert_eq!(tasks.task("copilot"), "agent.tasks.copilot");
        for subjects in [acp, tasks] {
            assert_eq!(subjects.agent_of(&subjects.task("my agent")).as_deref(), Some("my agent"));
        }
        assert_eq!(tasks.result("t1"), "agent.results.t1");
        assert_eq!(tasks.status("t1"), "agent.status.t1");
        assert_eq!(tasks.event("s"), acp.event("s"));
    }
}
