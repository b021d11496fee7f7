//! From the call of a tool, as a model makes it, to the job.

use std::time::Duration;

use serde_json::{Value, json};

use super::Agent;
use super::job::{Change, Job, Old};
use super::session::ServerState;

/// How long a model's command may run when the model does not say: a turn must not wait for ever for a server that it
/// started.
const COMMAND: Duration = Duration::from_secs(600);

/// The name under which a model sees the tool of an MCP server.
pub(super) fn mcp_name(server: &str, tool: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
            .collect()
    };
    let mut name = format!("mcp__{}__{}", plain(server), plain(tool));
    name.truncate(64);
    name
}

impl Agent {
    /// Begins the tool call that a model wants; one that cannot be is reported as failed, with the reason.
    pub(super) fn call(&mut self, session: &str, name: String, arguments: Value) {
        let job = self.job(session, &name, &arguments).unwrap_or_else(|reason| Job::Wrong {
            name,
            arguments: if arguments.is_object() { arguments } else { json!({ "arguments": arguments }) },
            reason,
        });
        self.begin(session, job);
    }

    fn job(&self, session: &str, name: &str, arguments: &Value) -> Result<Job, String> {
        let text = |key: &str| -> Result<String, String> {
            let given = arguments.get(key).and_then(Value::as_str);
            given.map(str::to_owned).ok_or_else(|| format!("{name} needs {key:?}, a string"))
        };
        let number =
            |key: &str| arguments.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        let path = || -> Result<String, String> {
            let path = text("path")?;
            let open = self.sessions.get(session);
            Ok(open.map_or_else(|| path.clone(), |open| open.resolve(&path)))
        };
        let write = |change: Change| Ok(Job::Write { path: path()?, change, old: Old::Unknown });
        match name {
            "read_file" => {
                Ok(Job::Read { path: path()?, line: number("line"), limit: number("limit"), search: None })
            }
            "write_file" => write(Change::Whole(text("content")?)),
            "edit_file" => write(Change::ReplaceOnly { old: text("old")?, new: text("new")? }),
            "run_command" => {
                let limit =
                    number("timeout").map_or(COMMAND, |seconds| Duration::from_secs(seconds.max(1).into()));
                Ok(Job::run(text("command")?, Some(limit)))
            }
            "search" | "query" | "extract" if self.config.code && arguments.is_object() => {
                Ok(Job::Tool { name: name.to_owned(), arguments: arguments.clone() })
            }
            "search" | "query" | "extract" if self.config.code => Err(format!("{name} needs an object")),
            // Tasks go another way; what comes here has none.
            "delegate" if self.config.delegate => Err("delegate needs \"task\", a string".to_owned()),
            "update_plan" => plan(arguments).map(|entries| Job::Plan { entries }),
            _ => self.mcp_job(session, name, arguments),
        }
    }

    fn mcp_job(&self, session: &str, name: &str, arguments: &Value) -> Result<Job, String> {
        let servers = self.sessions.get(self.outward(session)).map(|open| open.servers.as_slice());
        let found = servers.unwrap_or_default().iter().find_map(|server| match &server.state {
            ServerState::Ready(tools) => tools
                .iter()
                .find(|tool| mcp_name(&server.name, &tool.name) == name)
                .map(|tool| (server.key, server.name.clone(), tool.name.clone())),
            _ => None,
        });
        match found {
            Some((key, server, tool)) => Ok(Job::Mcp { key, server, tool, arguments: arguments.clone() }),
            None => Err(format!("There is no tool {name:?} here.")),
        }
    }
}

/// Plan entries in the protocol's form.
fn plan(arguments: &Value) -> Result<Value, String> {
    let wrong = || "update_plan needs \"entries\", a list of {content, status, priority}".to_owned();
    let given = arguments.get("entries").and_then(Value::as_array).ok_or_else(wrong)?;
    let one_of = |entry: &Value, key: &str, known: [&'static str; 3], other: &'static str| {
        let value = entry.get(key).and_then(Value::as_str);
        known.into_iter().find(|known| value == Some(known)).unwrap_or(other)
    };
    let entries = given.iter().map(|entry| {
        let content = entry.get("content").and_then(Value::as_str).ok_or_else(wrong)?;
        Ok(json!({
            "content": content,
            "status": one_of(entry, "status", ["pending", "in_progress", "completed"], "pending"),
            "priority": one_of(entry, "priority", ["high", "medium", "low"], "medium"),
        }))
    });
    entries.collect::<Result<Vec<Value>, String>>().map(Value::Array)
}
