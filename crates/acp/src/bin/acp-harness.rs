//! `acp-harness …` is `acp harness …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let own = std::env::args_os().skip(1);
    acp_workbench::run(["acp".into(), "harness".into()].into_iter().chain(own))
}
