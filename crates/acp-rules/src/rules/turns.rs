//! Prompts, their end, and cancellation.

use std::time::Duration;

use acp_proto::{Side, error_code, method, stop_reason};
use acp_rpc::Id;

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use crate::rule::Rule;
use crate::rules::{content, load, plans, tools};
use crate::session::{Ended, Permission, Session, Stage, Turn};
use crate::state::{Ask, Content, Open, State, since};

/// An answer sooner than this after a cancel may have crossed it on the way.
const RACE: Duration = Duration::from_secs(1);
/// An answer sooner than this may still be that of a slow agent.
const DOUBT: Duration = Duration::from_secs(2);

/// session/prompt
pub(crate) fn prompt(state: &mut State, cx: &mut Cx<'_>, id: &Id, params: Json<'_>) -> Ask {
    let content = content::prompt(state, cx, params);
    let queues = state.agent.queues;
    let mark = cx.mark();
    let mut ask = Ask::Prompt {
        content,
        command: false,
        busy: false,
        after_cancel: false,
        loaded: false,
        closed: false,
    };
    let Some(session) = params.get_str("sessionId").and_then(|id| state.session(&id)) else { return ask };
    cx.saw(Rule::SessionUnknown, Side::Client);
    cx.saw(Rule::PromptsAtOnce, Side::Client);
    load::settle(session, cx);
    if let Some(running) = session.turns.first().map(|turn| turn.mark)
        && !queues
    {
        let message = "a prompt is sent while the turn before is not answered";
        cx.breach(Rule::PromptsAtOnce, Side::Client, message).with(running);
    }
    let first =
        params.get("prompt").into_iter().flat_map(Json::items).next().and_then(|block| block.get_str("text"));
    let command = first
        .as_deref()
        .and_then(|text| text.strip_prefix('/'))
        .and_then(|text| text.split_whitespace().next());
    let blocks = params.get("prompt").into_iter().flat_map(Json::items);
    let said = blocks.filter_map(|block| block.get_str("text")).map(std::borrow::Cow::into_owned).collect();
    ask = Ask::Prompt {
        content,
        command: command.is_some_and(|name| session.commands.iter().any(|known| **known == *name)),
        busy: !queues && !session.turns.is_empty(),
        after_cancel: session.ended.is_some_and(|ended| ended.cancelled) && session.turns.is_empty(),
        loaded: session.loaded,
        closed: session.stage == Stage::Closed,
    };
    begin(session, id, mark, said);
    ask
}

fn begin(session: &mut Session, id: &Id, mark: crate::cx::Mark, said: Vec<String>) {
    session.turn_count += 1;
    let overlaps = !session.turns.is_empty();
    session.turns.iter_mut().for_each(|turn| turn.overlaps |= overlaps);
    if session.turns.len() < 64 {
        session.turns.push(Turn {
            id: id.clone(),
            number: session.turn_count,
            mark,
            said,
            overlaps,
            cancel: None,
            cancel_with_permission: false,
            after_cancel: 0,
            closing: None,
            output: false,
            declined: false,
            worked: None,
        });
    }
}

/// A prompt with bad params may start a turn all the same.
pub(crate) fn bad_prompt(state: &mut State, cx: &mut Cx<'_>, open: &Open, id: &Id) {
    let mark = cx.mark();
    if &*open.method == method::SESSION_PROMPT
        && let Some(session) = open.session.as_deref().and_then(|id| state.session(id))
    {
        begin(session, id, mark, Vec::new());
    }
}

/// Whatever a turn was, it is over, and nothing is said about it.
pub(crate) fn forget(state: &mut State, open: &Open, id: &Id) {
    let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) else { return };
    session.turns.retain(|turn| turn.id != *id);
    if let Ask::Permission { tool: Some(tool), .. } = &open.ask
        && let Some(tool) = session.tools.get_mut(tool)
    {
        tool.permission = Permission::Unasked;
    }
}

