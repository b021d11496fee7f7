//! Why a conversation did not come about, or did not go on.

use std::io;
use std::path::PathBuf;

use acp_campaign::room::RoomError;
use acp_host::ClientError;
use acp_host::target::OpenAgentError;
use acp_link::token;
use acp_policy::ToolPatternError;

use crate::content::ContentError;
use crate::modes::ModeError;

/// Whose turn it is to do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFamily {
    /// The person asked for something that there is not.
    Usage,
    /// The agent said no.
    Refusal,
    /// The agent, the connection or this machine failed.
    Fault,
}

/// Why a conversation did not come about, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// What became of a request.
    #[error(transparent)]
    Client(ClientError),
    /// The listener did not let us in.
    #[error("the connection was refused: {0}; {hint}", hint = token::HINT)]
    TokenWanted(String),
    /// The agent opens no session without a login.
    #[error("{hint}: {error}")]
    LoginWanted {
        /// How to log in.
        hint: String,
        /// What the agent said.
        error: ClientError,
    },
    /// The agent did not answer the first request.
    #[error("{error}; {hint}")]
    Silent {
        /// Which request, and how long it was waited for.
        error: ClientError,
        /// What may be the reason.
        hint: String,
    },
    /// The agent has no such login, or none that can happen here.
    #[error("{0}")]
    Login(String),
    /// There is no such mode or option.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// A file cannot be sent along.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A tool pattern cannot be read.
    #[error(transparent)]
    Pattern(#[from] ToolPatternError),
    /// A folder of the session cannot be used.
    #[error("cannot use the folder {}: {error}", .path.display())]
    Folder {
        /// As it was given.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// A line of the input is not text.
    #[error("line {number} of the input is not UTF-8 text: {line:?}; what follows was not sent")]
    Unreadable {
        /// Counted from 1.
        number: usize,
        /// What can be read of it.
        line: String,
    },
    /// The agent could not be started or reached.
    #[error(transparent)]
    Open(#[from] OpenAgentError),
    /// An installed agent's home could not be made.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// The transcript cannot be written.
    #[error(transparent)]
    Transcript(#[from] acp_link::TapError),
    /// Nothing could be shown.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Signals cannot be received.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// The person ended it before it began.
    #[error("interrupted before the agent was ready")]
    Interrupted,
    /// The agent went away while nothing was asked of it.
    #[error("{0}")]
    Gone(String),
}

impl ChatError {
    /// Whose turn it is to do something about it.
    pub fn family(&self) -> ErrorFamily {
        match self {
            ChatError::Client(ClientError::Folder(_))
            | ChatError::Login(_)
            | ChatError::Mode(_)
            | ChatError::Content(_)
            | ChatError::Pattern(_)
            | ChatError::Folder { .. }
            | ChatError::Unreadable { .. } => ErrorFamily::Usage,
            ChatError::Client(ClientError::Refused { .. } | ClientError::NotOffered { .. })
            | ChatError::LoginWanted { .. }
            | ChatError::Interrupted => ErrorFamily::Refusal,
            _ => ErrorFamily::Fault,
        }
    }
}

impl From<ClientError> for ChatError {
    fn from(error: ClientError) -> ChatError {
        match error {
            ClientError::Refused { ref error, .. } if token::is_wanted(error.data.as_ref()) => {
                let words = error.message.split(": ").next().unwrap_or_default();
                ChatError::TokenWanted(acp_text::line(words))
            }
            error => ChatError::Client(error),
        }
    }
}
