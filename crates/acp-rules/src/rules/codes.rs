//! Error answers: their form and their codes.

use acp_proto::{Side, error_code, method};

use crate::cx::Cx;
use crate::json::{Json, Kind};
use crate::judge::Answer;
use crate::rule::Rule;
use crate::rules::schema::is_request;
use crate::state::{Ask, Open, Phase, State};

/// An error message longer than this is no concise sentence.
const CONCISE: usize = 300;

/// The error object of a response; gives its code.
pub(crate) fn error(cx: &mut Cx<'_>, error: Json<'_>) -> Option<i64> {
    let side = cx.sender();
    let code = error.get("code");
    let message = error.get("message");
    if !code.is_some_and(Json::is_integer) {
        let found = code.map_or("missing", |code| code.kind().word());
        cx.breach(Rule::BadResponse, side, format!("error.code must be an integer, it is {found}"))
            .at("/error/code");
    }
    if message.is_none_or(|message| message.kind() != Kind::String) {
        let found = message.map_or("missing", |message| message.kind().word());
        cx.breach(Rule::BadResponse, side, format!("error.message must be a string, it is {found}"))
            .at("/error/message");
    }
    for (key, _) in error.fields() {
        if !["code", "message", "data"].iter().any(|name| key.is(name)) {
            let name = key.str().unwrap_or_default().into_owned();
            let text = format!("the error has the custom field \"{name}\"; details belong in error.data");
            cx.breach(Rule::UnknownField, side, text).at(format!("/error/{name}"));
        }
    }
    if side == Side::Agent
        && let Some(text) = message.and_then(Json::str)
    {
        cx.saw(Rule::LongErrorMessage, side);
        if text.len() > CONCISE || text.trim_end().contains('\n') {
            let lines = text.lines().count();
            let words = format!("the error message has {} bytes on {lines} lines", text.len());
            cx.breach(Rule::LongErrorMessage, side, words).at("/error/message");
        }
    }
    code.and_then(Json::i64)
}

/// The answer to a request that was broken itself: any error is right.
pub(crate) fn lenient(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = cx.sender();
    let garbage = &mut state.asked(side.other()).garbage;
    let expected =
        garbage.iter().position(|(mark, _)| *mark == open.mark).and_then(|place| garbage.remove(place));
    if side != Side::Agent || expected.is_none() {
        return;
    }
    cx.saw(Rule::InvalidRequestCode, side);
    if !matches!(answer.code(), Some(error_code::INVALID_REQUEST | error_code::PARSE_ERROR)) {
        let found = answer.code().map_or("a result".to_owned(), |code| format!("error {code}"));
        let message =
            format!("a request that is not valid JSON-RPC was answered with {found} instead of error -32600");
        cx.breach(Rule::InvalidRequestCode, side, message).with(open.mark);
    }
}

/// Codes that the request itself calls for.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = cx.sender();
    cx.saw(Rule::Unanswered, side);
    let known = is_request(state.edition(), cx.dir.flip(), &open.method);
    match known {
        None if open.method.starts_with('_') => {
            if side == Side::Agent {
                custom(cx, open, answer);
            }
            cx.saw_id(if side == Side::Agent { "EXT-06" } else { "C-EXT-02" });
            return;
        }
        None => unknown_method(cx, open, answer),
        Some(_) => {}
    }
    if side == Side::Agent {
        of_agent(state, cx, open, answer);
    }
    missing_method(state, cx, open, answer);
}

/// A custom request that is refused.
fn custom(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Answer::Bad(code) = answer else { return };
    cx.saw(Rule::CustomRequestCode, Side::Agent);
    // a request that is known may be refused for what it says
    if !matches!(code, Some(error_code::METHOD_NOT_FOUND | error_code::INVALID_PARAMS)) {
        let message = format!("{} was refused with {} instead of error -32601", open.method, found(answer));
        cx.breach(Rule::CustomRequestCode, Side::Agent, message).at("/error/code").with(open.mark);
    }
}

fn unknown_method(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = cx.sender();
    cx.saw(Rule::UnknownMethodCode, side);
    if answer.code() != Some(error_code::METHOD_NOT_FOUND) {
        let found = found(answer);
        let message =
            format!("the unknown method {} was answered with {found} instead of error -32601", open.method);
        let breach = cx.breach(Rule::UnknownMethodCode, side, message).with(open.mark);
        if side == Side::Client && matches!(answer, Answer::Bad(_)) {
            breach.names("C-RPC-03/code");
        }
    }
}

fn found(answer: Answer<'_>) -> String {
    match answer {
        Answer::Good(_) => "a result".into(),
        Answer::Bad(Some(code)) => format!("error {code}"),
        Answer::Bad(None) => "an error without a code".into(),
    }
}

