//! What is going to happen, in the order of its time.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_comply::ExitRecord;
use acp_rpc::Frame;
use acp_script::agent::{McpKey, McpTool, Token};
use bytes::Bytes;
use serde_json::Value;

/// Something that happens at a time.
pub(crate) enum Item {
    /// The agent's output reaches the client.
    Output(Bytes),
    /// The agent's output ends, and its process with it.
    End(ExitRecord),
    /// The client answers a request of the agent.
    Answer(Frame),
    /// A command of the client's terminals ends.
    ClientTerminal,
    /// The agent answers itself.
    Own(Frame),
    /// A command of the agent's own ends.
    OwnTerminal,
    /// An MCP server is there, or will not come.
    McpConnected(McpKey, Result<Vec<McpTool>, String>),
    /// An MCP server answers.
    McpAnswered(Token, Result<Value, String>),
    /// The stub MCP server writes a line into its log.
    McpLog(Value),
    /// Reading may go on.
    Resume,
}

/// Items by time; those of one moment stay in order. Each belongs to a connection and is dropped with it.
#[derive(Default)]
pub(crate) struct Queue {
    items: BTreeMap<(Duration, u64), (u32, Item)>,
    next: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Duration, connection: u32, item: Item) {
        self.items.insert((at, self.next), (connection, item));
        self.next += 1;
    }

    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    /// The next item that is due.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<(u32, Item)> {
        let first = self.items.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    /// What is left of the output of a connection, and how it ended.
    pub(crate) fn drain(&mut self, connection: u32) -> Vec<Item> {
        let all = std::mem::take(&mut self.items);
        let (gone, kept) = all
            .into_iter()
            .partition(|(_, (of, item))| *of == connection && !matches!(item, Item::McpLog(_)));
        self.items = kept;
        BTreeMap::into_values(gone).map(|(_, item)| item).collect()
    }
}
