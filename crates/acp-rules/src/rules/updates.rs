//! session/update: which session, which turn, which kind.

use acp_proto::{Side, method, update};
use acp_rpc::Direction;

use crate::cx::Cx;
use crate::json::Json;
use crate::rule::Rule;
use crate::rules::schema::Verdict;
use crate::rules::{config, content, extension, handshake, modes, plans, tools};
use crate::said::{Voice, squeezed};
use crate::session::{Session, Stage};
use crate::state::{State, since};

/// Text of this length is not said twice by chance.
const LONG: usize = 16;

/// A plain chunk of text in the middle of a turn, without reading the whole frame. Gives whether it was one.
#[inline]
pub(crate) fn fast(state: &mut State, cx: &mut Cx<'_>, params: &str) -> bool {
    if !state.chunk_seen[0] || !state.fast || !state.is_v1() || cx.dir != Direction::AgentToClient {
        return false;
    }
    let Some(chunk) = crate::fast::chunk(params) else { return false };
    if chunk.message.is_some() && !state.chunk_seen[1] {
        return false;
    }
    let Some(session) = state.session(chunk.session) else { return false };
    let Some(turn) = session.turns.first_mut().filter(|_| session.stage == Stage::Live) else { return false };
    let number = turn.number;
    turn.output = true;
    if turn.cancel.is_some() || turn.closing.is_some() {
        turn.after_cancel += 1;
    }
    if chunk.voice == Voice::Agent && !session.live.cut {
        if chunk.escaped {
            session.live.add(chunk.voice, number, &crate::json::decode_inner(chunk.text));
        } else {
            session.live.add(chunk.voice, number, chunk.text);
        }
    }
    if let Some(id) = chunk.message {
        message_id(session, cx, id, chunk.voice);
    }
    true
}

/// An update for a session that exists. This runs on every chunk.
pub(crate) fn update(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>, verdict: Verdict) {
    if handshake::gate(state, cx, method::SESSION_UPDATE) {
        return;
    }
    cx.saw(Rule::UnknownMethod, Side::Agent);
    extension::meta(cx, params, "/params");
    let Some(update) = params.get("update") else { return };
    let Some(kind) = update.get_str("sessionUpdate") else { return };
    let Some(id) = params.get_str("sessionId") else { return };
    let Some(place) = state.session_place(&id) else {
        unknown(state, cx, &id);
        return;
    };
    let client = state.client;
    let session = &mut state.sessions_mut()[place];
    let voice = match &*kind {
        update::AGENT_MESSAGE_CHUNK => Some(Voice::Agent),
        update::AGENT_THOUGHT_CHUNK => Some(Voice::Thought),
        update::USER_MESSAGE_CHUNK => Some(Voice::User),
        _ => None,
    };
    let is_output =
        voice.is_some() || matches!(&*kind, update::TOOL_CALL | update::TOOL_CALL_UPDATE | update::PLAN);
    if is_output && timing(session, cx, &kind, update, voice) {
        return;
    }
    if let Some(voice) = voice {
        let has_id = chunk(session, cx, update, voice, verdict);
        if verdict == Verdict::Good {
            state.chunk_seen[0] = true;
            state.chunk_seen[1] |= has_id;
        }
        return;
    }
    if verdict == Verdict::Bad && !matches!(&*kind, update::TOOL_CALL | update::TOOL_CALL_UPDATE) {
        return;
    }
    match &*kind {
        update::TOOL_CALL => tools::create(state, cx, place, update),
        update::TOOL_CALL_UPDATE => tools::update(state, cx, place, update),
        update::PLAN => plans::update(session, cx, update),
        update::CURRENT_MODE_UPDATE => modes::update(session, cx, update),
        update::CONFIG_OPTION_UPDATE => config::update(session, cx, update, client.boolean_options),
        update::AVAILABLE_COMMANDS_UPDATE => plans::commands(session, cx, update),
        update::SESSION_INFO_UPDATE => content::info(cx, update),
        update::USAGE_UPDATE => content::usage(cx, update),
        update::NOTICE => {
            cx.saw(Rule::NoticeUnasked, Side::Agent);
            if !client.notices {
                let message = "a notice is sent, but the client did not advertise session.notices";
                cx.breach(Rule::NoticeUnasked, Side::Agent, message).also(&["INIT-08"]).at("/params/update");
            }
            if session.stage == Stage::Loading {
                cx.breach(
                    Rule::NoticeReplayed,
                    Side::Agent,
                    "a notice is part of the replay of session/load",
                )
                .at("/params/update");
            }
        }
        update::COMPACTION_UPDATE | update::COMPACTION_SUMMARY_CHUNK => {
            // what was compacted need not be replayed
            session.live.cut = true;
            cx.saw(Rule::CompactionUnasked, Side::Agent);
            if !client.compaction {
                let message =
                    "a compaction update is sent, but the client did not advertise session.compaction";
                cx.breach(Rule::CompactionUnasked, Side::Agent, message)
                    .also(&["INIT-08"])
                    .at("/params/update");
            }
            plans::compaction(session, cx, update);
        }
        _ => {}
    }
}

