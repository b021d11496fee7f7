//! `acp tasks`: submit, watch, cancel, approve

mod approve;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use acp_nats::payload::{Op, Prompt, Task, TaskResult};
use acp_nats::{Cancelled, TaskClient, TaskClientError, TaskProgress, trace};
use acp_proxy::ProxyLog;
use anyhow::Context;

use crate::commands::proxy::nats::AccessArgs;
use crate::exit;
use crate::outputs::OutputFormat;
use crate::trouble::Trouble;
use show::Screen;

/// Arguments of `acp tasks`.
#[derive(clap::Args)]
#[command(after_help = crate::help::TASKS)]
pub struct TasksArgs {
    /// What to do.
    #[command(subcommand)]
    command: Verb,
    /// Where NATS is: nats://HOST:PORT, tls://HOST:PORT, or several with commas
    #[arg(
        long,
        value_name = "URL",
        env = "ACP_NATS",
        default_value = "nats://127.0.0.1:4222",
        global = true,
        help_heading = "NATS"
    )]
    nats: String,
    #[command(flatten)]
    access: AccessArgs,
    /// text for people, or json: lines of JSON
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        global = true
    )]
    format: OutputFormat,
    #[arg(long, hide = true, global = true)]
    json: bool,
}

impl TasksArgs {
    fn is_json(&self) -> bool {
        self.json || self.format == OutputFormat::Json
    }
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Put a task into an agent's queue
    Submit(Submit),
    /// Show what happens in a task or a session, from beginning to end
    Watch(Watch),
    /// Cancel a task: its turn if it runs, else the task itself; or the running turn of any session
    Cancel {
        /// The task
        #[arg(required_unless_present = "session", conflicts_with = "session")]
        task: Option<String>,
        /// The running turn of this session, whoever began it: a task, or a client of the proxy
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Close the session, too
        #[arg(long)]
        close: bool,
    },
    /// Answer permission requests: those that are open and new ones, or only one
    Approve(approve::Approve),
}

#[derive(clap::Args)]
struct Submit {
    /// The agent's queue: the name that its proxies were started with
    queue: String,
    /// What to ask; `-` reads it from standard input
    text: String,
    /// The task's id (default: a random one); a task with the same id never runs twice
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Continue this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The session's folder on the proxy's machine (default: the proxy's own)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// An MCP server for the agent: NAME=COMMAND ARGS…, NAME=http://…, or a JSON file with mcpServers
    #[arg(long, value_name = "SERVER")]
    mcp: Vec<String>,
    /// The trace that the task belongs to
    #[arg(long, value_name = "TRACEPARENT", env = "TRACEPARENT")]
    traceparent: Option<String>,
    /// Send the result to this subject, too
    #[arg(long, value_name = "SUBJECT")]
    reply_to: Option<String>,
    /// Watch the task until it ends
    #[arg(long, short)]
    watch: bool,
}

#[derive(clap::Args)]
struct Watch {
    /// The task
    #[arg(required_unless_present = "session", conflicts_with = "session")]
    task: Option<String>,
    /// Watch all of a session, until interrupted
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Continue after this place in the stream, as --format json shows it
    #[arg(long, value_name = "SEQUENCE", requires = "session")]
    after: Option<u64>,
    /// Also show what is usually left out
    #[arg(long, short)]
    verbose: bool,
}

/// Does it.
pub fn run(args: &TasksArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = match runtime.block_on(act(args)) {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("acp tasks: {:#}", trouble.error);
            trouble.code
        }
    };
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

async fn act(args: &TasksArgs) -> Result<u8, Trouble> {
    let log = ProxyLog::lines(|line| {
        if line.level != tracing::Level::INFO {
            eprintln!("acp tasks: {line}");
        }
    });
    let access = args.access.access(&args.nats).map_err(Trouble::usage)?;
    let client = TaskClient::connect(&access, args.access.subjects(), &log).await.map_err(trouble)?;
    match &args.command {
        Verb::Submit(submit) => submit.run(&client, args.is_json()).await,
        Verb::Watch(watch) => watch.run(&client, args.is_json()).await,
        Verb::Cancel { session: Some(session), close, .. } => {
            cancel_session(&client, session, *close, args.is_json()).await
        }
        Verb::Cancel { task, close, .. } => {
            cancel(&client, task.as_deref().unwrap_or_default(), *close, args.is_json()).await
        }
        Verb::Approve(approve) => approve.run(&client, args.is_json()).await,
    }
}

impl Submit {
    async fn run(&self, client: &TaskClient, json: bool) -> Result<u8, Trouble> {
        let task = self.task().map_err(Trouble::usage)?;
        // What cannot be a task is told here and not by a dead letter.
        let payload = serde_json::to_vec(&task).map_err(Trouble::fault)?;
        Task::parse(&payload).map_err(Trouble::usage)?;
        let trace = trace::child(self.traceparent.as_deref());
        client.submit(&self.queue, &task, Some(&trace)).await.map_err(trouble)?;
        let screen = Screen::new(json, false);
        screen.submitted(&task.id, &self.queue).map_err(Trouble::fault)?;
        if self.watch { follow(client, &task.id, screen, false).await } else { Ok(exit::OK) }
    }

