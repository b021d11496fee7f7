//! Our wire: `acp-link` moves the lines, `acp-rpc` reads them and knows whose turn it is.

use std::time::{Duration, Instant};

use acp_link::{Arrival, Link, LinkSettings, Tap, child, stdio, tcp};
use acp_proto::method;
use acp_rpc::{Direction, Frame, Id, Peer, Received};
use acp_rules::{Finding, Judge, JudgeConfig, Severity};
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, FileSystemCapabilities, Implementation, InitializeRequest,
    InitializeResponse, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse,
    SessionNotification, StopReason, TextContent,
};
use serde::Serialize;

use super::{SESSION, agent_args, agent_command, mixed, mock, text, update};
use crate::job::{Job, Kind, Over, Sample};
use crate::probe::{self, Probe};

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
        let listener = tcp::listen("127.0.0.1:0", &LinkSettings::default()).await?;
        let job = Job { over: Over::Tcp(listener.local_addr()?.port()), ..job.clone() };
        let mut agent = agent_command(&job)?.spawn()?;
        let (link, _) = listener.accept().await?;
        Client::new(&job, link).converse(probe).await?;
        agent.wait()?;
        probe.cycle(began);
        return Ok(());
    }
    let [program, role, argument] = agent_args(job)?;
    let mut options = match job.kind {
        Kind::Mock => mock::options(job)?,
        _ => child::SpawnOptions::new(&program).args([role, argument]),
    };
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
    let client = Client { started: began, ..Client::new(job, link) };
    client.converse(probe).await?;
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
    judge: Option<Judge>,
    /// When the agent was started.
    started: Instant,
    began: Instant,
    burst: Vec<Arrival>,
    updates: usize,
}

impl<'a> Client<'a> {
    fn new(job: &'a Job, link: Link) -> Self {
        let judge = (job.kind == Kind::OursJudged).then(|| Judge::new(JudgeConfig::default()));
        let (peer, began) = (Peer::default(), Instant::now());
        let burst = Vec::with_capacity(BURST);
        Self { job, link, peer, judge, started: began, began, burst, updates: 0 }
    }

    async fn converse(mut self, probe: &mut Probe) -> anyhow::Result<()> {
        let files = FileSystemCapabilities::new().read_text_file(true);
        let initialize = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().fs(files))
            .client_info(Implementation::new("acp-bench", "1"));
        self.ask(method::INITIALIZE, &initialize).await?;
        probe.first_answer(self.started);
        let session = self.ask(method::SESSION_NEW, &NewSessionRequest::new("/")).await?;
        let session: NewSessionResponse = serde_json::from_str(session.result().unwrap_or_default())?;
        let cpu = probe::cpu();
        for _ in 0..self.job.prompts {
            let began = Instant::now();
            let prompt = vec![ContentBlock::Text(TextContent::new("go"))];
            self.ask(method::SESSION_PROMPT, &PromptRequest::new(session.session_id.clone(), prompt)).await?;
            probe.prompt(began);
        }
        probe.cpu(probe::cpu().saturating_sub(cpu));
        probe.updates(self.updates);
        probe.memory();
        if let Some(finding) = self.judge.as_ref().and_then(|judge| first_error(judge)) {
            anyhow::bail!("the judge found a fault in the conversation: {finding:?}");
        }
        // The writer needs this thread until the agent has seen the end.
        self.link.tx.finish().await?;
        Ok(())
    }

    /// Sends a request and takes what comes until its answer.
    async fn ask(&mut self, method: &str, params: &impl Serialize) -> anyhow::Result<Frame> {
        let now = self.began.elapsed();
        let (wanted, frame) = self.peer.request(now, method, params, None)?;
        self.judge(now, Direction::ClientToAgent, &frame);
        self.link.tx.send(frame.raw()).await?;
        loop {
            let mut burst = std::mem::take(&mut self.burst);
            anyhow::ensure!(self.link.rx.recv_many(&mut burst, BURST).await > 0, "the agent went away");
            let mut answered = None;
            for arrival in burst.drain(..) {
                let now = arrival.at.saturating_duration_since(self.began);
                let frame = Frame::from(arrival.line);
                self.judge(now, Direction::AgentToClient, &frame);
                match self.peer.receive(now, frame) {
                    Received::Notified { frame } => self.told(&frame).await?,
                    Received::Asked { id, frame } => self.asked(now, &id, &frame).await?,
                    Received::Answered { id, frame, .. } if id == wanted => answered = Some(frame),
                    other => anyhow::bail!("unexpected: {other:?}"),
                }
            }
            self.burst = burst;
            if let Some(answer) = answered {
                return Ok(answer);
            }
        }
    }

    fn judge(&mut self, now: Duration, dir: Direction, frame: &Frame) {
        if let Some(judge) = &mut self.judge {
            judge.observe(now, dir, frame);
        }
    }

    /// Answers a question of the agent.
    async fn asked(&mut self, now: Duration, id: &Id, frame: &Frame) -> anyhow::Result<()> {
        self.updates += 1;
        let answer = self.peer.respond(id, &mixed::answer(frame)?)?;
        self.judge(now, Direction::ClientToAgent, &answer);
        self.link.tx.send(answer.raw()).await?;
        Ok(())
    }

    async fn told(&mut self, frame: &Frame) -> anyhow::Result<()> {
        if self.job.kind == Kind::Mock && !mock::is_chunk(frame) {
            return Ok(());
        }
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

fn first_error(judge: &Judge) -> Option<&Finding> {
    judge.findings().iter().find(|finding| finding.severity == Severity::Error)
}

pub(super) fn agent(job: &Job) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let link = match job.over {
            Over::Pipes => stdio::own(&LinkSettings::default())?,
            Over::Tcp(port) => tcp::connect(("127.0.0.1", port), &LinkSettings::default()).await?,
        };
        if job.mixed { mixed::agent(job, link).await } else { answer(job, link).await }
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
            method::INITIALIZE => {
                let asked: InitializeRequest = serde_json::from_str(params)?;
                let info = Implementation::new("acp-bench", "1");
                peer.respond(&id, &InitializeResponse::new(asked.protocol_version).agent_info(info))?
            }
            method::SESSION_NEW => {
                let _: NewSessionRequest = serde_json::from_str(params)?;
                peer.respond(&id, &NewSessionResponse::new(SESSION))?
            }
            _ => {
                if job.kind == Kind::OursTyped {
                    let _: PromptRequest = serde_json::from_str(params)?;
                }
                for _ in 0..job.updates {
                    let frame = peer.notify(method::SESSION_UPDATE, &update(&text));
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
