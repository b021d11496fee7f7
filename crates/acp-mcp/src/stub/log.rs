//! The log's format: one JSON object per line, each with `at`, `pid`, `server` and `event`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StubRecord {
    /// Milliseconds since the Unix epoch.
    pub at: u64,
    /// The stub's process id.
    pub pid: u32,
    /// The stub's `--name`.
    pub server: String,
    /// What happened.
    pub event: StubEvent,
}

/// What the stub saw or did. `event` is the discriminator on the line; method names are events of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all_fields = "camelCase")]
pub enum StubEvent {
    /// The process began.
    #[serde(rename = "start")]
    Start {
        /// The whole command line.
        argv: Vec<String>,
        /// The recorded part of the environment.
        env: Map<String, Value>,
        /// The working folder.
        cwd: String,
        /// `stdio` or `http`.
        transport: String,
    },
    /// An HTTP stub accepts connections.
    #[serde(rename = "listening")]
    Listening {
        /// Its address.
        url: String,
    },
    /// The classic handshake's first half.
    #[serde(rename = "initialize")]
    Initialize {
        /// The version the client asked for.
        protocol_version: String,
        /// `clientInfo`.
        client: Value,
        /// HTTP only: the request's headers.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        headers: Map<String, Value>,
    },
    /// The handshake's second half.
    #[serde(rename = "notifications/initialized")]
    Initialized,
    /// The handshake of protocol revisions without `initialize`.
    #[serde(rename = "server/discover")]
    Discover {
        /// HTTP only: the request's headers.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        headers: Map<String, Value>,
    },
    /// MCP's own ping (not the tool of that name).
    #[serde(rename = "ping")]
    Ping,
    /// The tools were listed.
    #[serde(rename = "tools/list")]
    ToolsList {
        /// HTTP only: the request's headers.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        headers: Map<String, Value>,
    },
    /// A tool was called. Written before the tool runs.
    #[serde(rename = "tools/call")]
    ToolsCall {
        /// Its name.
        tool: String,
        /// Its arguments as sent.
        arguments: Value,
        /// HTTP only: the request's headers.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        headers: Map<String, Value>,
    },
    /// A call ended.
    #[serde(rename = "tools/done")]
    ToolsDone {
        /// The tool's name.
        tool: String,
        /// `ok`, `error` (the tool said so), `refused` (a JSON-RPC error) or `cancelled`.
        outcome: String,
    },
    /// Any other request or notification.
    #[serde(rename = "other")]
    Other {
        /// Its method.
        method: String,
    },
    /// The process ends. Missing when it was killed.
    #[serde(rename = "exit")]
    Exit {
        /// `end of input`, `SIGTERM`, `asked to by a tool`, …
        reason: String,
    },
    /// Reading only: an event that this version does not know.
    #[serde(skip)]
    Unknown(Map<String, Value>),
}

/// Why a line of the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StubRecordError {
    /// It is something else.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error("it is not a JSON object")]
    NoObject,
    /// A number is missing, or too large.
    #[error("{0:?} is not a number")]
    NoNumber(&'static str),
    /// A text is missing.
    #[error("{0:?} is not a string")]
    NoText(&'static str),
}

impl StubRecord {
    /// The record as one line, without the newline.
    pub fn to_json_line(&self) -> String {
        let mut line = Map::new();
        line.insert("at".to_owned(), self.at.into());
        line.insert("pid".to_owned(), self.pid.into());
        line.insert("server".to_owned(), self.server.clone().into());
        match (&self.event, serde_json::to_value(&self.event)) {
            (StubEvent::Unknown(fields), _) => line.extend(fields.clone()),
            (_, Ok(Value::Object(fields))) => line.extend(fields),
            _ => {}
        }
        Value::Object(line).to_string()
    }

    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, StubRecordError> {
        let value: Value = serde_json::from_str(line)?;
        let Value::Object(mut fields) = value else { return Err(StubRecordError::NoObject) };
        let number = |value: Option<Value>, name| {
            value.as_ref().and_then(Value::as_u64).ok_or(StubRecordError::NoNumber(name))
        };
        let at = number(fields.shift_remove("at"), "at")?;
        let pid = number(fields.shift_remove("pid"), "pid")?;
        let pid = u32::try_from(pid).map_err(|_| StubRecordError::NoNumber("pid"))?;
        let Some(Value::String(server)) = fields.shift_remove("server") else {
            return Err(StubRecordError::NoText("server"));
        };
        if !fields.get("event").is_some_and(Value::is_string) {
            return Err(StubRecordError::NoText("event"));
        }
        let event =
            serde_json::from_value(Value::Object(fields.clone())).unwrap_or(StubEvent::Unknown(fields));
        Ok(Self { at, pid, server, event })
    }

    /// The MCP method of this record, when it is one that the client sent.
    pub fn method(&self) -> Option<&str> {
        match &self.event {
            StubEvent::Initialize { .. } => Some("initialize"),
            StubEvent::Initialized => Some("notifications/initialized"),
            StubEvent::Discover { .. } => Some("server/discover"),
            StubEvent::Ping => Some("ping"),
            StubEvent::ToolsList { .. } => Some("tools/list"),
            StubEvent::ToolsCall { .. } => Some("tools/call"),
            StubEvent::Other { method } => Some(method),
            _ => None,
        }
    }
}

/// A line of the log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFlaw {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// A log, read. Several stubs may share one file: each record says which stub wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StubLog {
    /// The records in the order of the file.
    pub records: Vec<StubRecord>,
    /// Lines that are not records.
    pub flaws: Vec<LogFlaw>,
}