    fn task(&self) -> anyhow::Result<Task> {
        let cwd = match &self.cwd {
            Some(cwd) => Some(std::path::absolute(cwd)?.to_string_lossy().into_owned()),
            None => None,
        };
        let servers = acp_chat::mcp::servers(&self.mcp)?;
        let servers: Result<Vec<_>, _> = servers.iter().map(serde_json::value::to_raw_value).collect();
        Ok(Task {
            v: acp_proxy::event::VERSION,
            id: self.id.clone().unwrap_or_else(trace::random_id),
            prompt: Prompt::Text(crate::commands::prompt::text(&self.text)?),
            session: self.session.clone(),
            cwd,
            mcp_servers: servers.context("cannot write an MCP server")?,
            reply_to: self.reply_to.clone(),
        })
    }
}

impl Watch {
    async fn run(&self, client: &TaskClient, json: bool) -> Result<u8, Trouble> {
        let screen = Screen::new(json, self.verbose);
        match (&self.task, &self.session) {
            (Some(task), _) => {
                let untaken = client.status(task).await.map_err(trouble)?.is_none();
                if untaken {
                    screen.waiting(task);
                }
                follow(client, task, screen, untaken).await
            }
            (None, Some(session)) => self.session(client, session, screen).await,
            (None, None) => Err(Trouble::usage(anyhow::anyhow!("which task? or which --session?"))),
        }
    }

