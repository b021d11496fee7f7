//! The agents in the box.

use std::path::Path;

use acp_campaign::Target;
use anyhow::Context;

/// What `acp comply` examines when nothing is named.
pub const DEFAULT: &[&str] = &["mock"];

/// The target of this name: built in, or an entry of the settings file.
pub fn target(name: &str, settings: Option<&Path>) -> anyhow::Result<Target> {
    let own = std::env::current_exe().context("cannot find the program's own file")?.display().to_string();
    match name {
        "mock" => {
            let args = ["mock", "--stdio", "--dialect", "v1", "--state-dir", "${home}/sessions"];
            Ok(Target::start("mock", own, args.map(str::to_owned)))
        }
        other => match settings {
            Some(_) => anyhow::bail!("the settings have no agent {other:?}"),
            None => anyhow::bail!("there is no built-in agent {other:?} (there is: mock); for an agent of your editor add --settings FILE"),
        },
    }
}
