//! Commands in the client's terminals.

use std::time::Duration;

use acp_proto::{method, tool_status};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::job::Job;
use super::permits::Failure;
use super::tools::{Stage, Work, terminal_id, text_content};
use super::turn::{ActiveTurn, Await};

/// How long to wait for the answer to a kill or release.
const CLEANUP: Duration = Duration::from_secs(1);

impl ActiveTurn<'_> {
    pub(super) fn terminal_created(&mut self, mut work: Work, answer: Result<Value, RpcError>) {
        let terminal = match answer.map(|answer| terminal_id(&answer)) {
            Ok(Some(terminal)) => terminal,
            Ok(None) => return self.fail(&work, "The client made a terminal but did not name it."),
            Err(error) => {
                return self.fail(&work, &format!("I could not run the command: {error}."));
            }
        };
        self.turn.terminals.push(terminal.clone());
        // A terminal of our own means nothing to the client.
        if self.shows_terminals() {
            self.report(&work.call, &json!({ "content": [{ "type": "terminal", "terminalId": terminal }] }));
        }
        work.terminal = Some(terminal);
        let patience = match work.job {
            Job::Run { kill_after, .. } => kill_after,
            _ => None,
        };
        self.ask_terminal(method::TERMINAL_WAIT_FOR_EXIT, work, Stage::Exited, patience);
    }

    pub(super) fn ask_terminal(
        &mut self,
        method: &str,
        work: Work,
        stage: Stage,
        patience: Option<Duration>,
    ) {
        let params = json!({ "sessionId": self.session.id(), "terminalId": work.terminal });
        self.ask(method, &params, Await::Work(Box::new(work), stage), patience);
    }

    /// The command ran longer than it may.
    pub(super) fn overdue(&mut self, mut work: Work) {
        if let Job::Run { killed, .. } = &mut work.job {
            *killed = true;
        }
        self.ask_terminal(method::TERMINAL_KILL, work, Stage::Killed, Some(CLEANUP));
    }

    pub(super) fn kill_terminal(&mut self, terminal: &str) {
        let params = json!({ "sessionId": self.session.id(), "terminalId": terminal });
        self.ask(method::TERMINAL_KILL, &params, Await::Cleanup, Some(CLEANUP));
    }

    pub(super) fn release_terminal(&mut self, terminal: &str) {
        self.turn.terminals.retain(|open| open != terminal);
        let params = json!({ "sessionId": self.session.id(), "terminalId": terminal });
        self.ask(method::TERMINAL_RELEASE, &params, Await::Cleanup, Some(CLEANUP));
    }

    /// Reports how a command ended.
    pub(super) fn finish_run(&mut self, work: &Work) {
        let Job::Run { line, exit, output, killed, kill_after } = &work.job else { return };
        let truncated = output.get("truncated") == Some(&Value::Bool(true));
        let text = output.get("output").and_then(Value::as_str).unwrap_or_default();
        let text = &if truncated { rest(text) } else { text.to_owned() };
        let code = exit.get("exitCode").and_then(Value::as_i64);
        let ended = match (killed, code) {
            (true, _) => format!("was killed after {:?}", kill_after.unwrap_or_default()),
            (_, Some(code)) => format!("ended with exit code {code}"),
            (_, None) => {
                format!("ended by signal {}", exit.get("signal").and_then(Value::as_str).unwrap_or("unknown"))
            }
        };
        let said = match self.cx.config.habits.quotes {
            true => format!("`{line}` {ended}. Its output:\n{}", self.shorten(text)),
            false => "That is done.".to_owned(),
        };
        let content = match self.shows_terminals() {
            true => json!([{ "type": "terminal", "terminalId": work.terminal }]),
            false => text_content(text),
        };
        let mut raw = json!({ "exitCode": code, "output": text });
        if truncated {
            raw["truncated"] = json!(true);
        }
        if let Some(limit) = kill_after.filter(|_| *killed) {
            raw["killedAfter"] = json!(limit.as_secs_f64());
        }
        let well = code == Some(0) && !killed;
        if well {
            self.complete(work, &content, &raw);
        } else {
            self.report(
                &work.call,
                &json!({ "status": tool_status::FAILED, "content": content, "rawOutput": raw }),
            );
        }
        // The release stands next in the turn; the words come after it.
        let released = self.turn.steps.pop_front();
        match well {
            true => self.tell(said),
            false => self.after_failure(&said, Failure::Broken),
        }
        self.insert(released);
    }
}

/// What is left of an output whose beginning is gone, from the start of a line.
fn rest(output: &str) -> String {
    let whole_lines = output.split_once('\n').map(|(_, rest)| rest).filter(|rest| !rest.is_empty());
    let rest = whole_lines.unwrap_or(output);
    format!("[the beginning is missing: only the last {} bytes were kept]\n{rest}", rest.len())
}

/// Command and arguments: as they are when no shell is needed, otherwise for `sh -c`.
pub(super) fn split(line: &str) -> (String, Vec<String>) {
    let needs_shell = line.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '~', '(', '[', '\n', '=']);
    match shlex::split(line) {
        Some(mut words) if !needs_shell && words.first().is_some_and(|word| !is_builtin(word)) => {
            let command = words.remove(0);
            (command, words)
        }
        _ => ("sh".to_owned(), vec!["-c".to_owned(), line.to_owned()]),
    }
}

/// Whether only a shell knows this command: it is no program, or does nothing as one.
fn is_builtin(word: &str) -> bool {
    const WORDS: [&str; 28] = [
        "!", ".", ":", "alias", "bg", "cd", "command", "eval", "exec", "exit", "export", "fg", "getopts",
        "hash", "jobs", "local", "read", "readonly", "return", "set", "shift", "times", "trap", "type",
        "ulimit", "umask", "unset", "wait",
    ];
    WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_shell_runs_what_is_no_plain_program() {
        for line in ["ls [ab].txt", "cd sub", "exit 3", "export A", "ls *.rs", "a | b", "'", ""] {
            assert_eq!(split(line), ("sh".to_owned(), vec!["-c".to_owned(), line.to_owned()]), "{line}");
        }
        let plain = |line: &str| split(line).0 != "sh";
        assert!(plain("git commit -m 'cd there'") && plain("make export") && plain("./cd"));
    }
}
