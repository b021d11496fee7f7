//! Our wire: `acp-link` moves the lines, `acp-rpc` reads them and knows whose turn it is.

use std::time::{Duration, Instant};

use acp_link::{Arrival, Link, Tap, Wire, child, stdio, tcp};
use acp_rpc::{Direction, Frame, Peer, Received};
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse,
    PromptRequest, PromptResponse, SessionNotification, StopReason, TextContent,
};
use serde::Serialize;

use super::{SESSION, agent_args, agent_command, text, update};
use crate::job::{Job, Kind, Over, Sample};
use crate::probe::Probe;

/// Lines taken from the link at once.
const BURST: usize = 256;

pub(super) fn client(job: &Job) -> anyhow::Result<Sample> {
    runtime()?.block_on(async {
        let mut probe = Probe::default();
        for _ in 0..job.cycles {
            cycle(job, &mut probe).await?;
        }
        Ok(probe.finish())
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn cycle(job: &Job, probe: &mut Probe) -> anyhow::Result<()> {
    let began = Instant::now();
    if let Over::Tcp(_) = job.over {
        let listener = tcp::listen("127.0.0.1:0", &Wire::default()).await?;
        let job = Job { over: Over::Tcp(listener.local_addr()?.port()), ..job.clone() };
        let mut agent = agent_command(&job)?.spawn()?;
        let (link, _) = listener.accept().await?;
        Client::new(&job, link).converse(probe).await?;
        agent.wait()?;
        probe.cycle(began);
        return Ok(());
    }
    let [program, role, argument] = agent_args(job)?;
    let mut options = child::Options::new(&program).args([role, argument]);
    options.stderr = child::Stderr::Inherit;
    if job.kind == Kind::OursSupervised {
        options.supervisor = Some(program.into());
    }
    let (mut link, mut agent) = child::spawn(&options)?;
    let mut recording = None;
    if job.kind == Kind::OursTapped {
        let scratch = tempfile::NamedTempFile::new()?;
        let tap = Tap::create(scratch.path())?;
        link = link.tapped(&tap, Direction::AgentToClient);
        recording = Some((tap, scratch));
    }
    Client::new(job, link).converse(probe).await?;
    let exit = agent.wait().await;
    anyhow::ensure!(exit.success(), "the agent ended with {exit}");
    if let Some((tap, _scratch)) = recording {
        tap.finish()?;
        let expected = 2 * (2 + job.prompts) + job.prompts * job.updates;
        anyhow::ensure!(tap.entries() == expected as u64, "{} entries of {expected}", tap.entries());
    }
    probe.cycle(began);
    Ok(())
}

struct Client<'a> {
    job: &'a Job,
    link: Link,
    peer: Peer,
    began: Instant,
    burst: Vec<Arrival>,
    updates: usize,
}

impl<'a> Client<'a> {
    fn new(job: &'a Job, link: Link) -> Self {
        let peer = Peer::default();
        Self { job, link, peer, began: Instant::now(), burst: Vec::with_capacity(BURST), updates: 0 }
    }

    async fn converse(mut self, probe: &mut Probe) -> anyhow::Result<()> {
        self.ask("initialize", &InitializeRequest::new(ProtocolVersion::V1)).await?;
        self.ask("session/new", &NewSessionRequest::new("/")).await?;
        for _ in 0..self.job.prompts {
            let began = Instant::now();
            let prompt = vec![ContentBlock::Text(TextContent::new("go"))];
            self.ask("session/prompt", &PromptRequest::new(SESSION, prompt)).await?;
            probe.prompt(began);
        }
        probe.updates(self.updates);
        probe.memory();
        // The writer needs this thread until the agent has seen the end.
        self.link.tx.finish().await?;
        Ok(())
    }

    /// Sends a request and takes what comes until its answer.
    async fn ask(&mut self, method: &str, params: &impl Serialize) -> anyhow::Result<()> {
        let (wanted, frame) = self.peer.request(self.began.elapsed(), method, params, None)?;
        self.link.tx.send(frame.raw()).await?;
        loop {
            let mut burst = std::mem::take(&mut self.burst);
            anyhow::ensure!(self.link.rx.recv_many(&mut burst, BURST).await > 0, "the agent went away");
            let mut answered = false;
            for arrival in burst.drain(..) {
                let now = arrival.at.saturating_duration_since(self.began);
                match self.peer.receive(now, Frame::from(arrival.line)) {
                    Received::Told { frame } => self.told(&frame).await?,
                    Received::Answered { id, .. } if id == wanted => answered = true,
                    other => anyhow::bail!("unexpected: {other:?}"),
                }
            }
            self.burst = burst;
            if answered {
                return Ok(());
            }
        }
    }

    async fn told(&mut self, frame: &Frame) -> anyhow::Result<()> {
        self.updates += 1;
        if self.job.kind == Kind::OursTyped {
            let update: SessionNotification = serde_json::from_str(frame.params().unwrap_or_default())?;
            anyhow::ensure!(&*update.session_id.0 == SESSION);
        }
        if self.job.rest_after != 0 && self.updates.is_multiple_of(self.job.rest_after) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

pub(super) fn agent(job: &Job) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let link = match job.over {
            Over::Pipes => stdio::own(&Wire::default())?,
            Over::Tcp(port) => tcp::connect(("127.0.0.1", port), &Wire::default()).await?,
        };
        answer(job, link).await
    })
}

async fn answer(job: &Job, mut link: Link) -> anyhow::Result<()> {
    let mut peer = Peer::default();
    let began = Instant::now();
    let text = text(job);
    while let Some(arrival) = link.rx.recv().await {
        let now = arrival.at.saturating_duration_since(began);
        let Received::Asked { id, frame } = peer.receive(now, Frame::from(arrival.line)) else { continue };
        let params = frame.params().unwrap_or_default();
        let answer = match frame.method().unwrap_or_default() {
            "initialize" => {
                let asked: InitializeRequest = serde_json::from_str(params)?;
                peer.respond(&id, &InitializeResponse::new(asked.protocol_version))?
            }
            "session/new" => {
                let _: NewSessionRequest = serde_json::from_str(params)?;
                peer.respond(&id, &NewSessionResponse::new(SESSION))?
            }
            _ => {
                if job.kind == Kind::OursTyped {
                    let _: PromptRequest = serde_json::from_str(params)?;
                }
                for _ in 0..job.updates {
                    let frame = peer.notify("session/update", &update(&text));
                    link.tx.send(frame.raw()).await?;
                }
                peer.respond(&id, &PromptResponse::new(StopReason::EndTurn))?
            }
        };
        link.tx.send(answer.raw()).await?;
    }
    link.tx.finish().await?;
    Ok(())
}
