//! One turn, shown as it happens.

use std::future::Future;
use std::io;
use std::pin::Pin;

use acp_host::{ClientError, Event, TurnEvent};
use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate, StopReason};
use serde_json::Value;

use super::keys::{Interrupt, Interrupts};
use super::render::Renderer;
use super::session::{Talk, Trouble};
use super::{ask, json};

/// Where what happens is shown.
#[derive(Debug)]
pub enum View {
    /// To a person.
    Human(Renderer<anstream::AutoStream<io::Stdout>>),
    /// To a program.
    Json,
}

/// How a turn came out.
#[derive(Debug)]
pub enum Outcome {
    /// It ended.
    Ended(StopReason),
    /// It failed.
    Failed(ClientError),
    /// The person wants to quit.
    Quit,
}

impl View {
    /// The view that the flags ask for.
    pub fn new(json: bool, verbose: bool) -> View {
        if json { View::Json } else { View::Human(Renderer::new(anstream::stdout(), verbose)) }
    }

    /// Whether a program reads it.
    pub fn is_json(&self) -> bool {
        matches!(self, View::Json)
    }

    /// A line of the program's own; scripts do not see it.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Human(renderer) => renderer.note(text),
            View::Json => Ok(()),
        }
    }

    /// A line of the program's own words alone; scripts do not see it.
    pub fn own(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Human(renderer) => renderer.own(text),
            View::Json => Ok(()),
        }
    }

    /// The person cancels the turn; its end is told on the same line.
    fn cancelling(&mut self) -> io::Result<()> {
        match self {
            View::Human(renderer) => renderer.cancelling(),
            View::Json => Ok(()),
        }
    }

    /// Something for scripts only.
    pub fn object(&mut self, value: &Value) -> io::Result<()> {
        match self {
            View::Human(_) => Ok(()),
            View::Json => json::line(&mut io::stdout().lock(), value),
        }
    }

    /// Something outside every turn.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match (self, event) {
            (View::Human(renderer), Event::Update(update)) => renderer.update(update),
            (View::Human(renderer), Event::Decision(record)) => renderer.decision(record),
            (View::Json, Event::Update(update)) => {
                json::line(&mut io::stdout().lock(), &json::update(update))
            }
            (View::Json, Event::Decision(record)) => {
                json::line(&mut io::stdout().lock(), &json::decision(record))
            }
            (View::Human(renderer), Event::Violation(violation, frame)) => renderer.noise(violation, frame),
            (View::Json, Event::Violation(..)) | (_, Event::Notification(_) | Event::Closed(..)) => Ok(()),
        }
    }

    fn turn_event(&mut self, event: &TurnEvent) -> io::Result<()> {
        match (self, event) {
            (View::Human(renderer), TurnEvent::Update(update)) => renderer.update(update),
            (View::Human(renderer), TurnEvent::Decision(record)) => renderer.decision(record),
            (View::Human(renderer), TurnEvent::Ended(response)) => renderer.end(response.stop_reason),
            (View::Human(renderer), TurnEvent::Failed(_)) => renderer.fresh(),
            (View::Json, event) => {
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
    view: &mut View,
    interrupts: &mut Interrupts,
    learn: &mut dyn FnMut(Commands),
) -> Result<Outcome, Trouble> {
    for tries in 1.. {
        let outcome = run(talk, prompt.to_vec(), view, interrupts, learn).await.map_err(Trouble::output)?;
        let Outcome::Failed(error) = &outcome else { return Ok(outcome) };
        if !talk.renewed(tries, error).await? {
            return Ok(outcome);
        }
        view.object(&json::session(&talk.session)).map_err(Trouble::output)?;
    }
    Ok(Outcome::Quit)
}

/// Sends a prompt and shows what comes of it. Ctrl-C cancels the turn the first time and quits the second.
/// `learn` hears of the agent's slash commands.
async fn run(
    talk: &mut Talk,
    prompt: Vec<ContentBlock>,
    view: &mut View,
    interrupts: &mut Interrupts,
    learn: &mut dyn FnMut(Commands),
) -> io::Result<Outcome> {
    let mut turn = match talk.client.prompt(&talk.session, prompt).await {
        Ok(turn) => turn,
        Err(error) => return Ok(Outcome::Failed(error)),
    };
    let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut cancelled = false;
    loop {
        let busy = asking.is_some();
        tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                if cancelled || interrupt == Interrupt::Quit {
                    return Ok(Outcome::Quit);
                }
                cancelled = true;
                talk.client.cancel(&talk.session).await;
                view.cancelling()?;
            }
            () = async { if let Some(asking) = &mut asking { asking.await } }, if busy => asking = None,
            Some(question) = talk.questions.recv(), if !busy => {
                if let View::Human(renderer) = view {
                    renderer.question(&question.ask)?;
                }
                let agent = talk.agent.clone();
                asking = Some(Box::pin(async move { ask::put(question, &agent).await }));
            }
            Some(event) = talk.events.next(), if !busy => {
                if let Event::Update(update) = &event {
                    learnt(talk, update.update.as_deref(), learn);
                }
                view.event(&event)?;
            }
            event = turn.next(), if !busy => {
                let Some(event) = event else { return Ok(Outcome::Quit) };
                view.turn_event(&event)?;
                match event {
                    TurnEvent::Ended(response) => return Ok(Outcome::Ended(response.stop_reason)),
                    TurnEvent::Failed(error) => return Ok(Outcome::Failed(error)),
                    TurnEvent::Update(update) => learnt(talk, update.update.as_deref(), learn),
                    TurnEvent::Decision(_) => {}
                }
            }
        }
    }
}
