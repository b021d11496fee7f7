//! What a proxy says about its work: one line each, and what is the same for every conversation only once.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use acp_dialect::{Note, Side};
use acp_relay::Observer;

/// Says one line to whoever runs the proxy.
pub type Say = Arc<dyn Fn(&Saying<'_>) + Send + Sync>;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What happens.
    Info,
    /// What somebody should look at.
    Warn,
    /// What does not work.
    Error,
}

impl Level {
    /// One word for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// One line about the work of a proxy. Its text form is for people, its parts are for structured logs.
#[derive(Clone, Copy, Debug)]
pub struct Saying<'a> {
    /// How much it matters.
    pub level: Level,
    /// Which conversation it is about.
    pub conversation: Option<u64>,
    /// What happened, in words.
    pub words: &'a str,
    /// More about it, by name.
    pub fields: &'a [(&'static str, &'a str)],
}

impl<'a> Saying<'a> {
    /// A line about the proxy itself.
    #[must_use]
    pub const fn plain(level: Level, words: &'a str) -> Saying<'a> {
        Saying { level, conversation: None, words, fields: &[] }
    }
}

impl fmt::Display for Saying<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversation {
            Some(number) => write!(f, "[{number}] {}", self.words),
            None => f.write_str(self.words),
        }
    }
}

/// So many different notes are told about one conversation.
const MOST_EACH: usize = 100;
/// So many different notes are remembered, of so many conversations.
const MOST: usize = 1000;

/// Shared by all conversations of a proxy.
#[derive(Clone)]
pub(crate) struct Talk {
    say: Say,
    told: Arc<Mutex<Told>>,
}

/// What was told.
#[derive(Default)]
struct Told {
    /// What lies in the nature of two forms.
    natures: HashSet<String>,
    /// By their numbers, the conversations about which something was told.
    conversations: BTreeMap<u64, HashSet<String>>,
}

impl Talk {
    pub(crate) fn new(say: Say) -> Talk {
        Talk { say, told: Arc::default() }
    }

    /// Something about one conversation.
    pub(crate) fn about(&self, number: u64, words: &str) {
        self.tell(Level::Info, number, words, &[]);
    }

    /// Something about one conversation, with its parts.
    pub(crate) fn tell(&self, level: Level, number: u64, words: &str, fields: &[(&'static str, &str)]) {
        (self.say)(&Saying { level, conversation: Some(number), words, fields });
    }

    /// A step of a translation. What lies in the nature of two forms is told once; what a peer did wrong, each time.
    pub(crate) fn note(&self, number: u64, side: Side, note: &Note) {
        let kind = format!("{side} {} {} {}", note.kind, note.method, note.field);
        let key = if note.kind.is_misbehaviour() { format!("{side} {note}") } else { kind };
        let count = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.add(number, key, !note.kind.is_misbehaviour())
        };
        if let Some(count) = count {
            self.about(number, &format!("{side}: {note}"));
            if count == MOST_EACH {
                self.about(number, "nothing more like this is told about this conversation");
            }
        }
    }
}

/// Logs the steps of one conversation's translations that are more than renaming.
pub(crate) struct NoteLog {
    talk: Talk,
    number: u64,
    /// Also what lies in the nature of the two forms, besides what a peer does wrong.
    all: bool,
}

impl NoteLog {
    pub(crate) fn new(talk: Talk, number: u64, all: bool) -> NoteLog {
        NoteLog { talk, number, all }
    }
}

impl Observer for NoteLog {
    fn note(&mut self, side: Side, note: &Note) {
        if self.all || note.kind.is_misbehaviour() {
            self.talk.note(self.number, side, note);
        }
    }
}

impl Told {
    /// If something is to be told about a conversation, how much that is with it.
    fn add(&mut self, number: u64, key: String, is_nature: bool) -> Option<usize> {
        if !self.conversations.contains_key(&number) && self.conversations.len() >= MOST {
            self.conversations.pop_first();
        }
        let own = self.conversations.entry(number).or_default();
        if own.len() >= MOST_EACH || is_nature && self.natures.contains(&key) || !own.insert(key.clone()) {
            return None;
        }
        if is_nature {
            if self.natures.len() >= MOST {
                self.natures.clear();
            }
            self.natures.insert(key);
        }
        Some(own.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_dialect::NoteKind;

    #[test]
    fn a_lossy_step_is_told_once_and_a_broken_rule_for_each_client() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let talk = Talk::new(Arc::new(move |line| kept.lock().expect("whole").push(line.to_string())));
        let note = |kind| Note { kind, method: "prompt".into(), field: "x".into(), message: "gone".into() };
        for number in [1, 2] {
            talk.note(number, Side::Client, &note(NoteKind::Lossy));
            talk.note(number, Side::Client, &note(NoteKind::WrongShape));
        }
        let lines = lines.lock().expect("whole");
        assert_eq!(
            *lines,
            [
                "[1] client: lossy prompt x: gone",
                "[1] client: wrong-shape prompt x: gone",
                "[2] client: wrong-shape prompt x: gone"
            ]
        );
    }

    #[test]
    fn no_conversation_silences_another() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let talk = Talk::new(Arc::new(move |line| kept.lock().expect("whole").push(line.to_string())));
        let note = |kind, field: usize| Note {
            kind,
            method: "prompt".into(),
            field: field.to_string().into(),
            message: "gone".into(),
        };
        for field in 0..2 * MOST {
            talk.note(1, Side::Client, &note(NoteKind::WrongShape, field));
        }
        let told = std::mem::take(&mut *lines.lock().expect("whole"));
        assert_eq!(told.len(), MOST_EACH + 1);
        assert_eq!(told[MOST_EACH], "[1] nothing more like this is told about this conversation");
        for number in 2..MOST + 10 {
            talk.note(number as u64, Side::Client, &note(NoteKind::Lossy, number));
            talk.note(number as u64, Side::Client, &note(NoteKind::WrongShape, 0));
        }
        assert_eq!(lines.lock().expect("whole").len(), 2 * (MOST + 8));
    }
}
