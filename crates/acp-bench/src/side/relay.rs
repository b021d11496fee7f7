//! Something between a client on a socket and an agent on pipes: nothing, a plain byte pump, or our relay with and
//! without a translation. Client and agent are as bare as they can be, so that the middle is what is measured.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acp_dialect::{Bridge, Dialect, TranslationOptions};
use acp_link::{LinkSettings, child, tcp};
use acp_proto::method;
use acp_relay::{Observers, Relay, RelayEnd};
use acp_rpc::{Frame, View};
use tokio::io::{AsyncWriteExt, BufReader as AsyncBufReader, copy_buf};
use tokio::net::{TcpListener, unix::pipe};

use super::{SESSION, agent_args, agent_command, kept, text, update};
use crate::job::{Job, Kind, Sample};
use crate::probe::Probe;

pub(super) fn client(job: &Job) -> anyhow::Result<Sample> {
    let mut probe = Probe::default();
    let mut middle = if job.kind == Kind::RelayNone { agent_command(job)? } else { relay_command(job)? };
    let mut middle = middle.spawn()?;
    let (Some(stdin), Some(stdout)) = (middle.stdin.take(), middle.stdout.take()) else {
        anyhow::bail!("no pipes");
    };
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    if job.kind == Kind::RelayNone {
        converse(job, reader, stdin, &mut probe)?;
    } else {
        let mut port = String::new();
        reader.read_line(&mut port)?;
        let stream = TcpStream::connect(("127.0.0.1", port.trim().parse()?))?;
        stream.set_nodelay(true)?;
        converse(job, BufReader::with_capacity(64 * 1024, stream.try_clone()?), &stream, &mut probe)?;
        stream.shutdown(std::net::Shutdown::Both)?;
        drop(stdin);
    }
    middle.wait()?;
    Ok(probe.finish())
}

fn relay_command(job: &Job) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["relay", &serde_json::to_string(job)?]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// What the client says: initialize, session/new, and a prompt up to its id.
fn words(job: &Job) -> [String; 3] {
    let [initialize, new, prompt] = match job.kind {
        Kind::RelayTranslated | Kind::RelayKeptTranslated => [
            r#"{"protocolVersion":"2025-01-01","capabilities":{}}"#,
            r#"{"workDir":"/"}"#,
            r#"{"sessionId":"sess_0123456789abcdef","prompt":"go"}"#,
        ],
        _ => [
            r#"{"protocolVersion":1}"#,
            r#"{"cwd":"/","mcpServers":[]}"#,
            r#"{"sessionId":"sess_0123456789abcdef","prompt":[{"type":"text","text":"go"}]}"#,
        ],
    };
    let words = |method: &str, params: &str| format!(r#""method":"{method}","params":{params}}}"#);
    [
        words(method::INITIALIZE, initialize),
        words(method::SESSION_NEW, new),
        words(method::SESSION_PROMPT, prompt),
    ]
}

fn converse<R: Read>(
    job: &Job,
    mut reader: BufReader<R>,
    mut writer: impl Write,
    probe: &mut Probe,
) -> anyhow::Result<()> {
    let mut line = Vec::new();
    let mut ask = |id: usize, words: &str, count: &mut usize| -> anyhow::Result<()> {
        writer.write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{words}\n").as_bytes())?;
        // An answer has its id in front; an update has its method there.
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        loop {
            line.clear();
            anyhow::ensure!(reader.read_until(b'\n', &mut line)? > 0, "the agent went away");
            if line.starts_with(answer.as_bytes()) {
                return Ok(());
            }
            *count += 1;
            if job.rest_after != 0 && count.is_multiple_of(job.rest_after) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let [initialize, new, prompt] = words(job);
    ask(1, &initialize, &mut 0)?;
    ask(2, &new, &mut 0)?;
    for number in 0..job.prompts {
        let began = Instant::now();
        let mut count = 0;
        ask(3 + number, &prompt, &mut count)?;
        probe.prompt(began);
        probe.updates(count);
    }
    probe.memory();
    Ok(())
}

pub(super) fn agent(job: &Job) -> anyhow::Result<()> {
    let mut reader = BufReader::new(std::io::stdin());
    let output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut writer = BufWriter::with_capacity(64 * 1024, output);
    let mut update = Frame::notification(method::SESSION_UPDATE, &update(&text(job))).raw().to_vec();
    update.push(b'\n');
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let frame = Frame::parse(line.trim_ascii_end().to_vec());
        line.clear();
        let View::Request { id, method, .. } = frame.view() else { continue };
        let result = match method {
            method::INITIALIZE => r#"{"protocolVersion":1,"authMethods":[]}"#.to_owned(),
            method::SESSION_NEW => format!("{{\"sessionId\":\"{SESSION}\"}}"),
            _ => {
                for _ in 0..job.updates {
                    writer.write_all(&update)?;
                }
                r#"{"stopReason":"end_turn"}"#.to_owned()
            }
        };
        writeln!(writer, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")?;
        writer.flush()?;
    }
    Ok(())
}

/// The one in the middle: takes one client and joins it to an agent of its own.
pub(crate) fn relay(job: &Job) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match job.kind {
            Kind::RelayPump => pump(job).await,
            Kind::RelayTranslated | Kind::RelayKeptTranslated => joined(job, Dialect::DELTA).await,
            _ => joined(job, Dialect::V1).await,
        }
    })
}

async fn pump(job: &Job) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let (socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    let mut agent = agent_command(job)?.spawn()?;
    let (Some(stdin), Some(stdout)) = (agent.stdin.take(), agent.stdout.take()) else {
        anyhow::bail!("no pipes");
    };
    let (from_client, mut to_client) = socket.into_split();
    let mut to_agent = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
    let from_agent = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let mut from_client = AsyncBufReader::with_capacity(64 * 1024, from_client);
    let mut from_agent = AsyncBufReader::with_capacity(64 * 1024, from_agent);
    let ask = async {
        copy_buf(&mut from_client, &mut to_agent).await?;
        to_agent.shutdown().await
    };
    let answer = copy_buf(&mut from_agent, &mut to_client);
    tokio::select! {
        _ = ask => {}
        _ = answer => {}
    }
    drop(to_agent);
    agent.wait()?;
    Ok(())
}

async fn joined(job: &Job, client: Dialect) -> anyhow::Result<()> {
    let listener = tcp::listen("127.0.0.1:0", &LinkSettings::default()).await?;
    println!("{}", listener.local_addr()?.port());
    let (link, _) = listener.accept().await?;
    let [program, role, argument] = agent_args(job)?;
    let mut options = child::SpawnOptions::new(&program).args([role, argument]);
    options.stderr = child::Stderr::Inherit;
    let (agent, mut process) = child::spawn(&options)?;
    let bridge = Bridge::new(client, Dialect::V1, TranslationOptions::default());
    let journal = kept::journal(job, client)?;
    let observers = journal.as_ref().map_or_else(|| Ok(Observers::default()), kept::Kept::observers)?;
    let mut relay = Relay::new(link, agent, bridge, observers);
    while relay.run().await == RelayEnd::ClientDone {}
    drop(relay);
    process.shutdown(Duration::from_secs(1)).await;
    if let Some(journal) = journal {
        journal.check(job)?;
    }
    Ok(())
}
