//! The floor: lines written and read with nothing in between. The agent answers each line with the job's updates
//! and one line more.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use acp_proto::{join, method};
use acp_rpc::Frame;

use super::{agent_command, text, update};
use crate::job::{Job, Kind, Over, Sample};
use crate::probe::Probe;

pub(super) const ASK: &[u8] = join!(
    r#"{"jsonrpc":"2.0","id":1,"method":""#,
    method::SESSION_PROMPT,
    r#"","params":{"sessionId":"sess_0123456789abcdef","prompt":[{"type":"text","text":"go"}]}}"#,
    "\n"
)
.as_bytes();
pub(super) const ANSWER: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"stopReason\":\"end_turn\"}}\n";

pub(super) fn client(job: &Job) -> anyhow::Result<Sample> {
    let mut probe = Probe::default();
    for _ in 0..job.cycles {
        let began = Instant::now();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut started = job.clone();
        if let Over::Tcp(_) = job.over {
            started.over = Over::Tcp(listener.local_addr()?.port());
        }
        let mut agent = agent_command(&started)?.spawn()?;
        match job.over {
            Over::Pipes => {
                let (Some(writer), Some(reader)) = (agent.stdin.take(), agent.stdout.take()) else {
                    anyhow::bail!("no pipes");
                };
                converse(job, reader, writer, &mut probe)?;
            }
            Over::Tcp(_) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                converse(job, stream.try_clone()?, stream, &mut probe)?;
            }
        }
        agent.wait()?;
        probe.cycle(began);
    }
    Ok(probe.finish())
}

fn converse(job: &Job, reader: impl Read, mut writer: impl Write, probe: &mut Probe) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    let mut line = Vec::new();
    // A cycle has three exchanges: initialize, session/new, and the prompts.
    for _ in 0..2 {
        writer.write_all(ASK)?;
        line.clear();
        reader.read_until(b'\n', &mut line)?;
    }
    for _ in 0..job.prompts {
        let began = Instant::now();
        writer.write_all(ASK)?;
        for count in 0.. {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            if line == ANSWER {
                probe.updates(count);
                break;
            }
            anyhow::ensure!(line.len() == job.size, "a line of {} bytes", line.len());
            if job.rest_after != 0 && count % job.rest_after == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        probe.prompt(began);
    }
    probe.memory();
    Ok(())
}

pub(super) fn agent(job: &Job) -> anyhow::Result<()> {
    match job.over {
        Over::Pipes => answer(
            job,
            std::io::stdin(),
            std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?.into(),
        ),
        Over::Tcp(port) => {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            let reader = stream.try_clone()?;
            answer(job, reader, std::os::fd::OwnedFd::from(stream).into())
        }
    }
}

fn answer(job: &Job, reader: impl Read, writer: std::fs::File) -> anyhow::Result<()> {
    let mut reader = BufReader::new(reader);
    let mut writer = BufWriter::with_capacity(64 * 1024, writer);
    let mut update = Frame::notification(method::SESSION_UPDATE, &update(&text(job))).raw().to_vec();
    update.push(b'\n');
    let mut line = Vec::new();
    for exchange in 0.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        for _ in 0..if exchange < 2 { 0 } else { job.updates } {
            writer.write_all(&update)?;
            if job.kind == Kind::Bare {
                writer.flush()?;
            }
        }
        writer.write_all(ANSWER)?;
        writer.flush()?;
    }
    Ok(())
}
