//! The other side of this crate's tests: a supervisor, a process guard, an agent on its own stdio, and a parent to be killed.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use acp_link::child::{SpawnOptions, spawn};
use acp_link::kept;
use acp_link::process_guard::{self, ProcessGuard, ProcessMark};
use acp_link::{Link, LinkSettings, stdio, supervisor};
use acp_rpc::Line;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let command = args.next().unwrap_or_default();
    if command == supervisor::ARGUMENT {
        return supervisor::main(args);
    }
    if command == process_guard::ARGUMENT {
        return process_guard::main();
    }
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let argument = args.first().map_or("", String::as_str);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match &*command.to_string_lossy() {
        "echo" => runtime.block_on(echo()),
        "flood" => runtime.block_on(flood(argument.parse().unwrap())),
        "parent" => runtime.block_on(parent(argument)),
        "holder" => holder(argument),
        "keeper" => runtime.block_on(keeper(argument)),
        other => panic!("unknown part {other:?}"),
    }
    ExitCode::SUCCESS
}

/// Sends every line back, as bytes for bytes as it came.
async fn echo() {
    let mut link = stdio::own(&LinkSettings::default()).unwrap();
    println!("this must not get into the protocol");
    while let Some(arrival) = link.rx.recv().await {
        let line = match arrival.line {
            Line::Text(bytes) | Line::NotUtf8(bytes) => bytes,
            Line::Oversized { len, .. } => format!("oversized {len}").into(),
        };
        link.tx.send(line).await.unwrap();
    }
    link.tx.finish().await.unwrap();
}

/// Sends many frames before it cares for what it is sent; then says how many came.
async fn flood(count: usize) {
    let Link { tx, mut rx } = stdio::own(&LinkSettings::default()).unwrap();
    let reading = tokio::spawn(async move {
        let mut seen = 0;
        while seen < count && rx.recv().await.is_some() {
            seen += 1;
        }
        seen
    });
    for index in 0..count {
        tx.send(format!("{index:0200}")).await.unwrap();
    }
    let seen = reading.await.unwrap();
    tx.send(format!("seen {seen}")).await.unwrap();
    tx.finish().await.unwrap();
}

/// Starts a supervised agent, prints what it says, and waits for its end, or its own.
async fn parent(script: &str) {
    let mut options = SpawnOptions::new("sh").args(["-c", script]);
    options.supervisor = Some(std::env::current_exe().unwrap());
    let (mut link, child) = spawn(&options).unwrap();
    println!("agent {}", child.pid());
    while let Some(arrival) = link.rx.recv().await {
        println!("{}", String::from_utf8_lossy(arrival.line.bytes()));
    }
    tokio::time::sleep(Duration::from_secs(1000)).await;
}

/// Starts a kept command, says how it ended, and lets it go when it is told to.
async fn keeper(script: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let supervisor =
        std::env::var_os("SUPERVISOR").map_or_else(|| std::env::current_exe().unwrap(), Into::into);
    let wrapped = kept::wrap(&command, &ProcessGuard::new(supervisor)).unwrap();
    let (kept, mut ending) = wrapped.spawn().unwrap();
    println!("started");
    let exit = ending.wait().await;
    println!("ended {}", exit.and_then(|exit| exit.code).unwrap_or(-1));
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    kept.release();
    println!("released");
    tokio::time::sleep(Duration::from_secs(1000)).await;
}

/// Starts a command under the process guard; when it is told to, puts another one on it and lets that go; waits for both. A script
/// that says `unheld` is only marked, as if we were killed right after its start.
fn holder(script: &str) {
    let process_guard = ProcessGuard::new(std::env::current_exe().unwrap());
    let start = |mark: &ProcessMark| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(process_guard::VARIABLE, mark).process_group(0).spawn().unwrap()
    };
    let mark = process_guard.mark();
    let mut held = start(&mark);
    let number = held.id();
    let _kept = if script.contains("unheld") { (Some(mark), None) } else { (None, mark.hold(number)) };
    println!("held {number}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let mark = process_guard.mark();
    let mut free = start(&mark);
    drop(mark.hold(free.id()));
    println!("free {}", free.id());
    free.wait().unwrap();
    held.wait().unwrap();
}
