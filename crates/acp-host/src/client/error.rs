use std::fmt;
use std::time::Duration;

use acp_link::LinkClosed;
use acp_link::child::Exit;
use acp_rpc::{Frame, RpcError};

use crate::RootsError;

/// Why something between client and agent did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The agent refused.
    #[error("the agent refused {method}: {error}")]
    Refused {
        /// What was asked.
        method: String,
        /// What it said.
        error: Box<RpcError>,
    },
    /// No answer in time.
    #[error("the agent did not answer {method} within {}{stderr}", seconds(*.after))]
    Timeout {
        /// What was being waited for.
        method: String,
        /// How long.
        after: Duration,
        /// The agent's last words.
        stderr: LastWords,
    },
    /// The agent, or the connection, is gone.
    #[error("{how} before it answered {method}{stderr}")]
    Gone {
        /// What was being waited for.
        method: String,
        /// How it went.
        how: Box<Gone>,
        /// The agent's last words.
        stderr: LastWords,
    },
    /// The answer does not have the form that the protocol gives it.
    #[error("the agent's answer to {method} cannot be read: {why}")]
    Unreadable {
        /// What was asked.
        method: String,
        /// What is wrong.
        why: String,
        /// The answer as it came.
        frame: Box<Frame>,
    },
    /// The agent insists on a version that this client does not speak.
    #[error(
        "the agent speaks protocol version {theirs}, this client version {ours}; the connection was closed"
    )]
    Version {
        /// Ours.
        ours: u16,
        /// Theirs.
        theirs: u16,
    },
    /// The agent did not offer what is needed, so it was not asked.
    #[error("the agent does not offer {what} (it would say {capability} when asked to initialize)")]
    NotOffered {
        /// What was wanted.
        what: String,
        /// The capability that is missing.
        capability: &'static str,
    },
    /// `initialize` comes first.
    #[error("cannot ask for {0} before initialize")]
    NotInitialized(&'static str),
    /// A folder of the session cannot be used.
    #[error(transparent)]
    Folder(#[from] RootsError),
    /// The params could not be written.
    #[error("cannot write the params of {method}: {error}")]
    Params {
        /// What was to be asked.
        method: String,
        /// Why not.
        error: serde_json::Error,
    },
}

impl ClientError {
    /// The agent's error, when it refused.
    pub fn refusal(&self) -> Option<&RpcError> {
        match self {
            ClientError::Refused { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// How an agent went away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// Its process ended.
    Exited(Exit),
    /// The connection ended, for this reason.
    Disconnected(String),
    /// It could not be written to.
    Unwritable(LinkClosed),
    /// We closed it.
    ClosedByUs,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gone::Exited(exit) => write!(f, "the agent ended ({exit})"),
            Gone::Disconnected(why) => f.write_str(why),
            Gone::Unwritable(closed) => write!(f, "{closed}"),
            Gone::ClosedByUs => f.write_str("the connection was closed"),
        }
    }
}

/// The last lines that the agent wrote to its standard error; empty for one that we did not start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastWords(pub String);

impl LastWords {
    const LINES: usize = 10;
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return Ok(());
        }
        f.write_str("; its last words on standard error:")?;
        for line in &lines[lines.len().saturating_sub(Self::LINES)..] {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