/// session/cancel
pub(crate) fn cancel(state: &mut State, cx: &mut Cx<'_>, params: Option<Json<'_>>) {
    let Some(name) = params.and_then(|params| params.get_str("sessionId")) else { return };
    let mark = cx.mark();
    let pending = pending_permissions(state, &name);
    state.last_cancel = Some(((*name).into(), mark));
    let Some(session) = state.session(&name) else {
        if !state.sessions_forgotten {
            let message =
                format!("session/cancel is for session {name:?}, which does not exist on this connection");
            cx.breach(Rule::SessionUnknown, Side::Client, message).at("/params/sessionId").warn();
        }
        return;
    };
    if session.turns.is_empty() {
        cx.saw_id("CAN-05");
    }
    // what an agent makes of prompts that wait behind the running turn is its own choice
    if let Some(turn) = session.turns.first_mut() {
        turn.cancel.get_or_insert(mark);
        turn.cancel_with_permission |= pending;
    }
}

/// Marks the session's open permissions as cancelled; gives whether there are any.
fn pending_permissions(state: &mut State, name: &str) -> bool {
    let mut pending = false;
    for open in state.asked(Side::Agent).open.values_mut() {
        if open.session.as_deref() == Some(name)
            && let Ask::Permission { cancelled, .. } = &mut open.ask
        {
            *cancelled = true;
            pending = true;
        }
    }
    pending
}

/// $/cancel_request of either side
pub(crate) fn cancel_request(state: &mut State, cx: &mut Cx<'_>, params: Option<Json<'_>>) {
    let side = cx.sender();
    let Some(id) = params.and_then(|params| params.get("requestId")).and_then(|id| Id::parse(id.raw()))
    else {
        return;
    };
    let asked = state.asked(side);
    let known = asked.was_answered(&id) || asked.forgotten;
    if let Some(open) = asked.open.get_mut(&id) {
        open.cancelled = true;
        if side == Side::Agent {
            cx.saw(Rule::CancelForeign, side);
            cx.saw_id("CAN-11");
        }
    } else if side == Side::Client {
        cx.saw_id("CAN-10");
    } else if !known {
        let message = format!("$/cancel_request names the request {id}, which the agent never made");
        cx.breach(Rule::CancelForeign, side, message).at("/params/requestId");
    }
}

/// The answer to a request that `$/cancel_request` named.
pub(crate) fn request_cancelled(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = cx.sender();
    cx.saw(Rule::RequestCancelled, side);
    if side == Side::Agent {
        cx.saw_id("CAN-11");
    }
    let Answer::Bad(code) = answer else { return };
    let known = open.session.as_deref().is_some_and(|id| state.session(id).is_some());
    // a prompt may be refused for other reasons too
    let of_its_own = matches!(
        code,
        Some(
            error_code::INVALID_REQUEST
                | error_code::METHOD_NOT_FOUND
                | error_code::INVALID_PARAMS
                | error_code::AUTH_REQUIRED
                | error_code::RESOURCE_NOT_FOUND
        )
    );
    if side == Side::Client || &*open.method != method::SESSION_PROMPT || !known || of_its_own {
        return;
    }
    cx.saw(Rule::CancelledRequestCode, side);
    if code != Some(error_code::REQUEST_CANCELLED) {
        let code = code.map_or("without a code".to_owned(), |code| code.to_string());
        let message = format!("the prompt was cancelled by $/cancel_request, and answered with error {code}");
        cx.breach(Rule::CancelledRequestCode, side, message).at("/error/code").with(open.mark);
    }
}

