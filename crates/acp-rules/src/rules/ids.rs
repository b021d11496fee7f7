//! Requests and their answers: who owes what.

use acp_proto::{Side, error_code};
use acp_rpc::{Id, Reply};

use crate::cx::Cx;
use crate::rule::Rule;
use crate::rules::envelope;
use crate::state::{Open, State, Told};

/// The id of a request.
pub(crate) fn request(state: &mut State, cx: &mut Cx<'_>, id: &Id) {
    let side = cx.sender();
    cx.saw(Rule::BadIdType, side);
    cx.saw(Rule::OddId, side);
    cx.saw(Rule::IdReused, side);
    match id {
        Id::Null => {
            cx.breach(Rule::OddId, side, "the request has the id null").at("/id");
            if side == Side::Client {
                cx.saw_id("RPC-13");
            }
        }
        Id::Number(text) if text.contains(['.', 'e', 'E']) => {
            cx.breach(Rule::OddId, side, format!("the request id {text} is not an integer")).at("/id");
        }
        _ => {}
    }
    let reused = state
        .asked(side)
        .open
        .get(id)
        .filter(|open| !open.lenient && !open.broken)
        .map(|open| (open.mark, open.method.clone()));
    if let Some((mark, method)) = reused {
        let message =
            format!("the id {id} is used again while the {method} request with this id is not answered");
        cx.breach(Rule::IdReused, side, message).at("/id").with(mark);
    }
}

/// Finds the request that a response answers. `None` when there is none, which is reported.
pub(crate) fn response(state: &mut State, cx: &mut Cx<'_>, id: &Id, reply: Reply<'_>) -> Option<Open> {
    let side = cx.sender();
    let asker = state.asked(side.other());
    cx.saw(Rule::BadResponse, side);
    if let Some(open) = asker.answer(id) {
        cx.saw(Rule::AnswerToNothing, side);
        return Some(open);
    }
    if *id == Id::Null {
        null_answer(state, cx, reply);
        return None;
    }
    if asker.was_answered(id) {
        cx.breach(Rule::AnsweredTwice, side, format!("the request {id} was answered before")).at("/id");
        return None;
    }
    let other_type = asker.open.keys().find(|open| same_text(open, id)).cloned();
    if let Some(asked) = other_type {
        let message = format!(
            "the request had the id {asked} (a {}), the answer has {id} (a {})",
            asked.json_type(),
            id.json_type()
        );
        let open = asker.answer(&asked)?;
        cx.breach(Rule::IdTypeChanged, side, message).at("/id").with(open.mark);
        return Some(open);
    }
    if !asker.forgotten {
        cx.breach(
            Rule::AnswerToNothing,
            side,
            format!("this answers the id {id}, but no open request has it"),
        )
        .at("/id");
    }
    None
}

/// The same value written as another type: `1`, `"1"`, `1.0`.
fn same_text(asked: &Id, answered: &Id) -> bool {
    let text = |id: &Id| match id {
        Id::Int(n) => n.to_string(),
        Id::Number(text) => text.strip_suffix(".0").unwrap_or(text).to_string(),
        Id::Text(text) => text.to_string(),
        Id::Null => String::from("null"),
    };
    asked != answered && text(asked) == text(answered)
}

/// An answer with id null: right for what could not be read, wrong for a notification.
fn null_answer(state: &mut State, cx: &mut Cx<'_>, reply: Reply<'_>) {
    let side = cx.sender();
    let asker = state.asked(side.other());
    let garbage = asker.garbage.pop_front();
    let code = match reply {
        Reply::Error(text) => acp_rpc::RpcError::parse(text).ok().map(|error| error.code),
        Reply::Result(_) => None,
    };
    if let Some((mark, expected)) = garbage {
        let meant = |open: &Open| (open.lenient || open.broken) && open.mark == mark;
        let refused: Vec<Id> =
            asker.open.iter().filter(|(_, open)| meant(open)).map(|(id, _)| id.clone()).collect();
        let refused: Vec<(Id, Open)> =
            refused.into_iter().filter_map(|id| asker.open.remove_entry(&id)).collect();
        for (id, open) in refused {
            envelope::undone(state, &open, &id);
        }
        if side == Side::Agent {
            let (rule, _, claim) = expected.rule();
            cx.saw(rule, side);
            // both codes are in use for what is hardly readable
            if !matches!(code, Some(error_code::PARSE_ERROR | error_code::INVALID_REQUEST)) {
                let found = code.map_or("a result".to_owned(), |code| format!("error {code}"));
                let expected = expected.code();
                cx.breach(rule, side, format!("answered with {found} instead of error {expected}"))
                    .names(claim)
                    .with(mark);
            }
        }
        return;
    }
    if asker.had_garbage || asker.forgotten {
        return;
    }
    match asker.notified {
        Some((mark, told)) => {
            let message =
                "an answer with id null, but nothing unreadable was sent: a notification was answered";
            let also: &'static [&'static str] = match (side, told) {
                (Side::Agent, Told::Cancel) => &["CAN-05"],
                (Side::Agent, Told::CancelRequest) => &["CAN-10"],
                (Side::Agent, Told::Custom) => &["EXT-08"],
                _ => &[],
            };
            cx.breach(Rule::NotificationAnswered, side, message).also(also).at("/id").with(mark);
        }
        None => {
            cx.breach(Rule::AnswerToNothing, side, "an answer with id null, but nothing unreadable was sent")
                .at("/id");
        }
    }
}

/// A notification: it must not be answered.
pub(crate) fn notification(state: &mut State, cx: &mut Cx<'_>, method: &str) {
    let side = cx.sender();
    cx.saw(Rule::NotificationAnswered, side.other());
    let told = Told::of(method);
    if told == Told::Custom && side == Side::Client {
        cx.saw_id("EXT-08");
    }
    let mark = cx.mark();
    state.asked(side).notified = Some((mark, told));
}
