//! The stub: the agent that a client under test starts. It passes bytes on unchanged between the client and the runner,
//! and tells what it sees of itself as a process.
//!
//! `acp exam-stub SOCKET TEST [ADDED…]`, or a program of a name that carries both. Everything that it says to the client
//! comes from the runner, byte for byte.

pub(crate) mod frames;
mod pipes;
mod selfie;

use std::ffi::OsString;
use std::process::{ExitCode, Stdio};

use acp_comply::program::StubHabits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use frames::{FromStub, ToStub};
use pipes::{Errors, Output};

/// The hidden command that makes a program the stub.
pub const ARGUMENT: &str = "exam-stub";

/// The end of the client's output, in the words of `ignores`.
const END: &str = "EOF";

/// What is watched for.
const SIGNALS: [(&str, SignalKind); 6] = [
    ("TERM", SignalKind::terminate()),
    ("INT", SignalKind::interrupt()),
    ("HUP", SignalKind::hangup()),
    ("QUIT", SignalKind::quit()),
    ("USR1", SignalKind::user_defined1()),
    ("USR2", SignalKind::user_defined2()),
];

/// Runs as the stub. `args` is what follows [`ARGUMENT`]; programs call this before they start a runtime or a thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let (Some(socket), Some(_test)) = (args.next(), args.next()) else {
        eprintln!("acp {ARGUMENT} is for internal use: SOCKET TEST [ARGS…]");
        return ExitCode::from(2);
    };
    let added: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("acp {ARGUMENT}: cannot start: {error}");
            return ExitCode::from(3);
        }
    };
    let code = runtime.block_on(async {
        let stream = UnixStream::connect(&socket).await;
        let stream =
            stream.map_err(|error| format!("cannot reach the runner; is the test over? ({error})"))?;
        serve(stream, &added).await.map_err(|error| format!("lost the runner: {error}"))
    });
    // A read of standard input may be under way in a thread: it must not hold the process back.
    runtime.shutdown_background();
    match code {
        Ok(code) => std::process::exit(i32::from(code)),
        Err(error) => {
            eprintln!("acp {ARGUMENT}: {error}");
            std::process::exit(3);
        }
    }
}

/// What happens to a stub.
enum Happened {
    Order(ToStub),
    RunnerGone,
    Input(Vec<u8>),
    InputEnded,
    Signal(&'static str),
    ErrorsTaken,
}

async fn serve(stream: UnixStream, added: &[String]) -> std::io::Result<u8> {
    let (reader, mut runner) = stream.into_split();
    let (tell, mut happened) = mpsc::channel(16);
    for (name, kind) in SIGNALS {
        let mut signals = signal(kind)?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() && tell.send(Happened::Signal(name)).await.is_ok() {}
        });
    }
    let mut reader = reader;
    let Some(ToStub::Habits(habits)) = frames::read_order(&mut reader).await? else { return Ok(0) };
    let child = if habits.child { Some(sleeper()?) } else { None };
    let mut record = selfie::record(added);
    if let (Some(child), Value::Object(record)) = (&child, &mut record) {
        record.insert("child".to_owned(), json!(child.id()));
    }
    say(&mut runner, &FromStub::Record(record)).await?;
    tokio::spawn(orders(reader, tell.clone()));
    pipes::input(tell.clone());
    let (output, errors) = (Output::start(), Errors::start(tell));
    let mut habits = habits;
    if !added.is_empty() {
        // A login speaks no protocol, and many clients give it no input: it lasts until it is told to end.
        habits.ignores.push(END.to_owned());
    }
    let code = live(&habits, &mut happened, &mut runner, &output, &errors).await?;
    let _ = runner.shutdown().await;
    Ok(code)
}

/// Passes on what comes, until there is a reason to end; returns the exit code.
async fn live(
    habits: &StubHabits,
    happened: &mut mpsc::Receiver<Happened>,
    runner: &mut OwnedWriteHalf,
    output: &Output,
    errors: &Errors,
) -> std::io::Result<u8> {
    let ignores = |what: &str| habits.ignores.iter().any(|ignored| ignored == what);
    while let Some(event) = happened.recv().await {
        match event {
            Happened::Order(ToStub::Output(bytes)) => output.write(bytes),
            Happened::Order(ToStub::CloseOutput) => output.close(),
            Happened::Order(ToStub::Errors { bytes, times }) => errors.write(bytes, times),
            Happened::Order(ToStub::Exit(code)) => {
                output.flush().await;
                return Ok(code);
            }
            Happened::Order(ToStub::Habits(_)) => {}
            Happened::RunnerGone => return Ok(0),
            Happened::Input(bytes) => say(runner, &FromStub::Input(bytes)).await?,
            Happened::InputEnded => {
                say(runner, &FromStub::InputEnded).await?;
                if !ignores(END) {
                    output.flush().await;
                    return Ok(0);
                }
            }
            Happened::Signal(name) => {
                say(runner, &FromStub::Signal(name.to_owned())).await?;
                if !ignores(name) {
                    let kind =
                        SIGNALS.iter().find(|(known, _)| *known == name).map_or(0, |it| it.1.as_raw_value());
                    return Ok(u8::try_from(128 + kind).unwrap_or(1));
                }
            }
            Happened::ErrorsTaken => say(runner, &FromStub::ErrorsTaken).await?,
        }
    }
    Ok(0)
}

async fn say(runner: &mut OwnedWriteHalf, word: &FromStub) -> std::io::Result<()> {
    runner.write_all(&word.encode()).await
}

async fn orders(mut reader: OwnedReadHalf, tell: mpsc::Sender<Happened>) {
    while let Ok(Some(order)) = frames::read_order(&mut reader).await {
        if tell.send(Happened::Order(order)).await.is_err() {
            return;
        }
    }
    let _ = tell.send(Happened::RunnerGone).await;
}

/// A process that does nothing and holds nothing of ours.
fn sleeper() -> std::io::Result<std::process::Child> {
    let mut command = std::process::Command::new("sleep");
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
