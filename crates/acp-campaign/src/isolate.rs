//! A network of our own with loopback and nothing else: the command starts itself again inside of it.
//!
//! The runner, the agents, the scripted model and the stub MCP server all live in there, so that they reach each other
//! and nothing else. The namespace is made by util-linux's `unshare`, its loopback interface is brought up by `ip`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::network;

/// Set for the command inside, so that it does not try again.
const INSIDE: &str = "ACP_ISOLATED";
/// What brings up loopback and then becomes the program, in the words of a shell.
const ENTER: &str = "ip link set lo up && exec \"$@\"";

/// Why this program cannot run in a network of its own.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}; is another program using it?: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The variable that marks the inside is set outside.
    #[error("--isolate: the new network has more than loopback; is {INSIDE} set by hand?")]
    NotIsolated,
    /// The program cannot start itself again.
    #[error("cannot find the program's own file: {0}")]
    OwnFile(io::Error),
    /// The helper programs are missing.
    #[error("--isolate needs the programs unshare and ip (Debian: util-linux and iproute2): {0}")]
    Programs(io::Error),
    /// The program did not become `unshare`.
    #[error("--isolate: cannot run unshare: {0}")]
    Unshare(io::Error),
    /// The system refuses.
    #[error(
        "--isolate: this system does not let us have a network of our own ({0}); run as root, allow user namespaces \
         (sysctl kernel.unprivileged_userns_clone=1), give a container CAP_SYS_ADMIN, or leave --isolate out"
    )]
    Refused(String),
}

/// Returns only inside a network with loopback and nothing else.
pub fn enter() -> Result<(), IsolationError> {
    enter_with(Stdio::inherit())
}

/// Like [`enter`], for a program that listens. The socket is opened before, so that clients outside can reach it, and is
/// standard input inside.
pub fn enter_listening(address: SocketAddr) -> Result<TcpListener, IsolationError> {
    let bind = || TcpListener::bind(address).map_err(|error| IsolationError::Listen { address, error });
    if !is_inside() {
        enter_with(OwnedFd::from(bind()?).into())?;
    }
    let handed_over = io::stdin().as_fd().try_clone_to_owned().map(TcpListener::from);
    match handed_over {
        Ok(socket) if socket.local_addr().is_ok() => Ok(socket),
        // Another program made this network, and clients are in it, too.
        _ => bind(),
    }
}

/// Whether this system lets us isolate an agent.
pub fn check() -> Result<(), IsolationError> {
    if is_inside() { Ok(()) } else { permitted().map(drop) }
}

fn is_inside() -> bool {
    network::is_loopback_only() == Some(true) && std::env::var_os(INSIDE).is_some()
}

fn enter_with(stdin: Stdio) -> Result<(), IsolationError> {
    if is_inside() {
        return Ok(());
    }
    if std::env::var_os(INSIDE).is_some() {
        return Err(IsolationError::NotIsolated);
    }
    let options = permitted()?;
    let own = std::env::current_exe().map_err(IsolationError::OwnFile)?;
    let error = Command::new("unshare")
        .args(options)
        .args(["--", "sh", "-c", ENTER, "sh"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .stdin(stdin)
        .arg0("unshare")
        .exec();
    Err(IsolationError::Unshare(error))
}

/// The options with which this system lets us have such a network; tried beforehand, so that the error is clear.
fn permitted() -> Result<&'static [&'static str], IsolationError> {
    const WAYS: &[&[&str]] = &[&["--net"], &["--map-current-user", "--keep-caps", "--net"]];
    let mut refusal = String::new();
    for options in WAYS {
        let tried = Command::new("unshare")
            .args(*options)
            .args(["--", "sh", "-c", ENTER, "sh", "true"])
            .stdin(Stdio::null())
            .output()
            .map_err(IsolationError::Programs)?;
        if tried.status.success() {
            return Ok(options);
        }
        String::from_utf8_lossy(&tried.stderr).trim().clone_into(&mut refusal);
    }
    Err(IsolationError::Refused(refusal))
}
