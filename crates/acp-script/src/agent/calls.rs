//! From the call of a tool, as a model makes it, to the job.

use std::time::Duration;

use serde_json::{Value, json};

use super::edits::Edits;
use super::effect::McpTool;
use super::job::{Change, Job, Old};
use super::session::{Server, ServerState};
use super::turn::ActiveTurn;

/// How long a model's command may run when the model does not say: a turn must not wait for ever for a server that it
/// started.
const COMMAND: Duration = Duration::from_secs(600);

/// The tools of the edge, which change nothing.
const CODE_TOOLS: [&str; 6] = ["search", "query", "extract", "list_files", "glob", "skill"];

/// The longest name of a tool that models take.
const NAME: usize = 64;

/// The tools of the MCP servers that are ready, each under the name by which a model sees it, and no other.
pub(super) fn mcp_tools(servers: &[Server]) -> Vec<(String, &Server, &McpTool)> {
    let mut named: Vec<(String, &Server, &McpTool)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let ServerState::Ready(tools) = &server.state else { continue };
        for tool in tools {
            let mut name = format!("mcp__{}__{}", plain(&server.name), plain(&tool.name));
            // What does not fit, or is taken, is told apart by what it was made of.
            if name.len() > NAME || named.iter().any(|(taken, ..)| *taken == name) {
                let mark = format!("_{:08x}", hash(&format!("{at}\0{}\0{}", server.name, tool.name)));
                name.truncate(NAME - mark.len());
                name.push_str(&mark);
            }
            named.push((name, server, tool));
        }
    }
    named
}

/// The same with the characters that every provider takes.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

/// FNV-1a: the same in every version and on every machine, so that a conversation that goes on has the same tools.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl ActiveTurn<'_> {
    /// Begins the tool call that a model wants; one that cannot be is reported as failed, with the reason.
    pub(super) fn call(&mut self, name: String, arguments: Value) {
        let able = |job: Job| self.unable(&job).map_or(Ok(job), Err);
        let job = self.job(&name, &arguments).and_then(able).unwrap_or_else(|reason| Job::Wrong {
            name,
            arguments: if arguments.is_object() { arguments } else { json!({ "arguments": arguments }) },
            reason,
        });
        self.begin(job);
    }

    fn job(&self, name: &str, arguments: &Value) -> Result<Job, String> {
        let text = |key: &str| -> Result<String, String> {
            let given = arguments.get(key).and_then(Value::as_str);
            given.map(str::to_owned).ok_or_else(|| format!("{name} needs {key:?}, a string"))
        };
        let number =
            |key: &str| arguments.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        let path = || -> Result<String, String> { text("path").map(|path| self.session.resolve(&path)) };
        let write = |change: Change| Ok(Job::Write { path: path()?, change, old: Old::Unknown });
        match name {
            "read_file" => {
                Ok(Job::Read { path: path()?, line: number("line"), limit: number("limit"), search: None })
            }
            "write_file" => write(Change::Whole(text("content")?)),
            "edit_file" => {
                let (file, edits) = Edits::parse(arguments, self.cx.config.abilities.declarations.clone())?;
                Ok(Job::Write {
                    path: self.session.resolve(&file),
                    change: Change::Edits(edits),
                    old: Old::Unknown,
                })
            }
            "run_command" => {
                let limit =
                    number("timeout").map_or(COMMAND, |seconds| Duration::from_secs(seconds.max(1).into()));
                Ok(Job::run(text("command")?, Some(limit)))
            }
            name if self.cx.config.abilities.code && CODE_TOOLS.contains(&name) => {
                match arguments.is_object() {
                    true => {
                        Ok(Job::Tool { name: name.to_owned(), arguments: arguments.clone(), otherwise: None })
                    }
                    false => Err(format!("{name} needs an object")),
                }
            }
            // Tasks go another way; what comes here has none.
            "delegate" if self.cx.config.abilities.delegate => {
                Err("delegate needs \"task\", a string".to_owned())
            }
            "update_plan" => plan(arguments).map(|entries| Job::Plan { entries }),
            _ => self.mcp_job(name, arguments),
        }
    }

    fn mcp_job(&self, name: &str, arguments: &Value) -> Result<Job, String> {
        let servers = &self.client_session().servers;
        let known = mcp_tools(servers);
        match known.iter().find(|(known, ..)| known == name) {
            Some((_, server, tool)) => Ok(Job::Mcp {
                key: server.key,
                server: server.name.clone(),
                tool: tool.name.clone(),
                arguments: arguments.clone(),
            }),
            None => {
                let gone = servers.iter().find_map(|server| match &server.state {
                    ServerState::Failed(reason)
                        if name.starts_with(&format!("mcp__{}__", plain(&server.name))) =>
                    {
                        Some(format!(": the MCP server {:?} cannot be used ({reason})", server.name))
                    }
                    _ => None,
                });
                Err(format!("There is no tool {name:?} here{}.", gone.unwrap_or_default()))
            }
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
