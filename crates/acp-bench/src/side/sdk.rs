//! The official Rust SDK, in two forms: with both ends on non-blocking descriptors and one thread each, which is
//! the best it can do, and as its documentation shows it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse,
    PromptRequest, PromptResponse, SessionNotification, StopReason, TextContent,
};
use agent_client_protocol::{AcpAgent, Agent, ByteStreams, Client, ConnectTo, Stdio};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::{SESSION, agent_args, agent_command, text, update};
use crate::job::{Job, Kind, Over, Sample};
use crate::probe::Probe;

fn runtime(job: &Job) -> std::io::Result<tokio::runtime::Runtime> {
    match job.kind {
        Kind::SdkDocumented => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    }
    .enable_all()
    .build()
}

pub(super) fn client(job: &Job) -> anyhow::Result<Sample> {
    runtime(job)?.block_on(async {
        let mut probe = Probe::default();
        for _ in 0..job.cycles {
            let began = Instant::now();
            cycle(job, &mut probe).await?;
            probe.cycle(began);
        }
        Ok(probe.finish())
    })
}

async fn cycle(job: &Job, probe: &mut Probe) -> anyhow::Result<()> {
    if job.kind == Kind::SdkDocumented {
        return Ok(converse(job, AcpAgent::from_args(agent_args(job)?)?, probe).await?);
    }
    let mut agent;
    if let Over::Tcp(_) = job.over {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let job = Job { over: Over::Tcp(listener.local_addr()?.port()), ..job.clone() };
        agent = agent_command(&job)?.spawn()?;
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        converse(&job, ByteStreams::new(writer.compat_write(), reader.compat()), probe).await?;
    } else {
        agent = agent_command(job)?.spawn()?;
        let (Some(stdin), Some(stdout)) = (agent.stdin.take(), agent.stdout.take()) else {
            anyhow::bail!("no pipes");
        };
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
        converse(job, ByteStreams::new(writer.compat_write(), reader.compat()), probe).await?;
    }
    agent.wait()?;
    Ok(())
}

async fn converse(
    job: &Job,
    agent: impl ConnectTo<Client> + 'static,
    probe: &mut Probe,
) -> agent_client_protocol::Result<()> {
    let updates = Arc::new(AtomicUsize::new(0));
    let (counted, rest_after) = (updates.clone(), job.rest_after);
    Client
        .v1()
        .on_receive_notification(
            async move |_: SessionNotification, _cx| {
                let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
                if rest_after != 0 && count.is_multiple_of(rest_after) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(agent, async |connection: ConnectionTo<Agent>| {
            connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            connection.send_request(NewSessionRequest::new("/")).block_task().await?;
            for _ in 0..job.prompts {
                let began = Instant::now();
                let prompt = vec![ContentBlock::Text(TextContent::new("go"))];
                connection.send_request(PromptRequest::new(SESSION, prompt)).block_task().await?;
                probe.prompt(began);
            }
            probe.updates(updates.load(Ordering::Relaxed));
            probe.memory();
            Ok(())
        })
        .await
}

pub(super) fn agent(job: &Job) -> anyhow::Result<()> {
    runtime(job)?.block_on(async {
        match (job.kind, job.over) {
            (Kind::SdkDocumented, _) => answer(job, Stdio::new()).await?,
            (_, Over::Tcp(port)) => {
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                answer(job, ByteStreams::new(writer.compat_write(), reader.compat())).await?;
            }
            (_, Over::Pipes) => {
                let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
                let output = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?;
                let reader = pipe::Receiver::from_owned_fd(input)?;
                let writer = pipe::Sender::from_owned_fd(output)?;
                answer(job, ByteStreams::new(writer.compat_write(), reader.compat())).await?;
            }
        }
        Ok(())
    })
}

async fn answer(job: &Job, client: impl ConnectTo<Agent> + 'static) -> agent_client_protocol::Result<()> {
    let (text, updates) = (text(job), job.updates);
    Agent
        .v1()
        .on_receive_request(
            async move |asked: InitializeRequest, responder, _connection| {
                responder.respond(InitializeResponse::new(asked.protocol_version))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _connection| {
                responder.respond(NewSessionResponse::new(SESSION))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: PromptRequest, responder, connection| {
                for _ in 0..updates {
                    connection.send_notification(update(&text))?;
                }
                responder.respond(PromptResponse::new(StopReason::EndTurn))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_to(client)
        .await
}
