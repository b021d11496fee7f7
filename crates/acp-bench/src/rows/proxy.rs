//! The relay with its journal on, and five hundred sessions through one `acp proxy`.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use acp_proto::{join, method, update};
use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::mock::program;
use super::streaming::{per_second, stream};
use super::{Bar, Wanted};
use crate::job::{Job, Kind, Over, Sample};
use crate::probe;
use crate::run::{Plan, median};
use crate::table::{self, megabytes, rate, ratio};

const UPDATES: usize = 200_000;
const PROMPTS: usize = 10_000;
const SESSIONS: usize = 500;
/// Chunks per session.
const CHUNKS: usize = 1000;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let mut bars = journal(plan)?;
    bars.extend(sessions(plan)?);
    Ok(bars)
}

/// The same relay without and with a journal.
fn journal(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let pairs = [(Kind::Relay, Kind::RelayKept), (Kind::RelayTranslated, Kind::RelayKeptTranslated)];
    let mut kinds: Vec<Kind> = pairs.iter().flat_map(|(off, on)| [*off, *on]).collect();
    kinds.push(Kind::RelayPump);
    let streamed = stream(plan, &kinds, Over::Pipes, UPDATES, 200)?;
    let prompts = PROMPTS / plan.scale;
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { prompts, pinned: true, ..Job::new(kind) }).collect();
    let turned = plan.run(&jobs)?;
    let faster = |sample: &Sample| 1.0 / sample.prompt_seconds;
    let mut rows = Vec::new();
    let twos = pairs.into_iter().flat_map(|(off, on)| [(off, Some(off)), (on, Some(off))]);
    for (kind, off) in std::iter::once((Kind::RelayPump, None)).chain(twos) {
        let micros = turned.median(kind, |sample| sample.prompt_seconds * 1e6).unwrap_or_default();
        rows.push(vec![
            kind.label().into(),
            rate(streamed.median(kind, per_second).unwrap_or_default()),
            ratio(streamed.ratio(kind, Kind::RelayPump, per_second)),
            ratio(off.and_then(|off| streamed.ratio(kind, off, per_second))),
            format!("{micros:.1}"),
            megabytes(streamed.median(kind, |sample| sample.agent_kib as f64).unwrap_or_default()),
        ]);
    }
    let title = format!(
        "Journal: {} updates of 200 bytes, and {prompts} round trips on one core",
        UPDATES / plan.scale
    );
    table::print(&title, &["", "messages/s", "× pump", "× without", "round trip µs", "relay MB"], &rows);
    let [(relay, kept), (translated, kept_translated)] = pairs;
    Ok(vec![
        // Four fifths of what the relay promises without a journal: 0.6 of a pump, and 0.4 of the identity relay.
        Bar::new(
            "identity relay with the journal on, times a byte pump's messages/s",
            Wanted::AtLeast(0.48),
            streamed.ratio(kept, Kind::RelayPump, per_second),
        ),
        Bar::new(
            "translating relay with the journal on, times the identity relay without",
            Wanted::AtLeast(0.32),
            streamed.ratio(kept_translated, relay, per_second),
        ),
        Bar::new(
            "identity relay with the journal on, times without",
            Wanted::AtLeast(0.8),
            streamed.ratio(kept, relay, per_second),
        ),
        Bar::new(
            "translating relay with the journal on, times without",
            Wanted::AtLeast(0.8),
            streamed.ratio(kept_translated, translated, per_second),
        ),
        Bar::new(
            "round trips through the relay with the journal on, times without",
            Wanted::AtLeast(0.8),
            turned.ratio(kept, relay, faster),
        ),
    ])
}

const MEMORY: &str = "500 sessions streaming through one proxy: its peak memory, MB";

/// What one round gave.
struct Round {
    seconds: f64,
    chunks: usize,
    proxy_kib: u64,
}

fn sessions(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let acp = match program(plan) {
        Ok(acp) => acp,
        Err(missing) => {
            println!("\n### Five hundred sessions: not run\n\n{missing}");
            return Ok(vec![Bar::new(MEMORY, Wanted::AtMost(200.0), None)]);
        }
    };
    let chunks = (CHUNKS / plan.scale).max(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rounds = Vec::new();
    for number in 0..plan.rounds {
        eprint!("\r\x1b[K  round {} of {}: {SESSIONS} sessions", number + 1, plan.rounds);
        let round = runtime.block_on(round(&acp, chunks))?;
        anyhow::ensure!(
            round.chunks == SESSIONS * chunks,
            "{} chunks arrived of {}",
            round.chunks,
            SESSIONS * chunks
        );
        rounds.push(round);
    }
    eprint!("\r\x1b[K");
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let memory = of(|round| round.proxy_kib as f64 * 1024.0 / 1e6);
    let row = vec![
        "`acp proxy`, journal on".to_owned(),
        rate(of(|round| round.chunks as f64 / round.seconds).unwrap_or_default()),
        (SESSIONS * chunks).to_string(),
        "0".to_owned(),
        format!("{:.1}", memory.unwrap_or_default()),
    ];
    let title = format!("{SESSIONS} sessions at once, {chunks} chunks each");
    table::print(&title, &["", "messages/s", "messages", "lost", "proxy MB"], &[row]);
    Ok(vec![Bar::new(MEMORY, Wanted::AtMost(200.0), memory)])
}

/// Five hundred clients and five hundred agents in this process, one proxy between them.
async fn round(acp: &Path, chunks: usize) -> anyhow::Result<Round> {
    let agents = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("tcp://{}", agents.local_addr()?);
    let serving = tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((socket, _)) = agents.accept().await {
            all.spawn(agent(socket, chunks));
        }
    });
    let folder = tempfile::tempdir()?;
    let mut proxy = std::process::Command::new(acp)
        .args(["proxy", "--listen", "tcp://127.0.0.1:0", "--client-dialect", "v1", "--connect", &address])
        .arg("--journal")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting acp proxy")?;
    let outcome = clients(&mut proxy, chunks).await;
    let proxy_kib = probe::kib(&proxy.id().to_string(), probe::PEAK);
    // It has nothing more to do; what it has written goes with the folder.
    proxy.kill()?;
    proxy.wait()?;
    serving.abort();
    let (seconds, chunks) = outcome?;
    Ok(Round { seconds, chunks, proxy_kib })
}

