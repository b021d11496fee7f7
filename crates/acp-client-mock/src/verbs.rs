//! What a client is told to do: the lines that a `talk` driver reads.

use std::path::PathBuf;

use acp_script::client_habits::{ElicitationAnswers, PermissionAnswers};
use serde::Deserialize;
use serde_json::{Map, Value};

/// One line of a `talk` driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub(crate) enum ClientVerb {
    Open,
    Prompt {
        #[serde(default = "go")]
        text: String,
    },
    Answer {
        with: PermissionAnswers,
    },
    Permission {
        answer: PermissionAnswers,
    },
    Cancel,
    Close,
    Reload,
    List,
    Delete {
        #[serde(default)]
        session: Option<String>,
    },
    Logout,
    Login {
        #[serde(default)]
        method: Option<String>,
    },
    Mode {
        #[serde(default)]
        mode: Option<String>,
    },
    Option {
        #[serde(default)]
        option: Option<String>,
        #[serde(default)]
        value: Option<Value>,
    },
    Mcp {
        server: Value,
    },
    Attach {
        file: PathBuf,
    },
    Dirs {
        dirs: Vec<PathBuf>,
    },
    Elicit {
        #[serde(default)]
        values: Option<Map<String, Value>>,
        #[serde(default)]
        action: Option<ElicitationAnswers>,
    },
    Quit,
}

fn go() -> String {
    "go".to_owned()
}

impl ClientVerb {
    /// Reads a line; an error says what is wrong with it.
    pub(crate) fn read(line: &Value) -> Result<Self, String> {
        serde_json::from_value(line.clone()).map_err(|error| format!("not a verb: {error}"))
    }

    /// The verb's name on the line.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Prompt { .. } => "prompt",
            Self::Answer { .. } => "answer",
            Self::Permission { .. } => "permission",
            Self::Cancel => "cancel",
            Self::Close => "close",
            Self::Reload => "reload",
            Self::List => "list",
            Self::Delete { .. } => "delete",
            Self::Logout => "logout",
            Self::Login { .. } => "login",
            Self::Mode { .. } => "mode",
            Self::Option { .. } => "option",
            Self::Mcp { .. } => "mcp",
            Self::Attach { .. } => "attach",
            Self::Dirs { .. } => "dirs",
            Self::Elicit { .. } => "elicit",
            Self::Quit => "quit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_script::client_habits::CLIENT_VERBS;
    use serde_json::json;

    #[test]
    fn every_verb_of_a_driver_is_read() {
        for verb in CLIENT_VERBS {
            let line = match verb {
                "answer" => json!({ "verb": verb, "with": "leave" }),
                "mcp" => json!({ "verb": verb, "server": {} }),
                "attach" => json!({ "verb": verb, "file": "/x" }),
                "dirs" => json!({ "verb": verb, "dirs": ["/x"] }),
                _ => json!({ "verb": verb }),
            };
            assert_eq!(ClientVerb::read(&line).unwrap().name(), verb);
        }
        for wrong in [
            json!({}),
            json!({ "verb": "dance" }),
            json!({ "verb": "mcp" }),
            json!({ "verb": "answer", "with": "yes" }),
        ] {
            assert!(ClientVerb::read(&wrong).is_err(), "{wrong}");
        }
    }
}
