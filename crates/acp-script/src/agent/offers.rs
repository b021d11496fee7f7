//! What the agent offers, as the protocol says it: capabilities, modes, config options, slash commands.

use acp_proto::update;
use serde_json::{Value, json};

use super::habits::{Feature, LoginGate};
use super::persona::{ConfigOption, MODE_OPTION, OptionKind, Persona};
use super::{AgentConfig, ClientCaps, SessionRecord};

/// The optional methods and parameters of sessions.
const SESSION_FEATURES: [(&str, Feature); 5] = [
    ("list", Feature::List),
    ("delete", Feature::Delete),
    ("additionalDirectories", Feature::AdditionalDirectories),
    ("resume", Feature::Resume),
    ("close", Feature::Close),
];

/// The same answer with the names of the fields in version 2.
pub(super) fn later(answer: &Value) -> Value {
    json!({ "info": answer["agentInfo"], "capabilities": { "session": {} }, "authMethods": [] })
}

/// The answer to `initialize`, all but the version.
pub(super) fn agent(config: &AgentConfig, caps: ClientCaps) -> Value {
    let persona = &config.persona;
    let login = &persona.login;
    let mut methods = vec![json!({ "id": login.id, "name": login.name, "description": login.description })];
    if let Some((login, args)) = persona.terminal_login.as_ref().filter(|_| caps.auth_terminal) {
        methods.push(json!({
            "id": login.id,
            "type": "terminal",
            "name": login.name,
            "description": login.description,
            "args": args,
            "env": {},
        }));
    }
    if config.habits.login == LoginGate::Absent {
        methods.clear();
    }
    let has = |feature: Feature| config.habits.has(feature);
    let mut capabilities = json!({
        "loadSession": config.load_session && has(Feature::Load),
        "promptCapabilities": {
            "image": has(Feature::Image),
            "audio": persona.audio && has(Feature::Audio),
            "embeddedContext": has(Feature::EmbeddedContext),
        },
        "mcpCapabilities": { "http": config.abilities.mcp && has(Feature::McpHttp), "sse": false },
        "sessionCapabilities": {},
        "auth": {},
    });
    for (name, feature) in SESSION_FEATURES {
        if has(feature) {
            capabilities["sessionCapabilities"][name] = json!({});
        }
    }
    if has(Feature::Logout) {
        capabilities["auth"]["logout"] = json!({});
    }
    if let Some(meta) = &persona.meta {
        capabilities["_meta"] = meta.clone();
    }
    let mut answer = json!({
        "protocolVersion": 1,
        "agentInfo": { "name": config.name, "title": persona.title, "version": config.version },
        "agentCapabilities": capabilities,
        "authMethods": methods,
    });
    if let Some(meta) = &persona.hello {
        answer["_meta"] = meta.clone();
    }
    answer
}

/// `modes` of a session.
pub(super) fn modes(persona: &Persona, record: &SessionRecord) -> Value {
    let available: Vec<Value> = persona
        .modes
        .iter()
        .map(|mode| json!({ "id": mode.id, "name": mode.name, "description": mode.description }))
        .collect();
    json!({ "currentModeId": record.mode, "availableModes": available })
}

/// The options that this client may see.
fn seen(persona: &Persona, caps: ClientCaps) -> impl Iterator<Item = &ConfigOption> {
    persona
        .options
        .iter()
        .filter(move |option| caps.boolean || !matches!(option.kind, OptionKind::Boolean { .. }))
}

/// The option of that id, among those this client may see.
pub(super) fn find<'a>(persona: &'a Persona, id: &str, caps: ClientCaps) -> Option<&'a ConfigOption> {
    seen(persona, caps).find(|option| option.id == id)
}

/// The option whose id or name a wish means, and the value it means.
pub(super) fn meant(
    persona: &Persona,
    option: &str,
    value: &str,
    caps: ClientCaps,
) -> Option<(String, Value)> {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' ', '-'], "");
    let offer = seen(persona, caps).find(|offer| plain(&offer.id).starts_with(&plain(option)))?;
    match &offer.kind {
        OptionKind::Boolean { .. } => Some((offer.id.clone(), json!(matches!(value, "true" | "on" | "yes")))),
        OptionKind::Select { values, .. } => values
            .iter()
            .find(|(id, name)| plain(id) == plain(value) || plain(name) == plain(value))
            .map(|(id, _)| (offer.id.clone(), json!(id))),
    }
}

/// The complete list of config options.
pub(super) fn options(persona: &Persona, record: &SessionRecord, caps: ClientCaps) -> Value {
    seen(persona, caps).map(|offer| offer.show(record)).collect()
}

impl ConfigOption {
    /// Whether `value` (with the request's `type`) is one of the option's values.
    pub(super) fn takes(&self, value: &Value, typed: Option<&str>) -> bool {
        match &self.kind {
            OptionKind::Select { values, .. } => {
                typed != Some("boolean") && values.iter().any(|(id, _)| value.as_str() == Some(id))
            }
            OptionKind::Boolean { .. } => typed == Some("boolean") && value.is_boolean(),
        }
    }

    /// Its value in this session.
    pub(super) fn value(&self, record: &SessionRecord) -> Value {
        let kept = record.config.get(&self.id).cloned();
        match &self.kind {
            OptionKind::Select { .. } if self.id == MODE_OPTION => json!(record.mode),
            OptionKind::Select { values, default } => {
                // A value that is no longer on offer counts as none.
                let offered = |value: &Value| values.iter().any(|(id, _)| value.as_str() == Some(id));
                kept.filter(offered).unwrap_or_else(|| json!(default))
            }
            OptionKind::Boolean { default } => kept.unwrap_or_else(|| json!(default)),
        }
    }

    fn show(&self, record: &SessionRecord) -> Value {
        let mut shown = json!({ "id": self.id, "name": self.name, "description": self.description });
        if let Some(category) = &self.category {
            shown["category"] = json!(category);
        }
        let current = self.value(record);
        match &self.kind {
            OptionKind::Select { values, .. } => {
                shown["type"] = json!("select");
                shown["currentValue"] = current;
                shown["options"] =
                    values.iter().map(|(value, name)| json!({ "value": value, "name": name })).collect();
            }
            OptionKind::Boolean { .. } => {
                shown["type"] = json!("boolean");
                shown["currentValue"] = current;
            }
        }
        shown
    }
}

/// The body of `available_commands_update`.
pub(super) fn commands(persona: &Persona) -> Value {
    let commands: Vec<Value> = persona
        .commands
        .iter()
        .map(|command| {
            let mut shown = json!({ "name": command.name, "description": command.description });
            if let Some(hint) = &command.hint {
                shown["input"] = json!({ "hint": hint });
            }
            shown
        })
        .collect();
    json!({ "sessionUpdate": update::AVAILABLE_COMMANDS_UPDATE, "availableCommands": commands })
}