fn unknown(state: &State, cx: &mut Cx<'_>, id: &str) {
    // the client named it, and the agent should have refused: that is told where it is answered
    if state.sessions_forgotten || state.is_named_by_client(id) {
        return;
    }
    // an agent may tell about a session before the answer to session/new arrives, but not before it is asked
    let mut being_created = false;
    for open in state.asked[Side::Client as usize].open.values() {
        // a session that is loaded or resumed has its name already
        being_created |= matches!(&*open.method, method::SESSION_NEW | method::SESSION_FORK);
    }
    let message = match being_created {
        true => format!("an update for session {id:?} comes before the answer that creates it"),
        false => format!("an update for session {id:?}, which does not exist on this connection"),
    };
    let breach = cx.breach(Rule::SessionUnknown, Side::Agent, message).at("/params/sessionId");
    if being_created {
        breach.names("PT-04/early");
    } else if state.listed.contains(id) {
        // the agent told about it before
        breach.warn();
    }
}

/// Output has its time: during a turn or a replay. Gives whether nothing more is to be said.
fn timing(
    session: &mut Session,
    cx: &mut Cx<'_>,
    kind: &str,
    update: Json<'_>,
    voice: Option<Voice>,
) -> bool {
    let side = Side::Agent;
    match session.stage {
        Stage::Loading => {
            replay(session, cx, kind, update, voice);
            return voice.is_some();
        }
        Stage::Resuming if session.turns.is_empty() => {
            let message =
                format!("session/resume is not answered yet, and {kind} is sent: history is replayed");
            cx.breach(Rule::ResumeReplays, side, message).at("/params/update/sessionUpdate");
            return true;
        }
        Stage::Closed => {
            let message = format!("{kind} is sent in a session that was closed");
            cx.breach(Rule::UpdateAfterClose, side, message).at("/params/update/sessionUpdate");
            return true;
        }
        Stage::Live | Stage::Resuming => {}
    }
    if session.deleted && session.turns.is_empty() {
        let message = format!("{kind} is sent in a session that was deleted");
        cx.breach(Rule::SessionUnknown, side, message).at("/params/sessionId").warn();
        return true;
    }
    if let Some(turn) = session.turns.first_mut() {
        turn.output = true;
        if turn.cancel.is_some() || turn.closing.is_some() {
            turn.after_cancel += 1;
        }
        return false;
    }
    late(session, cx, kind, update, voice);
    false
}

/// Output although no turn runs.
fn late(session: &mut Session, cx: &mut Cx<'_>, kind: &str, update: Json<'_>, voice: Option<Voice>) {
    let side = Side::Agent;
    let Some(ended) = session.ended else {
        unasked(session, cx, kind, update, voice);
        return;
    };
    let soon = since(ended.mark, cx.at).as_secs() < 5;
    if ended.cancelled && soon {
        let message = format!("{kind} is sent after the cancelled turn was answered");
        cx.breach(Rule::UpdateAfterCancelled, side, message)
            .at("/params/update/sessionUpdate")
            .with(ended.mark);
        return;
    }
    let message = format!("{kind} is sent after the turn was answered, and no turn runs");
    // what is pending is flushed before the answer to a request that was cancelled
    let also: &'static [&'static str] = if ended.taken_back && soon { &["CAN-11"] } else { &[] };
    let at = "/params/update/sessionUpdate";
    cx.breach(Rule::UpdateAfterTurn, side, message).also(also).at(at).with(ended.mark);
}

/// Output in a session that had no turn since it was created, loaded or resumed.
fn unasked(session: &mut Session, cx: &mut Cx<'_>, kind: &str, update: Json<'_>, voice: Option<Voice>) {
    let side = Side::Agent;
    let at = "/params/update/sessionUpdate";
    let is_history = (session.loaded || session.resumed) && is_history(session, kind, update, voice);
    session.late_history |= is_history;
    let mark = session.mark;
    if session.loaded {
        let message = format!("{kind} is sent after session/load was answered, and no turn runs");
        let breach = cx.breach(Rule::ReplayAfterLoad, side, message).at(at).with(mark);
        if is_history {
            // nothing is left out then: it is late
            session.lacks = None;
        } else {
            breach.names("SES-04/new");
        }
    } else if is_history {
        let message = format!("{kind} is sent after session/resume was answered: history is replayed");
        cx.breach(Rule::ResumeReplays, side, message).names("SES-09/late").at(at).with(mark);
    } else if session.turn_count == 0 {
        let message = format!("{kind} is sent, but no prompt was");
        cx.breach(Rule::OutputUnasked, side, message).at(at).with(mark);
    }
}

