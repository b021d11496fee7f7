//! A recorded conversation for people.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use acp_host::TurnUpdate;
use acp_proto::{method, update};
use acp_proxy::replay::{RecordedFrame, Recording};
use acp_rpc::{Direction, Exchange, Frame, Reply, View};
use agent_client_protocol_schema::v1::StopReason;
use serde_json::{Value, json};

use acp_text::line as clean;

use acp_chat::render::Renderer;

/// Writes conversations as they were, one after another.
pub(super) fn text(recordings: &[Recording], speed: Option<f64>, verbose: bool) -> io::Result<()> {
    for recording in recordings {
        let mut show = Show {
            renderer: Renderer::new(anstream::stdout().lock(), verbose),
            open: Exchange::default(),
            verbose,
        };
        show.heading(recording)?;
        let mut pace = Pace::new(speed);
        for said in &recording.said {
            pace.wait(said.t);
            show.place(said)?;
            show.said(said)?;
        }
        if let Some(outcome) = &recording.outcome {
            show.renderer.note(&format!("({})", clean(outcome)))?;
        }
    }
    Ok(())
}

/// Waits as long as it took then.
pub(super) struct Pace {
    began: Instant,
    speed: Option<f64>,
}

impl Pace {
    pub(super) fn new(speed: Option<f64>) -> Pace {
        Pace { began: Instant::now(), speed }
    }

    pub(super) fn wait(&mut self, t: Duration) {
        let Some(speed) = self.speed else { return };
        let due = Duration::try_from_secs_f64(t.as_secs_f64() / speed).unwrap_or(t);
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }
}

struct Show<W> {
    renderer: Renderer<W>,
    /// Prompts and permission requests that wait for their answers.
    open: Exchange<()>,
    verbose: bool,
}

impl<W: Write> Show<W> {
    fn heading(&mut self, recording: &Recording) -> io::Result<()> {
        let at = recording.at.as_deref().map(|at| format!(", {at}")).unwrap_or_default();
        let agent = recording.agent.as_deref().map(|agent| format!(", {agent}")).unwrap_or_default();
        self.renderer.note(&clean(&format!("{}{at}{agent}", recording.name)))
    }

    fn said(&mut self, said: &RecordedFrame) -> io::Result<()> {
        if let Some(decided) = &said.by_proxy {
            if decided.is_change() {
                return self.changed(&decided.method, &decided.reason, &said.frame);
            }
            if decided.request.is_empty() {
                let what = if decided.method.is_empty() { "an error" } else { &decided.method };
                return self
                    .renderer
                    .note(&clean(&format!("proxy: {} {what}: {}", decided.verdict, decided.reason)));
            }
            // The request and its answer are one decision.
            if said.frame.method().is_none() {
                return Ok(());
            }
            let subject = subject(&said.frame);
            let words =
                format!("proxy: {} {} {subject}: {}", decided.verdict, decided.method, decided.reason);
            return self.renderer.note(&clean(&words));
        }
        match (said.dir, said.frame.view()) {
            (Direction::ClientToAgent, View::Request { id, method: method::SESSION_PROMPT, params }) => {
                let _ = self.open.asked(said.dir, id, ());
                self.prompt(params)
            }
            (Direction::AgentToClient, View::Notification { method: method::SESSION_UPDATE, params }) => {
                self.update(&said.frame, params)
            }
            (
                Direction::AgentToClient,
                View::Request { id, method: method::SESSION_REQUEST_PERMISSION, .. },
            ) => {
                let _ = self.open.asked(said.dir, id, ());
                self.renderer.note(&clean(&format!("asks permission: {}", subject(&said.frame))))
            }
            (dir @ Direction::ClientToAgent, View::Response { id, reply })
                if self.open.answered(dir, id).is_some() =>
            {
                let words = match reply {
                    Reply::Result(result) => answer(result),
                    Reply::Error(error) => format!("error {error}"),
                };
                self.renderer.note(&clean(&format!("answered: {words}")))
            }
            (Direction::AgentToClient, View::Request { method, params, .. })
                if !self.verbose && is_use_of_client(method) =>
            {
                self.renderer.note(&clean(&format!("asks the client: {method} {}", object_of(params))))
            }
            (dir @ Direction::AgentToClient, View::Response { id, reply })
                if self.open.answered(dir, id).is_some() =>
            {
                match reply {
                    Reply::Result(result) => {
                        let result: Value = serde_json::from_str(result).unwrap_or_default();
                        match serde_json::from_value::<StopReason>(result["stopReason"].clone()) {
                            Ok(reason) => self.renderer.end(reason),
                            Err(_) => self.renderer.note(&clean(&format!("(ended: {result})"))),
                        }
                    }
                    Reply::Error(error) => self.renderer.note(&clean(&format!("(error: {error})"))),
                }
            }
            _ if self.verbose => {
                let arrow = if said.dir == Direction::ClientToAgent { "->" } else { "<-" };
                self.renderer.note(&clean(&format!("{arrow} {}", said.frame)))
            }
            _ => Ok(()),
        }
    }

