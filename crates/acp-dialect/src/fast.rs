//! The short way for streamed text, which is most of what goes over a wire: no tree is built, and the text itself is
//! copied as it was written.

use acp_rpc::{Frame, View};

use crate::chunk::{Chunk, ChunkKind, bare, method, text_len};
use crate::core::Core;
use crate::dialect::Dialect;
use crate::session::Session;

/// Translates a line of the peer at `source`, without its newline, that is a plain chunk in its usual spelling, into a
/// line for the peer at `target`, with a newline. `None`: nothing was done, the line wants the long way.
pub(crate) fn translate(source: &mut Core, target: &mut Core, line: &str, out: &mut Vec<u8>) -> Option<()> {
    let chunk = Chunk::of_line(source.dialect, line)?;
    if is_v1(source.dialect) && is_v1(target.dialect) {
        out.push_str(line.trim_end());
        out.push_str("\n");
        return Some(());
    }
    let session = bare(chunk.session)?;
    let mapped = if is_v1(source.dialect) {
        None
    } else {
        // Two steps in one, and the first must not be done without the second.
        let canonical = source.canonical_id(session);
        let second = is_v1(target.dialect) || chunk.index.is_none() && takes(target, &chunk, canonical);
        if !second {
            return None;
        }
        hear(source, &chunk)?
    };
    let start = out.len();
    out.reserve(line.len() + 160);
    out.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"");
    out.push_str(method(target.dialect));
    out.push_str("\",\"params\":");
    if is_v1(target.dialect) {
        write_v1(&chunk, mapped, out);
    } else if tell(target, &chunk, mapped, out).is_none() {
        out.truncate(start);
        return None;
    }
    out.push_str("}\n");
    Some(())
}

/// Translates a plain text chunk of the foreign peer; `None` sends the frame the long way.
pub(crate) fn decode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let chunk = chunk_of(core.dialect, frame)?;
    if is_v1(core.dialect) {
        return Some(frame.clone());
    }
    let mapped = hear(core, &chunk)?;
    let mut out = String::with_capacity(chunk.text.len() + 160);
    write_v1(&chunk, mapped, &mut out);
    Some(Frame::notification_text(method(Dialect::V1), &out))
}

/// Translates a plain v1 text chunk; `None` sends the frame the long way.
pub(crate) fn encode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let chunk = chunk_of(Dialect::V1, frame)?;
    if is_v1(core.dialect) {
        return Some(frame.clone());
    }
    let mut out = String::with_capacity(chunk.text.len() + 160);
    tell(core, &chunk, None, &mut out)?;
    Some(Frame::notification_text(method(core.dialect), &out))
}

fn chunk_of(dialect: Dialect, frame: &Frame) -> Option<Chunk<'_>> {
    match frame.view() {
        View::Notification { method: named, params: Some(params) } if named == method(dialect) => {
            Chunk::of_params(dialect, params)
        }
        _ => None,
    }
}

/// Whether a chunk looks the same as in v1.
fn is_v1(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::V1 | Dialect::Go)
}

/// The foreign peer said it: remembers that. The canonical id of the session where it is another; `None` when the
/// session is not known.
fn hear<'c>(core: &'c mut Core, chunk: &Chunk<'_>) -> Option<Option<&'c str>> {
    let id = bare(chunk.session)?;
    let mapped = core.to_canonical.get(id).map(String::as_str);
    count(core.sessions.get_mut(mapped.unwrap_or(id))?, chunk);
    Some(mapped)
}

/// Whether the foreign form has a word for it, and nothing else is to be done with it.
fn takes(core: &Core, chunk: &Chunk<'_>, canonical: &str) -> bool {
    names(core.dialect, chunk.kind)
        && core.sessions.get(canonical).is_some_and(|session| session.replay.is_none())
}

