//! Real processes in tests: started, spoken to line by line, waited for, and seen to be gone.
//!
//! This is the one part of the test kit that reads the clock and sleeps. Nothing waits for [`PATIENCE`] unless something is
//! broken.

mod agent;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use agent::LiveAgent;

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until something holds; panics with what `or` says if it never does.
pub fn wait_until(mut holds: impl FnMut() -> bool, or: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{}", or());
        std::thread::sleep(LOOK);
    }
}

/// Whether a process runs: a zombie does not.
pub fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// Waits until a process is gone. `name` is what it is called if it stays.
pub fn assert_gone(pid: u32, name: &str) {
    wait_until(|| !is_running(pid), || format!("{name} ({pid}) still runs"));
}

/// The processes whose command lines hold this mark: number and command line.
pub fn marked(mark: &str) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    entries.filter_map(process).filter(|(_, line)| line.contains(mark)).collect()
}

/// A command that heeds every signal, even where the tests themselves run in the background.
pub fn heeding_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", program]);
    command
}

/// Sends a signal such as `-TERM` to a process.
pub fn signal(pid: u32, signal: &str) {
    let done = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()), "kill {signal} {pid}");
}

/// Waits for the end of a process: its exit code.
pub fn exit_code(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    let pid = child.id();
    wait_until(
        || {
            ended = child.try_wait().expect("its status");
            ended.is_some()
        },
        || format!("process {pid} does not end"),
    );
    ended.and_then(|status| status.code())
}

/// A server of ours: what it announces as its first line, and what it writes to standard error. It is killed on drop.
#[derive(Debug)]
pub struct LiveServer {
    /// The process.
    pub child: Child,
    /// Its first line on standard output.
    pub announced: Value,
    errors: Option<JoinHandle<String>>,
}

impl LiveServer {
    /// Starts it and waits for its first line.
    pub fn start(command: &mut Command) -> LiveServer {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let errors = collect(child.stderr.take().expect("its errors"));
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        match serde_json::from_str(&line) {
            Ok(announced) => LiveServer { child, announced, errors: Some(errors) },
            Err(error) => {
                let _ = child.kill();
                panic!("{error}: {line:?}\n{}", errors.join().unwrap_or_default())
            }
        }
    }

    /// A text of the announcement, for instance an address.
    pub fn told(&self, name: &str) -> String {
        let text = self.announced[name].as_str();
        text.unwrap_or_else(|| panic!("no {name} in {}", self.announced)).to_owned()
    }

    /// Ends it with a signal: its exit code and everything that it wrote to standard error.
    pub fn stop(mut self, signal_name: &str) -> (Option<i32>, String) {
        signal(self.child.id(), signal_name);
        let code = exit_code(&mut self.child);
        (code, self.errors.take().map(|errors| errors.join().unwrap_or_default()).unwrap_or_default())
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that comes out of a pipe.
fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_is_heard_stopped_and_gone() {
        let mut command = Command::new("sh");
        let server = LiveServer::start(
            command.args(["-c", "echo oops >&2; echo '{\"listening\":\"x\"}'; exec sleep 100"]),
        );
        let pid = server.child.id();
        assert_eq!(server.told("listening"), "x");
        assert!(is_running(pid) && marked("sleep 100").iter().any(|(found, _)| *found == pid));
        assert_eq!(server.stop("-TERM"), (None, "oops\n".to_owned()));
        assert_gone(pid, "the server");
    }

    #[test]
    fn an_agent_answers_and_is_permitted() {
        let script = r#"read first
            echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"options":[{"optionId":"a","kind":"allow_once"}]}}'
            read permission
            echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":$permission}"
            cat > /dev/null; exit 3"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut agent = LiveAgent::start(command);
        let answer = agent.ask("anything", &json!({}));
        assert_eq!(answer["result"]["result"]["outcome"]["optionId"], "a", "{answer}");
        assert_eq!(agent.heard.len(), 2);
        assert_eq!(agent.end().0, Some(3));
    }
}
