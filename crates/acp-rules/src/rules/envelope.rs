//! Framing and the JSON-RPC envelope.

use acp_proto::Side;
use acp_rpc::{Flaw, Frame, Id, Reply, View};

use crate::cx::Cx;
use crate::rule::Rule;
use crate::rules::{load, turns};
use crate::state::{Ask, Garbage, Open, Phase, State};

/// A byte order mark.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The longest message that is put together from lines.
const FRAGMENT: usize = 256 * 1024;

/// A line that is a message, whatever it says.
pub(crate) fn good(state: &mut State, cx: &mut Cx<'_>, frame: &Frame) {
    let side = cx.sender();
    for rule in [Rule::NotUtf8, Rule::SplitOverLines, Rule::Noise, Rule::ByteOrderMark, Rule::WrongVersion] {
        cx.saw(rule, side);
    }
    if state.is_v1() {
        cx.saw(Rule::Batch, side);
    }
    let fragment = &mut state.asked(side).fragment;
    if !fragment.is_empty() {
        fragment.clear();
    }
    for name in frame.unknown_members() {
        let message =
            format!("the message has the custom member \"{name}\" beside jsonrpc, id, method and params");
        cx.breach(Rule::EnvelopeField, side, message).at(format!("/{name}"));
    }
}

/// What a malformed frame says all the same, where that leaves no doubt. What a client tells in this way need not be
/// heeded, so it says nothing.
pub(crate) fn readable<'f>(side: Side, frame: &'f Frame, flaw: &Flaw) -> Option<View<'f>> {
    let clear = match flaw {
        Flaw::MissingVersion | Flaw::WrongVersion(_) | Flaw::LoneSurrogate { .. } => true,
        Flaw::BothResultAndError => [frame.result(), frame.error()].contains(&Some("null")),
        _ => false,
    };
    // an id that is cut within a character cannot be recognized in the answer
    let cut_id = frame.id().is_none() && frame.mended().is_some_and(|mended| mended.id().is_some());
    if !clear || cut_id {
        return None;
    }
    match (frame.method(), frame.id()) {
        (Some(method), Some(id)) => Some(View::Request { id, method, params: frame.params() }),
        (Some(method), None) if side == Side::Agent => {
            Some(View::Notification { method, params: frame.params() })
        }
        (Some(_), None) => None,
        (None, id) => {
            let error = frame.error().filter(|error| *error != "null").map(Reply::Error);
            let reply = error.or_else(|| frame.result().map(Reply::Result))?;
            Some(View::Response { id: id?, reply })
        }
    }
}

/// Whether a line begins with a byte order mark.
pub(crate) fn has_mark(frame: &Frame) -> bool {
    frame.raw().starts_with(MARK)
}

/// A byte order mark is no part of a message. Who is sent one may refuse the line.
pub(crate) fn mark(state: &mut State, cx: &mut Cx<'_>) {
    let side = cx.sender();
    state.asked(side).had_garbage = true;
    cx.breach(Rule::ByteOrderMark, side, "the line begins with a byte order mark");
}

/// A line that is no message.
pub(crate) fn malformed(state: &mut State, cx: &mut Cx<'_>, frame: &Frame, flaw: &Flaw) {
    let side = cx.sender();
    let mark = cx.mark();
    if let Flaw::Oversized { len } = flaw {
        // the limit is ours: what the line says is unknown, and so is what it answered
        state.blind = true;
        state.asked(side).had_garbage = true;
        cx.breach(
            Rule::Noise,
            side,
            format!("a line of {len} bytes is over the limit of this judge and was not read"),
        )
        .warn();
        return;
    }
    let says = readable(side, frame, flaw);
    if says.is_some() {
        state.asked(side).fragment.clear();
    } else if goes_on(state, cx, frame, flaw) {
        return;
    }
    let settled = says.is_none() && settle(state, cx, frame);
    if matches!(flaw, Flaw::Blank) || settled || is_answer(frame) {
        // an empty line and a bad answer may be answered, but need not be
        state.asked(side).had_garbage = true;
    } else {
        state.asked(side).bad_line(mark, Garbage::of(flaw));
    }
    let text = flaw.to_string();
    match flaw {
        Flaw::NotUtf8 { .. } | Flaw::LoneSurrogate { .. } => {
            cx.breach(Rule::NotUtf8, side, format!("the line is {text}"));
        }
        Flaw::EmptyBatch | Flaw::BatchTooLong { .. } => {
            state.asked(side).had_batch = true;
            cx.breach(Rule::Batch, side, text);
        }
        Flaw::MissingVersion | Flaw::WrongVersion(_) => {
            cx.breach(Rule::WrongVersion, side, text).at("/jsonrpc");
        }
        Flaw::BothResultAndError | Flaw::NeitherResultNorError | Flaw::BadErrorType | Flaw::MissingId => {
            cx.breach(Rule::BadResponse, side, text);
        }
        Flaw::BadIdType => {
            cx.breach(Rule::BadIdType, side, text).at("/id");
        }
        Flaw::Blank => {
            let claim = if side == Side::Agent { "TRN-06/blank" } else { "C-TRN-03/blank" };
            cx.breach(Rule::Noise, side, "an empty line").names(claim);
        }
        Flaw::NotJson { .. } => {
            cx.breach(Rule::Noise, side, format!("the line is {text}"));
        }
        _ => {
            cx.breach(Rule::Noise, side, format!("the line is no JSON-RPC message: {text}"));
        }
    }
}

