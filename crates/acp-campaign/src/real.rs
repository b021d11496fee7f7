//! A real agent: a profile, where it is installed, and how it is made ready for one test.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use acp_link::child;
use acp_match::Vars;
use acp_profile::{Launch, Profile, ResolveError};

use crate::cell::Cell;

/// What of our environment an agent with a home of its own keeps.
const KEPT: &[&str] = &["PATH", "LANG", "LC_ALL", "TZ", "TERM", "SHELL"];
/// The user that agents run as that refuse to work for root: nobody.
const NOBODY: u32 = 65534;
/// How long a command that prepares an agent's home may take.
const PREPARING: Duration = Duration::from_secs(120);

/// Why an installed agent cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// There is no port for it.
    #[error("no loopback port is free for the agent: {0}")]
    Port(io::Error),
    /// Its profile cannot be filled in.
    #[error(transparent)]
    Profile(#[from] ResolveError),
    /// Its home cannot be filled.
    #[error("cannot fill the agent's home: {0}")]
    Home(io::Error),
    /// Its user may not start it.
    #[error(
        "{} does not work for root and is started as user {NOBODY}, who may not enter {}; install it elsewhere with \
         ACP_CACHE_DIR",
        .program.display(),
        .folder.display()
    )]
    NoEntry {
        /// What was to be started.
        program: PathBuf,
        /// A folder on the way to it.
        folder: PathBuf,
    },
    /// A command that prepares its home cannot be started.
    #[error("cannot prepare the agent with {command}: {error}")]
    Command {
        /// The command line.
        command: String,
        /// What the system said.
        error: io::Error,
    },
    /// It does not end.
    #[error("preparing the agent took too long: {0}")]
    Slow(String),
    /// It failed.
    #[error("preparing the agent failed ({status}): {command}: {last}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last line that it wrote.
        last: String,
    },
}

/// An installed agent with its profile.
#[derive(Debug, Clone)]
pub struct Real {
    /// How to start and drive it.
    pub profile: Profile,
    /// Where its programs are.
    pub bin: PathBuf,
    /// Where its packages are.
    pub packages: PathBuf,
    /// Reach it over TCP, as far as it can listen.
    pub over_tcp: bool,
}

/// An agent's home with everything in it, and the command to start.
#[derive(Debug)]
pub(crate) struct Ready {
    /// What to start.
    pub options: child::SpawnOptions,
    /// Where it will listen, when it is reached over TCP.
    pub port: Option<u16>,
}

impl Real {
    /// Whether it calls the scripted model.
    pub fn has_model(&self) -> bool {
        self.profile.model.is_some()
    }

    /// The user that it must run as, when that is not ours.
    pub fn user(&self) -> Option<u32> {
        let is_root = rustix::process::geteuid().is_root();
        (self.profile.unprivileged && is_root).then_some(NOBODY)
    }

    /// How reports describe it.
    pub fn describe(&self) -> String {
        let line = self.line();
        if self.over_tcp { format!("tcp://127.0.0.1 ({})", line.replace("${port}", "N")) } else { line }
    }

    /// The command line without the folders of this machine.
    fn line(&self) -> String {
        let program = self.profile.command.rsplit('/').next().unwrap_or(&self.profile.command);
        format!("{program} {}", self.args().join(" ")).trim().to_owned()
    }

    /// The same with the port on which it should listen.
    pub(crate) fn command(&self, port: u16) -> String {
        self.line().replace("${port}", &port.to_string())
    }

    /// Its arguments; over TCP those that its profile has for that, or else the usual one, to see what comes of it.
    fn args(&self) -> Vec<String> {
        match (&self.profile.tcp_args, self.over_tcp) {
            (Some(args), true) => args.clone(),
            (None, true) => {
                let usual = ["--port".to_owned(), "${port}".to_owned()];
                self.profile.args.iter().cloned().chain(usual).collect()
            }
            (_, false) => self.profile.args.clone(),
        }
    }