fn of_agent(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Agent;
    if open.bad_params {
        cx.saw(Rule::InvalidParamsCode, side);
        if &*open.method == method::SESSION_PROMPT {
            cx.saw_id("PT-10");
        }
        if answer.code() != Some(error_code::INVALID_PARAMS) && !open.early {
            let message = format!(
                "{} with bad params was answered with {} instead of error -32602",
                open.method,
                found(answer)
            );
            cx.breach(Rule::InvalidParamsCode, side, message).with(open.mark);
        }
        return;
    }
    if answer.code() == Some(error_code::AUTH_REQUIRED) {
        cx.saw(Rule::AuthCodeMisused, side);
        if state.agent.auth.is_empty() {
            let message = format!(
                "{} was answered with -32000 (authentication required), but no authMethods are offered",
                open.method
            );
            let breach = cx.breach(Rule::AuthCodeMisused, side, message).at("/error/code").with(open.mark);
            if &*open.method == method::SESSION_NEW {
                breach.names("AUTH-06");
            }
        } else {
            cx.saw_id("AUTH-06");
            state.gated |= &*open.method == method::SESSION_NEW;
            if state.authenticated {
                let message =
                    format!("{} needs authentication although authenticate had succeeded", open.method);
                cx.breach(Rule::AuthStillRequired, side, message).at("/error/code").with(open.mark);
            }
        }
    } else if state.authenticated && &*open.method == method::SESSION_NEW {
        cx.saw(Rule::AuthStillRequired, side);
    }
    if state.gated
        && &*open.method == method::SESSION_NEW
        && let Some(logout) = state.logged_out.filter(|logout| logout.index < open.mark.index)
    {
        cx.saw(Rule::LogoutIgnored, side);
        if answer.is_good() {
            let message = "session/new needed a login before, and needs none after logout";
            cx.breach(Rule::LogoutIgnored, side, message).with(open.mark).with(logout);
        }
    }
    // who sends initialize and does not wait for its answer is served in order
    let unanswered = matches!(state.phase, Phase::Fresh | Phase::Asked);
    if open.early && unanswered && open.method.starts_with("session/") {
        cx.saw(Rule::ServedBeforeInitialize, side);
        if answer.is_good() {
            let message = format!("{} was served although initialize had not been answered", open.method);
            cx.breach(Rule::ServedBeforeInitialize, side, message).with(open.mark);
        }
    }
    if open.unknown_session {
        unknown_session(cx, open, answer);
    }
}

fn unknown_session(cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    cx.saw(Rule::NotFoundCode, Side::Agent);
    let session = open.session.as_deref().unwrap_or_default();
    match answer {
        Answer::Good(_) => {
            let message = format!(
                "{} succeeded for session {session:?}, which this connection does not have",
                open.method
            );
            let breach = cx.breach(Rule::SessionUnknownAccepted, Side::Agent, message).with(open.mark);
            if &*open.method != method::SESSION_PROMPT {
                breach.names("RPC-15/other");
            }
        }
        Answer::Bad(code) if code != Some(error_code::RESOURCE_NOT_FOUND) => {
            let message = format!(
                "{} for the unknown session {session:?} was answered with {} instead of -32002",
                open.method,
                found(answer)
            );
            cx.breach(Rule::NotFoundCode, Side::Agent, message).at("/error/code").with(open.mark);
        }
        Answer::Bad(_) => {}
    }
}

/// -32601 for a method that must be there, or silence about one that need not.
fn missing_method(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = cx.sender();
    let missing = answer.code() == Some(error_code::METHOD_NOT_FOUND);
    match (side, &*open.method) {
        (Side::Agent, method::SESSION_NEW | method::SESSION_PROMPT)
        | (Side::Client, method::SESSION_REQUEST_PERMISSION) => {
            cx.saw(Rule::BaselineMissing, side);
            if missing {
                let message = format!("{} is answered with -32601 although every {side} has it", open.method);
                cx.breach(Rule::BaselineMissing, side, message).with(open.mark);
            }
        }
        _ => {}
    }
    let Some(advertised) = advertised(state, side, &open.method) else { return };
    if advertised {
        let id = match &*open.method {
            method if method.starts_with("fs/") => "C-FS-03",
            method if method.starts_with("terminal/") => "C-TERM-08",
            _ => "INIT-13",
        };
        cx.saw_id(id);
        if missing {
            let message =
                format!("{} is answered with -32601 although the {side} advertised it", open.method);
            cx.breach(Rule::AdvertisedMissing, side, message).names(id).with(open.mark);
        }
    } else if side == Side::Agent && !open.early && !matches!(open.ask, Ask::Initialize { .. }) {
        cx.saw(Rule::UnadvertisedServed, side);
        if !missing {
            let message = format!("{} was not advertised, but answered with {}", open.method, found(answer));
            cx.breach(Rule::UnadvertisedServed, side, message).with(open.mark);
        }
    }
}

/// Whether an optional method was advertised; `None` when it is not optional.
pub(crate) fn advertised(state: &State, side: Side, method: &str) -> Option<bool> {
    match (side, method) {
        (Side::Agent, method::SESSION_LOAD) => Some(state.agent.load),
        (Side::Agent, method::SESSION_RESUME) => Some(state.agent.resume),
        (Side::Agent, method::SESSION_CLOSE) => Some(state.agent.close),
        (Side::Agent, method::SESSION_LIST) => Some(state.agent.list),
        (Side::Agent, method::SESSION_DELETE) => Some(state.agent.delete),
        (Side::Agent, method::LOGOUT) => Some(state.agent.logout),
        (Side::Client, method::FS_READ_TEXT_FILE) => Some(state.client.read),
        (Side::Client, method::FS_WRITE_TEXT_FILE) => Some(state.client.write),
        (Side::Client, method) if method.starts_with("terminal/") => Some(state.client.terminal),
        _ => None,
    }
}
