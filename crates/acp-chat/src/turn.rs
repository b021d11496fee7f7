//! One turn, shown as it happens.

use std::future::Future;
use std::io;
use std::pin::Pin;

use acp_host::{ClientError, ClientEvent, TurnEvent};
use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate, StopReason};
use serde_json::Value;

use crate::keys::{Interrupt, Interrupts};
use crate::render::Renderer;
use crate::{ChatError, Talk, ask, json};

/// Where what happens is shown.
#[derive(Debug)]
pub enum TurnView {
    /// To a person.
    Human(Renderer<anstream::AutoStream<io::Stdout>>),
    /// To a program.
    Json,
}

/// How a turn came out.
#[derive(Debug)]
pub enum TurnOutcome {
    /// It ended.
    Ended(StopReason),
    /// It failed.
    Failed(ClientError),
    /// The person wants to quit.
    Quit,
}

impl TurnView {
    /// The view that the flags ask for.
    pub fn new(json: bool, verbose: bool) -> TurnView {
        if json { TurnView::Json } else { TurnView::Human(Renderer::new(anstream::stdout(), verbose)) }
    }

    /// Whether a program reads it.
    pub fn is_json(&self) -> bool {
        matches!(self, TurnView::Json)
    }

    /// A line of the program's own; scripts do not see it.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        match self {
            TurnView::Human(renderer) => renderer.note(text),
            TurnView::Json => Ok(()),
        }
    }

    /// A line of the program's own words alone; scripts do not see it.
    pub fn own(&mut self, text: &str) -> io::Result<()> {
        match self {
            TurnView::Human(renderer) => renderer.own(text),
            TurnView::Json => Ok(()),
        }
    }

    /// The person cancels the turn; its end is told on the same line.
    fn cancelling(&mut self) -> io::Result<()> {
        match self {
            TurnView::Human(renderer) => renderer.cancelling(),
            TurnView::Json => Ok(()),
        }
    }

    /// Something for scripts only.
    pub fn object(&mut self, value: &Value) -> io::Result<()> {
        match self {
            TurnView::Human(_) => Ok(()),
            TurnView::Json => json::line(&mut io::stdout().lock(), value),
        }
    }

    /// Something outside every turn.
    pub fn event(&mut self, event: &ClientEvent) -> io::Result<()> {
        match (self, event) {
            (TurnView::Human(renderer), ClientEvent::Update(update)) => renderer.update(update),
            (TurnView::Human(renderer), ClientEvent::Decision(record)) => renderer.decision(record),
            (TurnView::Json, ClientEvent::Update(update)) => {
                json::line(&mut io::stdout().lock(), &json::update(update))
            }
            (TurnView::Json, ClientEvent::Decision(record)) => {
                json::line(&mut io::stdout().lock(), &json::decision(record))
            }
            (TurnView::Human(renderer), ClientEvent::Violation(violation, frame)) => {
                renderer.noise(violation, frame)
            }
            (TurnView::Json, ClientEvent::Violation(..))
            | (_, ClientEvent::Notification(_) | ClientEvent::Closed(..)) => Ok(()),
        }
    }

    fn turn_event(&mut self, event: &TurnEvent) -> io::Result<()> {
        match (self, event) {
            (TurnView::Human(renderer), TurnEvent::Update(update)) => renderer.update(update),
            (TurnView::Human(renderer), TurnEvent::Decision(record)) => renderer.decision(record),
            (TurnView::Human(renderer), TurnEvent::Ended(response)) => renderer.end(response.stop_reason),
            (TurnView::Human(renderer), TurnEvent::Failed(_)) => renderer.fresh(),
            (TurnView::Json, event) => {
                let value = match event {
                    TurnEvent::Update(update) => json::update(update),
                    TurnEvent::Decision(record) => json::decision(record),
                    TurnEvent::Ended(response) => json::end(&response.frame),
                    TurnEvent::Failed(error) => json::error(&error.to_string()),
                };
                json::line(&mut io::stdout().lock(), &value)
            }
        }
    }
}

