//! How to reach an MCP server.

use std::fmt;
use std::path::PathBuf;

/// A server to connect to: a program that speaks on its standard streams, or a streamable-HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSpec {
    /// A program to start. It gets its own process group and is killed with the [`crate::Client`].
    Stdio {
        /// The program: an absolute path, or a name found on `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables set on top of the inherited environment.
        env: Vec<(String, String)>,
        /// Its working folder; ours when absent.
        cwd: Option<PathBuf>,
    },
    /// A streamable-HTTP endpoint.
    Http {
        /// The endpoint's address, for instance `http://127.0.0.1:7000/mcp`.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Display for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => write!(f, "MCP server {command:?}"),
            Self::Http { url, .. } => write!(f, "MCP server at {url}"),
        }
    }
}
