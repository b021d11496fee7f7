//! `acp proxy` from the outside: real processes, real sockets.

mod bytes;
mod deploy;
mod ends;
mod forms;
mod javascript;
mod journal;
mod manual;
mod many;
mod operation;
mod ops_page;
mod policy;
mod replay;
mod strangers;
mod table;
mod talker;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use acp_testkit::live::{self, PATIENCE, exit_code as wait};

/// The program under test.
const ACP: &str = env!("CARGO_BIN_EXE_acp");

/// A folder to work in, with the file that agents read. Its path is in the command line of every agent that is started
/// for it.
struct Place {
    _temp: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().canonicalize().expect("a real path");
        std::fs::write(path.join("notes.txt"), "on disk\n").expect("a file");
        Place { _temp: temp, path }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Where its journal is.
    fn journal(&self) -> PathBuf {
        self.path.join("acp/journal")
    }

    /// An agent made of shell: the file that is run, with its place in the command line.
    fn shell(&self, script: &str) -> String {
        std::fs::write(self.path.join("agent.sh"), script).expect("a file");
        format!("sh {} {}", self.file("agent.sh"), self.file("state"))
    }

    /// `acp` with arguments, in this place.
    fn acp(&self, args: &[&str]) -> Command {
        let mut command = live::heeding_signals(ACP);
        command.args(args).current_dir(&self.path).env("XDG_STATE_HOME", &self.path).stdin(Stdio::null());
        command
    }

    /// The mock agent as a command line. The state folder marks its processes.
    fn mock(&self, rest: &str) -> String {
        format!("{ACP} mock --state-dir {} {rest}", self.file("state"))
    }

    /// The processes that were started for this place, by their command lines.
    fn processes(&self) -> Vec<String> {
        let found = live::marked(&self.file("state")).into_iter().map(|(_, line)| line);
        found.filter(|line| !line.contains(" proxy ")).collect()
    }

    /// Waits until this many processes run for this place (an agent is two: its supervisor and itself).
    fn wait_for_processes(&self, count: usize) {
        live::wait_until(
            || self.processes().len() == count,
            || format!("{count} processes were expected: {:#?}", self.processes()),
        );
    }
}

/// A proxy that listens.
struct Proxy {
    process: Child,
    address: SocketAddr,
    ops: Option<SocketAddr>,
    stderr: PathBuf,
}

impl Proxy {
    fn listen(place: &Place, transport: &str, args: &[&str]) -> Proxy {
        let listen = format!("{transport}://127.0.0.1:0");
        let mut command = place.acp(&["proxy", "--listen", &listen]);
        command.args(args);
        Proxy::start(place, command)
    }

    /// Starts one by any command that ends with a proxy.
    fn start(place: &Place, mut command: Command) -> Proxy {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stderr = place.path.join(format!("proxy-{count}.stderr"));
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&stderr).expect("a file"))
            .spawn()
            .expect("acp runs");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!("{error}: {line:?} {}", std::fs::read_to_string(&stderr).unwrap_or_default())
        });
        let address = |name: &str| said[name].as_str().and_then(|address| address.parse().ok());
        let (listening, ops) = (address("listening").expect("an address"), address("ops"));
        Proxy { process, address: listening, ops, stderr }
    }

    fn tcp(place: &Place, args: &[&str]) -> Proxy {
        Proxy::listen(place, "tcp", args)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).expect("what it said")
    }

    /// Waits until it said this.
    fn wait_for_words(&self, words: &str) {
        live::wait_until(
            || self.said().contains(words),
            || format!("{words:?} was not said, but:\n{}", self.said()),
        );
    }

    fn signal(&self, signal: &str) {
        live::signal(self.process.id(), signal);
    }

    /// Its resident memory in KiB.
    fn memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("its memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Ends it as an operator would, and says its exit code and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let status = wait(&mut self.process);
        (status, self.said())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads a socket to its end.
fn rest(mut stream: &TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the end of the connection");
    text
}

fn lines_of(path: impl AsRef<Path>) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let entry = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).expect("an entry");
        let text = |name: &str| entry[name].as_str().expect("a text").to_owned();
        (text("dir"), text("line"))
    };
    text.lines().map(entry).collect()
}
