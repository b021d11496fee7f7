//! `acp call`: one request or notification, written by hand.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use acp_chat::{Raw, RawOptions};
use acp_host::ClientError;
use acp_rpc::{Direction, Frame, Id};
use anyhow::{Context, anyhow};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit;
use crate::outputs::OutputFormat;
use crate::settings::FileSettings;
use crate::talk::duration;
use crate::target::TargetArgs;
use crate::trouble::Trouble;

/// Stands for the id of the session that was opened, in PARAMS and in --raw.
const SESSION: &str = "${session}";
/// Stands for the absolute path of the working folder.
const CWD: &str = "${cwd}";
/// How long to listen for what follows something that has no answer.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Arguments of `acp call`.
#[derive(clap::Args)]
#[command(after_help = crate::help::CALL)]
pub struct CallArgs {
    /// The method, such as session/list
    #[arg(value_name = "METHOD", required_unless_present = "raw")]
    method: Option<String>,
    /// The params as JSON; - reads them from standard input, @FILE from a file; ${session} and ${cwd} are filled in
    #[arg(value_name = "PARAMS", default_value = "{}")]
    params: String,
    /// Which agent.
    #[command(flatten)]
    target: TargetArgs,

    /// Send a notification instead of a request
    #[arg(long, help_heading = "What to send")]
    notify: bool,
    /// Send this line as it is, even if it is not JSON
    #[arg(long, value_name = "LINE", conflicts_with_all = ["method", "params", "notify"], help_heading = "What to send")]
    raw: Option<String>,
    /// Send no initialize first
    #[arg(long, conflicts_with_all = ["session", "auth"], help_heading = "What to send")]
    no_initialize: bool,
    /// Open a session first, or load the one with this id (a ${session} in the params opens one, too)
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "What to send")]
    session: Option<String>,
    /// Log in with this method of the agent first
    #[arg(long, value_name = "METHOD", help_heading = "What to send")]
    auth: Option<String>,
    /// The session's working folder
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "What to send")]
    cwd: PathBuf,

    /// What the agent may do: default (ask, which is no here), none, read, write, yolo, acceptEdits, bypassPermissions,
    /// plan, or a policy of acp.toml
    #[arg(long, value_name = "POLICY", help_heading = "Permissions")]
    policy: Option<String>,
    /// Allow a tool, for instance 'Bash(git:read)' or Read
    #[arg(long, value_name = "PATTERN", help_heading = "Permissions")]
    allow: Vec<String>,
    /// Never allow a tool; stronger than everything else
    #[arg(long, value_name = "PATTERN", help_heading = "Permissions")]
    deny: Vec<String>,

    /// Give up after this long without the answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// Keep listening this long after the answer (1s after something that has none)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// Write a transcript to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// text for people, or json: the agent's frames, one per line, as they came
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: OutputFormat,
    /// Also show what is sent, and the frames before the call
    #[arg(long, short)]
    verbose: bool,
}

/// Makes the call and prints what comes back.
pub fn run(args: &CallArgs) -> anyhow::Result<ExitCode> {
    if args.target.isolate {
        acp_campaign::isolate::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let called = runtime.block_on(call(args));
    runtime.shutdown_background();
    Ok(ExitCode::from(match called {
        Ok(code) => code,
        Err(trouble) => trouble.tell(false)?,
    }))
}

async fn call(args: &CallArgs) -> Result<u8, Trouble> {
    let text = text(args).map_err(Trouble::usage)?;
    let rules =
        FileSettings::load().and_then(|own| own.rules(args.policy.as_deref(), &args.allow, &args.deny));
    let rules = rules.map_err(Trouble::usage)?.unwrap_or_default();
    let options = RawOptions {
        dialect: args.target.dialect().map_err(Trouble::usage)?,
        cwd: args.cwd.clone(),
        rules,
        timeout: args.timeout,
        record: args.record.clone(),
    };
    let target = args.target.resolve().map_err(Trouble::usage)?;
    let mut raw = Raw::open(&target, options).await?;
    let called = talk(args, text, &mut raw).await;
    raw.close().await;
    called
}

/// What to send, before anything is filled in. Params are checked here, so that nothing is started for a typing error.
fn text(args: &CallArgs) -> anyhow::Result<String> {
    if let Some(line) = &args.raw {
        return Ok(line.clone());
    }
    let (text, place) = match args.params.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .lock()
                .read_to_string(&mut text)
                .context("cannot read the params from standard input")?;
            (text, "standard input".to_owned())
        }
        file if file.starts_with('@') => {
            let path = &file[1..];
            (std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?, path.to_owned())
        }
        text => (text.to_owned(), "PARAMS".to_owned()),
    };
    let parsed = serde_json::from_str::<Value>(&text).map_err(|error| {
        anyhow!("{place} is not JSON: {error}; in a shell, put it in single quotes: '{{\"cwd\": \"/tmp\"}}'")
    })?;
    anyhow::ensure!(
        matches!(parsed, Value::Object(_) | Value::Array(_)),
        "{place}: the params of JSON-RPC are an object or an array, not {parsed}; use --raw to send something else"
    );
    Ok(text)
}

