//! One test on the connection that is there: the interpreter of `acp-comply` on one side, the client and the person on the
//! other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_campaign::Driven;
use acp_comply::program::PermissionHabit;
use acp_comply::{
    AgentAct, DriveOutcome, FileState, FindingRef, Program, Run, RunAction, RunEvent, Setup, Side,
    TestOutcome,
};
use acp_proto::method;
use acp_rpc::Frame;
use acp_rules::SessionHistory;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::asking;
use super::talk::{Heard, Talk, answer_or_id};
use crate::http::HttpWitness;
use crate::process::ProcessWitness;
use crate::wire::{LaunchWire, against};

/// An answer that comes sooner than this is a policy's, not a person's.
const TOO_SOON: Duration = Duration::from_millis(300);
/// The launch that the connection is.
const LAUNCH: u32 = 1;

/// The prompt that the client waits for.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub request: Heard,
    pub is_open: bool,
    /// The answer that a test gave at its end: it is sent when everything was said.
    pub answer: Option<Bytes>,
}

/// How a test in the chat ended.
#[derive(Debug)]
pub(super) enum TrialEnd {
    /// With an outcome.
    Judged(Box<Driven>),
    /// The person does not want it.
    Skipped,
    /// The person stopped the exam.
    Stopped,
    /// The client is gone.
    Gone,
}

/// What a test in the chat is run with.
pub(super) struct TrialPlace<'a> {
    pub program: &'a Arc<Program>,
    pub setup: Setup,
    pub folder: PathBuf,
    pub http: &'a HttpWitness,
    /// How long the person has.
    pub patience: Duration,
    /// How long the test may take altogether.
    pub limit: Option<Duration>,
    /// The test ends the turn itself.
    pub ends_turn: bool,
}

/// A test in progress.
pub(super) struct Trial<'a> {
    talk: &'a mut Talk,
    turn: &'a mut Turn,
    place: TrialPlace<'a>,
    run: Run,
    wire: LaunchWire,
    processes: ProcessWitness,
    began: Instant,
    /// Frames of the client from before the test, still to be handed in.
    earlier: VecDeque<Frame>,
    /// Ids of requests from before the test: the client has their answers.
    answered: BTreeSet<String>,
    /// When the person was asked for permission, by id.
    questions: BTreeMap<String, Instant>,
    /// Ids of requests of earlier tests that have no answer yet.
    stale: BTreeSet<String>,
    is_launched: bool,
    /// A prompt that is asked for.
    awaits_prompt: Option<u32>,
    outcome: Option<Box<TestOutcome>>,
    end: Option<TrialEnd>,
}

impl<'a> Trial<'a> {
    pub fn new(talk: &'a mut Talk, turn: &'a mut Turn, place: TrialPlace<'a>) -> Trial<'a> {
        let (orders, _) = mpsc::unbounded_channel();
        let began = Instant::now();
        let run = Run::new(Arc::clone(place.program), place.setup.clone());
        let wire = LaunchWire::new(json!({ "signals": [] }), orders, began, SessionHistory::default(), false);
        let stale = talk.unanswered.clone();
        Trial {
            stale,
            questions: BTreeMap::new(),
            talk,
            turn,
            place,
            run,
            wire,
            processes: ProcessWitness::default(),
            began,
            earlier: VecDeque::new(),
            answered: BTreeSet::new(),
            is_launched: false,
            awaits_prompt: None,
            outcome: None,
            end: None,
        }
    }

    /// Runs it.
    pub async fn run(mut self) -> TrialEnd {
        self.handle(RunEvent::Started);
        loop {
            self.act();
            if let Some(outcome) = self.outcome.take() {
                return TrialEnd::Judged(Box::new(self.conclude(*outcome)));
            }
            if let Some(end) = self.end.take() {
                return end;
            }
            self.wait().await;
        }
    }

    /// Does what the interpreter wants, with the frames from before the test in between.
    fn act(&mut self) {
        loop {
            while self.outcome.is_none()
                && let Some(action) = self.run.poll()
            {
                self.perform(action);
            }
            let Some(frame) = self.earlier.pop_front().filter(|_| self.outcome.is_none()) else { return };
            self.hand_in(&frame);
        }
    }

    async fn wait(&mut self) {
        self.end_turn();
        let limit = self.place.limit.map(|limit| self.began + limit);
        let deadline = self.run.next_deadline().map(|at| self.began + at).into_iter().chain(limit).min();
        let clock = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            heard = self.talk.hear() => match heard {
                Some(heard) => self.heard(&heard),
                None => self.end = Some(TrialEnd::Gone),
            },
            () = self.place.http.changed() => {
                let requests = self.place.http.requests();
                self.handle(RunEvent::Http(requests));
            }
            () = clock => {}
        }
        if limit.is_some_and(|limit| limit <= Instant::now()) {
            let reason = "the person did not do in time what was asked for; /redo asks again".to_owned();
            return self.handle(RunEvent::NotApplicable(reason));
        }
        if self.run.next_deadline().is_some_and(|at| at <= self.began.elapsed()) {
            self.handle(RunEvent::Tick);
        }
    }

