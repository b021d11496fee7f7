use acp_proto::method;
use acp_rpc::{Frame, Violation};
use agent_client_protocol_schema::v1::{PromptResponse, SessionUpdate};
use tokio::sync::mpsc;

use super::driver::Failure;
use super::{ClientError, Gone, LastWords, Typed, typed};
use crate::DecisionRecord;

/// One prompt and what comes of it: updates, then the end.
#[derive(Debug)]
pub struct PromptTurn {
    pub(super) notes: mpsc::Receiver<Note>,
    pub(super) over: bool,
}

/// Something that happens in a turn.
#[derive(Debug)]
pub enum TurnEvent {
    /// The agent tells something.
    Update(TurnUpdate),
    /// The client decided something on the agent's behalf.
    Decision(DecisionRecord),
    /// The turn is over. Nothing follows.
    Ended(Typed<PromptResponse>),
    /// The turn failed. Nothing follows.
    Failed(ClientError),
}

/// Something that happens outside every turn.
#[derive(Debug)]
pub enum ClientEvent {
    /// The agent tells something of a session in which no prompt runs.
    Update(TurnUpdate),
    /// The client decided something on the agent's behalf.
    Decision(DecisionRecord),
    /// The agent sent something that is no message, or a message that it must not send.
    Violation(Violation, Frame),
    /// The agent sent a notification that is no session update.
    Notification(Frame),
    /// The connection is over: how it went, and the agent's last words.
    Closed(Gone, LastWords),
}

/// A `session/update`.
#[derive(Debug, Clone)]
pub struct TurnUpdate {
    /// The session it is about.
    pub session: String,
    /// What it says, unless this version does not understand it.
    pub update: Option<Box<SessionUpdate>>,
    /// The notification as it came.
    pub frame: Frame,
}

impl PromptTurn {
    /// The next event; `None` after the end.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if self.over {
            return None;
        }
        loop {
            let event = match self.notes.recv().await {
                Some(Note::Update(update)) => TurnEvent::Update(update),
                Some(Note::Decision(record)) => TurnEvent::Decision(record),
                Some(Note::Answer(answer)) => {
                    self.over = true;
                    let answered = answer.map_err(|failure| failure.explain(method::SESSION_PROMPT));
                    match answered.and_then(|frame| typed(method::SESSION_PROMPT, frame)) {
                        Ok(response) => TurnEvent::Ended(response),
                        Err(error) => TurnEvent::Failed(error),
                    }
                }
                Some(Note::Violation(..) | Note::Notification(_) | Note::Closed(..)) => continue,
                None => {
                    self.over = true;
                    TurnEvent::Failed(Failure::closed().explain(method::SESSION_PROMPT))
                }
            };
            return Some(event);
        }
    }

    /// Reads on to the end, passing over everything else.
    pub async fn end(mut self) -> Result<Typed<PromptResponse>, ClientError> {
        while let Some(event) = self.next().await {
            match event {
                TurnEvent::Ended(response) => return Ok(response),
                TurnEvent::Failed(error) => return Err(error),
                TurnEvent::Update(_) | TurnEvent::Decision(_) => {}
            }
        }
        Err(Failure::closed().explain(method::SESSION_PROMPT))
    }
}

/// What happens outside turns. Read it or drop it: an agent whose notes nobody reads is made to wait.
#[derive(Debug)]
pub struct Events {
    pub(super) notes: mpsc::Receiver<Note>,
}

impl Events {
    /// The next event; `None` when the client is gone.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        loop {
            return Some(match self.notes.recv().await? {
                Note::Update(update) => ClientEvent::Update(update),
                Note::Decision(record) => ClientEvent::Decision(record),
                Note::Violation(violation, frame) => ClientEvent::Violation(violation, frame),
                Note::Notification(frame) => ClientEvent::Notification(frame),
                Note::Closed(how, words) => ClientEvent::Closed(how, words),
                Note::Answer(_) => continue,
            });
        }
    }
}

impl Note {
    /// Whether a queue full of such notes would be too much.
    pub(super) fn is_large(&self) -> bool {
        const LARGE: usize = 64 << 10;
        match self {
            Note::Update(TurnUpdate { frame, .. })
            | Note::Violation(_, frame)
            | Note::Notification(frame) => frame.raw().len() > LARGE,
            Note::Decision(record) => record.subject.len() > LARGE,
            Note::Answer(_) | Note::Closed(..) => false,
        }
    }
}

/// What the driver passes on.
#[derive(Debug)]
pub(crate) enum Note {
    Update(TurnUpdate),
    Decision(DecisionRecord),
    Violation(Violation, Frame),
    Notification(Frame),
    Answer(Result<Frame, Failure>),
    Closed(Gone, LastWords),
}
