//! `acp completions SHELL`

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `acp completions`.
#[derive(clap::Args)]
#[command(after_help = crate::help::COMPLETIONS)]
pub struct CompletionsArgs {
    /// The shell to write the script for
    shell: Shell,
}

/// Writes the completion script to standard output.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "acp", &mut script);
    crate::out::print(script)?;
    Ok(ExitCode::SUCCESS)
}
