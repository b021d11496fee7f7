//! Reads a transcript, judges what can be read, and finds the text of the evidence.
//!
//! What cannot be read becomes a problem of the file, and the rest is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::time::Duration;

use acp_rpc::transcript::{TranscriptEntry, TranscriptFlaw};
use acp_rules::{
    ConversationEnd, Coverage, Excerpt, Finding, Grade, Judge, JudgeConfig, Severity, Side, Stats, excerpt,
};

/// Lines longer than this are not held in memory.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Between lines that have no time.
const STEP: Duration = Duration::from_millis(100);
/// At most this many unreadable lines are named one by one.
const MOST_PROBLEMS: usize = 20;

/// A finding with where to look.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) finding: Finding,
    /// One for each piece of evidence: the line in the file, from 1, and what stands there.
    pub(crate) places: Vec<Place>,
}

/// Where a frame stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) excerpt: Excerpt,
}

/// Something about the file itself.
#[derive(Debug)]
pub(crate) struct Problem {
    /// From 1; 0 for the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
    /// Whether a part of the conversation was not judged because of it.
    pub(crate) fatal: bool,
}

/// A transcript with what the judge found in it.
#[derive(Debug)]
pub struct LintedTranscript {
    pub(crate) name: String,
    pub(crate) frames: u64,
    pub(crate) version: Option<i64>,
    pub(crate) findings: Vec<Shown>,
    /// Of the agent and of the client, kept or not.
    pub(crate) errors: [u64; 2],
    pub(crate) warnings: u64,
    pub(crate) notes: u64,
    pub(crate) not_kept: Vec<(&'static str, Side, u64)>,
    pub(crate) coverage: Coverage,
    pub(crate) stats: Stats,
    pub(crate) timed: bool,
    pub(crate) problems: Vec<Problem>,
    more_problems: usize,
}

impl LintedTranscript {
    /// Judges what can be read. `ending` is what the caller knows about the end of the conversation.
    ///
    /// Findings at the end of a conversation refer to earlier frames: call [`find_evidence`](Self::find_evidence) with the
    /// same text again to show them.
    pub fn read(name: &str, source: &mut dyn BufRead, ending: ConversationEnd) -> Self {
        let mut reading = Reading::new(name);
        reading.all(source);
        reading.finish(ending)
    }

    /// A file that could not be opened.
    pub fn unopened(name: &str, error: &std::io::Error) -> Self {
        let mut reading = Reading::new(name);
        reading.problem(0, format!("cannot open it: {error}"), true);
        reading.finish(ConversationEnd::Cut)
    }

    /// A second look at the file, for the text of earlier frames that findings refer to.
    pub fn find_evidence(&mut self, source: &mut dyn BufRead) {
        let wanted: BTreeSet<u64> = self
            .findings
            .iter()
            .flat_map(|shown| shown.finding.evidence.iter().zip(&shown.places))
            .filter(|(_, place)| place.line == 0)
            .map(|(evidence, _)| evidence.index)
            .collect();
        let Some(last) = wanted.last().copied() else { return };
        let (mut lines, mut clock, mut index) = (Lines::default(), Clock::default(), 0_u64);
        let mut found: BTreeMap<u64, Place> = BTreeMap::new();
        while index <= last {
            let Ok(Some(line)) = lines.next(source) else { break };
            let Some(text) = line.text.filter(|text| !text.trim().is_empty()) else { continue };
            let Ok(entry) = clock.entry(&text) else { continue };
            if wanted.contains(&index) {
                let raw = String::from_utf8_lossy(&entry.line);
                found.insert(index, Place { line: lines.number, excerpt: excerpt(&raw, "") });
            }
            index += 1;
        }
        for shown in &mut self.findings {
            for (evidence, place) in shown.finding.evidence.iter().zip(&mut shown.places) {
                if place.line == 0
                    && let Some(there) = found.get(&evidence.index)
                {
                    *place = there.clone();
                }
            }
        }
    }

    /// Leaves out warnings and notes.
    pub fn keep_errors(&mut self) {
        self.findings.retain(|shown| shown.finding.severity == Severity::Error);
    }

    /// How many errors there are.
    pub fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Whether something could not be read.
    pub fn unreadable(&self) -> bool {
        self.problems.iter().any(|problem| problem.fatal)
    }

