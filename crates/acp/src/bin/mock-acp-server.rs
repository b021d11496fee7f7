//! `mock-acp-server …` is `acp mock …`.

#[path = "../launch.rs"]
mod launch;

fn main() -> std::process::ExitCode {
    launch::acp_as("mock-acp-server")
}