fn names(dialect: Dialect, kind: ChunkKind) -> bool {
    match dialect {
        Dialect::V2025_1 => kind != ChunkKind::User,
        _ => kind == ChunkKind::Agent,
    }
}

/// Tells the foreign peer: writes the params and remembers what was said. `mapped` is the canonical id of the session
/// where it is not the chunk's.
fn tell(core: &mut Core, chunk: &Chunk<'_>, mapped: Option<&str>, out: &mut impl Sink) -> Option<()> {
    let canonical = mapped.map_or_else(|| bare(chunk.session), Some)?;
    if !names(core.dialect, chunk.kind) {
        return None;
    }
    let limit = core.options.reply_limit;
    // The same id on both sides is not in the map, and then the chunk's spelling of it serves.
    let foreign = core.to_foreign.get(canonical).map(String::as_str).or(mapped);
    let state = core.sessions.get_mut(canonical).filter(|session| session.replay.is_none())?;
    match core.dialect {
        Dialect::V2025_1 => {
            count(state, chunk);
            out.push_str("{\"session_id\":");
            push_id(out, chunk.session, foreign);
            out.push_str(",\"type\":\"");
            out.push_str(chunk.kind.as_str());
            out.push_str("\",\"data\":{\"text\":");
            out.push_str(chunk.text);
            out.push_str("}}");
        }
        Dialect::Probe => {
            keep(state, chunk.text, limit)?;
            out.push_str("{\"sessionId\":");
            push_id(out, chunk.session, foreign);
            out.push_str(",\"chunk\":");
            out.push_str(chunk.text);
            out.push_str(",\"index\":");
            out.push_str(&state.index.to_string());
            out.push_str("}");
            state.index += 1;
        }
        Dialect::Delta => {
            keep(state, chunk.text, limit)?;
            out.push_str("{\"sessionId\":");
            push_id(out, chunk.session, foreign);
            out.push_str(",\"content\":");
            out.push_str(chunk.text);
            out.push_str("}");
        }
        Dialect::V1 | Dialect::Go => return None,
    }
    Some(())
}

/// Writes the params of a v1 chunk.
fn write_v1(chunk: &Chunk<'_>, mapped: Option<&str>, out: &mut impl Sink) {
    out.push_str("{\"sessionId\":");
    push_id(out, chunk.session, mapped);
    out.push_str(",\"update\":{\"sessionUpdate\":\"");
    out.push_str(chunk.kind.as_str());
    out.push_str("\",\"content\":{\"type\":\"text\",\"text\":");
    out.push_str(chunk.text);
    out.push_str("}}");
    if let Some(index) = chunk.index {
        out.push_str(",\"_meta\":{\"acp-dialect/probe\":{\"index\":");
        out.push_str(index);
        out.push_str("}}");
    }
    out.push_str("}");
}

/// What text is written to.
trait Sink {
    fn push_str(&mut self, text: &str);
}

impl Sink for String {
    fn push_str(&mut self, text: &str) {
        String::push_str(self, text);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn push_str(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

fn push_id(out: &mut impl Sink, raw: &str, mapped: Option<&str>) {
    match mapped {
        Some(id) => out.push_str(&serde_json::Value::from(id).to_string()),
        None => out.push_str(raw),
    }
}

/// Counts agent text of a turn.
fn count(state: &mut Session, chunk: &Chunk<'_>) {
    if let (ChunkKind::Agent, Some(turn)) = (chunk.kind, state.turn.as_mut()) {
        turn.streamed += text_len(chunk.text);
        turn.failed_tool = false;
    }
}

/// Keeps the text for the answer that repeats it.
fn keep(state: &mut Session, raw: &str, limit: usize) -> Option<()> {
    if state.turn.is_none() {
        return Some(());
    }
    match bare(raw) {
        Some(text) => state.said(text, Some(limit)),
        None => {
            let text: String = serde_json::from_str(raw).ok()?;
            state.said(&text, Some(limit));
        }
    }
    Some(())
}
