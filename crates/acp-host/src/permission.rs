//! `session/request_permission`: what is asked, in the policy's words.

use std::collections::HashMap;

use acp_policy::{
    Action, Choice, ChoiceKind, Decision, Outcome, Request, Rules, Stage, ToolKind, Verdict, choose_option,
    shell,
};
use acp_rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::question::PermissionChoice;
use crate::real;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionParams {
    pub session_id: String,
    pub tool_call: Value,
    options: Vec<OptionParams>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OptionParams {
    option_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
}

impl PermissionParams {
    pub(crate) fn choices(&self) -> Vec<PermissionChoice> {
        let choice = |option: &OptionParams| PermissionChoice {
            id: option.option_id.clone(),
            name: option.name.clone(),
            kind: ChoiceKind::from_wire(&option.kind),
        };
        self.options.iter().map(choice).collect()
    }

    pub(crate) fn tool_call_id(&self) -> Result<&str, RpcError> {
        self.tool_call["toolCallId"]
            .as_str()
            .ok_or_else(|| RpcError::invalid_params("session/request_permission needs toolCall.toolCallId"))
    }
}

/// Decides permission requests of a conversation by rules alone, for who stands between an agent and its client.
#[derive(Debug, Default)]
pub struct Clerk {
    sessions: HashMap<String, ToolCalls>,
}

/// What a [`Clerk`] says to a permission request.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// Whose session.
    pub session: String,
    /// What it is about, in a few words.
    pub subject: String,
    /// Yes, no, or ask, and why.
    pub decision: Decision,
    /// The result that says so; nothing where somebody must be asked.
    pub result: Option<Value>,
}

impl Clerk {
    /// More sessions than this on one connection are not remembered.
    const MOST: usize = 1024;

    /// Takes the params of a `session/update`: those about tool calls say what a later request is about.
    pub fn observe(&mut self, params: &str) {
        let Ok(params) = serde_json::from_str::<Value>(params) else { return };
        let Some(session) = params["sessionId"].as_str() else { return };
        if self.sessions.len() < Self::MOST || self.sessions.contains_key(session) {
            self.sessions.entry(session.to_owned()).or_default().observe(&params["update"]);
        }
    }

    /// Decides a `session/request_permission` by its params. `root` is the folder of a session, if it is known.
    pub fn decide<'a>(
        &self,
        rules: &Rules,
        params: Option<&str>,
        root: impl FnOnce(&str) -> Option<&'a str>,
    ) -> Result<Ruling, RpcError> {
        let params: PermissionParams = crate::refusal::params("session/request_permission", params)?;
        let call = params.tool_call_id()?;
        let none = ToolCalls::default();
        let calls = self.sessions.get(&params.session_id).unwrap_or(&none);
        let facts = calls.facts(call, &params.tool_call);
        let decision = facts.decide(rules, root(&params.session_id));
        let choices = params.choices();
        let asks = decision.verdict == Verdict::Ask;
        let outcome = (!asks).then(|| choose_option(decision.verdict, &choices_for_policy(&choices)));
        Ok(Ruling {
            subject: facts.subject(call),
            result: outcome.as_ref().map(result),
            session: params.session_id,
            decision,
        })
    }
}

/// What is known of a tool call: the newest word on each field, from updates and from the request itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolCallFacts {
    pub title: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    raw_input: Option<Value>,
    location: Option<String>,
}

impl ToolCallFacts {
    /// Takes over what an update says.
    pub(crate) fn absorb(&mut self, call: &Value) {
        let text = |key: &str| call[key].as_str().map(str::to_owned);
        self.title = text("title").or(self.title.take());
        self.kind = text("kind").or(self.kind.take());
        self.name = text("name").or(self.name.take());
        if let Some(input) = call.get("rawInput").filter(|input| !input.is_null()) {
            self.raw_input = Some(input.clone());
        }
        let location = call.pointer("/locations/0/path").and_then(Value::as_str).map(str::to_owned);
        self.location = location.or(self.location.take());
    }

    pub(crate) fn kind(&self) -> ToolKind {
        self.kind.as_deref().map_or(ToolKind::Other, ToolKind::from_wire)
    }

    /// The command that the call would run, when its input shows one.
    fn command(&self) -> Option<String> {
        let input = self.raw_input.as_ref()?;
        ["command", "cmd", "commands"].iter().find_map(|key| match input.get(key)? {
            Value::String(line) => Some(line.clone()),
            Value::Array(words) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                let words = words.filter(|words| !words.is_empty())?;
                // A list of whole lines (`commands`) is a script; a list of words is one command.
                Some(if *key == "commands" { words.join("\n") } else { shell::quoted(words) })
            }
            _ => None,
        })
    }

    fn path(&self) -> Option<String> {
        let input = self.raw_input.as_ref();
        let named = ["path", "file_path", "filePath", "abs_path"]
            .iter()
            .find_map(|key| input?.get(key)?.as_str().map(str::to_owned));
        named.or_else(|| self.location.clone())
    }

    /// What the rules say to the request that these facts amount to.
    pub(crate) fn decide(&self, rules: &Rules, root: Option<&str>) -> Decision {
        let (command, path) = (self.command(), self.path());
        let action = match (&command, &path) {
            (Some(line), _) => Action::Command(line),
            (None, Some(path)) => Action::Path(path),
            (None, None) => Action::Unknown,
        };
        let (kind, tools) = (self.kind(), self.name.as_slice());
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        real::decide(rules, &Request { stage: Stage::Permission, kind, tools: &tools, action, root })
    }

    /// A few words for a log.
    pub(crate) fn subject(&self, id: &str) -> String {
        let title = self.title.as_deref().unwrap_or(id);
        match self.command() {
            Some(line) if !title.contains(&line) => format!("{title}: {line}"),
            _ => title.to_owned(),
        }
    }
}

/// The tool calls of a session that may still be asked about.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls(HashMap<String, ToolCallFacts>);

impl ToolCalls {
    /// More unfinished calls than any agent has at once: the memory of a host must not depend on its agent.
    const MOST: usize = 4096;

    pub(crate) fn observe(&mut self, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        if matches!(update["status"].as_str(), Some("completed" | "failed")) {
            self.0.remove(id);
            return;
        }
        if self.0.len() < Self::MOST || self.0.contains_key(id) {
            self.0.entry(id.to_owned()).or_default().absorb(update);
        }
    }

    /// What is known of a call, with what the permission request itself adds.
    pub(crate) fn facts(&self, id: &str, call: &Value) -> ToolCallFacts {
        let mut facts = self.0.get(id).cloned().unwrap_or_default();
        facts.absorb(call);
        facts
    }
}

pub(crate) fn choices_for_policy(choices: &[PermissionChoice]) -> Vec<Choice<'_>> {
    choices.iter().map(|choice| Choice { id: &choice.id, kind: choice.kind }).collect()
}

pub(crate) fn result(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Selected(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        Outcome::Cancelled => json!({"outcome": {"outcome": "cancelled"}}),
    }
}
