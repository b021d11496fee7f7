//! Recorded conversations again: read from a journal or a transcript, in their canonical form.

mod player;
mod script;

use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_dialect::{Bridge, Detection, Dialect, TranslationOptions, detect};
use acp_proto::method;
use acp_rpc::transcript::TranscriptEntry;
use acp_rpc::{Direction, Frame};

use crate::event::Event;
use crate::journal::{self, Conversation, Decided, SegmentError};
use crate::narrate::Narrator;

pub use player::Player;
pub use script::Script;

/// One frame of a recording.
#[derive(Clone, Debug)]
pub struct RecordedFrame {
    /// Since the conversation began.
    pub t: Duration,
    /// Which way.
    pub dir: Direction,
    /// What.
    pub frame: Frame,
    /// The line of the transcript that it stands on, from 1; nothing for a journal.
    pub line: Option<usize>,
    /// The proxy said it, not the peer: why. What the peer said may stand before it, changed here.
    pub by_proxy: Option<Decided>,
}

impl RecordedFrame {
    /// Whether it is what the agent was told in place of what the client said, which is there too.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.by_proxy.as_ref().is_some_and(Decided::is_change)
    }
}

/// A conversation that was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The conversation's name in the journal, or the file.
    pub name: String,
    /// When it began, if that is known, as RFC 3339.
    pub at: Option<String>,
    /// The agent, if that is known.
    pub agent: Option<String>,
    /// The frames.
    pub said: Vec<RecordedFrame>,
    /// How it ended, if that is known.
    pub outcome: Option<String>,
    /// What could not be read, in words.
    pub notices: Vec<String>,
}

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The journal.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The transcript.
    #[error("cannot read {place}: {error}")]
    Io {
        /// Which file.
        place: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A line of the transcript.
    #[error("{place}, line {line}: {flaw}")]
    Entry {
        /// Which file.
        place: String,
        /// Which line.
        line: usize,
        /// What is wrong.
        flaw: String,
    },
    /// Nothing canonical in it.
    #[error(
        "{place} is in the form {dialect}, which is not translated here; the journal of a proxy that translates it can be replayed, or record with --dialect on the client"
    )]
    Foreign {
        /// Which.
        place: String,
        /// What it is in.
        dialect: String,
    },
    /// No such session.
    #[error(
        "{wanted:?} is neither a file nor a session or conversation in the journal {folder}; acp replay --list shows what there is"
    )]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        folder: String,
    },
    /// Nothing in it.
    #[error("there is no conversation in {0}")]
    Empty(String),
}

impl Recording {
    /// The conversations in a transcript or a segment of a journal.
    pub fn of_file(path: &Path) -> Result<Vec<Recording>, ReplayError> {
        if journal::is_segment(path) {
            let (found, notices) = journal::conversations_of(&[path.to_owned()], None)?;
            return recordings(found, &notices, &path.display().to_string());
        }
        transcript(path).map(|recording| vec![recording])
    }

    /// The conversations of a session in a journal, or one conversation by its name, or all of them.
    pub fn of_journal(folder: &Path, wanted: Option<&str>) -> Result<Vec<Recording>, ReplayError> {
        let (found, notices) = match journal::conversations(folder, wanted) {
            Ok(found) => found,
            Err(SegmentError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                (Vec::new(), Vec::new())
            }
            Err(error) => return Err(error.into()),
        };
        let folder = folder.display().to_string();
        match wanted {
            Some(wanted) if found.is_empty() => {
                Err(ReplayError::Unknown { wanted: wanted.to_owned(), folder })
            }
            _ => recordings(found, &notices, &folder),
        }
    }

    /// Shows every conversation in a journal, one run after another: a journal may be larger than the memory. What of it
    /// cannot be read is told.
    pub fn each_of_journal(
        folder: &Path,
        tell: impl Fn(&journal::Notice),
        mut show: impl FnMut(Recording) -> std::io::Result<()>,
    ) -> Result<(), ReplayError> {
        let io = |error| ReplayError::Io { place: folder.display().to_string(), error };
        for run in journal::runs(folder).map_err(io)? {
            let (found, notices) = journal::conversations_of(&run, None)?;
            notices.iter().for_each(&tell);
            if found.is_empty() {
                continue;
            }
            for recording in recordings(found, &[], "")? {
                show(recording)
                    .map_err(|error| ReplayError::Io { place: "standard output".into(), error })?;
            }
        }
        Ok(())
    }

