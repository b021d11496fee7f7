//! Tool calls.

use crate::caps::ClientCaps;
use crate::cx::Cx;
use crate::json::Json;
use acp_proto::Side;

use crate::rule::Rule;
use crate::rules::content;
use crate::rules::paths::is_absolute;
use crate::session::{Permission, Session, Stage, Status, Tool, Turn};
use crate::state::State;

/// tool_call
pub(crate) fn create(state: &mut State, cx: &mut Cx<'_>, place: usize, update: Json<'_>) {
    let side = Side::Agent;
    let mark = cx.mark();
    let Some(id) = update.get_str("toolCallId") else { return };
    cx.saw(Rule::ToolTwice, side);
    cx.saw(Rule::CrossTalk, side);
    let status = status(update).unwrap_or(Status::Pending);
    let name: Option<Box<str>> = update.some("name").and_then(Json::str).map(Into::into);
    let session = &mut state.sessions_mut()[place];
    let replaying = session.stage == Stage::Loading;
    let turn = session.turn_number();
    // a replayed call that comes again outside of a turn is a late replay, which has a rule of its own
    let is_in_turn = !session.turns.is_empty();
    if let Some(tool) = session.tools.get_mut(&*id) {
        if tool.created && !replaying && (is_in_turn || !tool.replayed) {
            let message = match tool.replayed {
                true => format!("the tool call {id:?} was in the replay already"),
                false => format!("the tool call {id:?} was created before"),
            };
            cx.breach(Rule::ToolTwice, side, message).at("/params/update/toolCallId").with(tool.mark);
        }
        let again = tool.turn != turn;
        tool.created = true;
        tool.turn = turn;
        tool.replayed = replaying;
        if replaying || again {
            tool.status = status;
            tool.mark = mark;
            tool.name = name;
            tool.permission = Permission::Unasked;
            tool.progressed = status == Status::InProgress;
            session.turn_tools.push((*id).into());
        } else {
            advance(tool, cx, &id, status);
        }
    } else {
        let tool = Tool {
            mark,
            created: true,
            status,
            name,
            permission: Permission::Unasked,
            progressed: status == Status::InProgress,
            turn,
            replayed: replaying,
        };
        session.add_tool(&id, tool);
    }
    let session = &mut state.sessions_mut()[place];
    if let Some(number) = session.turns.first().map(|turn| turn.number).filter(|_| !replaying) {
        session.live.tool(number, &id);
    }
    parts(state, cx, place, update, "/params/update");
}

/// tool_call_update
pub(crate) fn update(state: &mut State, cx: &mut Cx<'_>, place: usize, update: Json<'_>) {
    let side = Side::Agent;
    let mark = cx.mark();
    let Some(id) = update.get_str("toolCallId") else { return };
    cx.saw(Rule::ToolUpdateFirst, side);
    let status = status(update);
    let session = &mut state.sessions_mut()[place];
    let turn = session.turn_number();
    let replaying = session.stage == Stage::Loading;
    if let Some(tool) = session.tools.get_mut(&*id) {
        if let Some(status) = status {
            if replaying {
                tool.status = status;
            } else {
                advance(tool, cx, &id, status);
            }
        }
        if let Some(name) = update.some("name").and_then(Json::str) {
            renamed(tool, cx, &id, &name);
        }
    } else {
        let forgotten = session.tools_forgotten;
        let status = status.unwrap_or(Status::Pending);
        let tool = Tool {
            mark,
            created: false,
            status,
            name: update.some("name").and_then(Json::str).map(Into::into),
            permission: Permission::Unasked,
            progressed: status == Status::InProgress,
            turn,
            replayed: replaying,
        };
        session.add_tool(&id, tool);
        if !forgotten {
            stray(state, cx, place, &id);
        }
    }
    parts(state, cx, place, update, "/params/update");
}

/// An update for a call that its session does not have.
fn stray(state: &mut State, cx: &mut Cx<'_>, place: usize, id: &str) {
    let elsewhere = state.sessions().iter().enumerate().find_map(|(other, session)| {
        let tool = session.tools.get(id).filter(|tool| tool.created && !tool.status.is_final())?;
        (other != place && !session.turns.is_empty()).then(|| (session.id.clone(), tool.mark))
    });
    match elsewhere {
        Some((session, mark)) => {
            let message = format!("the tool call {id:?} belongs to session {session:?}");
            cx.breach(Rule::CrossTalk, Side::Agent, message).at("/params/sessionId").with(mark);
        }
        None => {
            let message = format!("the tool call {id:?} was not created by a tool_call");
            cx.breach(Rule::ToolUpdateFirst, Side::Agent, message).at("/params/update/toolCallId");
        }
    }
}

