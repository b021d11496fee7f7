//! How busy the machine is, measured beside the tests: a built-in agent that has nothing to do answers pings.
//!
//! A deadline that an agent missed says something about the agent only if the machine was able to keep it. The canary
//! is the witness: when the built-in mock, which answers in well under a millisecond, takes long itself, the machine
//! is at fault, not the agent.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use acp_link::child::{self, Child, SpawnOptions};
use acp_link::{Link, Receiver, Sender};
use bytes::Bytes;
use tokio::time::sleep;

/// How often a ping is sent.
const EVERY: Duration = Duration::from_millis(100);
/// How long measurements are kept.
const KEPT: Duration = Duration::from_secs(120);
/// What counts as recent when the number of parallel tests is decided.
const RECENT: Duration = Duration::from_secs(1);

/// A built-in agent that is pinged all the time. Dropping it ends its process.
#[derive(Clone, Debug)]
pub struct Canary {
    seen: Arc<Mutex<Seen>>,
    _task: Arc<Task>,
}

/// Ends the pings, and with them the process, when the last handle goes.
#[derive(Debug)]
struct Task(tokio::task::AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// When each ping was answered, and how long that took.
    answers: VecDeque<(Instant, Duration)>,
    /// The ping that is not answered yet.
    waiting: Option<Instant>,
    /// The process is gone, or never came up; nothing more is measured.
    is_over: bool,
}

impl Canary {
    /// Starts `PROGRAM mock --stdio` and pings it. Must be called inside a tokio runtime. `None` when it cannot be
    /// started: then nothing is known about the machine.
    pub fn start(program: &Path) -> Option<Canary> {
        let mut options = SpawnOptions::new(program.as_os_str()).args(["mock", "--stdio"]);
        options.supervisor = Some(program.to_owned());
        let (link, child) = child::spawn(&options).ok()?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(ping(link, child, Arc::clone(&seen)));
        Some(Canary { seen, _task: Arc::new(Task(task.abort_handle())) })
    }

    /// The longest round trip within the last second, the one under way included.
    pub fn recent(&self) -> Duration {
        self.worst_since(Instant::now().checked_sub(RECENT).unwrap_or_else(Instant::now))
    }

    /// The longest round trip that ended since then, the one under way included.
    pub fn worst_since(&self, from: Instant) -> Duration {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = seen.answers.iter().filter(|(at, _)| *at >= from).map(|(_, took)| *took).max();
        let waiting = seen.waiting.filter(|_| !seen.is_over).map(|since| since.elapsed());
        answered.into_iter().chain(waiting).max().unwrap_or_default()
    }
}

async fn ping(link: Link, child: Child, seen: Arc<Mutex<Seen>>) {
    let Link { tx, mut rx } = link;
    let update =
        |change: &dyn Fn(&mut Seen)| change(&mut seen.lock().unwrap_or_else(PoisonError::into_inner));
    for id in 1_u64.. {
        let began = Instant::now();
        update(&|seen| seen.waiting = Some(began));
        if !is_answered(&tx, &mut rx, id).await {
            break;
        }
        update(&|seen| {
            let now = Instant::now();
            seen.waiting = None;
            seen.answers.push_back((now, now - began));
            while seen.answers.front().is_some_and(|(at, _)| now.duration_since(*at) > KEPT) {
                seen.answers.pop_front();
            }
        });
        sleep(EVERY).await;
    }
    update(&|seen| seen.is_over = true);
    drop(child);
}

/// Any line in return is an answer: the mock says nothing unasked.
async fn is_answered(tx: &Sender, rx: &mut Receiver, id: u64) -> bool {
    let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_acp.workbench/ping"}}"#);
    tx.send(Bytes::from(frame)).await.is_ok() && rx.recv().await.is_some()
}
