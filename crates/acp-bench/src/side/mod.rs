//! The contestants: each plays the client and the agent of a [`Job`].

mod bare;
mod bare_async;
mod kept;
mod mixed;
mod mock;
mod ours;
mod relay;
mod sdk;

use std::process::{Command, Stdio};

use acp_proto::method;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, SessionNotification, SessionUpdate, TextContent,
};

use crate::job::{Job, Kind, Sample};
use crate::probe;

pub(crate) use relay::relay;

pub(crate) fn client(job: &Job) -> anyhow::Result<Sample> {
    probe::pin(job)?;
    match job.kind {
        Kind::Bare | Kind::BareBuffered => bare::client(job),
        Kind::BareAsync => bare_async::client(job),
        Kind::Ours
        | Kind::OursTapped
        | Kind::OursTyped
        | Kind::OursSupervised
        | Kind::OursJudged
        | Kind::Mock
        | Kind::SdkAgent => ours::client(job),
        Kind::RelayNone
        | Kind::RelayPump
        | Kind::Relay
        | Kind::RelayTranslated
        | Kind::RelayKept
        | Kind::RelayKeptTranslated => relay::client(job),
        Kind::Sdk | Kind::SdkDocumented => sdk::client(job),
    }
}

pub(crate) fn agent(job: &Job) -> anyhow::Result<()> {
    match job.kind {
        Kind::Bare | Kind::BareBuffered => bare::agent(job),
        Kind::BareAsync => bare_async::agent(job),
        Kind::Ours | Kind::OursTapped | Kind::OursTyped | Kind::OursSupervised | Kind::OursJudged => {
            ours::agent(job)
        }
        Kind::Mock => anyhow::bail!("the agent of this contestant is `acp mock`"),
        Kind::RelayNone
        | Kind::RelayPump
        | Kind::Relay
        | Kind::RelayTranslated
        | Kind::RelayKept
        | Kind::RelayKeptTranslated => relay::agent(job),
        Kind::Sdk | Kind::SdkDocumented | Kind::SdkAgent => sdk::agent(job),
    }
}

/// The command line of the agent that belongs to a client.
pub(crate) fn agent_args(job: &Job) -> anyhow::Result<[String; 3]> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok([program, "agent".into(), serde_json::to_string(job)?])
}

fn agent_command(job: &Job) -> anyhow::Result<Command> {
    let [program, role, job] = agent_args(job)?;
    let mut command = Command::new(program);
    command.args([role, job]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

const SESSION: &str = "sess_0123456789abcdef";

/// The update that everybody sends, made anew each time as an agent would.
fn update(text: &str) -> SessionNotification {
    let content = ContentBlock::Text(TextContent::new(text));
    SessionNotification::new(SESSION, SessionUpdate::AgentMessageChunk(ContentChunk::new(content)))
}

/// A text that makes the update's line as long as the job says, newline included.
fn text(job: &Job) -> String {
    let empty = acp_rpc::Frame::notification(method::SESSION_UPDATE, &update("")).raw().len() + 1;
    "The quick brown fox jumps over the lazy dog. "
        .chars()
        .cycle()
        .take(job.size.saturating_sub(empty))
        .collect()
}