    /// Fills the agent's home and says what to start. `model` is the address of its model.
    pub(crate) async fn ready(&self, cell: &Cell, model: Option<&str>) -> Result<Ready, PrepareError> {
        let port = self.over_tcp.then(free_port).transpose().map_err(PrepareError::Port)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut vars = Vars::new()
            .with("home", text(&cell.home))
            .with("workspace", text(&cell.sandbox))
            .with("tmp", text(&cell.temp))
            .with("bin", text(&self.bin))
            .with("packages", text(&self.packages));
        if let Some(model) = model {
            vars.set("modelUrl", model);
        }
        if let Some(port) = port {
            vars.set("port", port.to_string());
        }
        let profile = Profile { args: self.args(), ..self.profile.clone() };
        let launch = profile.resolve(&vars)?;
        self.furnish(cell, &launch).map_err(PrepareError::Home)?;
        for command in &launch.prepare {
            self.prepare(cell, &launch, command).await?;
        }
        Ok(Ready { options: self.options(cell, &launch, &launch.command, &launch.args)?, port })
    }

    fn furnish(&self, cell: &Cell, launch: &Launch) -> io::Result<()> {
        for file in &launch.files {
            let path = cell.home.join(&file.path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, &file.text)?;
        }
        if let Some(user) = self.user() {
            give(cell.root(), user)?;
        }
        Ok(())
    }

    /// What to start, with a clean environment, as the right user.
    fn options(
        &self,
        cell: &Cell,
        launch: &Launch,
        program: &str,
        args: &[String],
    ) -> Result<child::SpawnOptions, PrepareError> {
        let mut options = match self.user() {
            None => child::SpawnOptions::new(program).args(args),
            Some(user) => {
                reachable(Path::new(program))?;
                let other =
                    [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
                child::SpawnOptions::new("setpriv").args(other).args([program]).args(args)
            }
        };
        options.env_clear = true;
        let kept = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        options.env = kept.filter(|(name, _)| name != "PATH").collect();
        let mut path = self.bin.clone().into_os_string();
        if let Some(ours) = std::env::var_os("PATH") {
            path.push(":");
            path.push(ours);
        }
        options.env.extend([
            ("PATH".into(), path),
            ("HOME".into(), cell.home.clone().into_os_string()),
            ("TMPDIR".into(), cell.temp.clone().into_os_string()),
            ("ACP_COMPLY".into(), "1".into()),
        ]);
        options.env.extend(launch.env.iter().map(|(name, value)| (name.into(), value.into())));
        options.cwd = Some(cell.home.clone());
        Ok(options)
    }

    async fn prepare(&self, cell: &Cell, launch: &Launch, command: &[String]) -> Result<(), PrepareError> {
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        let options = self.options(cell, launch, program, args)?;
        let mut process = tokio::process::Command::new(&options.program);
        process
            .args(&options.args)
            .env_clear()
            .envs(options.env)
            .current_dir(&cell.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let command = command.join(" ");
        let done = match tokio::time::timeout(PREPARING, process.output()).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => return Err(PrepareError::Command { command, error }),
            Err(_) => return Err(PrepareError::Slow(command)),
        };
        if done.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&done.stderr);
        let last = stderr.lines().last().unwrap_or_default().to_owned();
        Err(PrepareError::Failed { command, status: done.status, last })
    }
}

/// Gives a folder and everything in it to a user.
fn give(folder: &Path, user: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(folder, Some(user), Some(user))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), user)?;
        } else {
            std::os::unix::fs::lchown(entry.path(), Some(user), Some(user))?;
        }
    }
    Ok(())
}

/// Another user can start the program only where everybody may walk.
fn reachable(program: &Path) -> Result<(), PrepareError> {
    for folder in program.ancestors().skip(1).filter(|folder| folder.is_absolute()) {
        let Ok(meta) = std::fs::metadata(folder) else { continue };
        if meta.permissions().mode() & 0o001 == 0 {
            let (program, folder) = (program.to_owned(), folder.to_owned());
            return Err(PrepareError::NoEntry { program, folder });
        }
    }
    Ok(())
}

/// A loopback port that is free now, and likely still when the agent listens there: none that we have given to another
/// agent a moment ago, and below those that the system itself gives to whoever asks for any.
fn free_port() -> io::Result<u16> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let free = |port| std::net::TcpListener::bind(("127.0.0.1", port));
    // Another process begins elsewhere.
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let next = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if let Ok(port) = u16::try_from(FIRST + next)
            && free(port).is_ok()
        {
            return Ok(port);
        }
    }
    Ok(free(0)?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_agents_are_given_the_same_port() {
        let mut ports: Vec<u16> = (0..50).map(|_| free_port().expect("a port")).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| (20_000..32_000).contains(port)), "{ports:?}");
    }
}