/// A JSON value that is not over at the end of its line: the next lines may complete it.
fn goes_on(state: &mut State, cx: &mut Cx<'_>, frame: &Frame, flaw: &Flaw) -> bool {
    let side = cx.sender();
    let fragment = &mut state.asked(side).fragment;
    let Some(text) = frame.text() else {
        fragment.clear();
        return false;
    };
    if !fragment.is_empty() {
        if fragment.len() + text.len() > FRAGMENT {
            fragment.clear();
            return true;
        }
        fragment.push('\n');
        fragment.push_str(text);
        if !is_unfinished(fragment) {
            fragment.clear();
        }
        return true;
    }
    if matches!(flaw, Flaw::NotJson { .. }) && text.len() < FRAGMENT && is_unfinished(text) {
        fragment.push_str(text);
        let mark = cx.mark();
        state.asked(side).bad_line(mark, Garbage::of(flaw));
        cx.breach(
            Rule::SplitOverLines,
            side,
            "the line ends inside a JSON value: the message goes on over several lines",
        );
        return true;
    }
    false
}

/// Whether the text is the beginning of an object or array.
fn is_unfinished(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

fn is_answer(frame: &Frame) -> bool {
    frame.method().is_none() && (frame.result().is_some() || frame.error().is_some())
}

/// What a malformed frame still says about requests: one that has an id may be answered, and one that carries an
/// answer has answered, however badly. Gives whether it was an answer.
fn settle(state: &mut State, cx: &mut Cx<'_>, frame: &Frame) -> bool {
    let side = cx.sender();
    let mark = cx.mark();
    let Some(id) = frame.id().filter(|id| **id != Id::Null) else { return false };
    if let Some(method) = frame.method() {
        state.asked(side).ask(id.clone(), Open::lenient(method, mark));
    } else if let Some(open) = state.asked(side.other()).answer(id) {
        turns::forget(state, &open, id);
        return true;
    } else {
        // an id alone: the other side may answer it
        state.asked(side).ask(id.clone(), Open::lenient("", mark));
    }
    false
}

/// A broken request was refused: it is as if it had never been sent.
pub(crate) fn undone(state: &mut State, open: &Open, id: &Id) {
    turns::forget(state, open, id);
    if matches!(open.ask, Ask::Initialize { second: false, .. }) && state.phase == Phase::Asked {
        state.phase = Phase::Fresh;
    }
    let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) else { return };
    match open.ask {
        Ask::Load { .. } | Ask::Resume { .. } => load::refused(session, open),
        Ask::Close => {
            for turn in session.turns.iter_mut().filter(|turn| turn.closing == Some(open.mark)) {
                turn.closing = None;
            }
        }
        _ => {}
    }
}

/// An array of messages.
pub(crate) fn batch(state: &mut State, cx: &mut Cx<'_>, frames: &[Frame]) {
    let side = cx.sender();
    let mark = cx.mark();
    state.asked(side).bad_line(mark, Garbage::Batch);
    state.asked(side).had_batch = true;
    if side == Side::Client {
        cx.saw_id("RPC-12");
    }
    if state.is_v1() {
        cx.breach(Rule::Batch, side, format!("a batch of {} messages", frames.len()));
    }
    // the whole may be refused with one error, so no element is owed an answer
    for frame in frames {
        match frame.view() {
            View::Request { id, .. } => {
                let open = Open::lenient(frame.method().unwrap_or_default(), mark);
                state.asked(side).ask(id.clone(), open);
            }
            View::Response { id, .. } => {
                if let Some(open) = state.asked(side.other()).answer(id) {
                    turns::forget(state, &open, id);
                }
            }
            _ => {}
        }
    }
}
