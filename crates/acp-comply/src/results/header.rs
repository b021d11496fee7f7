//! What the probe of an agent learnt.

use crate::table::{Table, find};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The report's header for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The protocol version that was agreed on.
    pub protocol_version: Option<Value>,
    /// Name and version as the agent gave them.
    pub agent_info: Option<Value>,
    /// The agent's capabilities.
    pub agent_capabilities: Value,
    /// The capabilities that our client offered.
    pub client_capabilities: Value,
    /// Ways to log in, by id.
    #[serde(default)]
    pub auth_methods: Vec<String>,
    /// Session modes, by id; `None` when none are advertised.
    #[serde(default)]
    pub modes: Option<Vec<String>>,
    /// Slash commands; `None` when none were announced during the probe.
    #[serde(default)]
    pub commands: Option<Vec<String>>,
    /// Why no session could be opened, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// The whole answer to the introduction.
    #[serde(default)]
    pub introduction: Value,
    /// The whole answer to the session request.
    #[serde(default)]
    pub session: Option<Value>,
}

impl Header {
    /// Makes a header from the answers that a probe got and the notifications that it heard.
    pub fn new<'m>(
        table: &Table,
        offered: &Value,
        introduction: &Value,
        session: Option<&Value>,
        heard: impl IntoIterator<Item = &'m Value>,
    ) -> Header {
        let names = |list: Option<&Value>, key: &str| -> Option<Vec<String>> {
            let items = list?.as_array()?.iter();
            Some(items.filter_map(|item| item.get(key)?.as_str().map(str::to_owned)).collect())
        };
        let commands = heard.into_iter().filter_map(|message| find(message, &table.commands)).last();
        Header {
            protocol_version: find(introduction, &table.protocol_version).cloned(),
            agent_info: find(introduction, &table.agent_info).cloned(),
            agent_capabilities: find(introduction, &table.agent_capabilities).cloned().unwrap_or(Value::Null),
            client_capabilities: offered.clone(),
            auth_methods: names(find(introduction, &table.auth_methods), "id").unwrap_or_default(),
            modes: names(session.and_then(|session| find(session, &table.modes)), "id"),
            commands: names(commands, "name"),
            blocked: None,
            introduction: introduction.clone(),
            session: session.cloned(),
        }
    }
}
