//! What a proxy says about its work: one line each, and what is the same for every conversation only once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use acp_dialect::{Note, Side};

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
/// Words that nobody wanted to say for so long are about something that is over.
const OVER: Duration = Duration::from_secs(60);

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

/// What would be said again and again while something is wrong, and is said once; and again when it was over.
#[derive(Debug, Default)]
pub(crate) struct Once(HashMap<String, Instant>);

impl Once {
    /// Whether words are to be said that somebody wants to say now.
    pub(crate) fn is_due(&mut self, words: &str, now: Instant) -> bool {
        let lasts = |last: &Instant| now.saturating_duration_since(*last) < OVER;
        if let Some(last) = self.0.get_mut(words) {
            return !lasts(&std::mem::replace(last, now));
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, last| lasts(last));
        }
        let room = self.0.len() < MOST;
        if room {
            self.0.insert(words.to_owned(), now);
        }
        room
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

    #[test]
    fn what_lasts_is_said_once_and_what_comes_back_again() {
        let (mut once, began) = (Once::default(), Instant::now());
        let said =
            [0, 1, 50, 100, 150, 210, 269, 500].map(|t| once.is_due("x", began + Duration::from_secs(t)));
        assert_eq!(said, [true, false, false, false, false, true, false, true]);
        let later = began + Duration::from_secs(600);
        for number in 0..MOST {
            once.is_due(&number.to_string(), later);
        }
        assert!(!once.is_due("one too many", later));
        assert!(once.is_due("one too many", later + OVER));
    }
}
