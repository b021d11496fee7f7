//! `acp man [COMMAND]`

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

/// Arguments of `acp man`.
#[derive(clap::Args)]
#[command(after_help = crate::help::MAN)]
pub struct ManArgs {
    /// The command whose page to print; without it, the page of `acp` itself
    command: Option<String>,
}

/// Writes the manual page to standard output.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut root = crate::Cli::command();
    root.build();
    let page = match &args.command {
        None => root,
        Some(name) => root
            .find_subcommand(name)
            .with_context(|| format!("there is no command {name:?}; `acp --help` lists them"))?
            .clone()
            .name(format!("acp-{name}")),
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    crate::out::print(text)?;
    Ok(ExitCode::SUCCESS)
}
