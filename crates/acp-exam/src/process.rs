//! Processes as the kernel shows them: a number is the same process only as long as its start time is, and a zombie does
//! not live.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// The moment at which a process started, in the kernel's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStamp(u64);

/// A living process.
#[derive(Clone, Debug)]
pub(crate) struct LiveProcess {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    stamp: ProcessStamp,
}

/// Remembers which process a number meant when it was first seen.
#[derive(Debug, Default)]
pub(crate) struct ProcessWitness(HashMap<u32, Option<ProcessStamp>>);

impl ProcessWitness {
    /// Whether the process that had this number at the first look still lives.
    pub fn is_running(&mut self, pid: u32) -> bool {
        let now = look(pid).map(|process| process.stamp);
        let first = *self.0.entry(pid).or_insert(now);
        now.is_some() && now == first
    }
}

/// The living process of this number.
pub(crate) fn look(pid: u32) -> Option<LiveProcess> {
    parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The living descendants of a process.
pub(crate) fn descendants(ancestor: u32) -> Vec<LiveProcess> {
    let folder = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut rest: Vec<LiveProcess> =
        folder.filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?)).collect();
    let (mut family, mut found) = (vec![ancestor], Vec::new());
    loop {
        let (next, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|it| family.contains(&it.parent));
        if next.is_empty() {
            return found;
        }
        family = next.iter().map(|process| process.pid).collect();
        found.extend(next);
        rest = others;
    }
}

/// `pid (name) state parent …`, where the name may hold anything, brackets too; the start is the twenty-second field.
fn parse(pid: u32, stat: &[u8]) -> Option<LiveProcess> {
    let stat = String::from_utf8_lossy(stat);
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(close + 1..)?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let stamp = ProcessStamp(fields.nth(17)?.parse().ok()?);
    Some(LiveProcess { pid, parent, name: stat.get(open + 1..close)?.to_owned(), stamp })
}

/// The signal of this name, without `SIG`.
pub(crate) fn signal(name: &str) -> Option<Signal> {
    Some(match name {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => return None,
    })
}

/// Sends a signal to one process.
pub(crate) fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let line = b"7 (a) (b) S 3 5 5 0 -1 1 2 3 4 5 6 7 8 9 10 11 12 0 4242 99";
        let process = parse(7, line).expect("a process");
        assert_eq!((process.parent, process.name.as_str(), process.stamp), (3, "a) (b", ProcessStamp(4242)));
        assert!(parse(7, b"7 (sh) Z 3 5 5 0 -1 1 2 3 4 5 6 7 8 9 10 11 12 0 4242 99").is_none());
    }

    #[test]
    fn a_process_that_has_ended_does_not_run_even_before_it_is_collected() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut witness = ProcessWitness::default();
        assert!(witness.is_running(child.id()));
        assert!(descendants(std::process::id()).iter().any(|process| process.pid == child.id()));
        child.kill().expect("killed");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while witness.is_running(child.id()) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!witness.is_running(child.id()));
        child.wait().expect("collected");
    }
}
