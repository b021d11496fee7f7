//! `acpcomply …` is `acp comply …`, and prints its Markdown report on a terminal too.

#[path = "../launch.rs"]
mod launch;

fn main() -> std::process::ExitCode {
    launch::acp_as("acpcomply")
}