    /// The problems as lines for people.
    pub fn problem_lines(&self) -> Vec<String> {
        let place = |line| if line == 0 { self.name.clone() } else { format!("{}:{line}", self.name) };
        let mut out: Vec<String> = self
            .problems
            .iter()
            .map(|problem| format!("{}: {}", place(problem.line), problem.message))
            .collect();
        if self.more_problems > 0 {
            out.push(format!("{}: and {} more lines that cannot be read", self.name, self.more_problems));
        }
        out
    }
}

struct Reading {
    judged: LintedTranscript,
    judge: Judge,
    clock: Clock,
    cut: bool,
    /// What the recording itself says about its end.
    ended: Option<ConversationEnd>,
}

/// Times of entries, made up where there are none.
#[derive(Default)]
struct Clock {
    last: Duration,
    timed: bool,
}

impl Clock {
    /// Reads an entry; one without a time comes a moment after the one before.
    fn entry(&mut self, line: &str) -> Result<TranscriptEntry, TranscriptFlaw> {
        let entry = match TranscriptEntry::parse(line) {
            Err(TranscriptFlaw::Missing("t")) => TranscriptEntry::parse_at(line, self.last + STEP)?,
            other => {
                self.timed |= other.is_ok();
                other?
            }
        };
        Ok(entry)
    }
}

impl Reading {
    fn new(name: &str) -> Self {
        let judge = Judge::new(JudgeConfig::default());
        let judged = LintedTranscript {
            name: acp_text::line(name),
            frames: 0,
            version: None,
            findings: Vec::new(),
            errors: [0; 2],
            warnings: 0,
            notes: 0,
            not_kept: Vec::new(),
            coverage: judge.coverage(),
            stats: Stats::default(),
            timed: false,
            problems: Vec::new(),
            more_problems: 0,
        };
        Self { judged, judge, clock: Clock::default(), cut: false, ended: None }
    }

    fn problem(&mut self, line: usize, message: String, fatal: bool) {
        if self.judged.problems.len() < MOST_PROBLEMS {
            self.judged.problems.push(Problem { line, message, fatal });
        } else {
            self.judged.more_problems += usize::from(fatal);
        }
    }

    fn all(&mut self, source: &mut dyn BufRead) {
        let mut lines = Lines::default();
        loop {
            match lines.next(source) {
                Ok(None) => break,
                Ok(Some(line)) => self.line(lines.number, &line),
                Err(error) => {
                    self.problem(lines.number + 1, format!("cannot read on: {error}"), true);
                    break;
                }
            }
        }
        if self.judge.frames() == 0 {
            self.is_no_recording();
        }
    }

    /// Not a line of the file could be judged: it was probably something else that was meant, so one reason is enough.
    fn is_no_recording(&mut self) {
        let problems = &mut self.judged.problems;
        if problems.is_empty() {
            self.problem(0, "there is no frame in it".into(), true);
        } else if problems.len() > 1 {
            problems.truncate(1);
            self.judged.more_problems = 0;
            let words =
                "not a recorded conversation; --record of acp prompt, chat, call, mock and proxy writes one";
            self.problem(0, words.into(), true);
        }
    }

    fn line(&mut self, number: usize, line: &Line) {
        let Some(text) = &line.text else {
            self.problem(number, line.trouble.clone(), true);
            return;
        };
        if text.trim().is_empty() {
            return;
        }
        let before = self.clock.last;
        let entry = match self.clock.entry(text) {
            Ok(entry) => entry,
            Err(_) if !line.ended => {
                self.cut = true;
                self.problem(
                    number,
                    "the last line is cut off; judged without it, as a cut recording".into(),
                    false,
                );
                return;
            }
            Err(flaw) => {
                // what stood there may have been an answer
                self.cut = true;
                self.problem(number, explain(text, &flaw), true);
                return;
            }
        };
        if entry.t < before
            && !self.judged.problems.iter().any(|problem| problem.message.contains("backwards"))
        {
            self.problem(
                number,
                "time goes backwards here; lines are judged in the order they stand in".into(),
                false,
            );
        }
        self.clock.last = self.clock.last.max(entry.t);
        self.ended = ending(text);
        let frame = entry.frame();
        self.judge.observe(entry.t, entry.dir, &frame);
        if text.contains("\"inputEnded\":true") && is_input_ended(text) {
            self.judge.input_ended(entry.t);
        }
        self.judged.stats.observe(entry.t, entry.dir, &frame);
        let raw = String::from_utf8_lossy(&entry.line);
        for finding in self.news() {
            let mut places = vec![Place::default(); finding.evidence.len()];
            if let (Some(place), Some(evidence)) = (places.first_mut(), finding.evidence.first()) {
                *place = Place { line: number, excerpt: excerpt(&raw, &evidence.pointer) };
            }
            self.judged.findings.push(Shown { finding, places });
        }
    }

