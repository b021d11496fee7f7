//! The conversation: what the person types, and what the exam says.

mod telling;
mod testing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use acp_campaign::Selection;
use acp_comply::{Observation, Program, Verdict};
use acp_link::Link;
use acp_proto::method;
use serde_json::json;
use std::sync::Arc;

use super::ChatExam;
use super::asking;
use super::commands::{Wish, announcement};
use super::fit::Fit;
use super::paper::{Paper, REPORT};
use super::questions::{self, Reply};
use super::talk::{Heard, OpenedSession, Talk};
use super::trial::{TrialEnd, Turn};

/// How long the client may take to write the report's file.
const WRITING: Duration = Duration::from_secs(10);

/// One connection's exam.
pub(super) struct ExamChat<'a> {
    exam: &'a ChatExam,
    talk: Talk,
    paper: Option<Paper>,
    /// What the client was seen to do, and what not, with the reason.
    found: BTreeMap<String, Observation>,
    missing: BTreeMap<String, String>,
    /// Tests that end the turn, still to be run.
    waiting: VecDeque<usize>,
    /// Words that came when no turn ran.
    unsaid: String,
    is_gone: bool,
    is_stopped: bool,
}

impl<'a> ExamChat<'a> {
    pub fn new(exam: &'a ChatExam, link: Link) -> ExamChat<'a> {
        ExamChat {
            exam,
            talk: Talk::new(link),
            paper: None,
            found: BTreeMap::new(),
            missing: BTreeMap::new(),
            waiting: VecDeque::new(),
            unsaid: String::new(),
            is_gone: false,
            is_stopped: false,
        }
    }

    /// Talks until the client goes away.
    pub async fn run(mut self) {
        while !self.is_gone {
            let Some(heard) = self.talk.hear().await else { break };
            if heard.is_request() && heard.method() == method::SESSION_PROMPT {
                self.turn(heard).await;
            } else if let Some(opened) = self.talk.answer_usually(&heard) {
                self.greet(&opened);
            }
        }
    }

    fn paper(&mut self) -> &mut Paper {
        let (exam, client) = (self.exam, self.talk.client());
        let files = exam.settings.programs.len();
        self.paper.get_or_insert_with(|| Paper::open(&exam.settings.state, &client, files))
    }

    fn greet(&mut self, opened: &OpenedSession) {
        self.talk.update(&opened.id, &announcement());
        let words = self.greeting();
        self.talk.tell(&opened.id, &words);
    }

    /// Answers one prompt.
    async fn turn(&mut self, heard: Heard) {
        let wish = Wish::parse(&asking::words(&heard));
        let mut turn = Turn { request: heard, is_open: true, answer: None };
        let unsaid = std::mem::take(&mut self.unsaid);
        if !unsaid.is_empty() {
            self.tell(&turn, &unsaid);
        }
        self.is_stopped = false;
        match wish {
            Wish::Run(which) => match self.choose(&which) {
                Ok(tests) => {
                    self.play(&mut turn, tests, !which.is_empty()).await;
                }
                Err(words) => self.tell(&turn, &words),
            },
            Wish::Redo(which) => {
                let tests = self.repeated(&which);
                if tests.is_empty() {
                    self.tell(&turn, "Nothing to repeat: every test that ran holds or does not apply.\n");
                } else {
                    self.play(&mut turn, tests, true).await;
                }
            }
            Wish::Next => self.next(&mut turn).await,
            Wish::Skip => {
                let words = match self.waiting.pop_front() {
                    Some(at) => format!("Left out: {}.\n", self.program(at).id),
                    None => "Nothing waits.\n".to_owned(),
                };
                self.tell(&turn, &words);
            }
            Wish::Stop => {
                self.waiting.clear();
                let words = format!("Stopped. {}\n", self.paper().summary());
                self.tell(&turn, &words);
            }
            Wish::List(area) => {
                let words = self.listing(&area);
                self.tell(&turn, &words);
            }
            Wish::Report => self.report(&turn).await,
            Wish::Trace => {
                let words = self.write_trace();
                self.tell(&turn, &words);
            }
            Wish::Other => self.tell(
                &turn,
                "I only examine this client: /run, /run AREA, /list, /report, /next, /skip, /redo, /stop, /trace.\n",
            ),
        }
        if turn.is_open && !self.is_gone {
            match turn.answer.take() {
                Some(answer) => self.talk.write(answer),
                None => asking::end_turn(&mut self.talk, &turn.request.value["id"], false),
            }
        }
    }

    /// Says something in the turn, or keeps it for the next one.
    fn tell(&mut self, turn: &Turn, words: &str) {
        if turn.is_open {
            self.talk.tell(turn.request.session(), words);
        } else {
            self.unsaid.push_str(words);
        }
    }

    fn program(&self, at: usize) -> &'a Arc<Program> {
        &self.exam.settings.programs[at]
    }