/// The answer to session/prompt.
pub(crate) fn ended(state: &mut State, cx: &mut Cx<'_>, id: &Id, open: &Open, answer: Answer<'_>) {
    let Ask::Prompt { content, command, busy, after_cancel, loaded, closed } = open.ask else { return };
    let last_cancel = state.last_cancel.clone();
    let caps = state.client;
    let left = state.client_left;
    let Some(name) = open.session.clone() else { return };
    let Some(session) = state.session(&name) else { return };
    let Some(place) = session.turns.iter().position(|turn| turn.id == *id) else { return };
    let mut turn = session.turns.remove(place);
    let stop = match answer {
        Answer::Good(result) => result.get_str("stopReason").map(std::borrow::Cow::into_owned),
        Answer::Bad(_) => None,
    };
    let stop = stop.as_deref();
    let cancelled = stop == Some(stop_reason::CANCELLED) || turn.cancel.is_some();
    // a turn that had ended before the cancel arrived is an ordinary one
    let took_cancel = stop == Some(stop_reason::CANCELLED)
        || turn.cancel.is_some_and(|cancel| since(cancel, cx.at) >= RACE);
    session.ended = Some(Ended { mark: cx.mark(), cancelled: took_cancel, taken_back: open.cancelled });
    remember(session, &mut turn, stop, cancelled);
    if closed {
        closed_answers(cx, open, answer);
        return;
    }
    // a prompt during a turn may be refused
    if !busy {
        refused(cx, open, answer, content, command, &turn);
    }
    if busy && !answer.is_good() {
        // refused because a turn ran, cancelled or not
    } else if let Some(cancel) = turn.cancel {
        after(cx, open, answer, stop, &turn, cancel);
    } else if stop == Some(stop_reason::CANCELLED) {
        spread(cx, &name, &turn, last_cancel);
    } else if last_cancel.is_some_and(|(other, mark)| *other != *name && mark.index > turn.mark.index) {
        cx.saw(Rule::CancelSpreads, Side::Agent);
    }
    if let Some(closing) = turn.closing {
        closing_turn(cx, open, stop, closing);
    }
    if answer.is_good() && turn.declined {
        cx.saw_id("ELI-12");
    }
    if after_cancel {
        answered_after_cancel(cx, open, answer, &turn);
    }
    if loaded && !busy {
        answered_after_load(cx, open, answer);
    }
    if answer.is_good() {
        cx.saw(Rule::UpdateAfterTurn, Side::Agent);
        if cancelled {
            cx.saw(Rule::UpdateAfterCancelled, Side::Agent);
        }
    }
    if stop == Some(stop_reason::END_TURN) && !command {
        cx.saw(Rule::NoOutput, Side::Agent);
        if !turn.output && !turn.overlaps && turn.cancel.is_none() && !left {
            let message = "the turn ended with end_turn, but not a single update was sent";
            cx.breach(Rule::NoOutput, Side::Agent, message).with(open.mark);
        }
    }
    // a client that asks for something else while a permission is open may have the turn broken off
    if !cancelled && !open.cancelled && !left && !turn.overlaps {
        permission_left_open(session, cx, open, turn.number);
    }
    tools::turn_ended(session, cx, &turn, cancelled || left || stop.is_none(), caps);
    plans::turn_ended(session, cx, turn.number, stop);
}

/// The answer to the prompt that follows a cancelled turn.
fn answered_after_cancel(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>, turn: &Turn) {
    cx.saw(Rule::NoPromptAfterCancel, Side::Agent);
    if !answer.is_good() && turn.cancel.is_none() {
        let message = "the prompt after a cancelled turn was answered with an error";
        cx.breach(Rule::NoPromptAfterCancel, Side::Agent, message).with(open.mark);
    }
}

/// The answer to a prompt in a session that was loaded.
fn answered_after_load(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    cx.saw(Rule::LoadedSessionRefuses, Side::Agent);
    if matches!(
        answer.code(),
        Some(error_code::METHOD_NOT_FOUND | error_code::INVALID_PARAMS | error_code::RESOURCE_NOT_FOUND)
    ) {
        let message = "a prompt in a loaded session was refused";
        cx.breach(Rule::LoadedSessionRefuses, Side::Agent, message).with(open.mark);
    }
}

