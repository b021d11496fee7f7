//! The floor with the asynchronous runtime under it: lines and nothing else, on non-blocking pipes.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::agent_command;
use super::bare::{ANSWER, ASK};
use crate::job::{Job, Sample};
use crate::probe::Probe;

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

pub(super) fn client(job: &Job) -> anyhow::Result<Sample> {
    let mut probe = Probe::default();
    runtime()?.block_on(async {
        let mut agent = agent_command(job)?.spawn()?;
        let (Some(stdin), Some(stdout)) = (agent.stdin.take(), agent.stdout.take()) else {
            anyhow::bail!("no pipes");
        };
        let mut writer = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
        let mut reader = BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?);
        let mut line = Vec::new();
        for _ in 0..job.prompts {
            let began = Instant::now();
            writer.write_all(ASK).await?;
            line.clear();
            reader.read_until(b'\n', &mut line).await?;
            probe.prompt(began);
        }
        probe.memory();
        drop(writer);
        agent.wait()?;
        Ok(probe.finish())
    })
}

pub(super) fn agent(_: &Job) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let input = std::io::stdin().as_fd().try_clone_to_owned()?;
        let output = std::io::stdout().as_fd().try_clone_to_owned()?;
        let mut reader = BufReader::new(pipe::Receiver::from_owned_fd(input)?);
        let mut writer = pipe::Sender::from_owned_fd(output)?;
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).await? > 0 {
            line.clear();
            writer.write_all(ANSWER).await?;
        }
        Ok(())
    })
}