/// The reported status. One that cannot be read was reported by the schema already, and ends the call for us.
fn status(update: Json<'_>) -> Option<Status> {
    update
        .some("status")
        .map(|status| status.str().and_then(|text| Status::read(&text)).unwrap_or(Status::Failed))
}

/// Statuses only go forward, and not while the permission is pending or refused.
fn advance(tool: &mut Tool, cx: &mut Cx<'_>, id: &str, to: Status) {
    let side = Side::Agent;
    let from = tool.status;
    let at = "/params/update/status";
    if from.is_final() && to != from {
        let message = format!("the tool call {id:?} goes from {} to {}", from.word(), to.word());
        cx.breach(Rule::FinalStatusLeft, side, message).at(at).with(tool.mark);
    } else if from == Status::InProgress && to == Status::Pending {
        let message = format!("the tool call {id:?} goes from in_progress back to pending");
        cx.breach(Rule::StatusBackwards, side, message).at(at).with(tool.mark);
    } else {
        cx.saw(Rule::StatusBackwards, side);
    }
    if to.is_final() {
        cx.saw(Rule::FinalStatusLeft, side);
    }
    match tool.permission {
        Permission::Rejected if matches!(to, Status::InProgress | Status::Completed) && !from.is_final() => {
            let message = format!("the tool call {id:?} was rejected, but is reported as {}", to.word());
            let breach = cx.breach(Rule::RejectedRuns, side, message).at(at).with(tool.mark);
            // what is in progress may be the refusal itself
            if to == Status::InProgress {
                breach.names("PERM-03/status");
            }
        }
        Permission::Cancelled if to == Status::Completed && !from.is_final() => {
            let message = format!("the tool call {id:?} was not permitted, but is reported as completed");
            cx.breach(Rule::RejectedRuns, side, message).names("PERM-03/status").at(at).with(tool.mark);
        }
        Permission::Pending if to == Status::Completed && !from.is_final() => {
            let message =
                format!("the tool call {id:?} is reported as {} while its permission is pending", to.word());
            cx.breach(Rule::RunsWhilePending, side, message).at(at).with(tool.mark);
        }
        Permission::Allowed if to == Status::Completed && !from.is_final() => {
            cx.saw(Rule::ToolNoProgress, side);
            if !tool.progressed {
                let message =
                    format!("the tool call {id:?} was permitted and completed, but never was in_progress");
                cx.breach(Rule::ToolNoProgress, side, message).at(at).with(tool.mark);
            }
        }
        _ => {}
    }
    tool.progressed |= to == Status::InProgress;
    tool.status = to;
}

fn renamed(tool: &mut Tool, cx: &mut Cx<'_>, id: &str, name: &str) {
    cx.saw(Rule::ToolRenamed, Side::Agent);
    match &tool.name {
        Some(before) if **before != *name => {
            let message = format!("the name of the tool call {id:?} changes from {before:?} to {name:?}");
            cx.breach(Rule::ToolRenamed, Side::Agent, message).at("/params/update/name").with(tool.mark);
        }
        Some(_) => {}
        None => tool.name = Some(name.into()),
    }
}

/// Locations and content of a call, which stands at `base` in the frame.
pub(crate) fn parts(state: &mut State, cx: &mut Cx<'_>, place: usize, update: Json<'_>, base: &str) {
    let side = Side::Agent;
    for (index, location) in update.some("locations").into_iter().flat_map(Json::items).enumerate() {
        cx.saw(Rule::ToolPath, side);
        if let Some(path) = location.get_str("path").filter(|path| !is_absolute(path)) {
            let message = format!("the location {path:?} is not an absolute path");
            cx.breach(Rule::ToolPath, side, message).at(format!("{base}/locations/{index}/path"));
        }
        if location.get("line").and_then(Json::i64) == Some(0) {
            let message = "the location has line 0, but lines are counted from 1";
            cx.breach(Rule::ToolLine, side, message).at(format!("{base}/locations/{index}/line"));
        }
    }
    for (index, item) in update.some("content").into_iter().flat_map(Json::items).enumerate() {
        let pointer = format!("{base}/content/{index}");
        match item.get_str("type").as_deref() {
            Some("diff") => {
                cx.saw(Rule::DiffPath, side);
                cx.saw_id("DIFF-02");
                if let Some(path) = item.get_str("path").filter(|path| !is_absolute(path)) {
                    let message = format!("the diff's path {path:?} is not absolute");
                    cx.breach(Rule::DiffPath, side, message).at(format!("{pointer}/path"));
                }
            }
            Some("terminal") => terminal(state, cx, place, item, &pointer),
            Some("content") => {
                if let Some(block) = item.get("content") {
                    content::block(cx, block, &format!("{pointer}/content"));
                }
            }
            _ => {}
        }
    }
}