async fn clients(proxy: &mut std::process::Child, chunks: usize) -> anyhow::Result<(f64, usize)> {
    let stdout = proxy.stdout.take().context("a pipe")?;
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
    let said: serde_json::Value = serde_json::from_str(&line).context("reading the proxy's address")?;
    let address = said["listening"].as_str().context("an address")?.to_owned();
    let together = std::sync::Arc::new(tokio::sync::Barrier::new(SESSIONS + 1));
    let mut all = JoinSet::new();
    for _ in 0..SESSIONS {
        let (address, together) = (address.clone(), together.clone());
        all.spawn(async move {
            let socket = TcpStream::connect(address).await?;
            client(socket, &together, chunks).await
        });
    }
    tokio::time::timeout(Duration::from_secs(60), together.wait())
        .await
        .context("the sessions did not open")?;
    let began = Instant::now();
    let mut count = 0;
    while let Some(found) = all.join_next().await {
        count += found??;
    }
    Ok((began.elapsed().as_secs_f64(), count))
}

async fn client(
    mut socket: TcpStream,
    together: &tokio::sync::Barrier,
    chunks: usize,
) -> anyhow::Result<usize> {
    let (reader, mut writer) = socket.split();
    let mut reader = BufReader::with_capacity(16 * 1024, reader);
    let ask = |id: u32, method: &str, params: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
    };
    for (id, method, params) in [
        (1, method::INITIALIZE, r#"{"protocolVersion":1}"#),
        (2, method::SESSION_NEW, r#"{"cwd":"/","mcpServers":[]}"#),
    ] {
        writer.write_all(ask(id, method, params).as_bytes()).await?;
        updates_before(&mut reader, id).await?;
    }
    together.wait().await;
    let prompt = ask(3, method::SESSION_PROMPT, r#"{"sessionId":"s","prompt":[]}"#);
    writer.write_all(prompt.as_bytes()).await?;
    let count = updates_before(&mut reader, 3).await?;
    anyhow::ensure!(count == chunks, "{count} chunks of {chunks}");
    Ok(count)
}

/// How many lines come before the answer.
async fn updates_before(reader: &mut BufReader<impl AsyncRead + Unpin>, id: u32) -> anyhow::Result<usize> {
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
    let (mut count, mut line) = (0, Vec::new());
    loop {
        line.clear();
        anyhow::ensure!(reader.read_until(b'\n', &mut line).await? > 0, "the proxy closed the connection");
        if line.starts_with(answer.as_bytes()) {
            return Ok(count);
        }
        count += 1;
    }
}

async fn agent(mut socket: TcpStream, chunks: usize) -> anyhow::Result<()> {
    let (reader, mut writer) = socket.split();
    let mut lines = BufReader::new(reader).lines();
    let update = join!(
        r#"{"jsonrpc":"2.0","method":""#,
        method::SESSION_UPDATE,
        r#"","params":{"sessionId":"s","update":{"sessionUpdate":""#,
        update::AGENT_MESSAGE_CHUNK,
        r#"","content":{"type":"text","text":"The quick brown fox jumps over the dog. "}}}}"#
    );
    for (id, result) in [
        (1, r#"{"protocolVersion":1,"authMethods":[]}"#),
        (2, r#"{"sessionId":"s"}"#),
        (3, r#"{"stopReason":"end_turn"}"#),
    ] {
        if lines.next_line().await?.is_none() {
            return Ok(());
        }
        let count = if id == 3 { chunks } else { 0 };
        let mut out = Vec::new();
        for _ in 0..count {
            out.extend_from_slice(update.as_bytes());
            out.push(b'\n');
            if out.len() > 8 * 1024 {
                writer.write_all(&out).await?;
                out.clear();
            }
        }
        out.extend_from_slice(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes(),
        );
        writer.write_all(&out).await?;
    }
    while lines.next_line().await?.is_some() {}
    Ok(())
}
