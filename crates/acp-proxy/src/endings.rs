//! How conversations end: in time, with a reason, and with nothing left over.

use std::time::Duration;

use acp_link::child::{Child, Exit};
use acp_link::{Burst, Link};
use acp_relay::{Relay, RelayEnd};
use acp_rpc::{Frame, RpcError, View};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::greet::frames;

/// What clients are told when we are told to stop.
pub(crate) const SHUTTING_DOWN: &str = "the proxy is shutting down";
/// How long a client may take to read the last words, and to close its end.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a client whose agent did not start may take to ask something that can be answered with the reason.
const FIRST_WORDS: Duration = Duration::from_secs(5);

/// Why a relay came to its end, in words; `None` when we were told to stop.
#[must_use]
pub fn why_over(ended: Option<&RelayEnd>) -> String {
    match ended {
        None => SHUTTING_DOWN.to_owned(),
        Some(RelayEnd::AgentGone) => "the agent is gone".to_owned(),
        Some(RelayEnd::ClientDone | RelayEnd::ClientGone) => "the client left".to_owned(),
        Some(RelayEnd::Refused { reason, .. } | RelayEnd::Stopped(reason) | RelayEnd::Closed(reason)) => {
            reason.clone()
        }
    }
}

/// Resolves once we are told to stop, or nobody can tell us any more.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Passes lines on until no turn is running, or the time is over, or a side is gone.
pub(crate) async fn until_idle(relay: &mut Relay, most: Duration) -> Option<RelayEnd> {
    const LOOK: Duration = Duration::from_millis(10);
    let end = tokio::time::Instant::now() + most;
    while relay.is_busy() && tokio::time::Instant::now() < end {
        if let Ok(ended) = timeout(LOOK, relay.run()).await
            && ended != RelayEnd::ClientDone
        {
            return Some(ended);
        }
    }
    None
}

/// After the client has ended its output, the agent's end is as it should be.
pub(crate) fn as_left(ended: RelayEnd) -> RelayEnd {
    match ended {
        RelayEnd::AgentGone | RelayEnd::ClientDone => RelayEnd::ClientDone,
        other => other,
    }
}

/// How a process of an agent ended, and the end of what it wrote to standard error.
pub(crate) struct Gone {
    pub(crate) exit: Exit,
    stderr: String,
}

impl Gone {
    /// For a log, where it is one line whatever it is made of.
    pub(crate) fn describe(&self) -> String {
        let exit = &self.exit;
        let lines: Vec<String> = self.stderr.lines().map(plain).filter(|line| !line.is_empty()).collect();
        let by_itself = if exit.success() { " by itself" } else { "" };
        if lines.is_empty() {
            return format!("the agent ended{by_itself}: {exit}");
        }
        let mut last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
        if let Some((at, _)) = last.char_indices().rev().nth(LAST_CHARS) {
            last.replace_range(..at, "…");
        }
        format!("the agent ended{by_itself}: {exit}; its last words on standard error: {last}")
    }
}

/// How many lines of an agent's standard error are told …
const LAST_LINES: usize = 5;
/// … and how many characters.
const LAST_CHARS: usize = 1000;

/// A line without what moves the cursor or changes colours.
fn plain(line: &str) -> String {
    acp_text::line(line.trim())
}

/// Ends the agent. Nobody reads it any more.
pub(crate) async fn end_agent(agent: Link, child: Option<Child>, grace: Duration) -> Option<Gone> {
    let Link { tx, rx } = agent;
    drop(rx);
    match child {
        Some(mut child) => {
            let exit = child.shutdown(grace).await;
            Some(Gone { exit, stderr: child.stderr_tail() })
        }
        None => {
            let _ = timeout(LAST_WORDS, tx.finish()).await;
            None
        }
    }
}

/// Tells the client why there is no agent, in answer to what it asked.
pub(crate) async fn excuse(client: &mut Link, first: &[Burst], why: &str) {
    let asked = |burst: &Burst| {
        frames(burst).find_map(|frame| match frame.view() {
            View::Request { id, .. } => Some(id.clone()),
            _ => None,
        })
    };
    let mut id = first.iter().find_map(asked);
    let listen = async {
        while id.is_none() {
            let Some(burst) = client.rx.recv_burst().await else { break };
            id = asked(&burst);
        }
    };
    let _ = timeout(FIRST_WORDS, listen).await;
    if let Some(id) = id {
        let _ = client.tx.try_send(Frame::failure(&id, &RpcError::internal(why)).raw());
    }
}

/// Closes the client's link after what is queued for it. What it still says is read, unseen: a socket that is closed with
/// unread bytes in it resets the connection, and the client could lose what it was told last.
pub(crate) async fn farewell(client: Link, stop: &mut watch::Receiver<bool>) {
    let Link { tx, mut rx } = client;
    let finished = async {
        let _ = tx.finish().await;
    };
    let read = async { while rx.recv().await.is_some() {} };
    let patience = async {
        stopped(stop).await;
        sleep(LAST_WORDS).await;
    };
    tokio::pin!(finished, read, patience);
    let mut heard = false;
    loop {
        tokio::select! {
            () = &mut finished => break,
            () = &mut read, if !heard => heard = true,
            () = &mut patience => return,
        }
    }
    if !heard {
        let _ = timeout(LAST_WORDS, &mut read).await;
    }
}
