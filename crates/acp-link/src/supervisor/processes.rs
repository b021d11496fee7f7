//! Who is there, read from `/proc`.

use rustix::process::Pid;

use crate::child::Survivor;

/// A process that is not a zombie.
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    name: String,
}

/// The living members of a process group. Empty where there is no `/proc`.
pub(crate) fn in_group(group: Pid) -> Vec<Survivor> {
    let group = group.as_raw_nonzero().get();
    living().into_iter().filter(|process| process.group == group).map(survivor).collect()
}

/// The living descendants of a process, parents before children.
pub(crate) fn descendants(ancestor: Pid) -> Vec<Survivor> {
    let mut rest = living();
    let mut family = vec![ancestor.as_raw_nonzero().get()];
    let mut found = Vec::new();
    loop {
        let (next, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|it| family.contains(&it.parent));
        if next.is_empty() {
            return found;
        }
        family = next.iter().map(|process| process.pid).collect();
        found.extend(next.into_iter().map(survivor));
        rest = others;
    }
}

fn survivor(process: Process) -> Survivor {
    Survivor { pid: process.pid.unsigned_abs(), name: process.name }
}

fn living() -> Vec<Process> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // One that ends meanwhile has no stat any more.
    numbers.filter_map(|pid| parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// `pid (name) state parent group …`, where the name may hold anything, brackets too.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let stat = String::from_utf8_lossy(stat);
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(close + 1..)?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let name = stat.get(open + 1..close)?.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
    Some(Process { pid, parent, group, name })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_name_may_hold_brackets_and_line_ends() {
        let process = parse(7, b"7 (a) (b\n) S 3 5 5 0 -1").unwrap();
        assert_eq!((process.parent, process.group, process.name.as_str()), (3, 5, "a) (b?"));
    }

    #[test]
    fn a_zombie_is_not_living() {
        assert!(parse(7, b"7 (sh) Z 3 5 5 0 -1").is_none());
    }
}
