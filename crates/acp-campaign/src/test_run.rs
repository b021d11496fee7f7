//! One test in progress: the interpreter of `acp-comply` on one side, the agent's connection on the other.

mod machine;

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_comply::results::Cost;
use acp_comply::{ExitRecord, Program, Run, RunAction, RunEvent, Setup, TestOutcome};
use acp_dialect::{Destination, Dialect, Side, Translated, TranslationOptions, Translator};
use acp_driver::drive;
use acp_host::{OfferedCapabilities, ProviderSettings, Providers, Roots};
use acp_link::Link;
use acp_link::child::{Child, Exit};
use acp_link::process_guard::ProcessGuard;
use acp_policy::PolicyRules;
use acp_rpc::{Frame, Line, View};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cell::Cell;
use crate::drive::{Conditions, Driven, Watch};
use crate::evidence::{asked_session, last_lines, look, stray, survivor_finding};
use crate::forms::Refused;
use crate::mind::{Mind, Trouble};
use crate::stub::read_log;
use crate::target::{Connection, Ended, OpenError, Start, Target};
use crate::wire::{Judged, Parting, Wire};

/// How long an agent that did not answer may take to write what it held back, after its input has ended.
const HELD_BACK: Duration = Duration::from_secs(2);

/// Answers of the providers, each with the connection that it belongs to.
type Answers = (mpsc::UnboundedSender<(u32, Frame)>, mpsc::UnboundedReceiver<(u32, Frame)>);

/// Where a test runs: its folders, its agent, how it is driven and started.
pub(crate) struct Place<'a> {
    pub cell: &'a Cell,
    pub target: &'a Target,
    pub conditions: &'a Conditions,
    pub start: &'a Start,
    pub parting: Parting,
}

/// One test in progress.
pub(crate) struct TestRun<'a> {
    program: &'a Arc<Program>,
    run: Run,
    cell: &'a Cell,
    target: &'a Target,
    conditions: &'a Conditions,
    start: &'a Start,
    parting: Parting,
    /// The agent's model, when it is ours.
    mind: Option<Mind>,
    watch: Option<Watch>,
    began: Instant,
    /// When the interpreter was last told of something that came.
    last: Instant,
    /// When there was last nothing to do.
    idle_since: Instant,
    /// When the agent's first line came.
    first_line: Option<Duration>,
    /// Time spent waiting, by whom for.
    cost: Cost,
    link: Option<Link>,
    wire: Option<Wire>,
    /// What waits to be written.
    outgoing: VecDeque<Outgoing>,
    ended: Option<Ending>,
    providers: Option<Providers>,
    answers: Answers,
    /// Counts connections; an answer for an earlier one is dropped.
    connection: u32,
    read_from: Instant,
    output_ended: bool,
    exit: Option<Exit>,
    judged: Judged,
    exits: Vec<Ended>,
    /// Session ids that an agent of another form has under other names.
    sessions: acp_relay::SessionAliases,
    /// What could not be said to such an agent.
    refused: Refused,
    was_refused: bool,
}