    async fn session(&self, client: &TaskClient, session: &str, mut screen: Screen) -> Result<u8, Trouble> {
        let from = self.after.map(|after| after + 1);
        let mut events = client.events(session, from).await.map_err(trouble)?;
        while let Some(event) = events.recv().await {
            let (sequence, event) = event.map_err(Trouble::fault)?;
            screen.event(sequence, &event).map_err(Trouble::fault)?;
        }
        Err(Trouble::fault(anyhow::anyhow!("the connection to NATS ended")))
    }
}

/// How long a task may wait before a person is told that nobody has taken it.
const UNTAKEN: Duration = Duration::from_secs(2);

/// Shows a task until its result. `told` says whether the person knows that nobody has taken it yet.
async fn follow(client: &TaskClient, task: &str, mut screen: Screen, mut told: bool) -> Result<u8, Trouble> {
    let untaken = tokio::time::sleep(UNTAKEN);
    tokio::pin!(untaken);
    let mut progress = client.follow(task).await.map_err(trouble)?;
    let (mut events, mut place) = (None, 0);
    // The result, and the place in the stream up to which the session's events are shown before it.
    let mut result: Option<(Box<TaskResult>, u64)> = None;
    loop {
        if let Some((ended, last)) = &result
            && (screen.saw_end() || place >= *last)
        {
            return screen.result(ended).map_err(Trouble::fault);
        }
        tokio::select! {
            progress = progress.recv() => match progress {
                Some(TaskProgress::Status(status)) => {
                    told = true;
                    screen.status(&status).map_err(Trouble::fault)?;
                    if let (Some(session), None) = (&status.session, &events) {
                        events = Some(client.events(session, None).await.map_err(trouble)?);
                    }
                }
                Some(TaskProgress::Ended(ended)) => {
                    // The session's events say more, as far as there are any: the end of the turn is not among them when
                    // somebody else has the session, or when they are not kept any more.
                    let session = ended.session.as_deref().filter(|_| ended.stop_reason != "rejected");
                    let last = match session {
                        Some(session) => client.last_place(session).await.map_err(trouble)?,
                        None => 0,
                    };
                    if let (Some(session), None) = (session, &events) {
                        events = Some(client.events(session, None).await.map_err(trouble)?);
                    }
                    result = Some((ended, last));
                }
                None => return Err(Trouble::fault(anyhow::anyhow!("the connection to NATS ended"))),
            },
            () = &mut untaken, if !told && result.is_none() => {
                told = true;
                screen.waiting(task);
            }
            event = next(&mut events) => {
                let (sequence, event) = event.map_err(Trouble::fault)?;
                place = sequence;
                if event.task.as_deref() == Some(task) {
                    screen.event(sequence, &event).map_err(Trouble::fault)?;
                }
            }
        }
    }
}

type Events =
    tokio::sync::mpsc::Receiver<Result<(u64, acp_proxy::event::Event), acp_proxy::event::EventError>>;

async fn next(
    events: &mut Option<Events>,
) -> Result<(u64, acp_proxy::event::Event), acp_proxy::event::EventError> {
    match events {
        Some(events) => match events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn cancel(client: &TaskClient, task: &str, close: bool, json: bool) -> Result<u8, Trouble> {
    let session = client.status(task).await.map_err(trouble)?.and_then(|status| status.session);
    let cancelled = client.cancel(task).await.map_err(trouble)?;
    if let (true, Some(session)) = (close, &session) {
        client.control(session, Op::Close).await.map_err(trouble)?;
    }
    let (word, words) = match cancelled {
        Cancelled::Turn => ("turn", "its turn was told to end"),
        Cancelled::Task => ("task", "it will not begin"),
        Cancelled::TooLate => ("nothing", "it has ended before"),
    };
    if json {
        println!("{}", serde_json::json!({ "task": task, "cancelled": word }));
    } else {
        eprintln!("task {task}: {words}");
    }
    Ok(if cancelled == Cancelled::TooLate { exit::FAILED } else { exit::OK })
}

async fn cancel_session(client: &TaskClient, session: &str, close: bool, json: bool) -> Result<u8, Trouble> {
    let (op, word, words) = match close {
        true => (Op::Close, "session", "it is being closed"),
        false => (Op::Cancel, "turn", "its turn was told to end"),
    };
    client.control(session, op).await.map_err(trouble)?;
    if json {
        println!("{}", serde_json::json!({ "session": session, "cancelled": word }));
    } else {
        eprintln!("session {session}: {words}");
    }
    Ok(exit::OK)
}

/// Whose fault it is.
fn trouble(error: TaskClientError) -> Trouble {
    match error {
        TaskClientError::Known(_) | TaskClientError::Unknown(_) | TaskClientError::TooLarge { .. } => {
            Trouble::usage(error)
        }
        TaskClientError::NotServed(_) | TaskClientError::Refused(_) => Trouble::failed(error),
        TaskClientError::Access(_)
        | TaskClientError::NoStream(_)
        | TaskClientError::OtherStyle(..)
        | TaskClientError::Nats { .. } => Trouble::fault(error),
    }
}
