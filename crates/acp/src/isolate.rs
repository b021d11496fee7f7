//! A network of our own with loopback and nothing else: the command starts itself again inside of it.
//!
//! The runner, the agents, the scripted model and the stub MCP server all live in there, so that they reach each other
//! and nothing else. The namespace is made by util-linux's `unshare`, its loopback interface is brought up by `ip`.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use acp_campaign::network;
use anyhow::{Context, bail};

/// Set for the command inside, so that it does not try again.
const INSIDE: &str = "ACP_ISOLATED";
/// What brings up loopback and then becomes the program, in the words of a shell.
const ENTER: &str = "ip link set lo up && exec \"$@\"";

/// Returns only inside a network with loopback and nothing else.
pub fn enter() -> anyhow::Result<()> {
    enter_with(Stdio::inherit())
}

/// Like [`enter`], for a program that listens. The socket is opened before, so that clients outside can reach it, and is
/// standard input inside.
pub fn enter_listening(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bind = || {
        TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address}; is another program using it?"))
    };
    if !is_inside() {
        enter_with(OwnedFd::from(bind()?).into())?;
    }
    let handed_over = std::io::stdin().as_fd().try_clone_to_owned().map(TcpListener::from);
    match handed_over {
        Ok(socket) if socket.local_addr().is_ok() => Ok(socket),
        // Another program made this network, and clients are in it, too.
        _ => bind(),
    }
}

/// Whether this system lets us isolate an agent.
pub fn check() -> anyhow::Result<()> {
    if is_inside() { Ok(()) } else { permitted().map(drop) }
}

fn is_inside() -> bool {
    network::is_loopback_only() == Some(true) && std::env::var_os(INSIDE).is_some()
}

fn enter_with(stdin: Stdio) -> anyhow::Result<()> {
    if is_inside() {
        return Ok(());
    }
    if std::env::var_os(INSIDE).is_some() {
        bail!("--isolate: the new network has more than loopback; is {INSIDE} set by hand?");
    }
    let options = permitted()?;
    let own = std::env::current_exe().context("cannot find the program's own file")?;
    let error = Command::new("unshare")
        .args(options)
        .args(["--", "sh", "-c", ENTER, "sh"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .stdin(stdin)
        .arg0("unshare")
        .exec();
    Err(error).context("--isolate: cannot run unshare")
}

/// The options with which this system lets us have such a network; tried beforehand, so that the error is clear.
fn permitted() -> anyhow::Result<&'static [&'static str]> {
    const WAYS: &[&[&str]] = &[&["--net"], &["--map-current-user", "--keep-caps", "--net"]];
    let mut said = String::new();
    for options in WAYS {
        let tried = Command::new("unshare")
            .args(*options)
            .args(["--", "sh", "-c", ENTER, "sh", "true"])
            .stdin(Stdio::null())
            .output()
            .context("--isolate needs the programs unshare and ip (Debian: util-linux and iproute2)")?;
        if tried.status.success() {
            return Ok(options);
        }
        String::from_utf8_lossy(&tried.stderr).trim().clone_into(&mut said);
    }
    bail!(
        "--isolate: this system does not let us have a network of our own ({said}); run as root, allow user namespaces \
         (sysctl kernel.unprivileged_userns_clone=1), give a container CAP_SYS_ADMIN, or leave --isolate out"
    )
}
