//! The short way for streamed text, which is most of what goes over a wire: no tree is built, and the text itself is
//! copied as it was written.

#[cfg(test)]
mod tests;

use acp_rpc::{Frame, View};

use crate::chunk::{self, Chunk, ChunkForm, ChunkKind, INDEX, Quoted};
use crate::core::Core;
use crate::session::Session;

/// Translates a line of the peer at `source`, without its newline, that is a plain chunk in its usual spelling, into a
/// line for the peer at `target`, with a newline. `None`: nothing was done, the line wants the long way.
pub(crate) fn translate(source: &mut Core, target: &mut Core, line: &str, out: &mut Vec<u8>) -> Option<()> {
    let (from, to) = (source.form().chunks(), target.form().chunks());
    let chunk = Chunk::of_line(from, line)?;
    if from.canonical && to.canonical {
        out.push_str(line.trim_end());
        out.push_str("\n");
        return Some(());
    }
    let canonical = if from.canonical {
        None
    } else {
        // Two steps in one, and the first must not be done without the second.
        let id = source.canonical_id(chunk.session.plain()?);
        if !to.canonical && (chunk.index.is_some() || !takes(target, &chunk, id)) {
            return None;
        }
        hear(source, &chunk)?
    };
    let (id, index) = if to.canonical { (canonical, None) } else { tell(target, &chunk, canonical)? };
    out.reserve(line.len() + 160);
    out.push_str(to.head);
    write(from, to, &chunk, id, index, out)?;
    out.push_str("}\n");
    Some(())
}

/// Translates a plain text chunk of the foreign peer; `None` sends the frame the long way.
pub(crate) fn decode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let form = core.form().chunks();
    let chunk = chunk_of(form, frame)?;
    if form.canonical {
        return Some(frame.clone());
    }
    if !frame.unknown_members().is_empty() {
        return None;
    }
    let canonical = hear(core, &chunk)?;
    built(form, &chunk::V1, &chunk, canonical, None)
}

/// Translates a plain v1 text chunk; `None` sends the frame the long way.
pub(crate) fn encode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let form = core.form().chunks();
    let chunk = chunk_of(&chunk::V1, frame)?;
    if form.canonical {
        return Some(frame.clone());
    }
    if !frame.unknown_members().is_empty() {
        return None;
    }
    let (id, index) = tell(core, &chunk, None)?;
    built(&chunk::V1, form, &chunk, id, index)
}

fn chunk_of<'f>(form: &ChunkForm, frame: &'f Frame) -> Option<Chunk<'f>> {
    match frame.view() {
        View::Notification { method, params: Some(params) } if method == form.method => {
            Chunk::of_params(form, params)
        }
        _ => None,
    }
}

fn built(
    from: &ChunkForm,
    form: &ChunkForm,
    chunk: &Chunk<'_>,
    id: Option<&str>,
    index: Option<u64>,
) -> Option<Frame> {
    let mut out = String::with_capacity(chunk.text.raw.len() + 160);
    out.push_str(form.params_head());
    write(from, form, chunk, id, index, &mut out)?;
    Some(Frame::notification_text(form.method, &out))
}

/// The foreign peer said it: remembers that. The canonical id of the session where it is another; `None` when the
/// session is not known.
fn hear<'c>(core: &'c mut Core, chunk: &Chunk<'_>) -> Option<Option<&'c str>> {
    let form = core.form().chunks();
    let id = chunk.session.plain()?;
    let mapped = core.to_canonical.get(id).map(String::as_str);
    let state = core.sessions.get_mut(mapped.unwrap_or(id))?;
    remember(form, state, chunk, core.options.reply_limit)?;
    Some(mapped)
}

/// Whether the foreign form has a word for it, and nothing else is to be done with it.
fn takes(core: &Core, chunk: &Chunk<'_>, canonical: &str) -> bool {
    core.form().chunks().sent.contains(&chunk.kind)
        && core.sessions.get(canonical).is_some_and(|session| session.replay.is_none())
}

/// The foreign peer is going to be told: remembers that. `canonical` is the id of the session where it is not the
/// chunk's. Gives the foreign id where that is not the chunk's, and the number of the chunk where the form counts them.
fn tell<'c>(
    core: &'c mut Core,
    chunk: &Chunk<'_>,
    canonical: Option<&'c str>,
) -> Option<(Option<&'c str>, Option<u64>)> {
    let form = core.form().chunks();
    if !form.sent.contains(&chunk.kind) {
        return None;
    }
    let id = canonical.map_or_else(|| chunk.session.plain(), Some)?;
    let foreign = core.to_foreign.get(id).map(String::as_str).or(canonical);
    let state = core.sessions.get_mut(id).filter(|session| session.replay.is_none())?;
    remember(form, state, chunk, core.options.reply_limit)?;
    if form.counted.is_none() {
        return Some((foreign, None));
    }
    let index = state.index;
    state.index += 1;
    Some((foreign, Some(index)))
}

/// Counts agent text of a turn, and keeps it for an answer that repeats it.
fn remember(form: &ChunkForm, state: &mut Session, chunk: &Chunk<'_>, limit: usize) -> Option<()> {
    if form.repeated {
        return keep(state, chunk.text, limit);
    }
    count(state, chunk);
    Some(())
}

/// Writes a chunk of `from` as one of `form`, from its session id to the end of its params.
fn write(
    from: &ChunkForm,
    form: &ChunkForm,
    chunk: &Chunk<'_>,
    id: Option<&str>,
    index: Option<u64>,
    out: &mut impl Sink,
) -> Option<()> {
    match id {
        Some(id) => out.push_str(&serde_json::Value::from(id).to_string()),
        None => out.push_str(chunk.session.raw),
    }
    out.push_str(form.between(chunk.kind)?);
    out.push_str(chunk.text.raw);
    if let Some(index) = index {
        out.push_str(INDEX);
        out.push_str(&index.to_string());
    } else if let Some(index) = chunk.index {
        out.push_str(from.counted?);
        out.push_str(index);
    }
    out.push_str(form.params_tail());
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
