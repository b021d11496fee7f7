//! What a proxy logs about its work, as events of `tracing`; what is the same for every conversation comes only once.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use acp_dialect::{Note, Side};
use acp_relay::Observer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

/// The target of all events of a proxy.
pub const LOG_TARGET: &str = "acp::proxy";

/// Where a proxy logs: its events go to this subscriber, whichever thread they come from, so that two proxies in one
/// process can have logs of their own.
#[derive(Clone, Debug)]
pub struct ProxyLog(Dispatch);

/// What a line of the log is about, besides its words.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFields<'a> {
    /// The conversation, counted from 1.
    pub conversation: Option<u64>,
    /// The task.
    pub task: Option<&'a str>,
    /// The session.
    pub session: Option<&'a str>,
    /// The trace that the turn belongs to.
    pub traceparent: Option<&'a str>,
    /// How a turn ended.
    pub stop_reason: Option<&'a str>,
    /// What was decided.
    pub verdict: Option<&'a str>,
    /// About what.
    pub subject: Option<&'a str>,
    /// Why.
    pub reason: Option<&'a str>,
}

impl ProxyLog {
    /// Logs to this subscriber.
    pub fn new(subscriber: impl Subscriber + Send + Sync + 'static) -> ProxyLog {
        ProxyLog(Dispatch::new(subscriber))
    }

    /// Hands each line to a function.
    pub fn lines(line: impl Fn(&LogLine) + Send + Sync + 'static) -> ProxyLog {
        ProxyLog::new(LineSubscriber { line: Box::new(line) })
    }

    /// Logs to whatever this thread, or the process, has set up; nowhere if that is nothing.
    pub fn current() -> ProxyLog {
        ProxyLog(dispatcher::get_default(Clone::clone))
    }

    /// What happens.
    pub fn info(&self, words: &str) {
        self.event(Level::INFO, words, &LogFields::default());
    }

    /// What somebody should look at.
    pub fn warn(&self, words: &str) {
        self.event(Level::WARN, words, &LogFields::default());
    }

    /// What does not work.
    pub fn error(&self, words: &str) {
        self.event(Level::ERROR, words, &LogFields::default());
    }

    /// One line with its parts.
    pub fn event(&self, level: Level, words: &str, fields: &LogFields<'_>) {
        macro_rules! event {
            ($level:expr) => {
                tracing::event!(
                    target: LOG_TARGET,
                    $level,
                    conversation = fields.conversation,
                    task = fields.task,
                    session = fields.session,
                    traceparent = fields.traceparent,
                    stopReason = fields.stop_reason,
                    verdict = fields.verdict,
                    subject = fields.subject,
                    reason = fields.reason,
                    "{words}"
                )
            };
        }
        // The first use of an event decides who sees it from then on: a log that goes nowhere must not be the first.
        if self.0.is::<NoSubscriber>() {
            return;
        }
        dispatcher::with_default(&self.0, || match level {
            Level::ERROR => event!(Level::ERROR),
            Level::WARN => event!(Level::WARN),
            _ => event!(Level::INFO),
        });
    }
}

