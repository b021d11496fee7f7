//! An agent that can be reached: a program to start, or an address where one listens.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use acp_dialect::{Dialect, Note, Side, TranslationOptions};
use acp_link::child::{self, Child, SpawnError, SpawnOptions};
use acp_link::{Address, AddressError, ConnectError, Link, LinkSettings, Tap};
use acp_profile::{Profile, ProfileSource};
use acp_rpc::Direction;

use crate::Workspace;

/// Why it is not known how to reach an agent. The messages name the flags of the command line.
#[derive(Debug, thiserror::Error)]
pub enum AgentTargetError {
    /// A command line that no shell would take either.
    #[error("--command {0:?} has a quote that does not end")]
    OpenQuote(String),
    /// There is no program.
    #[error("--command is empty")]
    NoCommand,
    /// Relative paths mean nothing.
    #[error("cannot find the working folder: {0}")]
    WorkingFolder(io::Error),
    /// No address.
    #[error("--connect {0}")]
    Address(#[from] AddressError),
    /// A profile whose paths depend on an installation.
    #[error("agent {name:?} cannot be started by its name alone ({text:?}); install it and use --command")]
    NotInstalled {
        /// The agent.
        name: String,
        /// What stands in its profile.
        text: String,
    },
}

/// Why an agent could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum OpenAgentError {
    /// It does not start.
    #[error(transparent)]
    Start(#[from] SpawnError),
    /// Nothing listens there, or it does not let us in.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// An agent that can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentTarget {
    /// A process to start.
    Process {
        /// How to call it in messages.
        name: String,
        /// The program.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// Variables set for it.
        env: Vec<(OsString, OsString)>,
        /// The folder it is started in; without it, the session's.
        cwd: Option<PathBuf>,
    },
    /// An agent that listens, and the token that it is shown.
    Listening(Address, Option<String>),
}

/// An open connection.
#[derive(Debug)]
pub struct AgentConnection {
    /// The lines.
    pub link: Link,
    /// The process, if we started one.
    pub child: Option<Child>,
}

impl AgentTarget {
    /// The agent that a command line starts.
    pub fn of_command_line(line: &str) -> Result<AgentTarget, AgentTargetError> {
        let words = shlex::split(line).ok_or_else(|| AgentTargetError::OpenQuote(line.to_owned()))?;
        let Some((program, args)) = words.split_first() else { return Err(AgentTargetError::NoCommand) };
        let here = std::env::current_dir().map_err(AgentTargetError::WorkingFolder)?;
        Ok(AgentTarget::Process {
            name: program.clone(),
            // A bare name is looked for in PATH.
            program: if program.contains('/') { from(&here, program) } else { program.into() },
            args: args.iter().map(|arg| from(&here, arg)).collect(),
            env: Vec::new(),
            cwd: None,
        })
    }

    /// The agent that listens at an address. It is shown no token.
    pub fn at(address: &str) -> Result<AgentTarget, AgentTargetError> {
        Ok(AgentTarget::Listening(address.parse()?, None))
    }

    /// The person's own installation of a known agent: its program from `PATH` and its arguments. What a profile sets up
    /// for offline tests (a private home, a scripted model) is left out.
    pub fn of_profile(profile: &Profile) -> Result<AgentTarget, AgentTargetError> {
        let foreign = profile.source != ProfileSource::Profile;
        let plain = |text: &str| {
            let text = text.strip_prefix("${bin}/").unwrap_or(text);
            if text.replace("$${", "").contains("${") {
                let (name, text) = (profile.name.clone(), text.to_owned());
                return Err(AgentTargetError::NotInstalled { name, text });
            }
            Ok(OsString::from(text.replace("$${", "${")))
        };
        let env = if foreign {
            let pairs = profile.env.iter().map(|(name, value)| Ok((OsString::from(name), plain(value)?)));
            pairs.collect::<Result<_, AgentTargetError>>()?
        } else {
            Vec::new()
        };
        Ok(AgentTarget::Process {
            name: profile.name.clone(),
            program: plain(&profile.command)?,
            args: profile.args.iter().map(|arg| plain(arg)).collect::<Result<_, _>>()?,
            env,
            cwd: None,
        })
    }

