//! The end of a conversation: what should have happened by now.

use std::time::Duration;

use acp_proto::{Side, method};
use acp_rpc::Id;

use crate::cx::{Cx, Mark};
use crate::judge::ConversationEnd;
use crate::rule::Rule;
use crate::rules::load;
use crate::state::{Ask, Phase, State, since};

/// How a conversation ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) ending: ConversationEnd,
    /// What was asked for less time than this need not be answered.
    pub(crate) patience: Duration,
    /// Until when the client could be answered.
    pub(crate) waited_until: Duration,
}

impl End {
    /// Whether the client did not wait long enough for what it sent then.
    fn is_young(self, mark: Mark) -> bool {
        since(mark, self.waited_until) < self.patience
    }
}

/// Judges what is left open.
pub(crate) fn close(state: &mut State, cx: &mut Cx<'_>, end: End) {
    if end.ending == ConversationEnd::Cut || state.blind {
        return;
    }
    let mut turn_runs = false;
    for side in [Side::Client, Side::Agent] {
        turn_runs |= unanswered(state, cx, side, end);
    }
    if !state.is_v1() {
        return;
    }
    for session in state.sessions_mut() {
        load::settle(session, cx);
    }
    if end.ending != ConversationEnd::ClientLeft {
        silence(state, cx, end);
    }
    if !turn_runs && !state.left_in_turn {
        leaked(state, cx, end);
    }
}

struct Left {
    id: Id,
    mark: Mark,
    method: Box<str>,
    cancelled: bool,
    pending_cancel: bool,
    lenient: bool,
    early: bool,
    /// What came before, agents need not survive: the requirement that an end breaks then.
    excused: Option<&'static str>,
}

/// Requests of one side that the other never answered. Gives whether a prompt is among them.
fn unanswered(state: &mut State, cx: &mut Cx<'_>, asker: Side, end: End) -> bool {
    let is_agreed = matches!(state.phase, Phase::Agreed(_));
    let excused = if state.asked[asker as usize].had_batch {
        Some("RPC-12")
    } else {
        (state.asked_early && !is_agreed).then_some("INIT-15")
    };
    let open = &state.asked[asker as usize].open;
    let turn_runs = open.values().any(|open| &*open.method == method::SESSION_PROMPT);
    // of requests with the same id nobody knows which are left, and what asks for nothing may be answered or not
    let mut left: Vec<Left> = open
        .iter()
        .filter(|(_, open)| !(open.shared || open.lenient && open.method.is_empty()))
        .map(|(id, open)| Left {
            id: id.clone(),
            mark: open.mark,
            method: open.method.clone(),
            cancelled: open.cancelled,
            pending_cancel: matches!(open.ask, Ask::Permission { cancelled: true, .. }),
            lenient: open.lenient || open.broken || open.bad_params,
            early: open.early,
            excused,
        })
        .collect();
    left.sort_by_key(|open| open.mark.index);
    let silent = asker.other();
    // a side that was still there could have answered; one whose peer left cannot
    let blamed = match (silent, end.ending) {
        (_, ConversationEnd::ClientClosed | ConversationEnd::Unknown)
        | (Side::Agent, ConversationEnd::AgentExited) => true,
        (_, ConversationEnd::ClientLeft | ConversationEnd::Cut)
        | (Side::Client, ConversationEnd::AgentExited) => false,
    };
    for open in left {
        let young = match silent {
            Side::Agent => end.is_young(open.mark),
            Side::Client => since(open.mark, cx.at) < end.patience,
        };
        // a login may wait for a person
        let waits = &*open.method == method::AUTHENTICATE && end.ending != ConversationEnd::AgentExited;
        if !blamed || young || waits {
            continue;
        }
        tell(cx, silent, &open, end.ending);
    }
    turn_runs
}

fn tell(cx: &mut Cx<'_>, silent: Side, open: &Left, ending: ConversationEnd) {
    let message = format!("the {} request {} was never answered", open.method, open.id);
    if open.pending_cancel {
        let message = "a permission was pending when the turn was cancelled, and was never answered";
        let breach = cx.breach(Rule::PermissionAfterCancel, silent, message).with(open.mark);
        if ending == ConversationEnd::Unknown {
            breach.warn();
        }
        return;
    }
    let unsure = ending == ConversationEnd::Unknown;
    if silent == Side::Agent && &*open.method == method::SESSION_PROMPT {
        let also: &'static [&'static str] = if open.cancelled { &["CAN-09"] } else { &[] };
        let breach = cx.breach(Rule::PromptUnanswered, silent, message).also(also).with(open.mark);
        if unsure || open.lenient {
            breach.warn();
        }
        return;
    }
    if open.cancelled {
        cx.breach(Rule::RequestCancelled, silent, format!("{message}, although it was cancelled"))
            .with(open.mark);
        return;
    }
    let breach = cx.breach(Rule::Unanswered, silent, message).with(open.mark);
    let breach = match (silent, &*open.method) {
        // one that is gone answers nothing, whatever was asked
        (Side::Agent, _) if ending == ConversationEnd::AgentExited => {
            breach.names(open.excused.unwrap_or("TRN-03"))
        }
        (Side::Agent, method) if method.starts_with('_') => breach.names("EXT-06"),
        (Side::Agent, method::SESSION_CLOSE) => breach.names("SES-15"),
        (Side::Agent, _) if open.id == Id::Null => breach.names("RPC-13"),
        (Side::Client, method) if method.starts_with('_') => breach.names("C-EXT-02"),
        _ => breach,
    };
    // what the client asked of an agent before leaving by itself, and what it owed when it left, leaves a doubt
    if unsure
        || open.lenient
        || open.early
        || (silent == Side::Client && ending == ConversationEnd::ClientClosed)
    {
        breach.warn();
    }
}

/// Unreadable lines that were met with silence.
fn silence(state: &mut State, cx: &mut Cx<'_>, end: End) {
    let garbage = std::mem::take(&mut state.asked(Side::Client).garbage);
    for (mark, garbage) in garbage {
        if end.is_young(mark) {
            continue;
        }
        let (rule, claim, _) = garbage.rule();
        let code = garbage.code();
        let message = format!("a line that is no valid request was met with silence instead of error {code}");
        cx.breach(rule, Side::Agent, message).names(claim).with(mark);
    }
}

/// Terminals that were never released.
fn leaked(state: &mut State, cx: &mut Cx<'_>, end: End) {
    let mut left: Vec<_> =
        state.terminals.iter().filter(|(_, terminal)| !terminal.released && !terminal.left).collect();
    left.sort_by_key(|(_, terminal)| terminal.mark.index);
    for (id, terminal) in left {
        let message = format!("the terminal {id:?} was never released");
        let also: &'static [&'static str] = if terminal.killed { &["TERM-05"] } else { &[] };
        let breach = cx.breach(Rule::TerminalLeaked, Side::Agent, message).also(also).with(terminal.mark);
        if end.ending == ConversationEnd::Unknown {
            breach.warn();
        }
    }
}
