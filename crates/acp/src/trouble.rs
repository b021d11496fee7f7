//! What went wrong in a command, and which exit code says so.

use acp_chat::{ChatError, ErrorFamily, json};
use acp_host::ClientError;

use crate::exit;

/// Something went wrong, and which exit code says so.
#[derive(Debug)]
pub struct Trouble {
    /// The exit code.
    pub code: u8,
    /// What happened.
    pub error: anyhow::Error,
}

impl Trouble {
    /// Wrong usage.
    pub fn usage(error: impl Into<anyhow::Error>) -> Trouble {
        Trouble { code: exit::USAGE, error: error.into() }
    }

    /// The agent said no.
    pub fn failed(error: impl Into<anyhow::Error>) -> Trouble {
        Trouble { code: exit::FAILED, error: error.into() }
    }

    /// Something could not run.
    pub fn fault(error: impl Into<anyhow::Error>) -> Trouble {
        Trouble { code: exit::FAULT, error: error.into() }
    }

    /// What was to be shown could not be.
    pub fn output(error: std::io::Error) -> Trouble {
        Trouble::fault(anyhow::Error::new(error).context("cannot write to standard output"))
    }

    /// Says what happened, to a program too if one listens; returns the exit code. A reader that went away has seen what
    /// it wanted to see.
    pub fn tell(self, json: bool) -> std::io::Result<u8> {
        if crate::out::reader_left(&self.error) {
            return Ok(exit::OK);
        }
        eprintln!("acp: {:#}", self.error);
        if json {
            let object = json::error(&format!("{:#}", self.error));
            json::line(&mut std::io::stdout().lock(), &object)?;
        }
        Ok(self.code)
    }
}

impl From<ChatError> for Trouble {
    fn from(error: ChatError) -> Trouble {
        let code = match error.family() {
            ErrorFamily::Usage => exit::USAGE,
            ErrorFamily::Refusal => exit::FAILED,
            ErrorFamily::Fault => exit::FAULT,
        };
        match error {
            ChatError::Output(error) => Trouble::output(error),
            error => Trouble { code, error: error.into() },
        }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        ChatError::from(error).into()
    }
}
