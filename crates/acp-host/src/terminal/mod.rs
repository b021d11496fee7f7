//! Terminals: commands that run at an agent's request.
//!
//! Each runs in a process group of its own. Its exit status is looked at without being collected until the
//! terminal is released, so the group's number cannot be given to strangers while it may still be killed. With a
//! [process guard](acp_link::process_guard) it does not outlive us either, however we end.

mod command;
mod process;
mod ring;
mod signal;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_link::process_guard::ProcessGuard;
use acp_rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use command::{line, whole_line};
pub(crate) use process::Process;
use process::Status;

use crate::jail::Roots;
use crate::refusal;

/// How much terminals may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalLimits {
    /// The bytes of output kept when the agent sets no limit.
    pub default_output_bytes: usize,
    /// The most bytes of output kept, whatever the agent asks.
    pub max_output_bytes: usize,
    /// The most terminals of a session that are not released.
    pub per_session: usize,
    /// How long a killed command may take to end by itself before it is forced.
    pub kill_grace: Duration,
}

impl Default for TerminalLimits {
    fn default() -> Self {
        TerminalLimits {
            default_output_bytes: 1 << 20,
            max_output_bytes: 4 << 20,
            per_session: 32,
            kill_grace: Duration::from_millis(500),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateParams {
    pub session_id: String,
    pub command: String,
    #[serde(default)]
    pub args: Option<Vec<String>>,
    #[serde(default)]
    pub env: Option<Vec<EnvVariable>>,
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    #[serde(default)]
    pub output_byte_limit: Option<u64>,
    /// Whether the command is a line for a shell, found out once: what was decided about is what is started.
    #[serde(skip)]
    is_shell_line: OnceLock<bool>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EnvVariable {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TerminalParams {
    pub session_id: String,
    pub terminal_id: String,
}

/// All terminals of a client.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    next: u64,
    open: HashMap<String, Terminal>,
}

#[derive(Debug)]
struct Terminal {
    session: String,
    process: Arc<Process>,
}

impl Terminals {
    /// Starts a command and returns at once.
    pub(crate) fn create(
        &mut self,
        roots: &Roots,
        limits: TerminalLimits,
        process_guard: Option<&ProcessGuard>,
        params: &CreateParams,
    ) -> Result<Value, RpcError> {
        let session = &params.session_id;
        if self.open.values().filter(|t| t.session == *session).count() >= limits.per_session {
            let message = format!(
                "cannot start {:?}: the session has {} terminals already; release some",
                params.command, limits.per_session
            );
            return Err(refusal::unfit("too_many_terminals", message));
        }
        let asked = params.output_byte_limit.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let bytes = asked.unwrap_or(limits.default_output_bytes).min(limits.max_output_bytes);
        let (command, folder) = command::build(roots, params)?;
        let process = Process::start(command, bytes, process_guard).map_err(|error| {
            let folder = params.cwd.as_deref().unwrap_or_else(|| roots.cwd()).display();
            let message = format!("cannot start {:?} in {folder}: {error}", params.command);
            refusal::unfit("cannot_start", message)
        })?;
        drop(folder); // the command is in it
        self.next += 1;
        let id = format!("term-{}", self.next);
        self.open.insert(id.clone(), Terminal { session: session.clone(), process: Arc::new(process) });
        Ok(json!({"terminalId": id}))
    }

    pub(crate) fn find(&self, params: &TerminalParams) -> Result<Arc<Process>, RpcError> {
        match self.open.get(&params.terminal_id) {
            Some(terminal) if terminal.session == params.session_id => Ok(Arc::clone(&terminal.process)),
            _ => Err(refusal::no_terminal(&params.terminal_id)),
        }
    }

    pub(crate) fn take(&mut self, params: &TerminalParams) -> Result<Arc<Process>, RpcError> {
        let process = self.find(params)?;
        self.open.remove(&params.terminal_id);
        Ok(process)
    }

    pub(crate) fn take_session(&mut self, session: &str) -> Vec<Arc<Process>> {
        self.open.extract_if(|_, t| t.session == session).map(|(_, t)| t.process).collect()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Arc<Process>> {
        self.open.drain().map(|(_, terminal)| terminal.process).collect()
    }
}

/// The answer to `terminal/output`.
pub(crate) fn output(process: &Process) -> Value {
    let (output, truncated, status) = process.output();
    match status {
        None => json!({"output": output, "truncated": truncated}),
        Some(status) => json!({"output": output, "truncated": truncated, "exitStatus": exit_status(status)}),
    }
}

/// The answer to `terminal/wait_for_exit`, and the `exitStatus` of an output.
pub(crate) fn exit_status(status: Status) -> Value {
    match status {
        Status::Code(code) => json!({"exitCode": code, "signal": null}),
        Status::Signal(number) => json!({"exitCode": null, "signal": signal::name(number)}),
    }
}