    /// The sessions that were opened in it.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        let mut sessions: Vec<String> = Vec::new();
        for (session, _) in self.narrate() {
            if sessions.iter().all(|known| **known != *session) {
                sessions.push(session.to_string());
            }
        }
        sessions
    }

    /// How many prompts were sent.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.said.iter().filter(|said| said.frame.method() == Some(method::SESSION_PROMPT)).count()
    }

    /// The events of its sessions, as a stream would carry them, each chunk by itself.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let began = self.at.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let began = began.and_then(|at| u64::try_from(at.as_millisecond()).ok()).unwrap_or_default();
        let mut numbers = std::collections::HashMap::new();
        let mut events = Vec::new();
        let mut narrator = Narrator::default();
        let mut told = Vec::new();
        let mut tell =
            |t: Duration, told: &mut Vec<crate::narrate::NarratedEvent>, events: &mut Vec<Event>| {
                for (session, body) in told.drain(..) {
                    let seq = numbers.entry(session.clone()).or_insert(0_u64);
                    *seq += 1;
                    let at = began + u64::try_from(t.as_millis()).unwrap_or_default();
                    events.push(Event {
                        session: session.to_string(),
                        epoch: 0,
                        seq: *seq,
                        at,
                        task: None,
                        body,
                    });
                }
            };
        let mut last = Duration::ZERO;
        for (index, said) in self.said.iter().enumerate() {
            match &said.by_proxy {
                // NarratedEvent as the client said it: what the proxy adds may be no one's business but the agent's.
                Some(decided) if decided.is_change() => {}
                Some(decided) if decided.request.is_empty() => {
                    narrator.hear(said.dir, &said.frame, &mut told);
                }
                // A request and its answer, one after the other.
                Some(decided) if said.dir == Direction::ClientToAgent && index > 0 => {
                    let request = &self.said[index - 1].frame;
                    narrator.decided(request, &said.frame, &decided.reason, &mut told);
                }
                Some(decided) if decided.dir == Direction::AgentToClient => {}
                _ => narrator.hear(said.dir, &said.frame, &mut told),
            }
            tell(said.t, &mut told, &mut events);
            last = said.t;
        }
        narrator.close(self.outcome.as_deref().unwrap_or("the recording ends here"), &mut told);
        tell(last, &mut told, &mut events);
        events
    }

    fn narrate(&self) -> Vec<crate::narrate::NarratedEvent> {
        let mut narrator = Narrator::default();
        let mut told = Vec::new();
        for said in self.said.iter().filter(|said| !said.is_change()) {
            narrator.hear(said.dir, &said.frame, &mut told);
        }
        told
    }
}

fn recordings(
    found: Vec<Conversation>,
    notices: &[journal::Notice],
    place: &str,
) -> Result<Vec<Recording>, ReplayError> {
    if found.is_empty() {
        return Err(ReplayError::Empty(place.to_owned()));
    }
    let mut recordings = found.into_iter().map(canonical).collect::<Vec<_>>();
    if let Some(first) = recordings.first_mut() {
        first.notices.extend(notices.iter().map(ToString::to_string));
    }
    Ok(recordings)
}

/// What was said on two wires, as one conversation: the translation is done again.
fn canonical(conversation: Conversation) -> Recording {
    let dialect = |name: Option<&String>| name.and_then(|name| name.parse::<Dialect>().ok());
    let opened = conversation.opened.as_ref();
    let client = dialect(opened.map(|opened| &opened.client_dialect)).unwrap_or(Dialect::V1);
    let agent = dialect(opened.map(|opened| &opened.agent_dialect)).unwrap_or(Dialect::V1);
    let mut notices = Vec::new();
    if client == agent && !client.is_canonical() {
        let name = &conversation.name;
        notices
            .push(format!("{name}: both sides speak {client}, nothing was translated, so nothing is shown"));
    }
    let mut bridge = Bridge::new(client, agent, TranslationOptions::default());
    let mut said = Vec::with_capacity(conversation.spoken.len());
    let mut decided = conversation.decided.into_iter().peekable();
    for (index, (t, dir, line)) in conversation.spoken.into_iter().enumerate() {
        while let Some((_, decision)) = decided.next_if(|(before, _)| *before <= index) {
            push_decision(&mut said, &decision);
        }
        let from = dir.sender();
        let line = if line.starts_with(b"\xEF\xBB\xBF") { line.slice(3..) } else { line };
        bridge.receive_seen(from, &Frame::parse(line), &mut |side, frame| {
            let dir = side.sends();
            said.push(RecordedFrame { t, dir, frame: frame.clone(), line: None, by_proxy: None });
        });
    }
    decided.for_each(|(_, decision)| push_decision(&mut said, &decision));
    in_order(&mut said);
    if conversation.missing > 0 {
        notices.push(format!(
            "{}: {} records are missing in this run: the journal could not be written",
            conversation.name, conversation.missing
        ));
    }
    Recording {
        at: opened.map(|opened| opened.at.clone()),
        agent: opened.map(|opened| opened.agent.clone()),
        outcome: conversation.closed.map(|closed| closed.outcome),
        name: conversation.name,
        said,
        notices,
    }
}

