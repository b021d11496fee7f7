//! An open session.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use super::effect::{McpKey, McpTool};
use super::turn::Turn;
use super::{Record, invalid_request};
use acp_rpc::{Id, RpcError};

/// A session that is open on this connection.
pub(super) struct Session {
    pub(super) record: Record,
    pub(super) turn: Option<Turn>,
    pub(super) servers: Vec<Server>,
    /// What the person allowed or rejected for good, see [`super::job::Job::standing`].
    pub(super) standing: BTreeMap<String, bool>,
    /// The requests to answer once the running turn has ended.
    pub(super) endings: Vec<(Ending, Option<Duration>)>,
    /// Prompts that wait for the running one, oldest first.
    pub(super) queue: VecDeque<(Id, Vec<Value>)>,
    /// What to tell the person with the next answer.
    pub(super) news: Vec<String>,
    /// Whose task it works on.
    pub(super) parent: Option<Parent>,
    /// How many tokens the model takes in, as it was last said.
    pub(super) context: Option<u64>,
    /// Whether it was opened by load or resume.
    pub(super) is_reopened: bool,
}

/// Who delegated a task.
#[derive(Clone)]
pub(super) struct Parent {
    pub(super) session: String,
    /// The tool call that stands for the task.
    pub(super) call: String,
}

/// Why a session ends.
pub(super) enum Ending {
    Close(Id),
    Delete(Id),
}

/// An MCP server of a session.
pub(super) struct Server {
    pub(super) key: McpKey,
    pub(super) name: String,
    pub(super) state: ServerState,
}

/// How far the connection to an MCP server is.
pub(super) enum ServerState {
    /// Nobody needed it yet; this connects to it.
    Asleep(Box<super::Effect>),
    Connecting,
    Ready(Vec<McpTool>),
    Failed(String),
}

impl Session {
    pub(super) fn new(record: Record) -> Self {
        Self {
            record,
            turn: None,
            servers: Vec::new(),
            standing: BTreeMap::new(),
            endings: Vec::new(),
            queue: VecDeque::new(),
            news: Vec::new(),
            parent: None,
            context: None,
            is_reopened: false,
        }
    }

    /// Refuses while a turn is running.
    pub(super) fn idle(&self) -> Result<(), RpcError> {
        match self.turn {
            None => Ok(()),
            Some(_) => Err(invalid_request("a prompt is still running in this session")),
        }
    }

    /// A path of a wish as an absolute, normal path.
    pub(super) fn resolve(&self, path: &str) -> String {
        let joined = if super::params::is_absolute(path) {
            path.to_owned()
        } else {
            format!("{}/{path}", self.record.cwd.trim_end_matches('/'))
        };
        normal(&joined)
    }

    /// Whether an absolute path lies in the working folder or in a further root.
    pub(super) fn contains(&self, path: &str, cwd: bool) -> bool {
        Some(&self.record.cwd).filter(|_| cwd).into_iter().chain(&self.record.roots).any(|root| {
            let root = normal(root);
            path == root
                || path.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    pub(super) fn remember(&mut self, update: Value) {
        // A model counts its tokens itself.
        if self.turn.as_ref().is_none_or(|turn| !turn.model) {
            self.record.used += super::digest::tokens_of(&update);
            if self.record.counted > 0 && self.record.counted == self.record.history.len() {
                self.record.counted += 1;
            }
        }
        self.record.history.push(update);
    }
}

/// Resolves `.` and `..` in the text of a path.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let lead = if path.starts_with('/') { "/" } else { "" };
    format!("{lead}{}", parts.join("/"))
}
