//! The short way for streamed text, which is most of what goes over a wire: no tree is built, and the text itself is
//! copied as it was written.

#[cfg(test)]
mod tests;

use acp_rpc::{Frame, View};

use crate::chunk::{Chunk, ChunkKind, INDEX, Quoted, Spelling, method};
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
    let canonical = if is_v1(source.dialect) {
        None
    } else {
        // Two steps in one, and the first must not be done without the second.
        let id = source.canonical_id(chunk.session.plain()?);
        if !is_v1(target.dialect) && (chunk.index.is_some() || !takes(target, &chunk, id)) {
            return None;
        }
        hear(source, &chunk)?
    };
    let form = target.dialect;
    let (id, index) = if is_v1(form) { (canonical, None) } else { tell(target, &chunk, canonical)? };
    out.reserve(line.len() + 160);
    out.push_str(Spelling::of(form).head);
    write(form, &chunk, id, index, out)?;
    out.push_str("}\n");
    Some(())
}

/// Translates a plain text chunk of the foreign peer; `None` sends the frame the long way.
pub(crate) fn decode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let chunk = chunk_of(core.dialect, frame)?;
    if is_v1(core.dialect) {
        return Some(frame.clone());
    }
    if !frame.unknown_members().is_empty() {
        return None;
    }
    let canonical = hear(core, &chunk)?;
    built(Dialect::V1, &chunk, canonical, None)
}

/// Translates a plain v1 text chunk; `None` sends the frame the long way.
pub(crate) fn encode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let chunk = chunk_of(Dialect::V1, frame)?;
    if is_v1(core.dialect) {
        return Some(frame.clone());
    }
    if !frame.unknown_members().is_empty() {
        return None;
    }
    let form = core.dialect;
    let (id, index) = tell(core, &chunk, None)?;
    built(form, &chunk, id, index)
}

fn chunk_of(dialect: Dialect, frame: &Frame) -> Option<Chunk<'_>> {
    match frame.view() {
        View::Notification { method: named, params: Some(params) } if named == method(dialect) => {
            Chunk::of_params(dialect, params)
        }
        _ => None,
    }
}

fn built(form: Dialect, chunk: &Chunk<'_>, id: Option<&str>, index: Option<u64>) -> Option<Frame> {
    let mut out = String::with_capacity(chunk.text.raw.len() + 160);
    out.push_str(Spelling::of(form).params_head());
    write(form, chunk, id, index, &mut out)?;
    Some(Frame::notification_text(method(form), &out))
}

/// Whether a chunk looks the same as in v1.
fn is_v1(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::V1 | Dialect::Go)
}

/// The foreign peer said it: remembers that. The canonical id of the session where it is another; `None` when the
/// session is not known.
fn hear<'c>(core: &'c mut Core, chunk: &Chunk<'_>) -> Option<Option<&'c str>> {
    let id = chunk.session.plain()?;
    let mapped = core.to_canonical.get(id).map(String::as_str);
    let state = core.sessions.get_mut(mapped.unwrap_or(id))?;
    match core.dialect {
        Dialect::Probe | Dialect::Delta => keep(state, chunk.text, core.options.reply_limit)?,
        _ => count(state, chunk),
    }
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

/// The foreign peer is going to be told: remembers that. `canonical` is the id of the session where it is not the
/// chunk's. Gives the foreign id where that is not the chunk's, and the number of the chunk where the form counts them.
fn tell<'c>(
    core: &'c mut Core,
    chunk: &Chunk<'_>,
    canonical: Option<&'c str>,
) -> Option<(Option<&'c str>, Option<u64>)> {
    if !names(core.dialect, chunk.kind) {
        return None;
    }
    let id = canonical.map_or_else(|| chunk.session.plain(), Some)?;
    let foreign = core.to_foreign.get(id).map(String::as_str).or(canonical);
    let state = core.sessions.get_mut(id).filter(|session| session.replay.is_none())?;
    match core.dialect {
        Dialect::Probe => {
            keep(state, chunk.text, core.options.reply_limit)?;
            let index = state.index;
            state.index += 1;
            Some((foreign, Some(index)))
        }
        Dialect::Delta => {
            keep(state, chunk.text, core.options.reply_limit)?;
            Some((foreign, None))
        }
        _ => {
            count(state, chunk);
            Some((foreign, None))
        }
    }
}

/// Writes a chunk from its session id to the end of its params.
fn write(
    form: Dialect,
    chunk: &Chunk<'_>,
    id: Option<&str>,
    index: Option<u64>,
    out: &mut impl Sink,
) -> Option<()> {
    let spelling = Spelling::of(form);
    match id {
        Some(id) => out.push_str(&serde_json::Value::from(id).to_string()),
        None => out.push_str(chunk.session.raw),
    }
    out.push_str(spelling.between(chunk.kind)?);
    out.push_str(chunk.text.raw);
    if let Some(index) = index {
        out.push_str(INDEX);
        out.push_str(&index.to_string());
    } else if let Some(index) = chunk.index {
        out.push_str("}},\"_meta\":{\"acp-dialect/probe\":{\"index\":");
        out.push_str(index);
    }
    out.push_str(spelling.params_tail());
    Some(())
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

/// Counts agent text of a turn.
fn count(state: &mut Session, chunk: &Chunk<'_>) {
    if let (ChunkKind::Agent, Some(turn)) = (chunk.kind, state.turn.as_mut()) {
        turn.streamed += chunk.text.text_len();
        turn.failed_tool = false;
    }
}

/// Keeps agent text for the answer that repeats it.
fn keep(state: &mut Session, text: Quoted<'_>, limit: usize) -> Option<()> {
    if state.turn.is_none() {
        return Some(());
    }
    match text.plain() {
        Some(text) => state.said(text, limit),
        None => {
            let text: String = serde_json::from_str(text.raw).ok()?;
            state.said(&text, limit);
        }
    }
    Some(())
}
