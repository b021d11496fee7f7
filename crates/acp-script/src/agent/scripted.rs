//! Following a script.

use std::collections::BTreeMap;

use acp_proto::{StopReason, method};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use super::Agent;
use super::cx::Cx;
use super::params::{self, Params};
use super::plan::{Planner, prompt_text};
use super::step::{Step, Stream, Voice};
use super::turn::{ActiveTurn, Await, Wait};
use crate::script::Act;

impl Agent {
    /// Does what the script says about this frame; whether that is all.
    pub(super) fn follow_script(&mut self, frame: &Frame) -> bool {
        let prompt = match frame.view() {
            View::Request { method: method::SESSION_PROMPT, params, .. } => self.scripted_prompt(params),
            _ => None,
        };
        let text = prompt.as_ref().map(|(_, blocks)| prompt_text(blocks));
        let Some(script) = &mut self.cx.script else { return false };
        let Some(acts) = script.hears(frame, text.as_deref()) else { return false };
        let View::Request { id, .. } = frame.view() else { return self.cx.act_at_once(None, acts) };
        let Some((session, blocks)) = prompt else { return self.cx.act_at_once(Some(id), acts) };
        script.set("sessionId", json!(session));
        script.set("prompt", json!(text.unwrap_or_default()));
        if let Some(open) = self.sessions.get_mut(&session) {
            open.begin(&mut self.cx, id, &blocks, acts.into_iter().map(Step::Act).collect());
        }
        true
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
}

impl Cx {
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

    fn let_all(&mut self, values: BTreeMap<String, Value>) {
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

impl ActiveTurn<'_> {
    /// One act of a turn.
    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Say(text) => {
                let text = self.cx.filled_text(&text);
                self.say(text);
            }
            Act::Think(text) => {
                let thought =
                    Stream::text(Voice::Thought, self.cx.filled_text(&text), self.cx.config.pace.chunk_size);
                self.insert([Step::Stream(thought)]);
            }
            Act::Update(update) => {
                let update = self.cx.filled(&update);
                self.insert([Step::Update(update, true)]);
            }
            Act::Wish(text) => {
                let text = self.cx.filled_text(&text);
                let steps = Planner::new(self.cx, self.session, self.policy(), &[]).wish_steps(&text);
                self.insert(steps);
            }
            Act::Ask { method, params, r#as } => {
                let mut params = self.cx.filled(&params);
                if params.is_null() {
                    params = json!({});
                }
                if params.get("sessionId").is_none() {
                    params["sessionId"] = json!(self.session.id());
                }
                self.ask(&method, &params, Await::Script { r#as }, None);
            }
            Act::Notify { method, params } => {
                let params = self.cx.filled(&params);
                self.cx.notify(&method, &params);
            }
            Act::Wait(time) => self.insert([Step::Pause(time.0)]),
            Act::Let(values) => self.cx.let_all(values),
            Act::Count(name) => self.cx.count(&name),
            Act::Respond(result) => {
                let result = self.cx.filled(&result);
                self.insert([Step::Respond(result)]);
            }
            Act::Fail { code, message } => {
                let message = self.cx.filled_text(&message);
                self.insert([Step::Fail(RpcError::new(code, message))]);
            }
            Act::End(reason) => {
                let step = match StopReason::from_name(&reason) {
                    Some(stop) => Step::End(stop),
                    None => Step::Respond(json!({ "stopReason": reason })),
                };
                self.insert([step]);
            }
            Act::Silence => self.wait(Wait::Forever),
        }
    }

    pub(super) fn script_answered(&mut self, name: Option<String>, answer: Result<Value, RpcError>) {
        let value = match answer {
            Ok(result) => result,
            Err(error) => json!({ "error": { "code": error.code, "message": error.message } }),
        };
        if let (Some(script), Some(name)) = (&mut self.cx.script, name) {
            script.set(&name, value);
        }
    }
}
