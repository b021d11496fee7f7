//! Terminals of the client.

use std::time::Duration;

use acp_proto::{Side, method};

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use crate::rule::Rule;
use crate::rules::paths::is_absolute;
use crate::rules::{permissions, turns};
use crate::state::{Ask, Open, State, Terminal, since};

/// terminal/create is answered at once.
const AT_ONCE: Duration = Duration::from_secs(2);

/// terminal/create
pub(crate) fn create(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    capability(state, cx, method::TERMINAL_CREATE);
    turns::new_work(state, cx, params, "a terminal");
    permissions::effect(state, cx, params, "a command is started");
    if let Some(cwd) = params.some("cwd").and_then(Json::str) {
        cx.saw(Rule::TerminalCwd, Side::Agent);
        if !is_absolute(&cwd) {
            let message = format!("the terminal's cwd {cwd:?} is not an absolute path");
            cx.breach(Rule::TerminalCwd, Side::Agent, message).at("/params/cwd");
        }
    }
    Ask::TerminalCreate { limit: params.some("outputByteLimit").and_then(Json::i64) }
}

fn capability(state: &State, cx: &mut Cx<'_>, method: &str) {
    cx.saw_id("TERM-01");
    if !state.client.terminal {
        let message = format!("{method} is called, but the client did not advertise terminal");
        cx.breach(Rule::TerminalUnadvertised, Side::Agent, message)
            .also(&["TERM-01", "INIT-08"])
            .at("/method");
    }
}

/// Any other terminal request.
pub(crate) fn operate(state: &mut State, cx: &mut Cx<'_>, method: &str, params: Json<'_>) -> Ask {
    let side = Side::Agent;
    capability(state, cx, method);
    let id = params.get_str("terminalId").unwrap_or_default();
    let session = params.get_str("sessionId").unwrap_or_default();
    let mut released = false;
    match state.terminals.get_mut(&*id) {
        None if !state.terminals_forgotten => {
            let message = format!("the terminal {id:?} was not created on this connection");
            cx.breach(Rule::TerminalAfterRelease, side, message).at("/params/terminalId").warn();
        }
        None => {}
        Some(terminal) if terminal.released => {
            released = true;
            let message = format!("the terminal {id:?} is used after it was released");
            cx.breach(Rule::TerminalAfterRelease, side, message).at("/params/terminalId").with(terminal.mark);
        }
        Some(terminal) => {
            if *terminal.session != *session {
                let message = format!("the terminal {id:?} belongs to session {:?}", terminal.session);
                cx.breach(Rule::CrossTalk, side, message).at("/params/sessionId").with(terminal.mark);
            }
            match method {
                method::TERMINAL_RELEASE => {
                    terminal.released = true;
                    cx.saw(Rule::TerminalAfterRelease, side);
                    cx.saw(Rule::TerminalLeaked, side);
                    if terminal.killed {
                        cx.saw_id("TERM-05");
                    }
                }
                method::TERMINAL_KILL => terminal.killed = true,
                _ => {}
            }
        }
    }
    Ask::Terminal { id: (*id).into(), released }
}

/// The client answers.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    match &open.ask {
        Ask::TerminalCreate { limit } => created(state, cx, open, answer, *limit),
        Ask::Terminal { id, released } => operated(state, cx, open, answer, id, *released),
        _ => {}
    }
}

fn created(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>, limit: Option<i64>) {
    let Answer::Good(result) = answer else { return };
    cx.saw(Rule::TerminalSlow, Side::Client);
    let took = since(open.mark, cx.at);
    if took > AT_ONCE {
        let message = format!("terminal/create was answered after {:.1} s", took.as_secs_f64());
        cx.breach(Rule::TerminalSlow, Side::Client, message).with(open.mark);
    }
    let Some(id) = result.get_str("terminalId") else { return };
    let session = open.session.clone().unwrap_or_default();
    let terminal = Terminal {
        mark: open.mark,
        session,
        limit,
        released: false,
        left: false,
        killed: false,
        shown: false,
        exited: None,
    };
    state.add_terminal(&id, terminal);
}

