//! What the agent offers: capabilities, modes, config options, slash commands.

use serde_json::{Value, json};

use super::{AgentConfig, ClientCaps, Record};

/// The one way to sign in over the protocol.
pub(super) const AUTH_METHOD: &str = "mock-login";
/// The config option that mirrors the mode.
pub(super) const MODE_OPTION: &str = "mode";

/// The top-level keys of `clientCapabilities` that stable version 1 knows.
pub(super) const CLIENT_CAPABILITIES: [&str; 6] =
    ["fs", "terminal", "auth", "elicitation", "session", "_meta"];

/// Modes: id, name, description.
pub(super) const MODES: [(&str, &str, &str); 3] = [
    ("code", "Code", "Reads, and asks before it writes or runs anything"),
    ("plan", "Plan", "Reads and plans, changes nothing"),
    ("auto", "Auto", "Writes and runs without asking"),
];

/// The answer to `initialize`, all but the version.
pub(super) fn agent(config: &AgentConfig, caps: ClientCaps) -> Value {
    let mut methods = vec![json!({
        "id": AUTH_METHOD,
        "name": "Mock login",
        "description": "Signs in at once, without asking anything",
    })];
    if caps.auth_terminal {
        methods.push(json!({
            "id": "mock-terminal-login",
            "type": "terminal",
            "name": "Mock login in a terminal",
            "description": "Starts the agent once more to sign in and ends by itself",
            "args": ["--login"],
            "env": {},
        }));
    }
    json!({
        "protocolVersion": 1,
        "agentInfo": { "name": config.name, "title": "ACP mock agent", "version": config.version },
        "agentCapabilities": {
            "loadSession": config.load_session,
            "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
            "mcpCapabilities": { "http": true, "sse": false },
            "sessionCapabilities": {
                "list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {},
            },
            "auth": { "logout": {} },
        },
        "authMethods": methods,
    })
}

/// Whether there is such a mode.
pub(super) fn is_mode(mode: &str) -> bool {
    MODES.iter().any(|(id, _, _)| *id == mode)
}

/// `modes` of a session.
pub(super) fn modes(record: &Record) -> Value {
    let available: Vec<Value> = MODES
        .iter()
        .map(|(id, name, description)| json!({ "id": id, "name": name, "description": description }))
        .collect();
    json!({ "currentModeId": record.mode, "availableModes": available })
}

/// One config option.
pub(super) struct Offer {
    pub(super) id: &'static str,
    name: &'static str,
    description: &'static str,
    category: Option<&'static str>,
    kind: Kind,
}

enum Kind {
    Select { values: &'static [(&'static str, &'static str)], default: &'static str },
    Boolean { default: bool },
}

const OFFERS: [Offer; 4] = [
    Offer {
        id: MODE_OPTION,
        name: "Mode",
        description: "How freely the agent acts",
        category: Some("mode"),
        kind: Kind::Select {
            values: &[("code", "Code"), ("plan", "Plan"), ("auto", "Auto")],
            default: "code",
        },
    },
    Offer {
        id: "model",
        name: "Model",
        description: "Which pretended model answers",
        category: Some("model"),
        kind: Kind::Select {
            values: &[("mock-small", "Mock small"), ("mock-large", "Mock large")],
            default: "mock-small",
        },
    },
    Offer {
        id: "thought_level",
        name: "Thought level",
        description: "How much it thinks aloud",
        category: Some("thought_level"),
        kind: Kind::Select {
            values: &[("low", "Low"), ("medium", "Medium"), ("high", "High")],
            default: "medium",
        },
    },
    Offer {
        id: "verbose",
        name: "Verbose",
        description: "Whether answers say more than they must",
        category: None,
        kind: Kind::Boolean { default: false },
    },
];

impl Offer {
    /// The option of that id, among those this client may see.
    pub(super) fn find(id: &str, caps: ClientCaps) -> Option<&'static Self> {
        Self::all(caps).find(|offer| offer.id == id)
    }

    fn all(caps: ClientCaps) -> impl Iterator<Item = &'static Self> {
        OFFERS.iter().filter(move |offer| caps.boolean || !matches!(offer.kind, Kind::Boolean { .. }))
    }

    /// Whether `value` (with the request's `type`) is one of the option's values.
    pub(super) fn takes(&self, value: &Value, typed: Option<&str>) -> bool {
        match self.kind {
            Kind::Select { values, .. } => {
                typed != Some("boolean") && values.iter().any(|(id, _)| value.as_str() == Some(id))
            }
            Kind::Boolean { .. } => typed == Some("boolean") && value.is_boolean(),
        }
    }

    /// The option whose id or name a wish means, and the value it means.
    pub(super) fn meant(option: &str, value: &str, caps: ClientCaps) -> Option<(&'static str, Value)> {
        let plain = |text: &str| text.to_lowercase().replace(['_', ' ', '-'], "");
        let offer = Self::all(caps).find(|offer| plain(offer.id).starts_with(&plain(option)))?;
        match offer.kind {
            Kind::Boolean { .. } => Some((offer.id, json!(matches!(value, "true" | "on" | "yes")))),
            Kind::Select { values, .. } => values
                .iter()
                .find(|(id, name)| plain(id) == plain(value) || plain(name) == plain(value))
                .map(|(id, _)| (offer.id, json!(id))),
        }
    }

    fn show(&self, record: &Record) -> Value {
        let mut shown = json!({ "id": self.id, "name": self.name, "description": self.description });
        if let Some(category) = self.category {
            shown["category"] = json!(category);
        }
        let current = record.config.get(self.id).cloned();
        match self.kind {
            Kind::Select { values, default } => {
                shown["type"] = json!("select");
                shown["currentValue"] = match self.id {
                    MODE_OPTION => json!(record.mode),
                    _ => current.unwrap_or(json!(default)),
                };
                shown["options"] =
                    values.iter().map(|(value, name)| json!({ "value": value, "name": name })).collect();
            }
            Kind::Boolean { default } => {
                shown["type"] = json!("boolean");
                shown["currentValue"] = current.unwrap_or(json!(default));
            }
        }
        shown
    }
}

/// The complete list of config options.
pub(super) fn options(record: &Record, caps: ClientCaps) -> Value {
    Offer::all(caps).map(|offer| offer.show(record)).collect()
}

/// The body of `available_commands_update`.
pub(super) fn commands() -> Value {
    json!({
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            { "name": "help", "description": "Say which wishes are understood" },
            { "name": "echo", "description": "Say a text back", "input": { "hint": "the text" } },
            { "name": "plan", "description": "Draft a plan", "input": { "hint": "what the plan is for" } },
            { "name": "compact", "description": "Compact the conversation" },
            { "name": "status", "description": "Say where and in which mode the session works" },
        ],
    })
}