impl<'a> TestRun<'a> {
    pub fn new(
        program: &'a Arc<Program>,
        setup: Setup,
        place: &Place<'a>,
        mind: Option<Mind>,
        watch: Option<Watch>,
    ) -> TestRun<'a> {
        let &Place { cell, target, conditions, start, parting } = place;
        TestRun {
            program,
            run: Run::new(Arc::clone(program), setup),
            cell,
            target,
            conditions,
            start,
            parting,
            mind,
            watch,
            began: Instant::now(),
            last: Instant::now(),
            first_line: None,
            cost: Cost::default(),
            link: None,
            wire: None,
            outgoing: VecDeque::new(),
            ended: None,
            idle_since: Instant::now(),
            providers: None,
            answers: mpsc::unbounded_channel(),
            connection: 0,
            read_from: Instant::now(),
            output_ended: false,
            exit: None,
            judged: Judged::default(),
            exits: Vec::new(),
            sessions: acp_relay::SessionAliases::default(),
            refused: Refused::default(),
            was_refused: false,
        }
    }

    pub async fn open(&mut self) -> Result<(), OpenError> {
        let from = Instant::now();
        let connection = self.target.open(self.start).await?;
        self.opened(connection, from);
        Ok(())
    }

    fn opened(&mut self, connection: Connection, from: Instant) {
        if self.start.is_over_tcp() {
            self.cost.agent_ms += millis(from.elapsed());
        }
        let dialect = self.dialect();
        let connection = match dialect {
            None => connection.translated(self.target.dialect, self.cell, &self.sessions, &self.refused),
            Some(_) => connection,
        };
        let Connection { link, child } = connection;
        let history = std::mem::take(&mut self.judged.history);
        let mut wire = Wire::new(link.tx.clone(), child, self.began, dialect, history);
        if self.cell.is_kept() {
            wire.keep_record();
        }
        (self.link, self.wire) = (Some(link), Some(wire));
        self.outgoing.clear();
        self.connection += 1;
        self.output_ended = false;
        self.exit = None;
        self.last = Instant::now();
        self.run.handle(self.began.elapsed(), RunEvent::Started);
    }

    /// The form that the test is written in, when it is not the canonical one.
    fn dialect(&self) -> Option<Dialect> {
        let dialect: Dialect = self.program.dialect.as_deref()?.parse().ok()?;
        (!dialect.is_canonical()).then_some(dialect)
    }

    pub async fn run(&mut self) -> TestOutcome {
        self.act();
        loop {
            let ended = match self.link.take() {
                Some(mut link) => {
                    let ended = drive(&mut link, self).await;
                    self.link = Some(link);
                    ended
                }
                None => self.wait_unconnected().await,
            };
            match ended {
                Ending::Done(outcome) => return *outcome,
                Ending::Reopen { keeps_process } => {
                    // A process of ours that listens lives on, and is connected to again.
                    let wire = self.wire.as_mut().filter(|_| keeps_process && self.start.is_over_tcp());
                    let kept = wire.and_then(|wire| wire.child.take());
                    self.reopen(kept).await;
                    self.act();
                }
            }
        }
    }

    /// Does what the interpreter wants, until it wants something else to happen first.
    fn act(&mut self) {
        while self.ended.is_none()
            && let Some(action) = self.run.poll()
        {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: RunAction) {
        match action {
            RunAction::Offer(capabilities) => self.offer(&capabilities),
            RunAction::Write(line) => self.write(line),
            RunAction::WriteRaw(bytes) => {
                self.show("→", &bytes);
                if let Some(wire) = &mut self.wire {
                    wire.writes_raw(&bytes);
                    self.outgoing.push_back(Outgoing::Raw(bytes));
                }
            }
            RunAction::CloseInput => {
                if let Some(wire) = &mut self.wire {
                    wire.closes_input();
                    self.outgoing.push_back(Outgoing::End);
                }
            }
            RunAction::Restart => self.ended = Some(Ending::Reopen { keeps_process: false }),
            RunAction::Reconnect => self.ended = Some(Ending::Reopen { keeps_process: true }),
            RunAction::PauseRead(time) => self.read_from = Instant::now() + time,
            RunAction::AskProvider(frame) => self.ask(&frame),
            RunAction::CancelPending { session } => {
                if let (Some(providers), Some(session)) = (&self.providers, session) {
                    providers.cancel_session(&session);
                }
            }
            RunAction::CheckFile(path) => {
                let state = look(&self.cell.sandbox, &path);
                self.run.handle(self.began.elapsed(), RunEvent::File(state));
            }
            RunAction::CheckMcp => {
                let calls = read_log(&self.cell.mcp_log);
                self.run.handle(self.began.elapsed(), RunEvent::Mcp(calls));
            }
            // Only tests of clients want these.
            RunAction::Drive { .. }
            | RunAction::AsAgent { .. }
            | RunAction::CheckProcess(_)
            | RunAction::CheckJudge => {}
            RunAction::Done(outcome) => self.ended = Some(Ending::Done(outcome)),
        }
    }

    fn offer(&mut self, capabilities: &Value) {
        if let Some(providers) = self.providers.take() {
            providers.close();
        }
        match Roots::open(&self.cell.sandbox, &[]) {
            Ok(roots) => {
                self.providers = Some(Providers::new(ProviderSettings {
                    offer: OfferedCapabilities::from_capabilities(capabilities),
                    rules: PolicyRules::of(self.program.policy),
                    default_roots: Some(roots),
                    process_guard: self.conditions.supervisor.clone().map(ProcessGuard::new),
                    ..ProviderSettings::default()
                }));
            }
            Err(error) => {
                let reason = format!("cannot open the sandbox for the client's providers: {error}");
                self.run.handle(self.began.elapsed(), RunEvent::Fault(reason));
            }
        }
    }

    fn write(&mut self, line: Bytes) {
        self.show("→", &line);
        if let (Some(providers), Some(session)) = (&self.providers, asked_session(&line)) {
            providers.turn_began(&session);
        }
        if let Some(wire) = &mut self.wire {
            wire.writes_line(&line);
            self.outgoing.push_back(Outgoing::Line(line));
        }
    }

    async fn reopen(&mut self, kept: Option<Child>) {
        self.end_connection().await;
        if let Some(providers) = &self.providers {
            providers.close();
        }
        let (from, is_kept) = (Instant::now(), kept.is_some());
        match self.target.open_again(self.start, kept).await {
            Ok(connection) => self.opened(connection, from),
            Err(error) => {
                let event = match self.target.is_ours() && !is_kept {
                    true => RunEvent::Fault(error.to_string()),
                    false => RunEvent::Lost(format!("no new connection could be made: {error}")),
                };
                self.run.handle(self.began.elapsed(), event);
            }
        }
    }

    async fn end_connection(&mut self) {
        let (Some(link), Some(wire)) = (self.link.take(), self.wire.take()) else { return };
        let from = Instant::now();
        let (judged, ended) = wire.end(link, self.output_ended, self.parting).await;
        self.cost.agent_ms += millis(from.elapsed());
        self.collect(judged, ended);
    }

    fn collect(&mut self, judged: Judged, ended: Option<Ended>) {
        self.judged.findings.extend(judged.findings);
        self.judged.exercised.extend(judged.exercised);
        self.judged.history = judged.history;
        self.judged.answered_at_end = judged.answered_at_end;
        if let Some(record) = judged.record {
            self.keep_transcript(&record);
        }
        self.exits.extend(ended);
    }

    fn ask(&mut self, frame: &Frame) {
        let Some(providers) = &self.providers else { return };
        let translated = self.dialect().and_then(|dialect| canonical_question(dialect, frame));
        let (question, translator) = match translated {
            Some((question, translator)) => (question, Some(translator)),
            None => (frame.clone(), None),
        };
        let answer = providers.answer(&question);
        let (connection, tell) = (self.connection, self.answers.0.clone());
        tokio::spawn(async move {
            let answer = answer.await.frame();
            let answers = match translator {
                None => vec![answer],
                Some(mut translator) => onward(translator.from_canonical(&answer)).collect(),
            };
            for answer in answers {
                let _ = tell.send((connection, answer));
            }
        });
    }

    /// A model that is asked in circles ends the test. One that cannot do what the test wishes does not, because the
    /// agent may do it by itself.
    fn notice_trouble(&mut self) {
        let event = match self.mind.as_mut().and_then(Mind::trouble) {
            None => return,
            Some(Trouble::Unfit(reason)) => RunEvent::OutOfReach(reason),
            Some(Trouble::Circle(reason)) => RunEvent::Blocked(reason),
        };
        self.run.handle(self.began.elapsed(), event);
    }

    fn heard(&mut self, at: Instant, line: Line, has_mark: bool) {
        self.show("←", line.bytes());
        self.first_line.get_or_insert(at.saturating_duration_since(self.began));
        let Some(wire) = &mut self.wire else { return };
        let frame = wire.heard(at, line, has_mark);
        if let Some(reason) = self.refused.take() {
            // This is the refusal. What the form has no words for, the agent was not asked.
            self.was_refused = true;
            return self.run.handle(self.began.elapsed(), RunEvent::NotApplicable(reason));
        }
        if let (Some(providers), View::Notification { .. }) = (&self.providers, frame.view()) {
            providers.observe(&frame);
        }
        self.run.handle(at.saturating_duration_since(self.began), RunEvent::Heard(frame));
    }

    fn output_end(&mut self) {
        self.output_ended = true;
        self.run.handle(self.began.elapsed(), RunEvent::Closed);
        self.tell_exit();
    }

    /// Everything the agent said comes before its exit.
    fn tell_exit(&mut self) {
        if !self.output_ended {
            return;
        }
        if let (Some(exit), Some(wire)) = (&self.exit, &self.wire) {
            let stderr = wire.child.as_ref().map(Child::stderr_tail).unwrap_or_default();
            let record = ExitRecord { code: exit.code, signal: exit.signal, stderr: last_lines(&stderr) };
            self.run.handle(self.began.elapsed(), RunEvent::Exited(record));
        }
    }

    fn show(&self, arrow: &str, bytes: &[u8]) {
        if let Some(watch) = &self.watch {
            watch(&self.program.id, arrow, bytes);
        }
    }

    /// Ends the agent, lets the judge speak, and adds what frames do not show.
    pub async fn conclude(mut self, mut outcome: TestOutcome, before: &crate::cell::Snapshot) -> Driven {
        if self.run.is_unheard() {
            // Once in a run: an interpreter that ends may need a moment to write what it held back.
            self.parting.listen = self.parting.listen.max(HELD_BACK);
        }
        self.end_connection().await;
        if let Some(providers) = self.providers.take() {
            providers.close();
        }
        let survivors: Vec<String> = self
            .exits
            .iter()
            .flat_map(|ended| &ended.exit.survivors)
            .map(|survivor| format!("{} ({})", survivor.name, survivor.pid))
            .collect();
        if !survivors.is_empty() {
            self.judged.exercised.insert(crate::SURVIVOR_REQUIREMENT.to_owned());
            self.judged.findings.push(survivor_finding(&survivors));
        }
        let at_eof = self.exits.last().map(|ended| ended.at_eof);
        let outside = self.cell.outside().changes_since(before);
        let strays: Vec<String> = outside.iter().filter_map(|path| stray(path)).collect();
        if !strays.is_empty() {
            outcome.notes.push(format!("written outside the sandbox: {}", strays.join(", ")));
        }
        if self.cell.is_kept() {
            outcome.notes.push(format!("kept in {}", self.cell.root().display()));
        }
        if self.was_refused {
            // The conversation was cut off where the form ended.
            self.judged = Judged::default();
        }
        let others = outcome.judge(std::mem::take(&mut self.judged.findings), &self.judged.exercised);
        // What the model's journal explains goes before what the judge made of it.
        if let Some(mind) = &self.mind {
            mind.testify(&mut outcome);
        }
        Driven {
            outcome,
            others,
            exercised: self.judged.exercised,
            introduction: self.run.introduction().cloned(),
            session: self.run.session().cloned(),
            messages: self.run.messages().cloned().collect(),
            refusal: self.run.refusal().cloned(),
            unheard: self.run.is_unheard(),
            answered_at_end: self.judged.answered_at_end,
            unreachable: None,
            first_answer: self.first_line,
            at_eof,
            cost: self.cost,
        }
    }

    /// Writes one connection with its frames whole: the first to `transcript.ndjson`, a later one to `transcript-2.ndjson`.
    fn keep_transcript(&self, record: &[u8]) {
        let name = match self.connection {
            0 | 1 => "transcript.ndjson".to_owned(),
            number => format!("transcript-{number}.ndjson"),
        };
        let path = self.cell.root().join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let _ = file.and_then(|mut file| file.write_all(record));
    }
}

/// What is to be written.
enum Outgoing {
    Line(Bytes),
    Raw(Bytes),
    /// The end of the agent's input.
    End,
}

/// Why the connection is let go of.
pub(crate) enum Ending {
    /// The test is over.
    Done(Box<TestOutcome>),
    /// The test wants a connection of its own again.
    Reopen {
        /// To the same process, if it listens.
        keeps_process: bool,
    },
}

/// A notification that asks something, as the request that it is in the canonical form, and who translates the answer.
fn canonical_question(dialect: Dialect, frame: &Frame) -> Option<(Frame, Translator)> {
    let View::Notification { .. } = frame.view() else { return None };
    let mut translator = Translator::new(dialect, Side::Agent, TranslationOptions::default());
    let question = onward(translator.to_canonical(frame)).next()?;
    Some((question, translator))
}

fn onward(translated: Translated) -> impl Iterator<Item = Frame> {
    translated.frames.into_iter().filter(|out| out.to == Destination::Onward).map(|out| out.frame)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
