//! Tests in the turn that runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acp_campaign::Driven;
use acp_comply::{
    DriverCan, Program, Run, RunAction, RunEvent, Setup, TestOutcome, Verdict, in_order_of_needs,
};
use acp_proto::{method, tool_status, update};
use serde_json::json;

use super::telling::{line, mark};
use super::{ExamChat, Fit};
use crate::chat::asking;
use crate::chat::fit::BY_HAND;
use crate::chat::plan::Checklist;
use crate::chat::questions::{self, questions};
use crate::chat::scratch::{self, Scratch};
use crate::chat::trial::{Trial, TrialEnd, TrialPlace, Turn};
use crate::http::HttpWitness;

/// Where a person takes part, everything may take this much longer.
const PERSON: f64 = 4.0;
/// A test with a person may take so many times the time for one thing.
const TURNS: u32 = 3;
/// By how much times grow when a test is run again.
const MORE_TIME: f64 = 3.0;
/// How long answers may come that nobody waits for any more.
const LATE: Duration = Duration::from_secs(10);
/// How long the person's client has to show a sentence before the test begins.
const READING: Duration = Duration::from_millis(300);
/// The areas that are the client's own code in a chat: how it starts agents is not looked at.
const OWN: [&str; 5] = ["wire", "fs", "terminal", "permission", "session"];

/// What the tests of a run share.
pub(super) struct Bench {
    scratch: Scratch,
    http: HttpWitness,
}

