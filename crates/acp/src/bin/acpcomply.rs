//! `acpcomply` is `acp comply`, but prints its Markdown report on a terminal too.

use std::process::ExitCode;

fn main() -> ExitCode {
    let own: Vec<_> = std::env::args_os().skip(1).collect();
    if own.first().is_some_and(|word| word == "--version" || word == "-V") {
        return acp_workbench::run(["acpcomply".into(), "--version".into()]);
    }
    let comply = ["acp".into(), "comply".into(), "--always-markdown".into()];
    acp_workbench::run(comply.into_iter().chain(own))
}