    /// What the judge found since the last call. A message quotes what was said: nothing in it steers a terminal.
    fn news(&mut self) -> Vec<Finding> {
        let mut news = self.judge.news().to_vec();
        for finding in &mut news {
            finding.message = acp_text::line(&finding.message);
        }
        news
    }

    fn finish(mut self, ending: ConversationEnd) -> LintedTranscript {
        let ending = self.ended.filter(|_| ending == ConversationEnd::Unknown).unwrap_or(ending);
        self.judge.set_ending(if self.cut { ConversationEnd::Cut } else { ending });
        self.judge.close(self.clock.last + Duration::from_secs(1));
        for finding in self.news() {
            let places = vec![Place::default(); finding.evidence.len()];
            self.judged.findings.push(Shown { finding, places });
        }
        let sides = [Side::Agent, Side::Client];
        let both = |grade| sides.map(|side| self.judge.count(side, grade));
        self.judged.errors = both(Grade::Fail);
        self.judged.warnings = both(Grade::Warn).iter().sum();
        self.judged.notes = both(Grade::Note).iter().sum();
        self.judged.frames = self.judge.frames();
        self.judged.version = self.judge.version();
        self.judged.not_kept = self.judge.not_kept();
        self.judged.coverage = self.judge.coverage();
        self.judged.timed = self.clock.timed;
        self.judged
    }
}

/// `"end":"client-left"` beside the last frame: how the conversation ended, as far as who recorded it knows.
fn ending(text: &str) -> Option<ConversationEnd> {
    match end_of(text)? {
        "client-closed" => Some(ConversationEnd::ClientClosed),
        "client-left" => Some(ConversationEnd::ClientLeft),
        "agent-exited" => Some(ConversationEnd::AgentExited),
        "cut" => Some(ConversationEnd::Cut),
        _ => None,
    }
}

/// `"inputEnded":true` beside a frame: the client had nothing more to say after it.
fn is_input_ended(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry {
        #[serde(default)]
        input_ended: bool,
    }
    serde_json::from_str::<Entry>(text).is_ok_and(|entry| entry.input_ended)
}

/// The word for it.
pub(crate) fn end_of(text: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct End<'a> {
        end: &'a str,
    }
    if !text.contains("\"end\":\"") {
        return None;
    }
    serde_json::from_str::<End<'_>>(text).ok().map(|end| end.end)
}

/// What is wrong with a line, and what it may be instead.
fn explain(text: &str, flaw: &TranscriptFlaw) -> String {
    let start = text.trim_start();
    if start.starts_with('{') && start.contains("\"jsonrpc\"") && !start.contains("\"dir\"") {
        return "a bare JSON-RPC message: a transcript line needs a direction, like {\"dir\":\"a2c\",\"frame\":{…}}".into();
    }
    match flaw {
        TranscriptFlaw::NoFrame => {
            "not understood: the line has no frame, and whoever recorded it knows what it means; left out"
                .into()
        }
        TranscriptFlaw::Missing("dir") => format!("{flaw}; a transcript is what --record writes"),
        flaw => flaw.to_string(),
    }
}

/// A line of the file.
struct Line {
    /// `None` when it cannot be read as text.
    text: Option<String>,
    trouble: String,
    /// Whether a line ending followed.
    ended: bool,
}

/// Lines with a limit on their length.
#[derive(Default)]
struct Lines {
    number: usize,
}

impl Lines {
    fn next(&mut self, source: &mut dyn BufRead) -> std::io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let mut length = 0_usize;
        let mut ended = false;
        while !ended {
            let buffer = source.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let take = end.map_or(buffer.len(), |end| end + 1);
            length += take;
            if length <= MAX_LINE_BYTES {
                bytes.extend_from_slice(&buffer[..take]);
            }
            source.consume(take);
            ended = end.is_some();
        }
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        if length > MAX_LINE_BYTES {
            let trouble = format!("the line has {length} bytes, more than {MAX_LINE_BYTES}; it was left out");
            return Ok(Some(Line { text: None, trouble, ended }));
        }
        while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            bytes.pop();
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => Line { text: Some(text), trouble: String::new(), ended },
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                Line { text: None, trouble: format!("not UTF-8: bad byte at {at}"), ended }
            }
        }))
    }
}