/// Keeps what was said for a later replay. Agents may forget turns that were cancelled or refused, and commands may change
/// the history itself.
fn remember(session: &mut Session, turn: &mut Turn, stop: Option<&str>, cancelled: bool) {
    let said = std::mem::take(&mut turn.said);
    let is_command = said.first().is_some_and(|text| text.trim_start().starts_with('/'));
    let is_history = matches!(
        stop,
        Some(stop_reason::END_TURN | stop_reason::MAX_TOKENS | stop_reason::MAX_TURN_REQUESTS)
    ) && !cancelled;
    session.live.cut |= is_command || turn.overlaps;
    if is_history {
        session.live.prompted(turn.number, said);
    } else {
        session.live.drop_turn(turn.number);
        session.whole = false;
    }
}

/// An agent that ends its turn without the outcome of its own question did not wait for it.
fn permission_left_open(session: &Session, cx: &mut Cx<'_>, open: &Open, turn: u64) {
    let mut waiting: Vec<&str> = session
        .turn_tools
        .iter()
        .filter(|id| {
            let tool = session.tools.get(*id);
            tool.is_some_and(|tool| tool.turn == turn && tool.permission == Permission::Pending)
        })
        .map(AsRef::as_ref)
        .collect();
    waiting.sort_unstable();
    for id in waiting {
        let message =
            format!("the turn ended while the permission for the tool call {id:?} was still pending");
        cx.breach(Rule::RunsWhilePending, Side::Agent, message).with(open.mark);
    }
}

fn closed_answers(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    cx.saw(Rule::ClosedSessionUsed, Side::Agent);
    if answer.is_good() {
        let message = "a prompt succeeded in a session that was closed";
        cx.breach(Rule::ClosedSessionUsed, Side::Agent, message).with(open.mark);
    }
}

/// Prompts that an agent has to take.
fn refused(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>, content: Content, command: bool, turn: &Turn) {
    let side = Side::Agent;
    let invalid = answer.code() == Some(error_code::INVALID_PARAMS);
    let optional = [
        (content.image, "CNT-03", "image"),
        (content.audio, "CNT-04", "audio"),
        (content.embedded, "CNT-05", "resource"),
    ];
    if (content.text || content.link) && !content.other && optional.iter().all(|(there, _, _)| !there) {
        let id = if content.link { "CNT-02" } else { "CNT-01" };
        cx.saw_id(id);
        if invalid && !open.unknown_session && !turn.output {
            let message = "a prompt of text and resource links was refused with -32602";
            cx.breach(Rule::ContentRefused, side, message).names(id).with(open.mark);
        }
    }
    for (there, id, word) in optional {
        if !there {
            continue;
        }
        cx.saw_id(id);
        if invalid {
            let message = format!("a prompt with {word} content was refused with -32602");
            cx.breach(Rule::AdvertisedContentRefused, side, message).names(id).with(open.mark);
        }
    }
    if command {
        cx.saw(Rule::CommandRefused, side);
        if !answer.is_good() && turn.cancel.is_none() {
            let message = "an advertised slash command was answered with an error";
            cx.breach(Rule::CommandRefused, side, message).with(open.mark);
        }
    }
}