    fn handle(&mut self, event: RunEvent) {
        self.run.handle(self.began.elapsed(), event);
    }

    /// Lets the interpreter and the judge read a line of the client.
    fn hand_in(&mut self, frame: &Frame) {
        let line = [&frame.raw()[..], b"\n"].concat();
        for frame in self.wire.hears(&line) {
            self.handle(RunEvent::HeardFrom { launch: LAUNCH, frame });
        }
    }

    fn heard(&mut self, heard: &Heard) {
        if Talk::is_own(heard) {
            return;
        }
        if self.talk.opens(heard) {
            let _ = self.talk.answer_usually(heard);
            return;
        }
        if heard.is_request() && heard.method() == method::SESSION_PROMPT {
            return self.prompted(heard);
        }
        let cancels = self.place.program.client.as_ref().is_some_and(|test| test.verbs.contains("cancel"));
        if heard.method() == method::SESSION_CANCEL && !cancels {
            let id = self.turn.request.value["id"].clone();
            asking::end_turn(self.talk, &id, true);
            self.turn.is_open = false;
            self.end = Some(TrialEnd::Stopped);
            return;
        }
        if self.is_automatic(heard) {
            let reason =
                "the client answers questions by itself, so the person cannot do what the test asks for";
            return self.handle(RunEvent::NotApplicable(reason.to_owned()));
        }
        self.hand_in(&heard.frame);
    }

    /// Whether this answers a question that the person was to reject or to leave, too soon for a person.
    fn is_automatic(&self, heard: &Heard) -> bool {
        let asked = self.questions.get(&heard.value["id"].to_string());
        let habit = self.place.program.client.as_ref().map(|test| test.permission);
        heard.is_answer()
            && habit.is_some_and(|habit| habit != PermissionHabit::Allow)
            && asked.is_some_and(|asked| asked.elapsed() < TOO_SOON)
    }

    fn prompted(&mut self, heard: &Heard) {
        if self.turn.is_open {
            let end = match asking::words(heard).trim() {
                "/stop" => Some(TrialEnd::Stopped),
                "/skip" => Some(TrialEnd::Skipped),
                _ => None,
            };
            if end.is_none() {
                self.talk.tell(heard.session(), "A test is running; /skip leaves it, /stop ends the exam.\n");
            }
            asking::end_turn(self.talk, &heard.value["id"], false);
            self.end = end;
            return;
        }
        *self.turn = Turn { request: heard.clone(), is_open: true, answer: None };
        self.hand_in(&heard.frame);
        if let Some(drive) = self.awaits_prompt.take() {
            self.handle(RunEvent::Driven { drive, outcome: DriveOutcome::Done });
        }
    }

    /// Ends the turn, if the test has ended it and goes on.
    fn end_turn(&mut self) {
        if let Some(answer) = self.turn.answer.take() {
            self.turn.is_open = false;
            self.talk.write(answer);
        }
    }

