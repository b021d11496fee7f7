//! Terminals whose commands run in no time, or sleep.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_proto::error_code;
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use crate::files::{self, Files};
use crate::shell;

/// How long a command takes at least.
const START: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(crate) struct Terminals {
    next: u64,
    open: BTreeMap<String, Terminal>,
}

#[derive(Debug)]
struct Terminal {
    session: String,
    output: String,
    truncated: bool,
    ends: Duration,
    status: Value,
    /// Requests that wait for the end.
    waiting: Vec<Id>,
}

/// What comes of a request about a terminal.
pub(crate) enum Answer {
    Now(Result<Value, RpcError>),
    /// Look again at this time with [`Terminals::ended`].
    At(Duration),
}

/// Answers to requests that waited.
pub(crate) type Answers = Vec<(Id, Result<Value, RpcError>)>;

impl Terminals {
    pub(crate) fn create(
        &mut self,
        now: Duration,
        files: &mut Files,
        root: &str,
        params: &Value,
    ) -> Result<Value, RpcError> {
        let cwd = match &params["cwd"] {
            Value::String(cwd) => cwd.clone(),
            _ => root.to_owned(),
        };
        if !cwd.starts_with('/') {
            return Err(RpcError::invalid_params(format!("the cwd {cwd:?} must be absolute")));
        }
        if !files.is_folder(&cwd) {
            return Err(RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("file not found: {cwd}")));
        }
        if !files::is_within(root, &cwd) {
            return Err(RpcError::internal(format!(
                "refused: {cwd}: the path lies outside the session's folders"
            )));
        }
        let words = words(params)?;
        let Some(ran) = shell::run(files, &cwd, &words) else {
            let message = format!("cannot start {:?} in {cwd}: No such file or directory", words[0]);
            return Err(RpcError::internal(message).with_data(json!({ "reason": "cannot_start" })));
        };
        self.next += 1;
        let id = format!("term-{}", self.next);
        let limit =
            params["outputByteLimit"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1 << 20);
        let (output, truncated) = tail(ran.output, limit);
        let terminal = Terminal {
            session: params["sessionId"].as_str().unwrap_or_default().to_owned(),
            output,
            truncated,
            ends: now + START + ran.takes,
            status: json!({ "exitCode": ran.code, "signal": null }),
            waiting: Vec::new(),
        };
        self.open.insert(id.clone(), terminal);
        Ok(json!({ "terminalId": id }))
    }

    pub(crate) fn output(&self, now: Duration, params: &Value) -> Result<Value, RpcError> {
        let terminal = self.find(params)?;
        let mut answer = json!({ "output": terminal.output, "truncated": terminal.truncated });
        if terminal.ends <= now {
            answer["exitStatus"] = terminal.status.clone();
        }
        Ok(answer)
    }

    pub(crate) fn wait(&mut self, now: Duration, id: &Id, params: &Value) -> Answer {
        let terminal = match self.find_mut(params) {
            Ok(terminal) => terminal,
            Err(error) => return Answer::Now(Err(error)),
        };
        if terminal.ends <= now {
            return Answer::Now(Ok(terminal.status.clone()));
        }
        terminal.waiting.push(id.clone());
        Answer::At(terminal.ends)
    }

    /// Ends a command. The waiting requests are answered.
    pub(crate) fn kill(&mut self, now: Duration, params: &Value) -> (Result<Value, RpcError>, Answers) {
        match self.find_mut(params) {
            Ok(terminal) => {
                terminal.end(now, "SIGTERM");
                let waited = terminal.take_waiting();
                (Ok(json!({})), waited)
            }
            Err(error) => (Err(error), Vec::new()),
        }
    }

    pub(crate) fn release(&mut self, now: Duration, params: &Value) -> (Result<Value, RpcError>, Answers) {
        if let Err(error) = self.find(params) {
            return (Err(error), Vec::new());
        }
        let gone = params["terminalId"].as_str().and_then(|id| self.open.remove(id));
        let waited = gone.map(|mut terminal| {
            terminal.end(now, "SIGKILL");
            terminal.take_waiting()
        });
        (Ok(json!({})), waited.unwrap_or_default())
    }

    /// The answers that are due because commands have ended by themselves.
    pub(crate) fn ended(&mut self, now: Duration) -> Answers {
        let due = self.open.values_mut().filter(|terminal| terminal.ends <= now);
        due.flat_map(Terminal::take_waiting).collect()
    }

    /// The agent takes a waiting request back.
    pub(crate) fn take_back(&mut self, id: &Id) -> bool {
        self.open.values_mut().any(|terminal| {
            let before = terminal.waiting.len();
            terminal.waiting.retain(|waiting| waiting != id);
            terminal.waiting.len() < before
        })
    }

    fn find(&self, params: &Value) -> Result<&Terminal, RpcError> {
        let (id, session) = (text(params, "terminalId")?, text(params, "sessionId")?);
        self.open.get(id).filter(|terminal| terminal.session == session).ok_or_else(|| no_terminal(id))
    }

    fn find_mut(&mut self, params: &Value) -> Result<&mut Terminal, RpcError> {
        let (id, session) = (text(params, "terminalId")?, text(params, "sessionId")?);
        self.open.get_mut(id).filter(|terminal| terminal.session == session).ok_or_else(|| no_terminal(id))
    }
}

impl Terminal {
    fn end(&mut self, now: Duration, signal: &str) {
        if self.ends > now {
            self.ends = now;
            self.status = json!({ "exitCode": null, "signal": signal });
        }
    }

    fn take_waiting(&mut self) -> Answers {
        let status = &self.status;
        self.waiting.drain(..).map(|id| (id, Ok(status.clone()))).collect()
    }
}

/// The last bytes that fit.
fn tail(output: String, limit: usize) -> (String, bool) {
    let mut from = output.len().saturating_sub(limit);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    if from == 0 { (output, false) } else { (output[from..].to_owned(), true) }
}

/// Program and arguments; a whole line in `command` is for the shell.
pub(crate) fn words(params: &Value) -> Result<Vec<String>, RpcError> {
    let command = text(params, "command")?;
    if command.trim().is_empty() {
        return Err(RpcError::invalid_params("terminal/create needs a command"));
    }
    let args: Vec<String> = match &params["args"] {
        Value::Array(args) => args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    if args.is_empty() && command.contains([' ', ';', '&', '|', '<', '>', '$', '"', '\'', '=']) {
        return Ok(["sh", "-c", command].map(str::to_owned).to_vec());
    }
    Ok(std::iter::once(command.to_owned()).chain(args).collect())
}

pub(crate) fn text<'a>(params: &'a Value, key: &str) -> Result<&'a str, RpcError> {
    params[key].as_str().ok_or_else(|| RpcError::invalid_params(format!("{key} is missing")))
}

fn no_terminal(id: &str) -> RpcError {
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("terminal not found: {id}"))
        .with_data(json!({ "terminalId": id }))
}
