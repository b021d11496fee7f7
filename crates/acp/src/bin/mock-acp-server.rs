//! `mock-acp-server …` is `acp mock …`.
fn main() -> std::process::ExitCode {
    let own = std::env::args_os().skip(1);
    acp_workbench::run(["acp".into(), "mock".into()].into_iter().chain(own))
}
