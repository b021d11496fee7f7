//! What a script wants done, without a tool's name.

use serde_json::{Map, Value};

use crate::action_error::ActionError;

/// An intent with its particulars. Which tool serves it depends on what the agent offers.
#[derive(Clone, Debug, PartialEq)]
pub enum WantedTool {
    /// Read a file.
    Read {
        /// Which.
        path: String,
        /// From this line on, counted from 1.
        line: Option<u32>,
        /// So many lines.
        limit: Option<u32>,
    },
    /// Write a whole file.
    Write {
        /// Which.
        path: String,
        /// Its text.
        text: String,
    },
    /// Replace a text in a file.
    Edit {
        /// Which file.
        path: String,
        /// What is there.
        old: String,
        /// What shall be there.
        new: String,
    },
    /// Add text at the end of a file.
    Append {
        /// Which file.
        path: String,
        /// The text.
        text: String,
    },
    /// Run a command.
    Run {
        /// The command line.
        command: String,
    },
    /// Keep a plan.
    Plan {
        /// Its steps.
        steps: Vec<String>,
    },
    /// Look for a text.
    Search {
        /// What for.
        text: String,
        /// Where.
        path: Option<String>,
    },
    /// Ask the person.
    Ask {
        /// The question.
        question: String,
        /// What it is about, as a name.
        topic: String,
    },
    /// Call a tool of an MCP server.
    Mcp {
        /// The server, when it matters.
        server: Option<String>,
        /// The tool's own name.
        tool: String,
        /// Its arguments.
        args: Map<String, Value>,
    },
    /// Call exactly this tool.
    Tool {
        /// Its name as offered.
        name: String,
        /// Its arguments.
        args: Value,
    },
}

impl WantedTool {
    /// The intent's name in scripts, profiles and journals.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Edit { .. } => "edit",
            Self::Append { .. } => "append",
            Self::Run { .. } => "run",
            Self::Plan { .. } => "plan",
            Self::Search { .. } => "search",
            Self::Ask { .. } => "ask",
            Self::Mcp { .. } => "mcp",
            Self::Tool { .. } => "tool",
        }
    }

    /// The file that it is about.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path, .. }
            | Self::Write { path, .. }
            | Self::Edit { path, .. }
            | Self::Append { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Reads `{"intent": "read", "path": …}` or `{"tool": NAME, "args": …}`.
    pub(crate) fn parse(value: &Value) -> Result<Self, ActionError> {
        let Some(map) = value.as_object() else { return Err(ActionError::must_be("a call", "an object")) };
        let text = |name: &str| match map.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(ActionError::member(name, "a string")),
            None => Err(ActionError::Missing(name.to_owned())),
        };
        let count = |name: &str| map.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        let Some(intent) = map.get("intent") else {
            let name = text("tool").map_err(|_| ActionError::NeitherIntentNorTool)?;
            let args = map.get("args").cloned().unwrap_or_else(|| Value::Object(Map::new()));
            return Ok(Self::Tool { name, args });
        };
        match intent.as_str().unwrap_or_default() {
            "read" => Ok(Self::Read { path: text("path")?, line: count("line"), limit: count("limit") }),
            "write" => Ok(Self::Write { path: text("path")?, text: text("text")? }),
            "edit" => Ok(Self::Edit { path: text("path")?, old: text("old")?, new: text("new")? }),
            "append" => Ok(Self::Append { path: text("path")?, text: text("text")? }),
            "run" => Ok(Self::Run { command: text("command")? }),
            "plan" => {
                let steps = map
                    .get("steps")
                    .and_then(Value::as_array)
                    .ok_or_else(|| ActionError::member("steps", "a list"))?;
                let steps: Option<Vec<_>> =
                    steps.iter().map(|step| step.as_str().map(str::to_owned)).collect();
                Ok(Self::Plan {
                    steps: steps.ok_or_else(|| ActionError::member("steps", "a list of strings"))?,
                })
            }
            "search" => Ok(Self::Search { text: text("text")?, path: text("path").ok() }),
            "ask" => {
                let topic = text("topic").unwrap_or_else(|_| "answer".to_owned());
                Ok(Self::Ask { question: text("question")?, topic })
            }
            "mcp" => {
                let args = match map.get("args") {
                    None => Map::new(),
                    Some(Value::Object(args)) => args.clone(),
                    Some(_) => return Err(ActionError::member("args", "an object")),
                };
                Ok(Self::Mcp { server: text("server").ok(), tool: text("tool")?, args })
            }
            other => Err(ActionError::UnknownIntent(other.to_owned())),
        }
    }
}
