//! The short way for streamed text, which is most of what goes over a wire: no tree is built, and the text itself is
//! copied as it was written.

use acp_rpc::{Frame, View};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::Core;
use crate::dialect::Dialect;

/// Translates a plain text chunk of the foreign peer; `None` sends the frame the long way.
pub(crate) fn decode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let View::Notification { method, params: Some(params) } = frame.view() else { return None };
    let (session, kind, text, index) = match (core.dialect, method) {
        (Dialect::V2025_1, "session/update") => {
            let chunk: SnakeChunk<'_> = serde_json::from_str(params).ok()?;
            (chunk.session_id, chunk.kind, chunk.data.text, None)
        }
        (Dialect::Probe, "messageChunk") => {
            let chunk: ProbeChunk<'_> = serde_json::from_str(params).ok()?;
            (chunk.session_id, ChunkKind::Agent, chunk.chunk, chunk.index)
        }
        (Dialect::Delta, "assistant.message_delta") => {
            let chunk: DeltaChunk<'_> = serde_json::from_str(params).ok()?;
            (chunk.session_id, ChunkKind::Agent, chunk.content, None)
        }
        (Dialect::Go, "session/update") => {
            // The shape is v1's: the bytes go through.
            let chunk: V1Chunk<'_> = serde_json::from_str(params).ok()?;
            return chunk.is_plain().then(|| frame.clone());
        }
        _ => return None,
    };
    let id = bare(session)?;
    let said = bare_len(text)?;
    let state = core.sessions.get_mut(core_id(&core.to_canonical, id))?;
    if let (ChunkKind::Agent, Some(turn)) = (kind, state.turn.as_mut()) {
        turn.streamed += said;
        turn.failed_tool = false;
    }
    let mapped = core.to_canonical.get(id).map(String::as_str);
    let params = V1Out {
        session_id: Session { raw: session, mapped },
        update: V1Update { session_update: kind, content: TextBlock { kind: "text", text } },
        meta: index.map(|index| ProbeMeta { probe: Index { index } }),
    };
    Some(Frame::notification("session/update", &params))
}

/// Translates a plain v1 text chunk; `None` sends the frame the long way.
pub(crate) fn encode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let View::Notification { method: "session/update", params: Some(params) } = frame.view() else {
        return None;
    };
    let chunk: V1Chunk<'_> = serde_json::from_str(params).ok()?;
    if !chunk.is_plain() {
        return None;
    }
    if core.dialect == Dialect::Go {
        return Some(frame.clone());
    }
    let kind = chunk.update.session_update;
    if core.dialect != Dialect::V2025_1 && kind != ChunkKind::Agent || kind == ChunkKind::User {
        return None;
    }
    let text = chunk.update.content.text;
    let id = bare(chunk.session_id)?;
    let foreign = core.to_foreign.get(id).map(String::as_str);
    let limit = core.options.reply_limit;
    let state = core.sessions.get_mut(id)?;
    if state.replay.is_some() {
        return None;
    }
    let session = Session { raw: chunk.session_id, mapped: foreign };
    match core.dialect {
        Dialect::V2025_1 => {
            state.said_raw(kind, bare_len(text)?);
            let params = SnakeOut { session_id: session, kind, data: Data { text } };
            Some(Frame::notification("session/update", &params))
        }
        Dialect::Probe => {
            keep(state, text, limit)?;
            let index = state.index;
            state.index += 1;
            Some(Frame::notification("messageChunk", &ProbeOut { session_id: session, chunk: text, index }))
        }
        Dialect::Delta => {
            keep(state, text, limit)?;
            Some(Frame::notification(
                "assistant.message_delta",
                &DeltaOut { session_id: session, content: text },
            ))
        }
        Dialect::V1 | Dialect::Go => None,
    }
}

/// Keeps the text for the answer that repeats it.
fn keep(state: &mut crate::session::Session, raw: &RawValue, limit: usize) -> Option<()> {
    if state.turn.is_none() {
        return Some(());
    }
    match bare(raw) {
        Some(text) => state.said(text, Some(limit)),
        None => {
            let text: String = serde_json::from_str(raw.get()).ok()?;
            state.said(&text, Some(limit));
        }
    }
    Some(())
}

impl crate::session::Session {
    fn said_raw(&mut self, kind: ChunkKind, len: usize) {
        if let (ChunkKind::Agent, Some(turn)) = (kind, self.turn.as_mut()) {
            turn.streamed += len;
            turn.failed_tool = false;
        }
    }
}

fn core_id<'a>(map: &'a std::collections::HashMap<String, String>, id: &'a str) -> &'a str {
    map.get(id).map_or(id, String::as_str)
}

/// The inside of a JSON string that has no escapes.
fn bare(raw: &RawValue) -> Option<&str> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// How many bytes the text of a JSON string has.
fn bare_len(raw: &RawValue) -> Option<usize> {
    match bare(raw) {
        Some(text) => Some(text.len()),
        None => serde_json::from_str::<String>(raw.get()).ok().map(|text| text.len()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ChunkKind {
    #[serde(rename = "agent_message_chunk")]
    Agent,
    #[serde(rename = "agent_thought_chunk")]
    Thought,
    #[serde(rename = "user_message_chunk")]
    User,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Chunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    update: V1In<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1In<'a> {
    #[serde(rename = "sessionUpdate")]
    session_update: ChunkKind,
    #[serde(borrow)]
    content: V1Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Text<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    text: &'a RawValue,
}

impl V1Chunk<'_> {
    fn is_plain(&self) -> bool {
        let is_text = |raw: &RawValue| raw.get().starts_with('"');
        self.update.content.kind == "text" && is_text(self.update.content.text) && is_text(self.session_id)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeChunk<'a> {
    #[serde(borrow)]
    session_id: &'a RawValue,
    #[serde(rename = "type")]
    kind: ChunkKind,
    #[serde(borrow)]
    data: SnakeData<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeData<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    chunk: &'a RawValue,
    #[serde(default)]
    index: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// A session id: the one that was written, or its counterpart.
struct Session<'a> {
    raw: &'a RawValue,
    mapped: Option<&'a str>,
}

impl Serialize for Session<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.mapped {
            Some(id) => serializer.serialize_str(id),
            None => self.raw.serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct V1Out<'a> {
    #[serde(rename = "sessionId")]
    session_id: Session<'a>,
    update: V1Update<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<ProbeMeta>,
}

#[derive(Serialize)]
struct V1Update<'a> {
    #[serde(rename = "sessionUpdate")]
    session_update: ChunkKind,
    content: TextBlock<'a>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a RawValue,
}

#[derive(Serialize)]
struct ProbeMeta {
    #[serde(rename = "acp-dialect/probe")]
    probe: Index,
}

#[derive(Serialize)]
struct Index {
    index: u64,
}

#[derive(Serialize)]
struct SnakeOut<'a> {
    session_id: Session<'a>,
    #[serde(rename = "type")]
    kind: ChunkKind,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    text: &'a RawValue,
}

#[derive(Serialize)]
struct ProbeOut<'a> {
    #[serde(rename = "sessionId")]
    session_id: Session<'a>,
    chunk: &'a RawValue,
    index: u64,
}

#[derive(Serialize)]
struct DeltaOut<'a> {
    #[serde(rename = "sessionId")]
    session_id: Session<'a>,
    content: &'a RawValue,
}
