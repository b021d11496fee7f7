//! What the client said it can do.

use serde_json::Value;

/// The client's capabilities, reduced to what the agent asks about. Anything omitted is unsupported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCaps {
    /// `fs.readTextFile`
    pub read: bool,
    /// `fs.writeTextFile`
    pub write: bool,
    /// `terminal`
    pub terminal: bool,
    /// `auth.terminal`
    pub auth_terminal: bool,
    /// `elicitation.form`
    pub form: bool,
    /// `elicitation.url`
    pub url: bool,
    /// `session.configOptions.boolean`
    pub boolean: bool,
    /// `session.notices`
    pub notices: bool,
    /// `session.compaction`
    pub compaction: bool,
    /// `subagents`, which is not stable yet
    pub subagents: bool,
}

impl ClientCaps {
    /// Reads `clientCapabilities`.
    pub fn read(capabilities: Option<&Value>) -> Self {
        let yes = |pointer: &str| {
            capabilities
                .and_then(|caps| caps.pointer(pointer))
                .is_some_and(|value| *value == Value::Bool(true))
        };
        let object =
            |pointer: &str| capabilities.and_then(|caps| caps.pointer(pointer)).is_some_and(Value::is_object);
        Self {
            read: yes("/fs/readTextFile"),
            write: yes("/fs/writeTextFile"),
            terminal: yes("/terminal"),
            auth_terminal: yes("/auth/terminal"),
            form: object("/elicitation/form"),
            url: object("/elicitation/url"),
            boolean: object("/session/configOptions/boolean"),
            notices: object("/session/notices"),
            compaction: object("/session/compaction"),
            subagents: object("/subagents"),
        }
    }
}
