//! Tools of MCP servers.

use std::time::Duration;

use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::cx::Cx;
use super::job::Job;
use super::session::{ServerState, Session};
use super::step::Step;
use super::tools::{Work, text_content};
use super::turn::{ActiveTurn, Wait};

/// How long to wait for MCP servers that are still connecting.
pub(super) const SERVERS: Duration = Duration::from_secs(15);

impl ActiveTurn<'_> {
    pub(super) fn begin_mcp(&mut self, server: Option<String>, tool: String, arguments: Option<String>) {
        if self.servers_coming() {
            self.insert([Step::Mcp { server, tool, arguments }]);
            self.wait(Wait::Servers { until: self.cx.now + SERVERS });
            return;
        }
        let arguments = match arguments.as_deref().map(serde_json::from_str::<Value>) {
            None => json!({}),
            Some(Ok(arguments)) => arguments,
            Some(Err(error)) => {
                self.say(format!("These arguments are not JSON: {error}."));
                return;
            }
        };
        let found = self.session.servers.iter().find_map(|candidate| match &candidate.state {
            ServerState::Ready(tools)
                if server.as_ref().is_none_or(|name| *name == candidate.name)
                    && tools.iter().any(|offered| offered.name == tool) =>
            {
                Some((candidate.key, candidate.name.clone()))
            }
            _ => None,
        });
        match found {
            Some((key, server)) => self.begin(Job::Mcp { key, server, tool, arguments }),
            None => {
                let known = self.session.mcp_tools();
                self.say(format!("No MCP server of this session offers a tool {tool:?}. {known}"));
            }
        }
    }

    pub(super) fn list_mcp(&mut self) {
        if self.servers_coming() {
            self.insert([Step::McpList]);
            self.wait(Wait::Servers { until: self.cx.now + SERVERS });
            return;
        }
        let known = self.session.mcp_tools();
        self.say(known);
    }

    pub(super) fn servers_coming(&mut self) -> bool {
        self.session.wake_servers(self.cx);
        let mut servers = self.session.servers.iter();
        !self.turn.waited_for_servers && servers.any(|server| matches!(server.state, ServerState::Connecting))
    }

    pub(super) fn mcp_called(&mut self, work: &Work, answer: Result<Value, RpcError>) {
        let Job::Mcp { tool, server, .. } = &work.job else { return };
        let (tool, server) = (tool.clone(), server.clone());
        match answer {
            Ok(result) => {
                let text = mcp_text(&result);
                if result.get("isError").and_then(Value::as_bool) == Some(true) {
                    return self.fail(work, &format!("The tool {tool} answered with an error: {text}"));
                }
                self.complete(work, &text_content(&text), &result);
                let said = format!("The tool {tool} answered:\n{}", self.shorten(&text));
                self.tell(said);
            }
            Err(error) => {
                let reason =
                    format!("The tool {tool} of the MCP server {server:?} could not be called: {error}.");
                self.fail(work, &reason);
            }
        }
    }
}

impl Session {
    /// Connects to the servers that nobody needed yet.
    pub(super) fn wake_servers(&mut self, cx: &mut Cx) {
        for server in &mut self.servers {
            match std::mem::replace(&mut server.state, ServerState::Connecting) {
                ServerState::Asleep(connect) => cx.outbox.push_back(*connect),
                other => server.state = other,
            }
        }
    }

    /// The tools of all servers, in words.
    fn mcp_tools(&self) -> String {
        if self.servers.is_empty() {
            return "This session has no MCP servers.".to_owned();
        }
        let each = self.servers.iter().map(|server| match &server.state {
            ServerState::Asleep(_) | ServerState::Connecting => {
                format!("{} is still connecting", server.name)
            }
            ServerState::Failed(reason) => format!("{} cannot be used ({reason})", server.name),
            ServerState::Ready(tools) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                format!("{} offers {}", server.name, names.join(", "))
            }
        });
        format!("MCP servers: {}.", each.collect::<Vec<_>>().join("; "))
    }
}

/// An MCP tool's answer in words: its texts, what else it holds by name, and its data where it has no text.
fn mcp_text(result: &Value) -> String {
    let Some(items) = result.get("content").and_then(Value::as_array) else { return result.to_string() };
    let mut words: Vec<String> =
        items.iter().map(|item| text_of(item).unwrap_or_else(|| named(item))).collect();
    let data = result.get("structuredContent").filter(|data| !data.is_null());
    if items.iter().all(|item| text_of(item).is_none_or(|text| text.trim().is_empty())) {
        words.extend(data.map(Value::to_string));
    }
    words.join("\n")
}

/// The text of a content block.
fn text_of(item: &Value) -> Option<String> {
    let text = item.get("text").or_else(|| item.pointer("/resource/text"));
    text.and_then(Value::as_str).map(str::to_owned)
}

/// A content block without text.
fn named(item: &Value) -> String {
    let text = |place: &str| item.pointer(place).and_then(Value::as_str).unwrap_or("of some kind");
    match item.get("type").and_then(Value::as_str) {
        Some("image") => format!("[an image, {}]", text("/mimeType")),
        Some("audio") => format!("[a sound, {}]", text("/mimeType")),
        Some("resource_link") => format!("[{}]({})", text("/name"), text("/uri")),
        Some("resource") => format!("[a binary resource, {}]", text("/resource/uri")),
        _ => item.to_string(),
    }
}
