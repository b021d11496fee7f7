//! Numbers of a conversation: latency per method, sizes, time to the first chunk, turn lengths.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use acp_proto::{method, update};
use acp_rpc::{Direction, Frame, Id, View};
use serde::Serialize;

/// The most samples kept of one kind; of later ones, the number and the largest are known.
const SAMPLES: usize = 65_536;
/// The most requests whose answer is awaited.
const OPEN: usize = 65_536;

/// A distribution of durations.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    samples: Vec<Duration>,
    count: u64,
    largest: Duration,
}

impl Spread {
    fn add(&mut self, value: Duration) {
        self.count += 1;
        self.largest = self.largest.max(value);
        if self.samples.len() < SAMPLES {
            self.samples.push(value);
        }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest of all.
    #[must_use]
    pub fn largest(&self) -> Duration {
        self.largest
    }

    /// The value that the given part of the samples does not exceed: `0.5` is the median.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into at most 65,536 samples"
        )]
        let place = (sorted.len().saturating_sub(1) as f64 * part.clamp(0.0, 1.0)).round() as usize;
        sorted.get(place).copied().unwrap_or_default()
    }
}

impl Serialize for Spread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut out = serializer.serialize_struct("Spread", 4)?;
        out.serialize_field("count", &self.count)?;
        out.serialize_field("p50", &self.quantile(0.5).as_secs_f64())?;
        out.serialize_field("p95", &self.quantile(0.95).as_secs_f64())?;
        out.serialize_field("max", &self.largest.as_secs_f64())?;
        out.end()
    }
}

/// Frames and bytes of one direction.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Volume {
    /// How many frames.
    pub frames: u64,
    /// How many bytes, without line endings.
    pub bytes: u64,
    /// The largest frame.
    pub largest: u64,
}

/// Numbers of one conversation. Show it the frames that the judge sees.
#[derive(Debug, Default)]
pub struct Stats {
    /// By method and who asked: how long the answer took.
    pub latency: BTreeMap<(String, &'static str), Spread>,
    /// By direction: `c2a` and `a2c`.
    pub volume: BTreeMap<&'static str, Volume>,
    /// By kind of `session/update`.
    pub updates: BTreeMap<String, u64>,
    /// From a prompt to the first `agent_message_chunk`.
    pub first_chunk: Spread,
    /// From a prompt to its answer.
    pub turns: Spread,
    open: HashMap<(Direction, Id), (String, Duration)>,
    /// Prompts whose first chunk is awaited, by session.
    waiting: HashMap<String, Duration>,
}

impl Stats {
    /// The next frame.
    pub fn observe(&mut self, at: Duration, dir: Direction, frame: &Frame) {
        let bytes = frame.raw().len() as u64;
        let volume = self.volume.entry(dir.as_str()).or_default();
        volume.frames += 1;
        volume.bytes += bytes;
        volume.largest = volume.largest.max(bytes);
        match frame.view() {
            View::Request { id, method, params } => {
                if method == method::SESSION_PROMPT
                    && let Some(session) = text_of(params, "/sessionId")
                {
                    self.waiting.insert(session, at);
                }
                if self.open.len() < OPEN {
                    self.open.insert((dir, id.clone()), (method.to_owned(), at));
                }
            }
            View::Response { id, .. } => self.answered(at, dir, id),
            View::Notification { method: method::SESSION_UPDATE, params } => self.update(at, params),
            _ => {}
        }
    }

    fn answered(&mut self, at: Duration, dir: Direction, id: &Id) {
        let Some((method, asked)) = self.open.remove(&(dir.flip(), id.clone())) else { return };
        let took = at.saturating_sub(asked);
        if method == method::SESSION_PROMPT {
            self.turns.add(took);
        }
        let asker = if dir == Direction::AgentToClient { "client" } else { "agent" };
        if self.latency.len() < 1024 {
            self.latency.entry((method, asker)).or_default().add(took);
        }
    }

    fn update(&mut self, at: Duration, params: Option<&str>) {
        let kind = text_of(params, "/update/sessionUpdate").unwrap_or_default();
        if kind == update::AGENT_MESSAGE_CHUNK
            && !self.waiting.is_empty()
            && let Some(asked) =
                text_of(params, "/sessionId").and_then(|session| self.waiting.remove(&session))
        {
            self.first_chunk.add(at.saturating_sub(asked));
        }
        if self.updates.len() < 256 || self.updates.contains_key(&kind) {
            *self.updates.entry(kind).or_default() += 1;
        }
    }

    /// The numbers as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let latency: Vec<_> = self
            .latency
            .iter()
            .map(|((method, asker), spread)| serde_json::json!({"method": method, "asker": asker, "seconds": spread}))
            .collect();
        serde_json::json!({
            "latency": latency,
            "volume": self.volume,
            "updates": self.updates,
            "firstChunk": self.first_chunk,
            "turns": self.turns,
        })
    }
}

fn text_of(params: Option<&str>, pointer: &str) -> Option<String> {
    let mut tape = crate::json::Tape::default();
    let mut here = tape.read(params?)?;
    for name in pointer.split('/').skip(1) {
        here = here.get(name)?;
    }
    here.str().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_first_chunk_and_turn_are_measured() {
        let mut stats = Stats::default();
        let mut at = |ms: u64, dir, text: &'static str| {
            stats.observe(Duration::from_millis(ms), dir, &Frame::parse(text));
        };
        at(
            0,
            Direction::ClientToAgent,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
        );
        at(
            30,
            Direction::AgentToClient,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}"#,
        );
        at(
            40,
            Direction::AgentToClient,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}"#,
        );
        at(100, Direction::AgentToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#);
        assert_eq!(stats.first_chunk.quantile(0.5), Duration::from_millis(30));
        assert_eq!(stats.turns.largest(), Duration::from_millis(100));
        assert_eq!(stats.updates["agent_message_chunk"], 2);
        assert_eq!(stats.latency[&("session/prompt".to_owned(), "client")].count(), 1);
    }

    #[test]
    fn the_largest_of_a_very_long_conversation_is_known() {
        let mut spread = Spread::default();
        (0..=SAMPLES as u64).for_each(|millis| spread.add(Duration::from_millis(millis)));
        assert_eq!(spread.count(), SAMPLES as u64 + 1);
        assert_eq!(spread.largest(), Duration::from_millis(SAMPLES as u64));
    }
}
