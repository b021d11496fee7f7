//! What presses the client's buttons: verbs of a driver become processes, lines or keys.

mod fields;
mod process;
mod screen;
mod talking;
mod typing;
mod verbs;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use acp_comply::program::PermissionHabit;
use acp_comply::run::DriveOutcome;
use acp_link::process_guard::ProcessGuard;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::client::ClientUnderTest;
use crate::driver::{DriverKind, DriverVerb};
use crate::place::ExamPlace;
use crate::words::WordValues;
pub(crate) use process::ProcessNews;
use process::{ClientProcess, OutputUse};
use rustix::process::Signal;
use screen::ScreenLine;

/// How often it is looked whether something has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a client may take to end by itself after a turn, when it is asked to quit.
const GRACE: Duration = Duration::from_secs(1);
/// The same after the last step of a test.
const LAST_GRACE: Duration = Duration::from_millis(250);
/// How many events of a client are kept.
const EVENTS: usize = 10_000;

/// What a test is told.
#[derive(Debug)]
pub(crate) enum HandsNews {
    /// A verb was used, or could not be.
    Driven { drive: u32, outcome: DriveOutcome },
    /// The driver's record has changed.
    Record(Value),
}

/// One client in one test, as its driver uses it.
#[derive(Debug)]
pub(crate) struct ClientHands<'a> {
    client: &'a ClientUnderTest,
    place: &'a ExamPlace,
    values: WordValues,
    guard: ProcessGuard,
    factor: f64,
    habit: PermissionHabit,
    processes: Vec<ClientProcess>,
    news: (mpsc::UnboundedSender<ProcessNews>, mpsc::UnboundedReceiver<ProcessNews>),
    told: VecDeque<HandsNews>,
    /// Verbs that are being used.
    open: Vec<OpenDrive>,
    /// Verbs that wait for their moment.
    later: Vec<LaterVerb>,
    /// Words for every start from now on, and for the next one only.
    flags: (Vec<String>, Vec<String>),
    events: Vec<Value>,
    was_running: bool,
    /// The latest session that the agent opened.
    pub session: Option<String>,
    /// The client has started the agent at least once.
    has_launched: bool,
    screen: ScreenLine,
    keys: VecDeque<typing::Keys>,
    /// The question on the screen has its answer.
    answered: bool,
    quit: bool,
    /// A client that ends by itself after its turn is told to when it has not done so until then.
    tell_to_end: Option<Instant>,
}

/// A verb that is being used.
#[derive(Debug)]
struct OpenDrive {
    drive: u32,
    verb: String,
    until: Instant,
    ends_with: EndsWith,
}

/// What ends the use of a verb, besides the limit.
#[derive(Debug, PartialEq, Eq)]
enum EndsWith {
    Process(usize),
    /// The first start of the agent, or the client's end.
    Launch,
    Event,
    AllProcesses,
    Keys,
}

/// A verb that waits for its moment.
#[derive(Debug)]
struct LaterVerb {
    at: Instant,
    /// The client must have ended before, until then.
    alone_by: Option<Instant>,
    drive: u32,
    name: String,
    verb: DriverVerb,
    fields: Value,
}

