//! The checker of `scripts/task-faults`, with a few tasks and two faults.

use super::*;

fn checked(acp: &str, args: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/task-faults");
    let run = Command::new("python3").args([script, "--acp", acp, "--scenario", "short"]).args(args).output();
    run.expect("python3 runs")
}

#[test]
fn no_task_is_lost_while_the_server_and_the_proxy_are_killed() {
    if server::left_out() {
        return;
    }
    let run = checked(ACP, &["--seed", "1", "--tasks", "12"]);
    let words = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && words.contains("1 of 1 runs are good"), "{words}");
}

#[test]
fn the_checker_notices_tasks_without_results() {
    if server::left_out() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let idle = temp.path().join("idle");
    std::fs::write(&idle, "#!/bin/sh\nexec sleep 300\n").expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&idle, executable).expect("its rights");
    let run = checked(&idle.display().to_string(), &["--seed", "1", "--tasks", "2", "--patience", "1"]);
    let words = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{words}");
    assert!(words.contains("results: t0 has 0 results") && words.contains("0 of 1 runs are good"), "{words}");
    // Kept, so that the cause can be looked for.
    let folder = words.split("see ").nth(1).and_then(|rest| rest.lines().next()).expect("its folder");
    std::fs::remove_dir_all(folder).expect("it is there");
}
