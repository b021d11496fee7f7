//! Counts clients, lines and bytes.

use std::time::Instant;

use acp_dialect::Side;
use acp_relay::{Interest, Observer, RecordError};
use acp_rpc::Direction;
use bytes::Bytes;
use memchr::memchr_iter;

use crate::metrics::{Metrics, Value};

/// The numbers of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    connections: Value,
    active: Value,
    pub(crate) refused: Value,
    pub(crate) agents_failed: Value,
    lines: [Value; 2],
    bytes: [Value; 2],
}

impl Traffic {
    pub(crate) fn new(metrics: &Metrics) -> Traffic {
        let count = |name, help| metrics.counter(name, help, &[]);
        let by_direction = |name, help| {
            [Direction::ClientToAgent, Direction::AgentToClient]
                .map(|dir| metrics.counter(name, help, &[("dir", dir.as_str())]))
        };
        Traffic {
            connections: count("acp_proxy_connections_total", "Clients that came."),
            active: metrics.gauge("acp_proxy_connections", "Clients that are here.", &[]),
            refused: count("acp_proxy_connections_refused_total", "Clients that were turned away."),
            agents_failed: count(
                "acp_proxy_agent_failures_total",
                "Agents that did not start, or ended by themselves.",
            ),
            lines: by_direction("acp_proxy_lines_total", "Lines that came, by direction."),
            bytes: by_direction("acp_proxy_bytes_total", "Bytes that came, by direction."),
        }
    }

    /// Counts one more client for as long as this lives.
    pub(crate) fn connection(&self) -> ActiveConnection {
        self.connections.up();
        self.active.up();
        ActiveConnection(self.active.clone())
    }
}

/// Counts what a conversation says.
impl Observer for Traffic {
    fn interest(&self) -> Interest {
        Interest { lines: true, frames: false }
    }

    fn lines(&mut self, from: Side, _at: Instant, lines: &Bytes) -> Result<(), RecordError> {
        let index = usize::from(from == Side::Agent);
        let is_block = lines.ends_with(b"\n");
        self.lines[index].add(if is_block { memchr_iter(b'\n', lines).count() as u64 } else { 1 });
        self.bytes[index].add(lines.len() as u64);
        Ok(())
    }
}

/// A client that is connected.
pub(crate) struct ActiveConnection(Value);

impl Drop for ActiveConnection {
    fn drop(&mut self) {
        self.0.down();
    }
}
