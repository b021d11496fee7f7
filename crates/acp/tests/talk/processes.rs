//! Who is a child of whom.

use std::time::Instant;

use crate::PATIENCE;

/// All descendants of a process.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut todo = vec![pid];
    while let Some(pid) = todo.pop() {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> =
                children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            todo.extend(&children);
            found.extend(children);
        }
    }
    found
}

/// The descendant whose command line has this word.
pub fn descendant_named(pid: u32, word: &str) -> u32 {
    let began = Instant::now();
    loop {
        let line = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The supervisor's command line has the word too; the agent's begins with it.
        let hit = descendants(pid).into_iter().find(|pid| {
            let line = line(pid);
            let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
            words.get(1).is_some_and(|second| *second == word.as_bytes())
        });
        if let Some(pid) = hit {
            return pid;
        }
        assert!(began.elapsed() < PATIENCE, "no descendant {word} of {pid}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Waits until none of them lives.
pub fn all_gone(pids: &[u32]) {
    let began = Instant::now();
    let alive = |pid: &&u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while let Some(pid) = pids.iter().find(alive) {
        assert!(began.elapsed() < PATIENCE, "process {pid} was left behind");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Sends a signal by its name.
pub fn signal(pid: u32, name: &str) {
    let status = std::process::Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}
