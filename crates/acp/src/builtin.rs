//! Agents under test by name: the ones in the box, and the entries of a settings file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use acp_campaign::{Target, Way};
use acp_dialect::Dialect;
use anyhow::Context;

use crate::target::{self, TargetArgs};

/// What `acp comply` examines when nothing is named.
pub const DEFAULT: &[&str] = &["mock"];

/// The target of this name. The built-in agent keeps its sessions in its private home, so that a restart can load
/// them, and speaks the form that it is asked to.
pub fn target(name: &str, settings: Option<&Path>, dialect: Dialect) -> anyhow::Result<Target> {
    if name == "mock" && settings.is_none() {
        let own =
            std::env::current_exe().context("cannot find the program's own file")?.display().to_string();
        let args = ["mock", "--stdio", "--dialect", dialect.as_str(), "--state-dir", "${home}/sessions"];
        return Ok(Target::start("mock", own, args.map(str::to_owned)));
    }
    let named = TargetArgs {
        agent: Some(name.to_owned()),
        settings: settings.map(Path::to_path_buf),
        ..TargetArgs::default()
    };
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    Ok(match named.resolve()? {
        target::Target::Process { program, args, env, .. } => Target {
            name: name.to_owned(),
            way: Way::Start {
                program: text(&program),
                args: args.iter().map(text).collect(),
                env: env.iter().map(|(key, value)| (text(key), text(value))).collect::<BTreeMap<_, _>>(),
            },
            version: None,
            dialect,
        },
        target::Target::Tcp(address) => Target::connect(name, format!("tcp://{address}")),
        target::Target::Ws(url) => Target::connect(name, url),
    })
}
