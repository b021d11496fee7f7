//! How a proxy is operated: logs, limits, access, health.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use acp_link::{AccessControl, LinkSettings, ListenAddress, ListenError, Listener};
use acp_proxy::metrics::Metrics;
use acp_proxy::ops::{self, Health};
use acp_proxy::{ClientSource, LogLine, ProxyLog};
use anyhow::Context;
use serde_json::{Map, Value};

use crate::talk::{duration, secret};

/// The flags for that.
#[derive(clap::Args, Debug)]
pub struct OperationArgs {
    /// Serve /healthz, /readyz and /metrics (for Prometheus) on this address
    #[arg(long, value_name = "ADDRESS", help_heading = "Operation")]
    ops: Option<SocketAddr>,
    /// Log format on standard error: text or json (one object per line)
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = format, help_heading = "Operation")]
    log_format: Format,
    /// On shutdown, give running turns this long before they are cancelled
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = "Operation")]
    pub drain: Duration,
    /// Clients must send this token; required for addresses that other machines can reach
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ACP_LISTEN_TOKEN",
        hide_env_values = true,
        value_parser = secret,
        help_heading = "Operation"
    )]
    pub listen_token: Option<String>,
    /// Let pages of this origin open WebSockets, such as `https://example.org`; other pages are refused
    #[arg(long, value_name = "ORIGIN", help_heading = "Operation")]
    allow_origin: Vec<String>,
    /// At most this many clients at once
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_connections: Option<usize>,
    /// End a conversation in which either side sends a longer line than this
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size, help_heading = "Limits")]
    max_line: usize,
}

/// How things are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

impl OperationArgs {
    /// Listens for clients, on this socket if it is open already.
    pub fn listen(
        &self,
        at: ListenAddress,
        socket: Option<TcpListener>,
    ) -> Result<ClientSource, ListenError> {
        let access = AccessControl { token: self.listen_token.clone(), origins: self.allow_origin.clone() };
        let listener = match socket {
            Some(socket) => Listener::on(socket, at, &self.wire(), access),
            None => Listener::bind(at, &self.wire(), access),
        };
        Ok(ClientSource::Socket { listener: listener?, max_clients: self.max_connections })
    }

    /// The limits of every wire.
    pub fn wire(&self) -> LinkSettings {
        LinkSettings { line_limit: self.max_line, ..LinkSettings::default() }
    }

    /// Whether health and metrics are served.
    pub fn has_ops(&self) -> bool {
        self.ops.is_some()
    }

    /// Whether turns are told and counted.
    pub fn is_watched(&self) -> bool {
        self.ops.is_some() || self.log_format == Format::Json
    }

    /// Who may reach this address must have the token.
    pub fn check(&self, address: SocketAddr) -> anyhow::Result<()> {
        anyhow::ensure!(
            address.ip().is_loopback() || self.listen_token.is_some(),
            "{address} can be reached from other machines, and whoever connects gets an agent that acts in your name: \
             set a token with --listen-token or ACP_LISTEN_TOKEN, or use a loopback address"
        );
        Ok(())
    }

    /// Where the proxy logs: standard error.
    pub fn log(&self) -> ProxyLog {
        match self.log_format {
            Format::Text => {
                ProxyLog::lines(|line| eprintln!("acp proxy: {}", acp_text::line(&line.to_string())))
            }
            Format::Json => {
                ProxyLog::lines(|line| eprintln!("{}", acp_text::json(&as_json(line).to_string())))
            }
        }
    }

    /// Serves health and metrics, if that is wanted. Says where.
    pub fn serve(&self, health: &Health, metrics: &Metrics) -> anyhow::Result<Option<SocketAddr>> {
        let Some(address) = self.ops else { return Ok(None) };
        let bound = ops::serve(address, health.clone(), metrics.clone());
        bound
            .map(Some)
            .with_context(|| format!("--ops {address}: cannot listen there; is another program using it?"))
    }
}

/// Every conversation takes descriptors: as many as the system lets us have.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What cannot be raised stays as it is, and shows when connections cannot be accepted.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn as_json(line: &LogLine) -> Value {
    let mut object = Map::new();
    object.insert("ts".to_owned(), format!("{:.3}", jiff::Timestamp::now()).into());
    object.insert("level".to_owned(), line.level.as_str().to_lowercase().into());
    if let Some(number) = line.conversation {
        object.insert("conversation".to_owned(), number.into());
    }
    object.insert("message".to_owned(), line.message.as_str().into());
    for (name, value) in &line.fields {
        object.insert((*name).to_owned(), value.as_str().into());
    }
    object.into()
}

fn format(word: &str) -> Result<Format, String> {
    match word {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("use text or json".to_owned()),
    }
}

/// Reads a size: `4096`, `512KiB`, `64MiB`, `1GiB`; `k`, `M` and `G` mean the same.
pub fn size(text: &str) -> Result<usize, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(format!("{text:?} is not a size; try 512KiB or 64MiB")),
    };
    let number: usize = number.parse().map_err(|_| format!("{text:?} is not a size; try 512KiB or 64MiB"))?;
    number
        .checked_mul(scale)
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("{text:?} cannot be used as a size"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use acp_proxy::LogFields;

    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("512KiB"), Ok(512 * 1024));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        for wrong in ["", "x", "64XB", "0", "-1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_of_the_log_is_an_object() {
        let written = Arc::new(Mutex::new(Value::Null));
        let kept = written.clone();
        let log = ProxyLog::lines(move |line| *kept.lock().expect("whole") = as_json(line));
        let fields = LogFields { conversation: Some(3), verdict: Some("allow"), ..LogFields::default() };
        log.event(tracing::Level::WARN, "a \"word\"", &fields);
        let line = written.lock().expect("whole").clone();
        assert_eq!(
            (&line["level"], &line["conversation"], &line["message"], &line["verdict"]),
            (&"warn".into(), &3.into(), &"a \"word\"".into(), &"allow".into())
        );
        assert!(line["ts"].as_str().is_some_and(|ts| ts.parse::<jiff::Timestamp>().is_ok()), "{line}");
    }
}