/// A turn that was cancelled ends as cancelled, unless its end crossed the cancel on the way.
fn after(
    cx: &mut Cx<'_>,
    open: &Open,
    answer: Answer<'_>,
    stop: Option<&str>,
    turn: &Turn,
    cancel: crate::cx::Mark,
) {
    let side = Side::Agent;
    if open.cancelled && answer.code() == Some(error_code::REQUEST_CANCELLED) {
        // $/cancel_request named the prompt as well, and this is the answer to that
        return;
    }
    if turn.cancel_with_permission {
        cx.saw(Rule::CancelPermission, side);
        if stop != Some(stop_reason::CANCELLED) {
            let found = stop.map_or("an error".to_owned(), |stop| format!("stopReason {stop}"));
            let message =
                format!("the turn was cancelled while a permission was pending, and ended with {found}");
            let breach = cx.breach(Rule::CancelPermission, side, message).at("/result/stopReason");
            breach.with(open.mark).with(cancel);
            return;
        }
    }
    // an agent that is slow to read has ended its turn before it sees the cancel
    let raced = since(cancel, cx.at) < RACE;
    let doubtful = since(cancel, cx.at) < DOUBT;
    match (answer, stop) {
        (_, Some(stop_reason::CANCELLED)) => {
            cx.saw(Rule::CancelIgnored, side);
            cx.saw_id("RPC-16");
            cx.saw(Rule::CancelAsError, side);
        }
        (Answer::Bad(code), _) => {
            cx.saw(Rule::CancelAsError, side);
            if code.is_some() || !raced {
                let of_cancel = code == Some(error_code::REQUEST_CANCELLED);
                let code = code.map_or_else(String::new, |code| format!(" {code}"));
                let message =
                    format!("the turn was cancelled by session/cancel, and answered with error{code}");
                let also: &'static [&'static str] = if of_cancel { &["RPC-16"] } else { &[] };
                let breach = cx.breach(Rule::CancelAsError, side, message).also(also);
                let breach = breach.with(open.mark).with(cancel);
                if doubtful && !of_cancel {
                    breach.warn();
                }
            }
        }
        (Answer::Good(_), Some(stop)) if !raced => {
            let message = format!("the turn was cancelled, but ended with stopReason {stop}");
            let breach = cx.breach(Rule::CancelIgnored, side, message).at("/result/stopReason");
            let breach = breach.with(open.mark).with(cancel);
            if doubtful {
                breach.warn();
            }
        }
        _ => {}
    }
}

/// Cancelled without a cancel, just after another session was cancelled.
fn spread(cx: &mut Cx<'_>, name: &str, turn: &Turn, last_cancel: Option<(Box<str>, crate::cx::Mark)>) {
    let Some((other, mark)) =
        last_cancel.filter(|(other, mark)| **other != *name && mark.index > turn.mark.index)
    else {
        return;
    };
    let message = format!("the turn ended as cancelled, but session/cancel was for session {other:?}");
    cx.breach(Rule::CancelSpreads, Side::Agent, message).at("/result/stopReason").with(mark);
}

/// session/close ends the running turn like a cancel.
fn closing_turn(cx: &mut Cx<'_>, open: &Open, stop: Option<&str>, closing: crate::cx::Mark) {
    cx.saw(Rule::CloseKeepsTurn, Side::Agent);
    let doubtful = since(closing, cx.at) < DOUBT;
    if stop == Some(stop_reason::CANCELLED) || since(closing, cx.at) < RACE {
        return;
    }
    let found = stop.map_or("an error".to_owned(), |stop| format!("stopReason {stop}"));
    let message = format!("the session was closed while the turn ran, and the turn ended with {found}");
    let breach = cx.breach(Rule::CloseKeepsTurn, Side::Agent, message).with(open.mark).with(closing);
    if doubtful {
        breach.warn();
    }
}

/// New work for the client, well after the turn was cancelled.
pub(crate) fn new_work(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>, what: &str) {
    let Some(session) = params.get_str("sessionId").and_then(|id| state.session(&id)) else { return };
    let Some(cancel) = session.turn().and_then(|turn| turn.cancel) else { return };
    cx.saw(Rule::WorkAfterCancel, Side::Agent);
    if since(cancel, cx.at) > DOUBT {
        let message = format!(
            "{what} is requested {:.1} s after the turn was cancelled",
            since(cancel, cx.at).as_secs_f64()
        );
        cx.breach(Rule::WorkAfterCancel, Side::Agent, message).with(cancel);
    }
}