    /// The tests that a word names: all, an area, a part of its name, or a glob of ids.
    fn choose(&self, which: &str) -> Result<Vec<usize>, String> {
        let programs = &self.exam.settings.programs;
        if which.is_empty() {
            return Ok((0..programs.len()).collect());
        }
        let word = which.to_lowercase();
        let is_meant = |program: &Program| {
            let area = program.area.to_lowercase();
            area == word || program.id == which || program.id.split('.').next() == Some(word.as_str())
        };
        let mut tests: Vec<usize> = (0..programs.len()).filter(|at| is_meant(&programs[*at])).collect();
        if tests.is_empty()
            && let Ok(selection) = Selection::default().ids(&[which.to_owned()])
        {
            let chosen = selection.choose(programs);
            let ids: BTreeSet<&str> = chosen.iter().map(|program| program.id.as_str()).collect();
            tests = (0..programs.len()).filter(|at| ids.contains(programs[*at].id.as_str())).collect();
        }
        match tests.is_empty() {
            true => Err(format!("There is no area and no test {which:?}; /list shows what there is.\n")),
            false => Ok(self.with_providers(tests)),
        }
    }

    /// These tests, and those that show what they need.
    fn with_providers(&self, mut tests: Vec<usize>) -> Vec<usize> {
        let programs = &self.exam.settings.programs;
        let mut at = 0;
        while at < tests.len() {
            for name in &programs[tests[at]].needs {
                let provides = |at: &usize| programs[*at].provides().contains(name);
                if !self.found.contains_key(name) && !tests.iter().any(provides) {
                    tests.extend((0..programs.len()).filter(provides));
                }
            }
            at += 1;
        }
        tests
    }

    fn repeated(&mut self, which: &str) -> Vec<usize> {
        if !which.is_empty() {
            return self.choose(which).unwrap_or_default();
        }
        let bad = [Verdict::Fail, Verdict::Warn, Verdict::Partial, Verdict::Error];
        let programs = &self.exam.settings.programs;
        let paper = self.paper();
        let is_bad = |at: &usize| {
            paper.outcome(&programs[*at].id).is_some_and(|outcome| bad.contains(&outcome.verdict))
        };
        (0..programs.len()).filter(is_bad).collect()
    }

    /// Writes the report into the workspace, through the client if it can, and into the exam's folder.
    async fn report(&mut self, turn: &Turn) {
        let kept = self.paper().keep();
        let mut words = format!("{}\n", self.paper().summary());
        let folder = self.paper().folder.display().to_string();
        words.push_str(&match kept {
            Ok(()) => format!("Kept in {folder}.\n"),
            Err(error) => format!("Not kept: {error}.\n"),
        });
        let session = turn.request.session().to_owned();
        let workspace = self.workspace(&session);
        let can_write = self.talk.client()["clientCapabilities"]["fs"]["writeTextFile"] == true;
        if can_write && let Ok(reports) = self.paper().reports() {
            for (end, text) in reports {
                let path = Path::new(&workspace).join(format!("{REPORT}.{end}"));
                let params = json!({ "sessionId": session, "path": path, "content": text });
                let id = self.talk.ask(method::FS_WRITE_TEXT_FILE, &params);
                words.push_str(&match questions::reply(&mut self.talk, &id, WRITING).await {
                    Reply::Came(answer) if answer.get("error").is_none() => {
                        format!("Written to {}.\n", path.display())
                    }
                    Reply::Gone => return self.is_gone = true,
                    _ => format!("The client did not write {}.\n", path.display()),
                });
            }
        }
        words.push_str("Other formats: acp exam report --format html (or junit, sarif).\n");
        self.tell(turn, &words);
    }

    fn workspace(&self, session: &str) -> String {
        let opened = self.talk.opened.iter().rev().find(|opened| opened.id == session);
        opened.map(|opened| opened.folder.clone()).unwrap_or_default()
    }

    fn write_trace(&mut self) -> String {
        let text = acp_report::redact_text(&String::from_utf8_lossy(self.talk.trace()));
        let paper = self.paper();
        match paper.write("trace.ndjson", text.as_bytes()) {
            Ok(()) => {
                format!("Written to {}; acp lint reads it.\n", paper.folder.join("trace.ndjson").display())
            }
            Err(error) => format!("Not written: {error}.\n"),
        }
    }

    fn fit(&self, at: usize) -> &'a Fit {
        &self.exam.fits[at]
    }

    /// Runs the next test that ends the turn.
    async fn next(&mut self, turn: &mut Turn) {
        let Some(at) = self.waiting.pop_front() else {
            return self.tell(turn, "Nothing waits for a turn of its own. /run starts.\n");
        };
        match self.prepare(turn).await {
            Ok(mut bench) => match self.one(turn, at, &mut bench).await {
                TrialEnd::Judged(_) | TrialEnd::Skipped => {}
                TrialEnd::Stopped => self.is_stopped = true,
                TrialEnd::Gone => self.is_gone = true,
            },
            Err(error) => return self.tell(turn, &format!("{error}\n")),
        }
        let _ = self.paper().keep();
        let words = match self.waiting.len() {
            0 => format!("That was the last one. {}\n", self.paper().summary()),
            left => format!("{left} more: /next.\n"),
        };
        self.tell(turn, &words);
    }
}