    fn perform(&mut self, action: RunAction) {
        if !matches!(action, RunAction::Done(_)) {
            self.end_turn();
        }
        match action {
            RunAction::Drive { drive, verb, fields } => self.drive(drive, &verb, &fields),
            RunAction::AsAgent { act, .. } => self.as_agent(act),
            RunAction::CheckFile(path) => {
                let state = match std::fs::read(self.place.folder.join(path)) {
                    Ok(bytes) => FileState::Present(bytes),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileState::Absent,
                    Err(error) => FileState::Unreadable(error.to_string()),
                };
                self.handle(RunEvent::File(state));
            }
            RunAction::CheckProcess(pid) => {
                let running = u32::try_from(pid).is_ok_and(|pid| self.processes.is_running(pid));
                self.handle(RunEvent::Process { pid, running });
            }
            RunAction::CheckJudge => {
                let findings = self.wire.findings().collect();
                self.handle(RunEvent::Judged(findings));
            }
            RunAction::Done(outcome) => self.outcome = Some(outcome),
            other => {
                let reason =
                    format!("the interpreter wants something of an agent in a test of a client: {other:?}");
                self.handle(RunEvent::Fault(reason));
            }
        }
    }

    fn drive(&mut self, drive: u32, verb: &str, fields: &Value) {
        self.launch();
        let mut is_done = true;
        match verb {
            "open" => {}
            "prompt" if self.turn.is_open => self.earlier.push_back(self.turn.request.frame.clone()),
            "prompt" => {
                self.awaits_prompt = Some(drive);
                is_done = false;
            }
            _ => {
                let sentence = asking::sentence(verb, fields, self.place.patience);
                let session = self.turn.request.session().to_owned();
                self.talk.tell(&session, &sentence);
            }
        }
        if is_done {
            self.handle(RunEvent::Driven { drive, outcome: DriveOutcome::Done });
        }
    }

    /// Hands in how the client opened this session.
    fn launch(&mut self) {
        if std::mem::replace(&mut self.is_launched, true) {
            return;
        }
        let record = self.wire.record.clone();
        self.handle(RunEvent::Launched { launch: LAUNCH, record });
        self.handle(RunEvent::DriverRecord(json!({ "running": true, "events": [] })));
        let session = self.turn.request.session().to_owned();
        let first = self.talk.introduction.iter().map(|(frame, _)| frame.clone());
        let last = self.talk.opened.iter().position(|opened| opened.id == session);
        let opened = self.talk.opened.iter().take(last.map_or(0, |at| at + 1));
        self.earlier.extend(first.chain(opened.map(|opened| opened.request.clone())));
        let ids = self.earlier.iter().filter_map(|frame| Some(answer_or_id(frame.raw())?.1));
        self.answered.extend(ids);
    }

    fn as_agent(&mut self, act: AgentAct) {
        match act {
            AgentAct::Write(line) => {
                self.wire.says([&line[..], b"\n"].concat().into());
                self.write(line);
            }
            AgentAct::Raw(bytes) => {
                self.wire.says(bytes.clone());
                self.talk.write_raw(bytes);
            }
            AgentAct::PauseRead(_) | AgentAct::CloseOutput | AgentAct::Stderr { .. } | AgentAct::Exit(_) => {
                let reason = "the test ends the agent, which this conversation needs".to_owned();
                self.handle(RunEvent::NotApplicable(reason));
            }
        }
    }

    /// Writes a line, unless the client has had it: the answers to what came before the test, and the end of a turn that
    /// goes on.
    fn write(&mut self, line: Bytes) {
        let value: Value = serde_json::from_slice(&line).unwrap_or_default();
        if value["method"] == method::SESSION_REQUEST_PERMISSION {
            self.questions.insert(value["id"].to_string(), Instant::now());
        }
        if let Some((false, id)) = answer_or_id(&line)
            && self.stale.contains(&id)
        {
            let reason =
                format!("an earlier test asked with the same id, {id}, and the client has not answered yet");
            return self.handle(RunEvent::NotApplicable(reason));
        }
        if let Some((true, id)) = answer_or_id(&line) {
            if self.answered.contains(&id) {
                return;
            }
            let of_turn = self.turn.request.value["id"].to_string();
            if id == of_turn && self.turn.is_open {
                if self.place.ends_turn {
                    self.turn.answer = Some(line);
                }
                return;
            }
        }
        self.talk.write(line);
    }

    fn conclude(mut self, mut outcome: TestOutcome) -> Driven {
        let exercised = self.wire.close().into_iter().collect();
        let found: Vec<FindingRef> = self.wire.findings().collect();
        let theirs = found.into_iter().filter(against(Side::Client)).collect();
        let others = outcome.judge(theirs, &exercised);
        Driven { others, exercised, outcome, ..Driven::fault(self.place.program, String::new()) }
    }
}