    /// Where the frame stands that is shown next, and when it came; only when verbose.
    fn place(&mut self, said: &RecordedFrame) -> io::Result<()> {
        // A message that comes in many chunks is one text.
        let is_chunk = |frame: &Frame| frame.params().is_some_and(|params| params.contains("_chunk\""));
        if !self.verbose || said.is_change() || is_chunk(&said.frame) {
            return Ok(());
        }
        let line = said.line.map(|line| format!("line {line}, ")).unwrap_or_default();
        self.renderer.note(&format!("[{line}{:.3} s]", said.t.as_secs_f64()))
    }

    /// What the agent was told instead; only when verbose.
    fn changed(&mut self, method: &str, reason: &str, frame: &Frame) -> io::Result<()> {
        if !self.verbose {
            return Ok(());
        }
        self.renderer.note(&clean(&format!("proxy: changed {method}: {reason}")))?;
        self.renderer.note(&clean(&format!("-> {frame}")))
    }

    fn prompt(&mut self, params: Option<&str>) -> io::Result<()> {
        let params: Value = params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for block in params["prompt"].as_array().into_iter().flatten() {
            let update = json!({ "sessionUpdate": update::USER_MESSAGE_CHUNK, "content": block });
            let params = json!({ "sessionId": params["sessionId"], "update": update });
            let frame = Frame::notification(method::SESSION_UPDATE, &params);
            self.update(&frame, frame.params())?;
        }
        self.renderer.fresh()
    }

    fn update(&mut self, frame: &Frame, params: Option<&str>) -> io::Result<()> {
        let params: Value = params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let update = serde_json::from_value(params["update"].clone()).ok().map(Box::new);
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        self.renderer.update(&TurnUpdate { session, update, frame: frame.clone() })
    }
}

/// What a permission request is about.
fn subject(frame: &Frame) -> String {
    let params: Value = frame.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let call = &params["toolCall"];
    call["title"].as_str().or(call["toolCallId"].as_str()).unwrap_or_default().to_owned()
}

fn answer(result: &str) -> String {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let outcome = &result["outcome"];
    match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
        (Some("selected"), Some(option)) => option.to_owned(),
        (Some("cancelled"), _) => "cancelled".to_owned(),
        _ => format!("{result} (not a valid outcome)"),
    }
}

/// Whether an agent uses a file or a terminal of the client with this method.
fn is_use_of_client(method: &str) -> bool {
    matches!(method, method::FS_READ_TEXT_FILE | method::FS_WRITE_TEXT_FILE | method::TERMINAL_CREATE)
}

/// The file or the command that such a request names.
fn object_of(params: Option<&str>) -> String {
    let params: Value = params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let words = [&params["path"], &params["command"]]
        .into_iter()
        .chain(params["args"].as_array().into_iter().flatten());
    words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}