impl<'a> ClientHands<'a> {
    pub fn new(
        client: &'a ClientUnderTest,
        place: &'a ExamPlace,
        values: WordValues,
        guard: ProcessGuard,
        factor: f64,
        habit: PermissionHabit,
    ) -> ClientHands<'a> {
        ClientHands {
            client,
            place,
            values,
            guard,
            factor,
            habit,
            processes: Vec::new(),
            news: mpsc::unbounded_channel(),
            told: VecDeque::new(),
            open: Vec::new(),
            later: Vec::new(),
            flags: Default::default(),
            events: Vec::new(),
            was_running: false,
            session: None,
            has_launched: false,
            screen: ScreenLine::default(),
            keys: VecDeque::new(),
            answered: false,
            quit: false,
            tell_to_end: None,
        }
    }

    /// Uses a verb. What comes of it is told by [`next`](ClientHands::next), once.
    pub fn drive(&mut self, drive: u32, verb: &str, fields: &Value) {
        self.quit |= verb == "quit";
        if let Err(outcome) = self.begin(drive, verb, fields) {
            self.done(drive, outcome);
        }
        self.look();
    }

    /// The next thing to tell.
    pub fn next(&mut self) -> Option<HandsNews> {
        self.told.pop_front()
    }

    /// Waits for news of a process. Cancel safe.
    pub async fn event(&mut self) -> Option<ProcessNews> {
        self.news.1.recv().await
    }

    /// Takes news in.
    pub fn happened(&mut self, news: ProcessNews) {
        match news {
            ProcessNews::Ended { process, exit } => {
                let has_launched = self.has_launched;
                let ended = &mut self.processes[process];
                ended.ended = Some(exit.clone());
                let words = if has_launched { None } else { Some(unstarted(ended, exit.as_ref())) };
                self.end_drives(
                    |open| {
                        open.ends_with == EndsWith::Process(process)
                            || matches!(open.ends_with, EndsWith::Event | EndsWith::Launch)
                    },
                    words.as_deref(),
                );
            }
            ProcessNews::Line(line) => self.heard(&line),
            ProcessNews::Screen(bytes) => self.seen(&bytes),
        }
        self.look();
    }

    /// The client has started the agent.
    pub fn launched(&mut self) {
        self.has_launched = true;
        self.end_drives(|open| open.ends_with == EndsWith::Launch, None);
    }

    /// When to [`look`](ClientHands::look) again without an event.
    pub fn next_deadline(&self) -> Option<Instant> {
        let open = self.open.iter().map(|open| match open.ends_with {
            EndsWith::AllProcesses => open.until.min(Instant::now() + LOOK),
            _ => open.until,
        });
        let later = self.later.iter().map(|later| later.at);
        let keys = self.keys.front().map(|keys| keys.by);
        open.chain(later).chain(keys).chain(self.tell_to_end).min()
    }

    /// Does what is due.
    pub fn look(&mut self) {
        self.use_what_waited();
        self.press();
        let now = Instant::now();
        if self.tell_to_end.is_some_and(|at| at <= now) {
            self.tell_to_end = None;
            for process in &self.processes {
                let _ = process.signal(Signal::TERM);
            }
        }
        let all_ended = self.processes.iter().all(|process| !process.is_alive());
        self.end_drives(
            |open| open.until <= now || (all_ended && open.ends_with == EndsWith::AllProcesses),
            None,
        );
        if self.is_running() != self.was_running {
            self.was_running = self.is_running();
            self.tell_record();
        }
    }

    /// Whether a process of the client lives.
    pub fn is_running(&self) -> bool {
        self.processes.iter().any(ClientProcess::is_alive)
    }

    /// The last words of the client's processes, for people.
    pub fn last_words(&self) -> String {
        let words = self.processes.iter().map(ClientProcess::last_words).filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join("\n")
    }

    /// Lets the client end, waits for that up to its limit, and kills what is left. Returns what that was.
    pub async fn end(&mut self) -> Vec<String> {
        if !self.quit && self.is_running() {
            self.drive(u32::MAX, "quit", &json!({}));
        }
        let until = Instant::now() + self.client.driver.limits.quit.mul_f64(self.factor);
        // Its turn is over, or will never be.
        self.tell_to_end = self.tell_to_end.map(|at| at.min(Instant::now() + LAST_GRACE));
        while self.processes.iter().any(|process| !process.family().is_empty()) && Instant::now() < until {
            while let Ok(news) = self.news.1.try_recv() {
                self.happened(news);
            }
            self.look();
            tokio::time::sleep(LOOK / 2).await;
        }
        let left: Vec<String> = self
            .processes
            .iter()
            .flat_map(ClientProcess::family)
            .map(|process| format!("{} ({})", process.name, process.pid))
            .collect();
        self.processes.iter_mut().for_each(ClientProcess::kill);
        for process in &self.processes {
            process.gone().await;
        }
        left
    }

    fn done(&mut self, drive: u32, outcome: DriveOutcome) {
        if drive != u32::MAX {
            self.told.push_back(HandsNews::Driven { drive, outcome });
        }
    }

    fn end_drives(&mut self, is_over: impl Fn(&OpenDrive) -> bool, failure: Option<&str>) {
        let (over, open) = std::mem::take(&mut self.open).into_iter().partition(is_over);
        self.open = open;
        let over: Vec<OpenDrive> = over;
        for open in over {
            let outcome = failure.map_or(DriveOutcome::Done, |words| DriveOutcome::Failed(words.to_owned()));
            self.done(open.drive, outcome);
        }
    }

    fn tell_record(&mut self) {
        let record = json!({ "running": self.is_running(), "events": self.events });
        self.told.push_back(HandsNews::Record(record));
    }

    fn limit(&self, verb: &str) -> Instant {
        let limits = &self.client.driver.limits;
        let limit = match verb {
            "quit" => limits.quit,
            _ if self.processes.is_empty() => limits.start + limits.verb,
            _ => limits.verb,
        };
        Instant::now() + limit.mul_f64(self.factor)
    }

    fn kind(&self) -> DriverKind {
        self.client.driver.kind
    }

    /// Starts a process of the client.
    fn start(&mut self, verb: &str, words: &[String], output: OutputUse) -> Result<usize, DriveOutcome> {
        let number = self.processes.len();
        let process =
            ClientProcess::start(number, verb, words, self.place, &self.guard, output, &self.news.0);
        self.processes.push(process.map_err(DriveOutcome::Failed)?);
        self.flags.1.clear();
        Ok(number)
    }
}

/// Why a client that never started our agent is no client to judge.
fn unstarted(process: &ClientProcess, exit: Option<&acp_link::child::Exit>) -> String {
    let how = exit.map_or_else(|| "ended".to_owned(), |exit| format!("ended with {exit}"));
    let said = process.last_words();
    let said = if said.is_empty() { said } else { format!("; it said: {said}") };
    format!("the client {how} before it started the agent{said}")
}
