//! session/request_permission.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::rules::tools;
use crate::session::{Permission, Status, Tool};
use crate::state::{Ask, Open, State};

/// The agent asks.
pub(crate) fn ask(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Agent;
    let mark = cx.mark();
    let options = options(cx, params);
    let call = params.get("toolCall");
    let tool = call.and_then(|call| call.get_str("toolCallId"));
    let reported =
        call.and_then(|call| call.some("status")).and_then(Json::str).and_then(|text| Status::read(&text));
    if let (Some(id), Some(session)) = (&tool, params.get_str("sessionId").and_then(|id| state.session(&id)))
    {
        cx.saw(Rule::ToolNotReported, side);
        cx.saw(Rule::PermissionLate, side);
        if let Some(known) = session.tools.get_mut(&**id) {
            if known.status.is_final() {
                let message = format!(
                    "permission is asked for the tool call {id:?}, which is already {}",
                    known.status.word()
                );
                cx.breach(Rule::PermissionLate, side, message)
                    .at("/params/toolCall/toolCallId")
                    .with(known.mark);
            }
            known.permission = Permission::Pending;
            // the request shows the call as it was before: it takes nothing back
            if let Some(status) = reported.filter(|status| *status > known.status && !known.status.is_final())
            {
                known.status = status;
            }
            known.progressed = known.status == Status::InProgress;
        } else {
            // the request itself shows the call to the user; whether it is reported is known when the turn ends
            let turn = session.turn_number();
            let tool = Tool {
                mark,
                created: false,
                status: reported.unwrap_or(Status::Pending),
                name: None,
                permission: Permission::Pending,
                progressed: false,
                turn,
                replayed: false,
            };
            session.add_tool(id, tool);
        }
        if let Some(turn) = session.turn() {
            turn.output = true;
        }
    }
    if let (Some(call), Some(place)) =
        (call, params.get_str("sessionId").and_then(|id| state.session_place(&id)))
    {
        tools::parts(state, cx, place, call, "/params/toolCall");
    }
    let session = params.get_str("sessionId").and_then(|id| state.session(&id));
    let cancelled = session.and_then(|session| session.turn()).is_some_and(|turn| turn.cancel.is_some());
    Ask::Permission { tool: tool.map(Into::into), options, cancelled }
}

/// The options: id and whether it allows.
fn options(cx: &mut Cx<'_>, params: Json<'_>) -> Vec<(Box<str>, bool)> {
    let side = Side::Agent;
    let mut out: Vec<(Box<str>, bool)> = Vec::new();
    cx.saw(Rule::OptionTwice, side);
    for (index, option) in params.get("options").into_iter().flat_map(Json::items).enumerate().take(64) {
        let Some(id) = option.get_str("optionId") else { continue };
        if out.iter().any(|(other, _)| **other == *id) {
            let message = format!("the option {id:?} is offered twice");
            cx.breach(Rule::OptionTwice, side, message).at(format!("/params/options/{index}/optionId"));
        }
        let allows = option.get_str("kind").is_some_and(|kind| kind.starts_with("allow"));
        out.push((id.into(), allows));
    }
    if out.is_empty() {
        cx.breach(Rule::NoOptions, side, "the permission request offers no options").at("/params/options");
    }
    out
}

/// The client answers.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Client;
    let Ask::Permission { tool, options, cancelled } = &open.ask else { return };
    cx.saw(Rule::OptionNotOffered, side);
    let outcome = match answer {
        Answer::Good(result) => result.get("outcome"),
        Answer::Bad(_) => None,
    };
    let word = outcome.and_then(|outcome| outcome.get_str("outcome"));
    let chosen = outcome.and_then(|outcome| outcome.get_str("optionId"));
    let mut permission = Permission::Cancelled;
    if word.as_deref() == Some("selected") {
        let option = options.iter().find(|(id, _)| chosen.as_deref() == Some(&**id));
        match option {
            Some((_, true)) => permission = Permission::Allowed,
            Some((_, false)) => permission = Permission::Rejected,
            None => {
                let message = format!("the option {:?} was not offered", chosen.unwrap_or_default());
                cx.breach(Rule::OptionNotOffered, side, message)
                    .at("/result/outcome/optionId")
                    .with(open.mark);
                permission = Permission::Unasked;
            }
        }
    }
    if *cancelled {
        cx.saw(Rule::PermissionAfterCancel, side);
        if word.as_deref() != Some("cancelled") {
            let found = word.as_deref().unwrap_or("an error");
            let message =
                format!("the turn was cancelled, but the answer to this permission request is {found}");
            cx.breach(Rule::PermissionAfterCancel, side, message).at("/result/outcome").with(open.mark);
        }
    }
    let session = open.session.as_deref().and_then(|id| state.session(id));
    if let (Some(id), Some(session)) = (tool, session)
        && let Some(tool) = session.tools.get_mut(id)
    {
        if permission == Permission::Rejected {
            cx.saw(Rule::RejectedRuns, Side::Agent);
        }
        cx.saw(Rule::RunsWhilePending, Side::Agent);
        tool.permission = permission;
    }
}

/// The agent changes something through the client. When the last call of its turn waits for its permission or was
/// rejected, and no other call is at work, that call runs all the same.
pub(crate) fn effect(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>, what: &str) {
    let side = Side::Agent;
    let mark = cx.mark();
    let Some(session) = params.get_str("sessionId").and_then(|id| state.session(&id)) else { return };
    let number = session.turn_number();
    let Some(turn) = session.turns.first_mut().filter(|turn| !turn.overlaps) else { return };
    turn.worked.get_or_insert(mark);
    let own = session.turn_tools.iter().filter_map(|id| Some((id, session.tools.get(id)?)));
    let own: Vec<(&Box<str>, &Tool)> =
        own.filter(|(_, tool)| tool.turn == number && !tool.replayed).collect();
    let at_work = |tool: &Tool| {
        !tool.status.is_final() && !matches!(tool.permission, Permission::Pending | Permission::Rejected)
    };
    if own.iter().any(|(_, tool)| at_work(tool)) {
        return;
    }
    let Some((id, last)) = own.iter().max_by_key(|(_, tool)| tool.mark.index) else { return };
    match last.permission {
        Permission::Rejected => {
            let message =
                format!("{what} after the tool call {id:?} was rejected, and no other call is at work");
            cx.breach(Rule::RejectedRuns, side, message).at("/method").with(last.mark);
        }
        Permission::Pending => {
            let message = format!("{what} while the permission for the tool call {id:?} is pending");
            cx.breach(Rule::RunsWhilePending, side, message).at("/method").with(last.mark);
        }
        _ => {}
    }
}
