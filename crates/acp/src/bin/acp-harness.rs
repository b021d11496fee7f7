//! `acp-harness …` is `acp harness …`.

#[path = "../launch.rs"]
mod launch;

fn main() -> std::process::ExitCode {
    launch::acp_as("acp-harness")
}