impl StubLog {
    /// Reads the text of a log. A last line without its newline is still being written and is left out.
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (index, line) in whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match StubRecord::parse(line) {
                Ok(record) => log.records.push(record),
                Err(error) => log.flaws.push(LogFlaw { line: index + 1, reason: error.to_string() }),
            }
        }
        log
    }

    /// The records of one stub, as a log of their own.
    pub fn of_server(&self, name: &str) -> Self {
        let records = self.records.iter().filter(|record| record.server == name).cloned().collect();
        Self { records, flaws: self.flaws.clone() }
    }

    /// How often a method came in. `initialize` counts both kinds of handshake.
    pub fn count(&self, method: &str) -> usize {
        let same = |seen: &str| seen == method || (method == "initialize" && seen == "server/discover");
        self.records.iter().filter_map(StubRecord::method).filter(|seen| same(seen)).count()
    }

    /// The arguments of every call of a tool, oldest first.
    pub fn calls<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.records.iter().filter_map(move |record| match &record.event {
            StubEvent::ToolsCall { tool: name, arguments, .. } if name == tool => Some(arguments),
            _ => None,
        })
    }

    /// The processes that began and did not write an `exit`.
    pub fn open_processes(&self) -> Vec<u32> {
        let ended =
            |pid| self.records.iter().any(|r| r.pid == pid && matches!(r.event, StubEvent::Exit { .. }));
        let began = self.records.iter().filter(|record| matches!(record.event, StubEvent::Start { .. }));
        began.map(|record| record.pid).filter(|pid| !ended(*pid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(event: StubEvent) -> String {
        StubRecord { at: 5, pid: 7, server: "one".to_owned(), event }.to_json_line() + "\n"
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let call = StubEvent::ToolsCall {
            tool: "echo".to_owned(),
            arguments: json!({"text": "ä\n"}),
            headers: Map::new(),
        };
        let text = line(call.clone());
        assert_eq!(
            text,
            "{\"at\":5,\"pid\":7,\"server\":\"one\",\"event\":\"tools/call\",\"tool\":\"echo\",\"arguments\":{\"text\":\"ä\\n\"}}\n"
        );
        assert_eq!(StubLog::parse(&text).records[0].event, call);
    }

    #[test]
    fn a_line_still_being_written_is_no_flaw_but_a_broken_one_is() {
        let text = line(StubEvent::Ping) + "not json\n" + "{\"at\":1,\"pid\":2";
        let log = StubLog::parse(&text);
        assert_eq!(log.records.len(), 1);
        assert_eq!(log.flaws.len(), 1);
        assert_eq!(log.flaws[0].line, 2);
    }

    #[test]
    fn an_unknown_event_keeps_its_fields() {
        let text = "{\"at\":1,\"pid\":2,\"server\":\"s\",\"event\":\"later\",\"x\":[1]}\n";
        let log = StubLog::parse(text);
        assert!(matches!(&log.records[0].event, StubEvent::Unknown(fields) if fields["x"] == json!([1])));
        assert_eq!(log.records[0].to_json_line() + "\n", text);
    }

    #[test]
    fn both_kinds_of_handshake_count_as_initialize() {
        let text = line(StubEvent::Discover { headers: Map::new() }) + &line(StubEvent::Initialized);
        assert_eq!(StubLog::parse(&text).count("initialize"), 1);
        assert_eq!(StubLog::parse(&text).count("tools/list"), 0);
    }

    #[test]
    fn a_process_is_open_until_it_says_exit() {
        let start = StubEvent::Start {
            argv: vec![],
            env: Map::new(),
            cwd: "/".to_owned(),
            transport: "stdio".to_owned(),
        };
        let open = line(start);
        assert_eq!(StubLog::parse(&open).open_processes(), [7]);
        let closed = open + &line(StubEvent::Exit { reason: "end of input".to_owned() });
        assert!(StubLog::parse(&closed).open_processes().is_empty());
    }
}
