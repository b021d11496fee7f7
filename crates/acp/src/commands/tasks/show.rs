//! What happens in a task, for people and for programs.

use std::io::{self, Write};

use acp_host::TurnUpdate;
use acp_nats::parts::Parts;
use acp_nats::payload::{Status, TaskResult, TaskState};
use acp_proto::{StopReason, method};
use acp_proxy::event::{Body, Decider, DecisionEvent, Event, Role, Seen, Text};
use acp_rpc::Frame;
use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, SessionUpdate};
use serde::Serialize;
use serde_json::json;

use crate::exit;
use acp_chat::render::Renderer;

/// Where it is shown.
pub(super) struct Screen {
    human: Option<Renderer<anstream::AutoStream<io::Stdout>>>,
    parts: Parts,
    ended: bool,
    seen: Seen,
}

impl Screen {
    pub(super) fn new(json: bool, verbose: bool) -> Screen {
        let human = (!json).then(|| Renderer::new(anstream::stdout(), verbose));
        Screen { human, parts: Parts::default(), ended: false, seen: Seen::default() }
    }

    /// Whether the end of a turn was shown.
    pub(super) fn saw_end(&self) -> bool {
        self.ended
    }

    pub(super) fn submitted(&self, task: &str, queue: &str) -> io::Result<()> {
        if self.human.is_none() {
            return line(&json!({ "kind": "submitted", "task": task, "queue": queue }));
        }
        eprintln!("task {task} is queued for {queue}");
        Ok(())
    }

    pub(super) fn waiting(&self, task: &str) {
        if self.human.is_some() {
            eprintln!("task {task} has not begun; waiting for it");
        }
    }

    pub(super) fn status(&self, status: &Status) -> io::Result<()> {
        if self.human.is_none() {
            return line(&json!({ "kind": "status", "data": status }));
        }
        match (status.state, &status.session) {
            (TaskState::Begun, Some(session)) => {
                eprintln!("task {} has begun in session {session}", status.task);
            }
            (TaskState::Withdrawn, _) => eprintln!("task {} was taken back", status.task),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn event(&mut self, sequence: u64, event: &Event) -> io::Result<()> {
        if !self.seen.is_new(event) {
            return Ok(());
        }
        let whole = self.parts.whole(event.body.clone());
        self.ended |= matches!(whole, Body::TurnEnd(_));
        let Some(human) = &mut self.human else {
            #[derive(Serialize)]
            struct Line<'a> {
                sequence: u64,
                kind: &'static str,
                event: &'a Event,
            }
            return line(&Line { sequence, kind: "event", event });
        };
        match &whole {
            Body::Text(text) => human.update(&update(&event.session, Some(chunk(text)), event)),
            Body::Update(told) => {
                let known = serde_json::from_str(told.update.get()).ok();
                human.update(&update(&event.session, known, event))
            }
            Body::Permission(_) => human.note("asks for permission"),
            Body::Decision(decision) => human.note(&decided(decision)),
            Body::TurnEnd(_) => human.fresh(),
            Body::Session(_) | Body::TurnStart(_) | Body::Frame(_) | Body::Closed(_) | Body::Part(_) => {
                Ok(())
            }
        }
    }

    /// Shows a task's result, and says the exit code for it.
    pub(super) fn result(&mut self, result: &TaskResult) -> io::Result<u8> {
        let code = if result.stop_reason == StopReason::EndTurn.as_str() { exit::OK } else { exit::FAILED };
        let Some(human) = &mut self.human else {
            line(&json!({ "kind": "result", "data": result }))?;
            return Ok(code);
        };
        human.fresh()?;
        let why = result.error.as_deref().and_then(|error| {
            let error: serde_json::Value = serde_json::from_str(error.get()).ok()?;
            Some(format!(": {}", error["message"].as_str()?))
        });
        eprintln!("task {} ended: {}{}", result.task, result.stop_reason, why.unwrap_or_default());
        for artifact in &result.artifacts {
            eprintln!("  file {artifact}");
        }
        Ok(code)
    }
}

/// An answer in words: which, by whom, and why.
fn decided(decision: &DecisionEvent) -> String {
    let result = decision.result.as_deref().and_then(|result| serde_json::from_str(result.get()).ok());
    let result: serde_json::Value = result.unwrap_or_default();
    let answer = result["outcome"]["optionId"].as_str().unwrap_or("turned away");
    let by = match decision.by {
        Decider::Policy => "the policy",
        Decider::Nats => "NATS",
        Decider::Client => "the client",
    };
    let reason = decision.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("{by} answers: {answer}{reason}")
}

fn update(session: &str, known: Option<SessionUpdate>, event: &Event) -> TurnUpdate {
    let frame = Frame::notification(method::SESSION_UPDATE, &json!({ "event": event }));
    TurnUpdate { session: session.to_owned(), update: known.map(Box::new), frame }
}

fn chunk(text: &Text) -> SessionUpdate {
    let chunk = ContentChunk::new(ContentBlock::from(text.text.clone()));
    match text.role {
        Role::Agent => SessionUpdate::AgentMessageChunk(chunk),
        Role::Thought => SessionUpdate::AgentThoughtChunk(chunk),
        Role::User => SessionUpdate::UserMessageChunk(chunk),
    }
}

pub(super) fn line(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let json = serde_json::to_string(value)?;
    writeln!(out, "{}", acp_text::json(&json))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_proxy::event::Part;

    #[test]
    fn a_turn_whose_end_comes_in_parts_has_ended() {
        let end = r#"{"stopReason":"end_turn","length":0,"sha256":""}"#;
        let (first, second) = end.split_at(20);
        for json in [false, true] {
            let mut screen = Screen::new(json, false);
            for (index, text) in [first, second].into_iter().enumerate() {
                assert!(!screen.saw_end());
                let (of, text, index) = ("turn_end".to_owned(), text.to_owned(), index as u64);
                let body = Body::Part(Part { of, index, count: 2, text });
                let event = Event { session: "s".to_owned(), epoch: 1, seq: index, at: 0, task: None, body };
                screen.event(index, &event).expect("shown");
            }
            assert!(screen.saw_end(), "json: {json}");
        }
    }
}