async fn talk(args: &CallArgs, text: String, raw: &mut Raw) -> Result<u8, Trouble> {
    let mut early = |direction: Direction, frame: &Frame| {
        if args.verbose {
            show(args.format, direction, frame);
        }
    };
    let client = raw.client.clone();
    if !args.no_initialize {
        raw.during(client.initialize(), &mut early).await?;
    }
    if let Some(method) = &args.auth {
        raw.during(client.authenticate(method), &mut early).await?;
    }
    let mut filled = text.replace(CWD, &inside_string(&raw.workspace.cwd.to_string_lossy()));
    if args.session.is_some() || filled.contains(SESSION) {
        let workspace = raw.workspace.clone();
        let id = match args.session.as_deref() {
            None | Some("") => {
                let opened = raw.during(client.new_session(&workspace), &mut early).await;
                opened?.session_id.0.to_string()
            }
            Some(id) => {
                raw.during(client.load_session(id, &workspace), &mut early).await?;
                id.to_owned()
            }
        };
        filled = filled.replace(SESSION, &inside_string(&id));
    }
    let mut shown = |direction: Direction, frame: &Frame| {
        // The response to a request is told last and in full, unless a program reads along.
        let is_answer = is_told_last(args) && frame.method().is_none();
        if args.verbose || (direction == Direction::AgentToClient && !is_answer) {
            show(args.format, direction, frame);
        }
    };
    if args.raw.is_some() {
        return line(args, raw, filled, &mut shown).await;
    }
    let params: Box<RawValue> = serde_json::from_str(&filled).map_err(Trouble::usage)?;
    let method = args.method.as_deref().unwrap_or_default();
    if args.notify {
        client.send_line(Frame::notification(method, &params).raw().clone()).await;
        raw.listen(args.wait.unwrap_or(AFTERMATH), &mut shown).await;
        return Ok(exit::OK);
    }
    let answer = raw.request(method, &params, args.timeout, &mut shown).await;
    raw.listen(args.wait.unwrap_or_default(), &mut shown).await;
    conclude(args, answer)
}

/// Sends a line as it is, and waits for the response to it if it has an id.
async fn line(
    args: &CallArgs,
    raw: &mut Raw,
    line: String,
    shown: &mut dyn FnMut(Direction, &Frame),
) -> Result<u8, Trouble> {
    let sent = Frame::parse(line.clone());
    let expects = sent.id().filter(|_| sent.method().is_some()).cloned();
    raw.client.send_line(line).await;
    let time = if expects.is_some() { args.timeout } else { args.wait.unwrap_or(AFTERMATH) };
    let (answer, answered) = tokio::sync::oneshot::channel();
    let mut answer = Some(answer);
    let mut seen = |direction: Direction, frame: &Frame| {
        shown(direction, frame);
        let is_answer = direction == Direction::AgentToClient && frame.method().is_none();
        if is_answer
            && same(frame.id(), expects.as_ref())
            && let Some(answer) = answer.take()
        {
            let _ = answer.send(frame.clone());
        }
    };
    let waited = raw.during(tokio::time::timeout(time, answered), &mut seen).await;
    match (waited, &expects) {
        (Ok(Ok(answer)), _) => {
            raw.listen(args.wait.unwrap_or_default(), &mut seen).await;
            conclude(args, Ok(answer))
        }
        (_, None) => Ok(exit::OK),
        (_, Some(id)) => Err(Trouble::fault(anyhow!("no answer to the line with id {id} within {time:?}"))),
    }
}

fn same(one: Option<&Id>, other: Option<&Id>) -> bool {
    one.is_some() && one == other
}

/// Whether the response is printed apart from the other frames.
fn is_told_last(args: &CallArgs) -> bool {
    args.format == OutputFormat::Text && args.raw.is_none()
}

/// Prints the response; its error is the exit code 1.
fn conclude(args: &CallArgs, answer: Result<Frame, ClientError>) -> Result<u8, Trouble> {
    let answer = answer?;
    let is_error = answer.error().is_some() || answer.result().is_none();
    if is_told_last(args) {
        let body = answer.result().or_else(|| answer.error()).unwrap_or_default();
        let body = match serde_json::from_str::<Value>(body) {
            Ok(value) => format!("{value:#}"),
            Err(_) => body.to_owned(),
        };
        let said = if is_error { format!("error {body}") } else { body };
        println!("{}", acp_text::json(&said));
    }
    Ok(if is_error { exit::FAILED } else { exit::OK })
}

fn show(format: OutputFormat, direction: Direction, frame: &Frame) {
    let raw = String::from_utf8_lossy(frame.raw());
    let arrow = match (format, direction) {
        (OutputFormat::Json, Direction::AgentToClient) => "",
        (_, Direction::AgentToClient) => "<- ",
        (_, Direction::ClientToAgent) => "-> ",
    };
    let line = format!("{arrow}{}", acp_text::line(&acp_text::json(&raw)));
    // A program that reads frames gets those of the agent alone.
    match (format, direction) {
        (OutputFormat::Json, Direction::ClientToAgent) => eprintln!("{line}"),
        _ => println!("{line}"),
    }
}

/// The text as it stands inside a JSON string.
fn inside_string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
