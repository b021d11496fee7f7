//! `session/request_permission`: what is asked, in the policy's words.

use std::path::Path;

use acp_policy::{
    PermissionOption, PermissionOptionKind, PermissionOutcome, PolicyDecision, PolicyRules, PolicyVerdict,
    choose_option,
};
use acp_proto::method;
use acp_rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::folders::Folders;
use crate::question::PermissionChoice;
use crate::tool_call::ToolCalls;

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
            kind: PermissionOptionKind::from_name(&option.kind),
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
pub struct PermissionPolicy {
    calls: ToolCalls,
}

/// What a [`PermissionPolicy`] says to a permission request.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// Whose session.
    pub session: String,
    /// What it is about, in a few words.
    pub subject: String,
    /// Yes, no, or ask, and why.
    pub decision: PolicyDecision,
    /// The result that says so; nothing where somebody must be asked.
    pub result: Option<Value>,
}

impl PermissionPolicy {
    /// Takes the params of a `session/update`: those about tool calls say what a later request is about.
    pub fn observe(&mut self, params: &str) {
        let Ok(params) = serde_json::from_str::<Value>(params) else { return };
        let Some(session) = params["sessionId"].as_str() else { return };
        self.calls.observe(session, &params["update"]);
    }

    /// Decides a `session/request_permission` by its params. `folders` are those of a session, its working folder first,
    /// as far as they are known: without them no absolute path counts as one of the session's.
    pub fn decide<'a>(
        &self,
        rules: &PolicyRules,
        params: Option<&str>,
        folders: impl FnOnce(&str) -> &'a [String],
    ) -> Result<Ruling, RpcError> {
        let params: PermissionParams = crate::refusal::params(method::SESSION_REQUEST_PERMISSION, params)?;
        let id = params.tool_call_id()?;
        let call = self.calls.facts(&params.session_id, id, &params.tool_call).read();
        let folders = folders(&params.session_id);
        let folders = Folders::new(folders.first().map(String::as_str), folders.iter().map(Path::new));
        let decision = call.decide(rules, &folders);
        let choices = params.choices();
        let asks = decision.verdict == PolicyVerdict::Ask;
        let outcome = (!asks).then(|| choose_option(decision.verdict, &choices_for_policy(&choices)));
        Ok(Ruling {
            subject: call.subject(id),
            result: outcome.as_ref().map(result),
            session: params.session_id,
            decision,
        })
    }
}

pub(crate) fn choices_for_policy(choices: &[PermissionChoice]) -> Vec<PermissionOption<'_>> {
    choices.iter().map(|choice| PermissionOption { id: &choice.id, kind: choice.kind }).collect()
}

pub(crate) fn result(outcome: &PermissionOutcome) -> Value {
    match outcome {
        PermissionOutcome::Selected(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        PermissionOutcome::Cancelled => json!({"outcome": {"outcome": "cancelled"}}),
    }
}
