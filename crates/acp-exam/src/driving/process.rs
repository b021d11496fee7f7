//! One process of a client: its streams, its end, and what came from it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_link::child::Exit;
use acp_link::kept::{self, RunningCommand};
use acp_link::process_guard::ProcessGuard;
use rustix::process::Signal;
use tokio::sync::mpsc;

use crate::place::ExamPlace;
use crate::process;

/// How many lines are kept of what a process says.
const LINES: usize = 20;
/// The longest line that is kept.
const LONGEST: u64 = 1 << 20;
/// How long the end of killed processes is waited for.
const KILLED: Duration = Duration::from_secs(5);

/// What a client's processes do.
#[derive(Debug)]
pub(crate) enum ProcessNews {
    /// It has ended; what it left behind may still be there.
    Ended { process: usize, exit: Option<Exit> },
    /// It wrote a line to standard output.
    Line(Vec<u8>),
    /// It wrote to its screen.
    Screen(Vec<u8>),
}

/// What becomes of a process's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputUse {
    /// Its last lines are kept.
    Keep,
    /// Each line is told.
    Lines,
    /// The bytes are told.
    Screen,
}

/// The last lines of what a process said.
#[derive(Clone, Debug, Default)]
struct LastWords(Arc<Mutex<VecDeque<String>>>);

/// A process of a client.
#[derive(Debug)]
pub(crate) struct ClientProcess {
    /// The verb that started it.
    pub verb: String,
    pub pid: u32,
    /// How it ended, when it has.
    pub ended: Option<Option<Exit>>,
    running: Option<RunningCommand>,
    /// Watches over it; what it leaves behind becomes a child of this one.
    keeper: u32,
    input: Option<std::sync::mpsc::Sender<Vec<u8>>>,
    said: LastWords,
}

impl ClientProcess {
    /// Starts one. `number` is what its news are told with.
    pub fn start(
        number: usize,
        verb: &str,
        words: &[String],
        place: &ExamPlace,
        guard: &ProcessGuard,
        output: OutputUse,
        news: &mpsc::UnboundedSender<ProcessNews>,
    ) -> Result<ClientProcess, String> {
        let (program, args) =
            words.split_first().ok_or("the driver has no words to start the client with")?;
        let failed =
            |error: std::io::Error| format!("cannot start {program:?}: {error}; is the client installed?");
        let mut command = Command::new(program);
        command.args(args).current_dir(&place.cell.sandbox);
        for (name, _) in std::env::vars_os() {
            command.env_remove(name);
        }
        command.envs(place.env.iter().map(|(name, value)| (name, value)));
        let mut prepared = kept::wrap(&command, guard).map_err(failed)?;
        let input = if output == OutputUse::Keep { Stdio::null() } else { Stdio::piped() };
        prepared.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut running, mut end) = prepared.spawn().map_err(failed)?;
        let pid = running.pid();
        let keeper = process::look(pid).map_or(pid, |process| process.parent);
        let (stdin, stdout, stderr) = running.streams();
        let said = LastWords::default();
        if let Some(stderr) = stderr {
            let said = said.clone();
            std::thread::spawn(move || lines(stderr, |line| said.keep(&line)));
        }
        if let Some(stdout) = stdout {
            let (said, news) = (said.clone(), news.clone());
            std::thread::spawn(move || match output {
                OutputUse::Keep => lines(stdout, |line| said.keep(&line)),
                OutputUse::Lines => lines(stdout, |line| drop(news.send(ProcessNews::Line(line)))),
                OutputUse::Screen => pieces(stdout, |bytes| drop(news.send(ProcessNews::Screen(bytes)))),
            });
        }
        let input = stdin.map(|stdin| writer(stdin.into()));
        let news = news.clone();
        tokio::spawn(async move {
            let exit = end.wait().await;
            let _ = news.send(ProcessNews::Ended { process: number, exit });
        });
        Ok(ClientProcess {
            verb: verb.to_owned(),
            pid,
            ended: None,
            running: Some(running),
            keeper,
            input,
            said,
        })
    }

    pub fn is_alive(&self) -> bool {
        self.ended.is_none()
    }

    /// Writes to its input.
    pub fn write(&self, bytes: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(bytes);
        }
    }

    /// Ends its input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends a signal to the process itself, not to its group: a key in a terminal is another thing.
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && process::send(self.pid, signal)
    }

    /// The last words, for people.
    pub fn last_words(&self) -> String {
        let said = self.said.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// What came from it and still lives, itself included.
    pub fn family(&self) -> Vec<process::LiveProcess> {
        // A guard of a client of ours ends a moment after what it guards.
        let guards = ["agent-guard", "command-guard"];
        let family = process::descendants(self.keeper).into_iter();
        family.filter(|process| !guards.contains(&process.name.as_str())).collect()
    }

    /// Kills what is left.
    pub fn kill(&mut self) {
        self.input = None;
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }

    /// Waits until nothing is left.
    pub async fn gone(&self) {
        let deadline = tokio::time::Instant::now() + KILLED;
        while !process::descendants(self.keeper).is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl LastWords {
    fn keep(&self, line: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == LINES {
            said.pop_front();
        }
        said.push_back(String::from_utf8_lossy(line).trim_end().chars().take(500).collect());
    }
}

fn lines(from: impl Read, mut each: impl FnMut(Vec<u8>)) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => each(line),
        }
    }
}

fn pieces(mut from: impl Read, mut each: impl FnMut(Vec<u8>)) {
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        each(piece[..count].to_vec());
    }
}

/// Writes in a thread of its own: a client that does not read holds up nobody.
fn writer(stdin: std::os::fd::OwnedFd) -> std::sync::mpsc::Sender<Vec<u8>> {
    let (send, next) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let mut stdin = File::from(stdin);
        while let Ok(bytes) = next.recv() {
            if stdin.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    send
}