fn operated(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>, id: &str, released: bool) {
    let side = Side::Client;
    if released {
        cx.saw(Rule::TerminalReleasedAnswers, side);
        if answer.is_good() && &*open.method != method::TERMINAL_RELEASE {
            let message = format!("{} succeeded for the terminal {id:?}, which was released", open.method);
            cx.breach(Rule::TerminalReleasedAnswers, side, message).with(open.mark);
        }
        return;
    }
    let Some(terminal) = state.terminals.get_mut(id) else { return };
    if terminal.killed && matches!(&*open.method, method::TERMINAL_OUTPUT | method::TERMINAL_WAIT_FOR_EXIT) {
        cx.saw(Rule::TerminalKilledGone, side);
        if !answer.is_good() {
            let message =
                format!("{} failed for the terminal {id:?}, which was killed but not released", open.method);
            cx.breach(Rule::TerminalKilledGone, side, message).with(open.mark);
        }
    }
    let Answer::Good(result) = answer else { return };
    match &*open.method {
        method::TERMINAL_OUTPUT => output(terminal, cx, open, result),
        method::TERMINAL_WAIT_FOR_EXIT => {
            cx.saw(Rule::TerminalNoStatus, side);
            if result.some("exitCode").is_none() && result.some("signal").is_none() {
                let message = "terminal/wait_for_exit was answered without exitCode and signal";
                cx.breach(Rule::TerminalNoStatus, side, message).at("/result").with(open.mark);
            }
            terminal.exited.get_or_insert(None);
        }
        _ => {}
    }
}

fn output(terminal: &mut Terminal, cx: &mut Cx<'_>, open: &Open, result: Json<'_>) {
    let side = Side::Client;
    let text = result.get_str("output").unwrap_or_default();
    if let Some(limit) = terminal.limit.and_then(|limit| usize::try_from(limit).ok()) {
        cx.saw(Rule::TerminalOverLimit, side);
        if text.len() > limit {
            let message = format!("the output has {} bytes, the limit is {limit}", text.len());
            cx.breach(Rule::TerminalOverLimit, side, message).at("/result/output").with(terminal.mark);
        }
    }
    let exit = result.some("exitStatus").is_some();
    let now = fingerprint(&text);
    match terminal.exited {
        Some(_) if !exit => {
            cx.saw(Rule::TerminalExitForgotten, side);
            let message = "the command has exited before, but the output comes without exitStatus";
            cx.breach(Rule::TerminalExitForgotten, side, message).at("/result").with(open.mark);
        }
        Some(Some(before)) => {
            cx.saw(Rule::TerminalOutputAfterExit, side);
            cx.saw(Rule::TerminalExitForgotten, side);
            if before != now {
                let message = "the output changed after the exit was reported";
                cx.breach(Rule::TerminalOutputAfterExit, side, message).at("/result/output").with(open.mark);
            }
        }
        _ => {}
    }
    if exit {
        terminal.exited = Some(Some(now));
    }
}

/// A number that differs when the text does; stable, so that findings are.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A closed session has no terminals left.
pub(crate) fn session_closed(state: &mut State, cx: &mut Cx<'_>, session: &str) {
    let mut leaked: Vec<_> = state
        .terminals
        .iter_mut()
        .filter(|(_, terminal)| *terminal.session == *session && !terminal.released && !terminal.left)
        .map(|(id, terminal)| {
            terminal.left = true;
            (id.clone(), terminal.mark, terminal.killed)
        })
        .collect();
    leaked.sort_by_key(|(_, mark, _)| mark.index);
    for (id, mark, killed) in leaked {
        let message = format!("the session was closed, but its terminal {id:?} was never released");
        let also: &'static [&'static str] = if killed { &["TERM-05"] } else { &[] };
        cx.breach(Rule::TerminalLeaked, Side::Agent, message).also(also).with(mark);
    }
}
