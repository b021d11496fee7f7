//! Two hundred sessions of `acp agent` that are all prompted at once, on the provider in the box.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use acp_link::{Link, child};
use acp_proto::{method, update};
use acp_rpc::{Frame, Id, Peer, Received};
use serde_json::{Value, json};

use super::mock::program;
use super::{Bar, Wanted};
use crate::probe;
use crate::run::{Plan, median};
use crate::table;

const SESSIONS: usize = 200;
const WHAT: &str = "200 sessions at once: p99 to the first chunk, times the median";
/// Lines taken from the link at once.
const BURST: usize = 256;

/// What one round gave.
struct Round {
    /// From a prompt's sending to its session's first chunk, in order.
    first_chunks: Vec<Duration>,
    /// From the first prompt's sending to the last answer.
    all: Duration,
    agent_kib: u64,
}

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let acp = match program(plan) {
        Ok(acp) => acp,
        Err(missing) => {
            println!("\n### Sessions: not run\n\n{missing}");
            return Ok(vec![Bar::new(WHAT, Wanted::AtMost(10.0), None)]);
        }
    };
    let sessions = SESSIONS / plan.scale;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rounds = Vec::new();
    for number in 0..plan.rounds {
        eprint!("\r\x1b[K  round {} of {}: {sessions} sessions", number + 1, plan.rounds);
        rounds.push(runtime.block_on(round(&acp, sessions))?);
    }
    eprint!("\r\x1b[K");
    let figure = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    let at = |round: &Round, share: f64| {
        let last = round.first_chunks.len().saturating_sub(1);
        let index = ((last as f64) * share).ceil() as usize;
        round.first_chunks.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    let millis = |value: Option<f64>| format!("{:.1}", value.unwrap_or_default());
    let ratio = figure(&|round| at(round, 0.99) / at(round, 0.5));
    let row = vec![
        format!("{sessions} sessions"),
        millis(figure(&|round| at(round, 0.5))),
        millis(figure(&|round| at(round, 0.99))),
        table::ratio(ratio),
        millis(figure(&|round| round.all.as_secs_f64() * 1e3)),
        table::megabytes(figure(&|round| round.agent_kib as f64).unwrap_or_default()),
    ];
    let header = ["", "median, ms", "p99, ms", "p99 / median", "all answered, ms", "agent MB"];
    table::print("Sessions prompted at once: time to the first chunk", &header, &[row]);
    Ok(vec![Bar::new(WHAT, Wanted::AtMost(10.0), ratio)])
}

async fn round(acp: &Path, sessions: usize) -> anyhow::Result<Round> {
    let (folder, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut options = child::SpawnOptions::new(acp).args(["agent", "--state-dir"]).args([state.path()]);
    options = options.args(["--path"]).args([folder.path()]);
    options.stderr = child::Stderr::Inherit;
    let (link, mut agent) = child::spawn(&options)?;
    let mut client = Client { link, peer: Peer::default(), began: Instant::now() };
    let capabilities = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    client
        .ask(method::INITIALIZE, &json!({"protocolVersion": 1, "clientCapabilities": capabilities}))
        .await?;
    let mut open = Vec::new();
    for _ in 0..sessions {
        let made = client.ask(method::SESSION_NEW, &json!({"cwd": folder.path(), "mcpServers": []})).await?;
        open.push(made["sessionId"].as_str().unwrap_or_default().to_owned());
    }
    let round = client.prompt_all(&open).await?;
    let agent_kib = probe::kib(&agent.pid().to_string(), probe::PEAK);
    client.link.tx.finish().await?;
    drop(client);
    let exit = agent.wait().await;
    anyhow::ensure!(exit.success(), "the agent ended with {exit}");
    Ok(Round { agent_kib, ..round })
}

struct Client {
    link: Link,
    peer: Peer,
    began: Instant,
}

impl Client {
    async fn send(&mut self, method: &str, params: &Value) -> anyhow::Result<Id> {
        let (id, frame) = self.peer.request(self.began.elapsed(), method, params, None)?;
        self.link.tx.send(frame.raw()).await?;
        Ok(id)
    }

    /// Asks and waits for the answer; what else comes is of no interest yet.
    async fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let wanted = self.send(method, params).await?;
        loop {
            for (_, received) in self.arrivals().await? {
                if let Received::Answered { id, frame, .. } = received
                    && id == wanted
                {
                    return result(&frame);
                }
            }
        }
    }

    async fn arrivals(&mut self) -> anyhow::Result<Vec<(Instant, Received)>> {
        let mut burst = Vec::with_capacity(BURST);
        anyhow::ensure!(self.link.rx.recv_many(&mut burst, BURST).await > 0, "the agent went away");
        let receive = |arrival: acp_link::Arrival| {
            let now = arrival.at.saturating_duration_since(self.began);
            (arrival.at, self.peer.receive(now, Frame::from(arrival.line)))
        };
        Ok(burst.into_iter().map(receive).collect())
    }

    /// Prompts every session before anything is read, then takes what comes until all have answered.
    async fn prompt_all(&mut self, sessions: &[String]) -> anyhow::Result<Round> {
        let began = Instant::now();
        let (mut sent, mut asked, mut first) = (HashMap::new(), Vec::new(), HashMap::new());
        for session in sessions {
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            sent.insert(session.clone(), Instant::now());
            asked.push(self.send(method::SESSION_PROMPT, &prompt).await?);
        }
        while !asked.is_empty() {
            for (at, received) in self.arrivals().await? {
                match received {
                    Received::Notified { frame } => {
                        let params: Value = serde_json::from_str(frame.params().unwrap_or_default())?;
                        let session = params["sessionId"].as_str().unwrap_or_default();
                        if params["update"]["sessionUpdate"] == update::AGENT_MESSAGE_CHUNK
                            && let Some(sent) = sent.get(session)
                        {
                            first.entry(session.to_owned()).or_insert(at.saturating_duration_since(*sent));
                        }
                    }
                    Received::Answered { id, frame, .. } => {
                        let reason = &result(&frame)?["stopReason"];
                        anyhow::ensure!(reason == "end_turn", "a turn ended with {reason}");
                        asked.retain(|other| *other != id);
                    }
                    other => anyhow::bail!("unexpected: {other:?}"),
                }
            }
        }
        anyhow::ensure!(
            first.len() == sessions.len(),
            "{} of {} sessions had a chunk",
            first.len(),
            sessions.len()
        );
        let mut first_chunks: Vec<_> = first.into_values().collect();
        first_chunks.sort_unstable();
        Ok(Round { first_chunks, all: began.elapsed(), agent_kib: 0 })
    }
}

fn result(frame: &Frame) -> anyhow::Result<Value> {
    let Some(result) = frame.result() else { anyhow::bail!("the agent refused: {:?}", frame.error()) };
    Ok(serde_json::from_str(result)?)
}
