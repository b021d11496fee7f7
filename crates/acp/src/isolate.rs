//! A network of our own with loopback and nothing else: the command starts itself again inside of it.
//!
//! The runner, the agents, the scripted model and the stub MCP server all live in there, so that they reach each other
//! and nothing else. The namespace is made by util-linux's `unshare`, its loopback interface is brought up by `ip`.

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
    if network::is_loopback_only() == Some(true) && std::env::var_os(INSIDE).is_some() {
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