/// Times that never go back. A decision is timed by the gatekeeper, and its neighbours at the wire: what came first is known, and
/// their times are near.
fn in_order(said: &mut [RecordedFrame]) {
    let mut latest = Duration::ZERO;
    for said in said {
        latest = latest.max(said.t);
        said.t = latest;
    }
}

/// A request that the proxy answered itself, and its answer.
fn push_decision(said: &mut Vec<RecordedFrame>, decided: &Decided) {
    let dir = decided.dir;
    let t = Duration::from_micros(decided.t);
    if decided.is_change() {
        let frame = Frame::parse(decided.answer.clone());
        return said.push(RecordedFrame { t, dir, frame, line: None, by_proxy: Some(decided.clone()) });
    }
    let (request, answer) = (decided.request.clone(), decided.answer.clone());
    let pair = [(dir, request), (dir.flip(), answer)];
    for (dir, text) in pair.into_iter().filter(|(_, text)| !text.is_empty()) {
        let (frame, by_proxy) = (Frame::parse(text), Some(decided.clone()));
        said.push(RecordedFrame { t, dir, frame, line: None, by_proxy });
    }
}

fn transcript(path: &Path) -> Result<Recording, ReplayError> {
    let place = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| ReplayError::Io { place: place.clone(), error })?;
    let mut said = Vec::new();
    let mut notices = Vec::new();
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // Recordings of others may have no times: what has none follows at once.
        let last = said.last().map_or(Duration::ZERO, |said: &RecordedFrame| said.t);
        // A recording that was cut may end in the middle of a character.
        let entry = match std::str::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => TranscriptEntry::parse_at(line.trim_end_matches(['\r', '\n']), last)
                .map_err(|flaw| flaw.to_string()),
            Err(error) => Err(format!("it is not UTF-8: {error}")),
        };
        match entry {
            Ok(entry) => {
                let (frame, line) = (entry.frame(), Some(index + 1));
                said.push(RecordedFrame { t: entry.t, dir: entry.dir, frame, line, by_proxy: None });
            }
            Err(_) if !line.ends_with(b"\n") => {
                notices.push(format!("{place}: the last line is cut off; it is left out"));
            }
            Err(flaw) => return Err(ReplayError::Entry { place, line: index + 1, flaw }),
        }
    }
    if said.is_empty() {
        return Err(ReplayError::Empty(place));
    }
    let first =
        said.iter().find(|said| said.dir == Direction::ClientToAgent && said.frame.method().is_some());
    if let Some(first) = first
        && let Detection::Sure(dialect) = detect([&first.frame])
        && !dialect.is_canonical()
    {
        return Err(ReplayError::Foreign { place, dialect: dialect.to_string() });
    }
    Ok(Recording { name: place, at: None, agent: None, said, outcome: None, notices })
}

/// Where `wanted` is: a file, or something in a journal.
pub fn find(wanted: &str, folder: Option<PathBuf>) -> Result<Vec<Recording>, ReplayError> {
    let path = Path::new(wanted);
    if path.is_file() {
        return Recording::of_file(path);
    }
    if path.is_dir() {
        return Recording::of_journal(path, None);
    }
    let folder = folder.or_else(journal::default_folder).unwrap_or_default();
    Recording::of_journal(&folder, Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_never_go_back() {
        let at = |micros| RecordedFrame {
            t: Duration::from_micros(micros),
            dir: Direction::AgentToClient,
            frame: Frame::parse("{}"),
            line: None,
            by_proxy: None,
        };
        let mut said = [at(40), at(48_875), at(48_864), at(48_864), at(50_000)];
        in_order(&mut said);
        assert_eq!(said.map(|said| said.t.as_micros()), [40, 48_875, 48_875, 48_875, 50_000]);
    }
}
