//! A conversation between two foreign peers of one form, with v1 in the middle.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use acp_dialect::{Bridge, Destination, Dialect, Note, Side, Translated, TranslationOptions, Translator};
use acp_rpc::{Direction, Frame};
use serde_json::Value;

/// One frame on one wire.
#[derive(Debug, Clone)]
pub struct Line {
    /// The number of the input line that caused it.
    pub n: u64,
    pub dir: Direction,
    pub frame: Frame,
}

impl Line {
    pub fn value(&self) -> Value {
        serde_json::from_slice(self.frame.raw()).unwrap_or(Value::Null)
    }
}

/// Who sends an input line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The foreign peer at that end.
    Foreign,
    /// A v1 peer between the two translators.
    Middle,
}

/// An input line.
#[derive(Debug, Clone)]
pub struct Said {
    pub line: Line,
    pub by: Speaker,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Frames between the translators.
    pub canonical: Vec<Line>,
    /// Frames that came out on the foreign wires.
    pub returned: Vec<Line>,
    /// Notes, with the input line and the translator's side.
    pub notes: Vec<(u64, Side, Note)>,
}

pub fn golden_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

pub fn foreign_dialects() -> [Dialect; 4] {
    [Dialect::V2025_1, Dialect::PROBE, Dialect::GO, Dialect::DELTA]
}

/// Reads `foreign.ndjson` of a case.
pub fn read(case: &Path) -> Vec<Said> {
    let text = fs::read_to_string(case.join("foreign.ndjson")).unwrap();
    text.lines()
        .map(|line| {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", case.display()));
            let dir = if value["dir"] == "c2a" { Direction::ClientToAgent } else { Direction::AgentToClient };
            let (by, name) = if value.get("v1").is_some() {
                (Speaker::Middle, "\"v1\":")
            } else {
                (Speaker::Foreign, "\"frame\":")
            };
            // The frame's own text, so that its numbers and spaces stay as they were written.
            let start = line.find(name).unwrap() + name.len();
            let frame = Frame::parse(line[start..line.len() - 1].to_owned());
            Said { line: Line { n: value["n"].as_u64().unwrap(), dir, frame }, by }
        })
        .collect()
}

pub fn options() -> TranslationOptions {
    TranslationOptions { work_dir: "/w".to_owned(), ..TranslationOptions::default() }
}

/// Plays the lines through two translators of one form, back to back.
pub fn play(dialect: Dialect, said: &[Said], options: &TranslationOptions) -> Seen {
    let mut middle = Middle {
        client: Translator::new(dialect, Side::Client, options.clone()),
        agent: Translator::new(dialect, Side::Agent, options.clone()),
        seen: Seen::default(),
    };
    for said in said {
        let from = if said.line.dir == Direction::ClientToAgent { Side::Client } else { Side::Agent };
        let n = said.line.n;
        match said.by {
            Speaker::Foreign => {
                let out = middle.at(from).to_canonical(&said.line.frame);
                middle.settle(n, from, true, out, true);
            }
            Speaker::Middle => {
                let to = from.other();
                middle.seen.canonical.push(said.line.clone());
                let out = middle.at(to).from_canonical(&said.line.frame);
                middle.settle(n, to, false, out, false);
            }
        }
    }
    middle.seen
}

struct Middle {
    client: Translator,
    agent: Translator,
    seen: Seen,
}

impl Middle {
    fn at(&mut self, side: Side) -> &mut Translator {
        if side == Side::Client { &mut self.client } else { &mut self.agent }
    }

    /// `at` is the translator that made `out`; `decoded` says whether its input came from the foreign peer there.
    fn settle(&mut self, n: u64, at: Side, decoded: bool, out: Translated, on: bool) {
        self.seen.notes.extend(out.notes.into_iter().map(|note| (n, at, note)));
        for out in out.frames {
            let to_middle = decoded == (out.to == Destination::Onward);
            let towards = if to_middle { at.other() } else { at };
            let dir =
                if towards == Side::Agent { Direction::ClientToAgent } else { Direction::AgentToClient };
            let line = Line { n, dir, frame: out.frame.clone() };
            if !to_middle {
                self.seen.returned.push(line);
                continue;
            }
            self.seen.canonical.push(line);
            if on {
                let next = self.at(at.other()).from_canonical(&out.frame);
                self.settle(n, at.other(), false, next, true);
            }
        }
    }
}

/// All cases of a form, by name.
pub fn cases(dialect: Dialect) -> Vec<(String, PathBuf)> {
    let root = golden_root().join(dialect.as_str());
    let mut cases: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    cases.sort();
    cases
}

/// Two peers of different forms, and all notes so far.
pub struct Talk {
    bridge: Bridge,
    pub notes: Vec<String>,
}

impl Talk {
    pub fn new(client: Dialect, agent: Dialect) -> Self {
        Self { bridge: Bridge::new(client, agent, options()), notes: Vec::new() }
    }

    /// What one peer says, and what the two of them get for it, each with the side that gets it.
    pub fn says(&mut self, from: Side, line: &str) -> Vec<(Side, String)> {
        let frame = Frame::parse(format!(r#"{{"jsonrpc":"2.0",{line}}}"#));
        assert!(frame.flaw().is_none(), "{line}");
        let routed = self.bridge.receive(from, &frame);
        self.notes.extend(routed.notes.iter().map(|(_, note)| note.to_string()));
        let told = routed.frames.into_iter().inspect(|(_, out)| assert!(out.flaw().is_none(), "{out}"));
        told.map(|(to, out)| (to, out.to_string())).collect()
    }

    pub fn client(&mut self, line: &str) -> Vec<(Side, String)> {
        self.says(Side::Client, line)
    }

    pub fn agent(&mut self, line: &str) -> Vec<(Side, String)> {
        self.says(Side::Agent, line)
    }

    /// Whether a note says all of these words.
    pub fn noted(&self, words: &[&str]) -> bool {
        self.notes.iter().any(|note| words.iter().all(|word| note.contains(word)))
    }
}