/// A terminal shown in a call exists and is not released yet.
fn terminal(state: &mut State, cx: &mut Cx<'_>, place: usize, item: Json<'_>, pointer: &str) {
    let Some(id) = item.get_str("terminalId") else { return };
    let replaying = state.sessions()[place].stage == Stage::Loading;
    if state.terminals_forgotten || replaying {
        return;
    }
    cx.saw(Rule::ToolTerminal, Side::Agent);
    let at = format!("{pointer}/terminalId");
    let session = state.sessions()[place].id.clone();
    match state.terminals.get_mut(&*id) {
        None => {
            let message = format!("the terminal {id:?} was not created with terminal/create");
            cx.breach(Rule::ToolTerminal, Side::Agent, message).at(at);
        }
        // what the client has shown before its release it goes on showing
        Some(terminal) if terminal.released && !terminal.shown => {
            let message = format!("the terminal {id:?} was released before it is shown");
            cx.breach(Rule::ToolTerminal, Side::Agent, message).at(at).with(terminal.mark);
        }
        Some(terminal) if terminal.session != session => {
            let message = format!("the terminal {id:?} belongs to session {:?}", terminal.session);
            cx.breach(Rule::CrossTalk, Side::Agent, message).at(at).with(terminal.mark);
        }
        Some(terminal) => terminal.shown = true,
    }
}

/// By the end of a turn every call has a final status.
pub(crate) fn turn_ended(
    session: &mut Session,
    cx: &mut Cx<'_>,
    turn: &Turn,
    excused: bool,
    caps: ClientCaps,
) {
    let side = Side::Agent;
    let mut had_tools = false;
    let mut open: Vec<(Box<str>, crate::cx::Mark, Status, Permission)> = Vec::new();
    let mut unreported: Vec<(crate::cx::Mark, Box<str>)> = Vec::new();
    for id in std::mem::take(&mut session.turn_tools) {
        let Some(tool) = session.tools.get(&id).filter(|tool| !tool.replayed) else { continue };
        if tool.turn != turn.number {
            if session.turns.iter().any(|other| other.number == tool.turn) {
                session.turn_tools.push(id);
            }
            continue;
        }
        had_tools = true;
        // nothing came of a call whose turn was cancelled before it was permitted
        let ran = !excused || tool.permission == Permission::Allowed;
        if !tool.created && tool.permission != Permission::Unasked && ran && !session.tools_forgotten {
            unreported.push((tool.mark, id.clone()));
        }
        if !tool.status.is_final() {
            let (mark, status, permission) = (tool.mark, tool.status, tool.permission);
            open.push((id, mark, status, permission));
        }
    }
    if had_tools {
        tempted(cx, caps);
    }
    unreported.sort_unstable_by_key(|(mark, _)| mark.index);
    unreported.dedup_by(|a, b| a.1 == b.1);
    for (mark, id) in unreported {
        let message =
            format!("permission was asked for the tool call {id:?}, which was not reported by a tool_call");
        cx.breach(Rule::ToolNotReported, side, message).with(mark);
    }
    if let Some(worked) = turn.worked.filter(|_| !turn.overlaps) {
        cx.saw(Rule::ToolNotReported, side);
        if !had_tools {
            let message = "a file was written or a command started in a turn without any tool_call";
            cx.breach(Rule::ToolNotReported, side, message).with(worked).with(turn.mark);
        }
    }
    if excused {
        return;
    }
    if had_tools {
        cx.saw(Rule::ToolUnfinished, side);
    }
    open.sort_by_key(|(_, mark, _, _)| mark.index);
    open.dedup_by(|a, b| a.0 == b.0);
    for (id, mark, status, permission) in open {
        let why = match permission {
            Permission::Rejected => " although its permission was refused",
            Permission::Cancelled => " although the question for its permission was cancelled",
            _ => "",
        };
        let message = format!("the turn ended, but the tool call {id:?} is still {}{why}", status.word());
        let breach = cx.breach(Rule::ToolUnfinished, side, message).with(mark).with(turn.mark);
        // the protocol does not say in so many words how a call ends that was not permitted
        if matches!(permission, Permission::Rejected | Permission::Cancelled) {
            breach.warn();
        }
    }
}

/// A turn with tools was an occasion to use what the client does not have.
fn tempted(cx: &mut Cx<'_>, caps: ClientCaps) {
    let lacking =
        [(caps.terminal, "TERM-02"), (caps.read, "FS-02"), (caps.write, "FS-03"), (caps.form, "ELI-01")];
    for (there, id) in lacking {
        if !there {
            cx.saw_id(id);
            cx.saw_id("INIT-08");
        }
    }
}
