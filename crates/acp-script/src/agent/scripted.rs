//! Following a script.

use std::collections::VecDeque;

use acp_proto::{StopReason, method};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use super::Agent;
use super::params::{self, Params};
use super::plan::prompt_text;
use super::step::{Step, Stream, Voice};
use super::turn::{Await, Wait};
use crate::script::Act;

impl Agent {
    /// Does what the script says about this frame; whether that is all.
    pub(super) fn follow_script(&mut self, frame: &Frame) -> bool {
        let prompt = match frame.view() {
            View::Request { method: method::SESSION_PROMPT, params, .. } => self.scripted_prompt(params),
            _ => None,
        };
        let text = prompt.as_ref().map(|(_, blocks)| prompt_text(blocks));
        let Some(script) = &mut self.script else { return false };
        let Some(acts) = script.hears(frame, text.as_deref()) else { return false };
        match (frame.view(), prompt) {
            (View::Request { id, .. }, Some((session, blocks))) => {
                if let Some(script) = &mut self.script {
                    script.set("sessionId", json!(session));
                    script.set("prompt", json!(text.unwrap_or_default()));
                }
                let steps: VecDeque<Step> = acts.into_iter().map(Step::Act).collect();
                self.begin_turn(id, &session, &blocks, steps);
                true
            }
            (View::Request { id, .. }, None) => self.act_at_once(Some(id), acts),
            _ => self.act_at_once(None, acts),
        }
    }

    /// The session and content of a prompt that can be run.
    fn scripted_prompt(&self, params: Option<&str>) -> Option<(String, Vec<Value>)> {
        let params = Params::parse(params).ok()?;
        let session = params.text("sessionId").ok()?.to_owned();
        let blocks = params.list("prompt").ok()?.to_vec();
        params::content_blocks(&blocks).ok()?;
        self.sessions.get(&session).filter(|open| open.turn.is_none())?;
        Some((session, blocks))
    }

    /// Acts outside of a turn; whether one of them answered the request, or keeps it unanswered.
    fn act_at_once(&mut self, request: Option<&Id>, acts: Vec<Act>) -> bool {
        let mut answered = false;
        for act in acts {
            match (act, request) {
                (Act::Respond(result), Some(id)) => {
                    let result = self.filled(&result);
                    self.respond(id, &result);
                    answered = true;
                }
                (Act::Fail { code, message }, Some(id)) => {
                    let message = self.filled_text(&message);
                    self.refuse(id, &RpcError::new(code, message));
                    answered = true;
                }
                (Act::Silence, _) => answered = true,
                (Act::Notify { method, params }, _) => {
                    let params = self.filled(&params);
                    self.notify(&method, &params);
                }
                (Act::Let(values), _) => self.let_all(values),
                (Act::Count(name), _) => self.count(&name),
                _ => {}
            }
        }
        answered
    }

    /// One act of a turn.
    pub(super) fn act(&mut self, session: &str, act: Act) {
        match act {
            Act::Say(text) => {
                let text = self.filled_text(&text);
                let step = self.speak(text);
                self.insert(session, [step]);
            }
            Act::Think(text) => {
                let thought = Stream::text(Voice::Thought, self.filled_text(&text), self.config.chunk_size);
                self.insert(session, [Step::Stream(thought)]);
            }
            Act::Update(update) => {
                let update = self.filled(&update);
                self.insert(session, [Step::Update(update, true)]);
            }
            Act::Wish(text) => {
                let text = self.filled_text(&text);
                let steps = self.wish_steps(session, &text);
                self.insert(session, steps);
            }
            Act::Ask { method, params, r#as } => {
                let mut params = self.filled(&params);
                if params.is_null() {
                    params = json!({});
                }
                if params.get("sessionId").is_none() {
                    params["sessionId"] = json!(session);
                }
                self.ask(session, &method, &params, Await::Script { r#as }, None);
            }
            Act::Notify { method, params } => {
                let params = self.filled(&params);
                self.notify(&method, &params);
            }
            Act::Wait(time) => self.insert(session, [Step::Pause(time.0)]),
            Act::Let(values) => self.let_all(values),
            Act::Count(name) => self.count(&name),
            Act::Respond(result) => {
                let result = self.filled(&result);
                self.insert(session, [Step::Respond(result)]);
            }
            Act::Fail { code, message } => {
                let message = self.filled_text(&message);
                self.insert(session, [Step::Fail(RpcError::new(code, message))]);
            }
            Act::End(reason) => {
                let step = match StopReason::from_name(&reason) {
                    Some(stop) => Step::End(stop),
                    None => Step::Respond(json!({ "stopReason": reason })),
                };
                self.insert(session, [step]);
            }
            Act::Silence => self.wait(session, Wait::Forever),
        }
    }

    pub(super) fn script_answered(&mut self, name: Option<String>, answer: Result<Value, RpcError>) {
        let value = match answer {
            Ok(result) => result,
            Err(error) => json!({ "error": { "code": error.code, "message": error.message } }),
        };
        if let (Some(script), Some(name)) = (&mut self.script, name) {
            script.set(&name, value);
        }
    }

    fn let_all(&mut self, values: std::collections::BTreeMap<String, Value>) {
        let Some(script) = &mut self.script else { return };
        for (name, value) in values {
            let value = script.fill(&value);
            script.set(&name, value);
        }
    }

    fn count(&mut self, name: &str) {
        if let Some(script) = &mut self.script {
            script.count(name);
        }
    }

    fn filled(&self, value: &Value) -> Value {
        self.script.as_ref().map_or_else(|| value.clone(), |script| script.fill(value))
    }

    fn filled_text(&self, text: &str) -> String {
        self.script.as_ref().map_or_else(|| text.to_owned(), |script| script.fill_text(text))
    }
}