/// A line of the log. Its text form is for people, its parts are for structured logs.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// Which conversation it is about.
    pub conversation: Option<u64>,
    /// What happened, in words.
    pub message: String,
    /// More about it, by name.
    pub fields: Vec<(&'static str, String)>,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversation {
            Some(number) => write!(f, "[{number}] {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Visit for LogLine {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "conversation" => self.conversation = Some(value),
            name => self.fields.push((name, value.to_string())),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

/// Hands the events of a proxy to a function. There are no spans in them.
struct LineSubscriber {
    line: Box<dyn Fn(&LogLine) + Send + Sync>,
}

impl Subscriber for LineSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == LOG_TARGET
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        let mut line = LogLine { level, conversation: None, message: String::new(), fields: Vec::new() };
        event.record(&mut line);
        (self.line)(&line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// At most this many different notes are logged about one conversation.
const MOST_EACH: usize = 100;
/// At most this many different notes are remembered, of as many conversations.
const MOST: usize = 1000;

/// Shared by all conversations of a proxy.
#[derive(Clone)]
pub(crate) struct ConversationLog {
    log: ProxyLog,
    seen: Arc<Mutex<SeenNotes>>,
}

/// The notes that were logged.
#[derive(Default)]
struct SeenNotes {
    /// What lies in the nature of two forms.
    natures: HashSet<String>,
    /// By their numbers, the conversations that have such notes.
    conversations: BTreeMap<u64, HashSet<String>>,
}

impl ConversationLog {
    pub(crate) fn new(log: ProxyLog) -> ConversationLog {
        ConversationLog { log, seen: Arc::default() }
    }

    /// Something about one conversation.
    pub(crate) fn about(&self, number: u64, words: &str) {
        self.tell(Level::INFO, number, words);
    }

    /// Something about one conversation that matters this much.
    pub(crate) fn tell(&self, level: Level, number: u64, words: &str) {
        self.event(level, number, words, LogFields::default());
    }

    /// Something about one conversation, with its parts.
    pub(crate) fn event(&self, level: Level, number: u64, words: &str, fields: LogFields<'_>) {
        self.log.event(level, words, &LogFields { conversation: Some(number), ..fields });
    }

    /// A step of a translation. What lies in the nature of two forms is told once; what a peer did wrong, each time.
    pub(crate) fn note(&self, number: u64, side: Side, note: &Note) {
        let kind = format!("{side} {} {} {}", note.kind, note.method, note.field);
        let key = if note.kind.is_misbehaviour() { format!("{side} {note}") } else { kind };
        let count = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.add(number, key, !note.kind.is_misbehaviour())
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
    log: ConversationLog,
    number: u64,
    /// Also what lies in the nature of the two forms, besides what a peer does wrong.
    all: bool,
}

impl NoteLog {
    pub(crate) fn new(log: ConversationLog, number: u64, all: bool) -> NoteLog {
        NoteLog { log, number, all }
    }
}

impl Observer for NoteLog {
    fn note(&mut self, side: Side, note: &Note) {
        if self.all || note.kind.is_misbehaviour() {
            self.log.note(self.number, side, note);
        }
    }
}

impl SeenNotes {
    /// How many notes the conversation has with this one; nothing if this one is not to be logged.
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
    fn a_log_that_goes_nowhere_does_not_silence_another() {
        ProxyLog::new(NoSubscriber::default()).warn("unheard");
        ProxyLog::current().error("unheard");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = ProxyLog::lines(move |line| kept.lock().expect("whole").push(line.to_string()));
        ProxyLog::current().warn("unheard");
        log.warn("a warning");
        log.error("an error");
        assert_eq!(*lines.lock().expect("whole"), ["a warning", "an error"]);
    }

    #[test]
    fn a_lossy_step_is_told_once_and_a_broken_rule_for_each_client() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = ConversationLog::new(ProxyLog::lines(move |line| {
            kept.lock().expect("whole").push(line.to_string());
        }));
        let note = |kind| Note { kind, method: "prompt".into(), field: "x".into(), message: "gone".into() };
        for number in [1, 2] {
            log.note(number, Side::Client, &note(NoteKind::Lossy));
            log.note(number, Side::Client, &note(NoteKind::WrongShape));
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
        let log = ConversationLog::new(ProxyLog::lines(move |line| {
            kept.lock().expect("whole").push(line.to_string());
        }));
        let note = |kind, field: usize| Note {
            kind,
            method: "prompt".into(),
            field: field.to_string().into(),
            message: "gone".into(),
        };
        for field in 0..2 * MOST {
            log.note(1, Side::Client, &note(NoteKind::WrongShape, field));
        }
        let told = std::mem::take(&mut *lines.lock().expect("whole"));
        assert_eq!(told.len(), MOST_EACH + 1);
        assert_eq!(told[MOST_EACH], "[1] nothing more like this is told about this conversation");
        for number in 2..MOST + 10 {
            log.note(number as u64, Side::Client, &note(NoteKind::Lossy, number));
            log.note(number as u64, Side::Client, &note(NoteKind::WrongShape, 0));
        }
        assert_eq!(lines.lock().expect("whole").len(), 2 * (MOST + 8));
    }
}