/// Whether output outside of a turn is what was said before: the user's words always are, other output where it was live
/// on this connection and is not replayed yet, or where it follows such words.
fn is_history(session: &Session, kind: &str, update: Json<'_>, voice: Option<Voice>) -> bool {
    match voice {
        Some(Voice::User) => true,
        _ if session.late_history => true,
        Some(Voice::Agent) => {
            let text = update.get("content").and_then(|content| content.get_str("text"));
            let text = squeezed(text.as_deref().unwrap_or_default());
            let replayed = session.replay.joined(Voice::Agent).contains(&text);
            match replayed {
                // a short word may be said again
                true => text.len() >= LONG,
                false => !text.is_empty() && session.live.joined(Voice::Agent).contains(&text),
            }
        }
        Some(Voice::Thought) => false,
        None if kind == update::PLAN => false,
        None => update.get_str("toolCallId").is_some_and(|id| session.tools.contains_key(&*id)),
    }
}

/// A part of the replay of session/load.
fn replay(session: &mut Session, cx: &mut Cx<'_>, kind: &str, update: Json<'_>, voice: Option<Voice>) {
    let Some(voice) = voice else {
        if kind == update::TOOL_CALL
            && let Some(id) = update.get_str("toolCallId")
        {
            session.replay.tool(0, &id);
            if let Some(tool) = session.tools.get_mut(&*id) {
                tool.replayed = true;
            }
        }
        session.replayed_message = None;
        return;
    };
    if let Some(text) = update.get("content").and_then(|content| content.get_str("text")) {
        session.replay.add(voice, 0, &text);
    }
    let Some(id) = update.some("messageId").and_then(Json::str) else { return };
    cx.saw(Rule::ReplayMessageId, Side::Agent);
    let current =
        session.replayed_message.as_ref().is_some_and(|(last, other)| **last == *id && *other == voice);
    if current {
        return;
    }
    if let Some((other, _)) = session.messages.get(&*id) {
        let message = match *other == voice {
            true => format!("the messageId {id:?} comes back for another message of the replay"),
            false => format!("the messageId {id:?} is used for two kinds of messages in the replay"),
        };
        let breach = cx.breach(Rule::ReplayMessageId, Side::Agent, message).at("/params/update/messageId");
        if *other == voice {
            // chunks of one message may be interrupted by something else
            breach.warn();
        } else if *other != Voice::User && voice != Voice::User {
            // a thought may be taken for a part of the message that it leads to
            breach.names("SES-05/thought");
        }
    }
    session.add_message(&id, voice);
    session.replayed_message = Some(((*id).into(), voice));
}

/// A piece of a message. Gives whether it has a message id.
fn chunk(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>, voice: Voice, verdict: Verdict) -> bool {
    if verdict == Verdict::Bad {
        return false;
    }
    if let Some(content) = update.get("content") {
        match content.get("text") {
            Some(text) if content.get("type").is_some_and(|kind| kind.is("text")) => {
                if voice == Voice::Agent
                    && !session.live.cut
                    && let Some(number) = session.turns.first().map(|turn| turn.number)
                    && let Some(text) = text.str()
                {
                    session.live.add(voice, number, &text);
                }
            }
            _ => content::block(cx, content, "/params/update/content"),
        }
    }
    let Some(id) = update.some("messageId").and_then(Json::str) else { return false };
    cx.saw(Rule::MessageIdMixed, Side::Agent);
    message_id(session, cx, &id, voice);
    true
}

/// One message id is one message.
#[inline]
fn message_id(session: &mut Session, cx: &mut Cx<'_>, id: &str, voice: Voice) {
    if session.last_message.as_ref().is_some_and(|(last, other)| **last == *id && *other == voice) {
        return;
    }
    let known = session.messages.get(id).copied();
    if let Some((other, turn)) = known {
        let later = turn != session.turn_number();
        if other != voice || later {
            let message = match later {
                true => format!("the messageId {id:?} was used in an earlier turn"),
                false => format!("the messageId {id:?} is used for two kinds of messages"),
            };
            cx.breach(Rule::MessageIdMixed, Side::Agent, message).at("/params/update/messageId");
        }
    }
    session.add_message(id, voice);
}