    /// Whether a token is shown to it; nothing for one that is started.
    pub fn shows_token(&self) -> Option<bool> {
        match self {
            AgentTarget::Process { .. } => None,
            AgentTarget::Listening(_, token) => Some(token.is_some()),
        }
    }

    /// What is missing on this machine to start the agent, as far as that is known without starting it.
    pub fn missing(&self) -> Option<String> {
        let AgentTarget::Process { name, program, .. } = self else { return None };
        let path = Path::new(program);
        let found = if path.components().count() > 1 {
            path.is_file()
        } else {
            let places = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&places).any(|place| place.join(path).is_file())
        };
        let program = path.display();
        (!found).then(|| {
            format!(
                "cannot start agent \"{name}\": there is no program {program}; is it installed and on PATH?"
            )
        })
    }

    /// The agent in words.
    pub fn describe(&self) -> String {
        match self {
            AgentTarget::Process { name, .. } => name.clone(),
            AgentTarget::Listening(address, _) => address.to_string(),
        }
    }

    /// Starts or connects to it. A process is started in `cwd` under a supervisor, so that nothing of it outlives us.
    pub async fn open(&self, cwd: &Path, tap: Option<&Tap>) -> Result<AgentConnection, OpenAgentError> {
        self.open_on(cwd, tap, &LinkSettings::default()).await
    }

    /// The same, with other limits than the usual ones.
    pub async fn open_on(
        &self,
        cwd: &Path,
        tap: Option<&Tap>,
        wire: &LinkSettings,
    ) -> Result<AgentConnection, OpenAgentError> {
        let (link, child) = match self {
            AgentTarget::Process { program, args, env, cwd: own, .. } => {
                let options = SpawnOptions {
                    args: args.clone(),
                    env: env.clone(),
                    cwd: Some(own.as_deref().unwrap_or(cwd).to_owned()),
                    supervisor: std::env::current_exe().ok(),
                    wire: wire.clone(),
                    ..SpawnOptions::new(program)
                };
                let (link, child) = child::spawn(&options)?;
                (link, Some(child))
            }
            AgentTarget::Listening(address, token) => (address.connect(wire, token.as_deref()).await?, None),
        };
        let link = match tap {
            Some(tap) => link.tapped(tap, Direction::AgentToClient),
            None => link,
        };
        Ok(AgentConnection { link, child })
    }
}

impl AgentConnection {
    /// The connection as one to an agent that speaks v1, whatever it speaks. `note` is told of each step of the
    /// translation that is more than renaming.
    #[must_use]
    pub fn translated(
        mut self,
        dialect: Option<Dialect>,
        workspace: &Workspace,
        note: impl FnMut(Side, &Note) + Send + 'static,
    ) -> AgentConnection {
        if let Some(dialect) = dialect {
            let servers = workspace.mcp_servers.iter().filter_map(|server| serde_json::to_value(server).ok());
            let options = TranslationOptions {
                work_dir: workspace.cwd.to_string_lossy().into_owned(),
                mcp_servers: if dialect.traits().folder_at_initialize {
                    servers.collect()
                } else {
                    Vec::new()
                },
                load_session: true,
                session_prefix: format!("session_{:x}", std::process::id()),
                ..TranslationOptions::default()
            };
            let observers = acp_relay::Observers::of_notes(note);
            self.link = acp_relay::translated(self.link, dialect, options, observers);
        }
        self
    }
}

/// A word of a command line. Agents start in folders of their own, so one that names a file from the working folder becomes
/// an absolute path. A word without a slash or a dot may be a subcommand as well and stays what it is.
fn from(here: &Path, word: &str) -> OsString {
    let is_path = word.contains(['/', '.']) && Path::new(word).is_relative();
    let file = here.join(word);
    if is_path && file.is_file() { file.into_os_string() } else { word.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_files_become_absolute() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["agent.py", "serve"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        let word = |word: &str| from(folder.path(), word);
        assert_eq!(word("agent.py"), folder.path().join("agent.py"));
        assert_eq!(word("./serve"), folder.path().join("./serve"));
        for same in ["serve", "other.py", "--config=agent.py", "/bin/sh", "."] {
            assert_eq!(word(same), same);
        }
    }
}
