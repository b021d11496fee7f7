//! Chunks to JetStream: a bare publisher beside a proxy with its agent, on the same server, with the same window.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_link::{Link, child};
use acp_nats::aggregate::AggregateLimits;
use acp_nats::{Access, Nats, NatsSettings, Subjects};
use acp_proto::method;
use acp_proxy::event::{Body, Event, Role, Text};
use acp_proxy::{Proxy, ProxyLog};
use tokio::sync::watch;

use super::{Bar, Wanted};
use crate::job::{Job, Kind};
use crate::run::{Plan, median};
use crate::table::{self, rate, ratio};
use server::Server;

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../../acp-nats/tests/nats/server.rs"]
mod server;

const UPDATES: usize = 100_000;
/// Messages that may be on their way at once.
const WINDOW: usize = 1024;
const WHAT: &str = "chunks to JetStream, times a bare publisher's messages/s";

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    if !server::is_there() {
        println!("\n### NATS: not run\n\nnats-server is not installed (scripts/setup does that)");
        return Ok(vec![Bar::new(WHAT, Wanted::AtLeast(0.7), None)]);
    }
    let updates = UPDATES / plan.scale;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        eprint!("\r\x1b[K  round {} of {}: {updates} chunks to JetStream", round + 1, plan.rounds);
        // A store of its own for each round: nobody pays for what the others left.
        let (server, spool) = (Server::start(), tempfile::tempdir()?);
        let nats = runtime.block_on(start(&server.url(), spool.path()))?;
        bare.push(updates as f64 / runtime.block_on(publish(&server.url(), updates))?);
        ours.push(updates as f64 / runtime.block_on(stream(&nats, updates))?);
    }
    eprint!("\r\x1b[K");
    let share = median(bare.iter().zip(&ours).map(|(bare, ours)| ours / bare).collect());
    let row = |label: &str, rates: &[f64], share: Option<f64>| {
        vec![label.to_owned(), rate(median(rates.to_vec()).unwrap_or_default()), ratio(share)]
    };
    let rows = [
        row("bare async-nats publisher", &bare, Some(1.0)),
        row("agent, proxy, spool, --no-aggregate", &ours, share),
    ];
    let title = format!("JetStream, file store: {updates} chunks in lines of 200 bytes, window {WINDOW}");
    table::print(&title, &["", "messages/s", "× bare"], &rows);
    Ok(vec![Bar::new(WHAT, Wanted::AtLeast(0.7), share)])
}

async fn start(url: &str, spool: &Path) -> anyhow::Result<Nats> {
    let settings = NatsSettings {
        access: Access { url: url.to_owned(), ..Access::default() },
        agent: "bench".to_owned(),
        subjects: Subjects::default(),
        limits: AggregateLimits::none(),
        window: WINDOW,
        spool: spool.to_owned(),
        spool_limit: 1 << 30,
        replicas: 1,
        live: false,
    };
    let nats = Nats::start(settings, ProxyLog::current()).await?;
    nats.ready().await;
    Ok(nats)
}

/// Publishes messages like ours to the same stream: seconds until the last is acknowledged.
async fn publish(url: &str, count: usize) -> anyhow::Result<f64> {
    let context = async_nats::jetstream::new(async_nats::connect(url).await?);
    let text = Text { role: Role::Agent, message_id: None, text: "x".repeat(60), chunks: 1 };
    let session = "sess_0123456789abcdef".to_owned();
    let event = Event {
        session,
        epoch: 1_763_208_000_123_456,
        seq: 50_000,
        at: 1_763_208_000_123,
        task: None,
        body: Body::Text(text),
    };
    let payload = bytes::Bytes::from(event.to_json());
    let began = Instant::now();
    let mut window = VecDeque::with_capacity(WINDOW);
    for _ in 0..count {
        if window.len() == WINDOW
            && let Some(ack) = window.pop_front()
        {
            let _: async_nats::jetstream::publish::PublishAck = Box::pin(ack).await?;
        }
        window.push_back(context.publish("acp.v1.session.bare.event", payload.clone()).await?.into_future());
    }
    for ack in window {
        ack.await?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// An agent streams through a proxy: seconds until the last chunk is stored.
async fn stream(nats: &Nats, count: usize) -> anyhow::Result<f64> {
    let job = Job { updates: count, ..Job::new(Kind::Relay) };
    let [program, role, job] = crate::side::agent_args(&job)?;
    let open: acp_proxy::Opener = Arc::new(move || {
        let options = child::SpawnOptions::new(&program).args([&role, &job]);
        Box::pin(async move {
            let (link, child) = child::spawn(&options).map_err(acp_proxy::AgentUnavailable::new)?;
            Ok((link, Some(child)))
        })
    });
    let proxy = Proxy::new(acp_proxy::ProxySettings::default(), open, ProxyLog::current())
        .observed_by(Arc::new(nats.clone()));
    let (_stop, stopped) = watch::channel(false);
    let (mut client, theirs) = acp_link::memory(1024);
    let relay = tokio::spawn(async move { proxy.serve(theirs, stopped).await });
    ask(&mut client, 1, method::INITIALIZE, r#"{"protocolVersion":1}"#).await?;
    ask(&mut client, 2, method::SESSION_NEW, r#"{"cwd":"/","mcpServers":[]}"#).await?;
    let before = nats.report().stored;
    let began = Instant::now();
    let prompt = r#"{"sessionId":"sess_0123456789abcdef","prompt":[]}"#;
    ask(&mut client, 3, method::SESSION_PROMPT, prompt).await?;
    // The beginning of the turn and its end are events, too.
    while nats.report().stored < before + count as u64 + 2 {
        anyhow::ensure!(began.elapsed() < Duration::from_secs(120), "{:?}", nats.report());
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(client);
    relay.await?;
    Ok(seconds)
}

async fn ask(client: &mut Link, id: usize, method: &str, params: &str) -> anyhow::Result<()> {
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
    client.tx.send(line).await?;
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
    let mut arrivals = Vec::new();
    while client.rx.recv_many(&mut arrivals, 256).await > 0 {
        if arrivals.drain(..).any(|arrival| arrival.line.bytes().starts_with(answer.as_bytes())) {
            return Ok(());
        }
    }
    anyhow::bail!("the agent went away")
}