impl ExamChat<'_> {
    pub(super) async fn prepare(&mut self, turn: &Turn) -> Result<Bench, String> {
        let workspace = self.workspace(turn.request.session());
        let scratch = Scratch::make(Path::new(&workspace))?;
        let http =
            HttpWitness::start().await.map_err(|error| format!("cannot listen on loopback: {error}"))?;
        Ok(Bench { scratch, http })
    }

    /// Runs tests: those that go alone, then those that need a hand; those that end the turn wait for `/next`.
    pub(super) async fn play(&mut self, turn: &mut Turn, tests: Vec<usize>, is_part: bool) {
        let mut bench = match self.prepare(turn).await {
            Ok(bench) => bench,
            Err(error) => return self.tell(turn, &format!("{error}\n")),
        };
        let words = format!("I work in {}, and remove it at the end.\n", bench.scratch.path().display());
        self.tell(turn, &words);
        let order = self.order(&tests);
        let mut list = Checklist::new(order.iter().map(|at| self.program(*at).area.as_str()));
        self.waiting.clear();
        for at in order {
            let program = self.program(at);
            if *self.fit(at) == Fit::Turn && !self.is_hindered(at) {
                self.waiting.push_back(at);
                continue;
            }
            let plan = list.update(Some(&program.area));
            self.talk.update(turn.request.session(), &plan);
            match self.one(turn, at, &mut bench).await {
                TrialEnd::Judged(driven) => list.take(&program.area, driven.outcome.verdict),
                TrialEnd::Skipped => list.take(&program.area, Verdict::Na),
                TrialEnd::Stopped => self.is_stopped = true,
                TrialEnd::Gone => self.is_gone = true,
            }
            if self.is_stopped || self.is_gone {
                break;
            }
        }
        drop(bench);
        let _ = self.paper().keep();
        if self.is_gone {
            return;
        }
        if turn.is_open {
            let plan = list.update(None);
            self.talk.update(turn.request.session(), &plan);
        }
        if !is_part && !self.is_stopped {
            self.look(turn).await;
        }
        self.verdict(turn);
    }

    /// What everything came to.
    fn verdict(&mut self, turn: &Turn) {
        let mut words = if self.is_stopped { "Stopped. ".to_owned() } else { String::new() };
        let paper = self.paper();
        words.push_str(&paper.summary());
        words.push('\n');
        let broken = paper.run.tests.iter().filter(|it| it.verdict == Verdict::Fail);
        for outcome in broken {
            words.extend(line(outcome));
        }
        if !self.waiting.is_empty() {
            let count = self.waiting.len();
            words.push_str(&format!("{count} tests end the turn they run in: type /next for each.\n"));
        }
        words.push_str("Type /report for the report.\n");
        self.tell(turn, &words);
    }

    /// In the order of their needs; what needs a hand comes after the rest.
    fn order(&self, tests: &[usize]) -> Vec<usize> {
        let programs = tests.iter().map(|at| self.program(*at).as_ref());
        let mut order = Vec::new();
        for group in in_order_of_needs(programs) {
            let mut group: Vec<usize> = group.into_iter().map(|place| tests[place]).collect();
            group.sort_by_key(|at| matches!(self.fit(*at), Fit::Hand | Fit::Turn));
            order.extend(group);
        }
        order
    }

    fn setup(&self, at: usize, folder: &str, http: &str, factor: f64) -> Setup {
        let by_person = matches!(self.fit(at), Fit::Hand | Fit::Turn);
        let factor = self.exam.settings.timeout_factor * factor * if by_person { PERSON } else { 1.0 };
        let wait = self.exam.settings.patience.div_f64(factor.max(0.1));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut setup = Setup::new(folder);
        setup.variables.set("outside", folder);
        setup.variables.set("home", folder);
        setup.variables.set("http", http);
        setup.driver = Some(json!({ "name": "hand", "title": "a person", "kind": "hand", "own": OWN }));
        setup.can = DriverCan {
            verbs: words(&BY_HAND),
            own: words(&[OWN.as_slice(), &["elicit"]].concat()),
            permissions: words(&["allow", "reject", "leave"]),
            start: wait,
            verb: wait,
            quit: wait,
            ..DriverCan::default()
        };
        setup.client = Some(self.talk.client());
        setup.timeout_factor = factor;
        setup.found.clone_from(&self.found);
        setup.missing.clone_from(&self.missing);
        setup
    }

    fn is_hindered(&self, at: usize) -> bool {
        Run::new(Arc::clone(self.program(at)), self.setup(at, "/", "", 1.0)).is_hindered()
    }

    /// Runs one test, shows it as a tool call, and takes its outcome.
    pub(super) async fn one(&mut self, turn: &mut Turn, at: usize, bench: &mut Bench) -> TrialEnd {
        let program = Arc::clone(self.program(at));
        if let Fit::Not(why) = self.fit(at) {
            let driven = not_here(&program, self.setup(at, "/", "", 1.0), why);
            return self.took(turn, driven);
        }
        if !self.is_hindered(at) {
            self.announce(turn, at).await;
        }
        let mut end = self.attempt(turn, at, bench, 1.0).await;
        if let TrialEnd::Judged(first) = &end
            && first.outcome.needs_second_run
            && *self.fit(at) == Fit::Alone
        {
            let outcome = first.outcome.clone();
            end = match self.attempt(turn, at, bench, MORE_TIME).await {
                TrialEnd::Judged(mut second) => {
                    second.outcome = outcome.confirmed_by(second.outcome);
                    TrialEnd::Judged(second)
                }
                other => other,
            };
        }
        match end {
            TrialEnd::Judged(driven) => self.took(turn, *driven),
            other => other,
        }
    }

    /// Shows what comes, and what the person is to do.
    async fn announce(&mut self, turn: &Turn, at: usize) {
        let program = self.program(at);
        let before = match self.fit(at) {
            Fit::Turn => Some(asking::before_turn(self.source(at), self.exam.settings.patience)),
            _ => asking::before(program, self.source(at)),
        };
        let title = before
            .iter()
            .fold(program.title.clone(), |title, words| format!("{title}: {}", words.trim_end()));
        let call = json!({ "sessionUpdate": update::TOOL_CALL, "toolCallId": program.id, "title": title,
            "kind": "other", "status": tool_status::IN_PROGRESS });
        self.talk.update(turn.request.session(), &call);
        if let Some(words) = before {
            self.tell(turn, &words);
            // Some clients show a question before the text that came just ahead of it.
            tokio::time::sleep(READING).await;
        }
    }

    async fn attempt(&mut self, turn: &mut Turn, at: usize, bench: &mut Bench, factor: f64) -> TrialEnd {
        let program = Arc::clone(self.program(at));
        let folder = match bench.scratch.next() {
            Ok(folder) => folder,
            Err(error) => return TrialEnd::Judged(Box::new(Driven::fault(&program, error))),
        };
        let setup = self.setup(at, &folder.to_string_lossy(), &bench.http.url, factor);
        let mut vars = setup.variables.clone();
        vars.set("sandbox", setup.sandbox.as_str());
        if let Err(error) = scratch::fill(&folder, &program, &vars) {
            return TrialEnd::Judged(Box::new(Driven::fault(&program, error)));
        }
        let place = TrialPlace {
            program: &program,
            setup,
            folder,
            http: &bench.http,
            patience: self.exam.settings.patience,
            limit: (*self.fit(at) != Fit::Alone).then(|| self.exam.settings.patience * TURNS),
            ends_turn: *self.fit(at) == Fit::Turn,
        };
        let end = Trial::new(&mut self.talk, turn, place).run().await;
        if matches!(end, TrialEnd::Judged(_)) {
            self.settle().await;
        }
        end
    }

    /// Waits for what is still unanswered, so that a slow client's answers are not missing in the next test.
    async fn settle(&mut self) {
        let until = tokio::time::Instant::now() + LATE;
        while !self.talk.unanswered.is_empty()
            && let Ok(heard) = tokio::time::timeout_at(until, self.talk.hear()).await
        {
            let Some(heard) = heard else { return self.is_gone = true };
            if heard.method() == method::SESSION_CANCEL {
                return self.is_stopped = true;
            }
            let _ = self.talk.answer_usually(&heard);
        }
    }

    /// Takes an outcome in, and shows it.
    fn took(&mut self, turn: &Turn, driven: Driven) -> TrialEnd {
        let outcome = driven.outcome.clone();
        for name in &outcome.provided {
            self.missing.remove(name);
            self.found.entry(name.clone()).or_default();
        }
        let program = self.exam.settings.programs.iter().find(|it| it.id == outcome.id);
        for name in program.into_iter().flat_map(|program| program.provides()) {
            if !self.found.contains_key(&name) {
                let why = outcome.reason.clone().unwrap_or_else(|| "it was not seen to".to_owned());
                self.missing.entry(name).or_insert_with(|| format!("{why} ({})", outcome.id));
            }
        }
        let verdict = outcome.verdict;
        if turn.is_open && verdict != Verdict::Na {
            let status = match verdict {
                Verdict::Fail | Verdict::Error => tool_status::FAILED,
                _ => tool_status::COMPLETED,
            };
            let text = outcome.reason.as_deref().unwrap_or("as it should be");
            let content = json!([{ "type": "content", "content":
                { "type": "text", "text": format!("{} {text}", mark(verdict)) } }]);
            let done = json!({ "sessionUpdate": update::TOOL_CALL_UPDATE, "toolCallId": outcome.id,
                "status": status, "content": content });
            self.talk.update(turn.request.session(), &done);
        }
        // What does not apply is counted, and listed by /list; a line each would hide the rest.
        if verdict != Verdict::Na
            && let Some(words) = line(&outcome)
        {
            self.tell(turn, &words);
        }
        let kept = Driven { outcome, ..Driven::fault(self.program(0), String::new()) };
        self.paper().take(driven);
        TrialEnd::Judged(Box::new(kept))
    }

    fn source(&self, at: usize) -> &str {
        let file = &self.program(at).file;
        let found = self.exam.settings.sources.iter().find(|source| source.name == *file);
        found.map_or("", |source| source.text.as_str())
    }

    /// Asks about what only a person can see.
    async fn look(&mut self, turn: &Turn) {
        let session = turn.request.session().to_owned();
        let patience = self.exam.settings.patience;
        for question in questions() {
            let client = self.talk.client();
            if question.capability.as_ref().is_some_and(|path| client.pointer(path).is_none()) {
                continue;
            }
            let Ok(seen) = questions::ask(&mut self.talk, &session, question, patience).await else {
                self.is_stopped = true;
                return;
            };
            let is_automatic = seen.answer.starts_with("not asked");
            let paper = self.paper();
            paper.by_hand.retain(|known| known.row != seen.row);
            if is_automatic {
                let words = "Your client answers questions by itself, so I do not ask about what you see.\n";
                return self.tell(turn, words);
            }
            paper.by_hand.push(seen);
        }
    }
}

/// The outcome of a test that cannot be run in a chat.
fn not_here(program: &Arc<Program>, setup: Setup, why: &str) -> Driven {
    let mut run = Run::new(Arc::clone(program), setup);
    run.handle(Duration::ZERO, RunEvent::NotApplicable(why.to_owned()));
    let outcome = std::iter::from_fn(|| run.poll()).find_map(|action| match action {
        RunAction::Done(outcome) => Some(*outcome),
        _ => None,
    });
    let fault = || TestOutcome::fault(program, "the test did not end".to_owned());
    Driven { outcome: outcome.unwrap_or_else(fault), ..Driven::fault(program, String::new()) }
}