/// What an update offers to complete.
pub type Commands = Vec<(String, String)>;

/// The slash commands that an event brings, if it brings any.
pub fn commands_of(update: Option<&SessionUpdate>) -> Option<Commands> {
    let Some(SessionUpdate::AvailableCommandsUpdate(update)) = update else { return None };
    let command = |command: &agent_client_protocol_schema::v1::AvailableCommand| {
        // They are completed and shown in the line that a person types.
        (format!("/{}", acp_text::line(&command.name)), acp_text::line(&command.description))
    };
    Some(update.available_commands.iter().map(command).collect())
}

/// Takes what an update says about commands, modes and options.
fn learnt(talk: &mut Talk, update: Option<&SessionUpdate>, learn: &mut dyn FnMut(Commands)) {
    if let Some(update) = update {
        talk.modes.learn(update);
    }
    if let Some(commands) = commands_of(update) {
        learn(commands);
    }
}

/// Runs a turn, and runs it again in a new session when the agent's session has expired: such a prompt did nothing yet.
pub async fn run_again(
    talk: &mut Talk,
    prompt: &[ContentBlock],
    view: &mut TurnView,
    interrupts: &mut Interrupts,
    learn: &mut dyn FnMut(Commands),
) -> Result<TurnOutcome, ChatError> {
    for tries in 1.. {
        let outcome = run(talk, prompt.to_vec(), view, interrupts, learn).await.map_err(ChatError::Output)?;
        let TurnOutcome::Failed(error) = &outcome else { return Ok(outcome) };
        if !talk.renewed(tries, error).await? {
            return Ok(outcome);
        }
        view.object(&json::session(&talk.session)).map_err(ChatError::Output)?;
    }
    Ok(TurnOutcome::Quit)
}

/// Sends a prompt and shows what comes of it. Ctrl-C cancels the turn the first time and quits the second.
/// `learn` hears of the agent's slash commands.
async fn run(
    talk: &mut Talk,
    prompt: Vec<ContentBlock>,
    view: &mut TurnView,
    interrupts: &mut Interrupts,
    learn: &mut dyn FnMut(Commands),
) -> io::Result<TurnOutcome> {
    let mut turn = match talk.client.prompt(&talk.session, prompt).await {
        Ok(turn) => turn,
        Err(error) => return Ok(TurnOutcome::Failed(error)),
    };
    let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut cancelled = false;
    loop {
        let busy = asking.is_some();
        tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                if cancelled || interrupt == Interrupt::Quit {
                    return Ok(TurnOutcome::Quit);
                }
                cancelled = true;
                talk.client.cancel(&talk.session).await;
                view.cancelling()?;
            }
            () = async { if let Some(asking) = &mut asking { asking.await } }, if busy => asking = None,
            Some(question) = talk.questions.recv(), if !busy => {
                if let TurnView::Human(renderer) = view {
                    renderer.question(&question.ask)?;
                }
                let agent = talk.agent.clone();
                asking = Some(Box::pin(async move { ask::put(question, &agent).await }));
            }
            Some(event) = talk.events.next(), if !busy => {
                if let ClientEvent::Update(update) = &event {
                    learnt(talk, update.update.as_deref(), learn);
                }
                view.event(&event)?;
            }
            event = turn.next(), if !busy => {
                let Some(event) = event else { return Ok(TurnOutcome::Quit) };
                view.turn_event(&event)?;
                match event {
                    TurnEvent::Ended(response) => return Ok(TurnOutcome::Ended(response.stop_reason)),
                    TurnEvent::Failed(error) => return Ok(TurnOutcome::Failed(error)),
                    TurnEvent::Update(update) => learnt(talk, update.update.as_deref(), learn),
                    TurnEvent::Decision(_) => {}
                }
            }
        }
    }
}
