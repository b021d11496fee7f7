//! A recorded agent, for clients.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use acp_link::{Link, Wire, stdio, tcp, ws};
use acp_proxy::replay::{Player, Recording, Script};
use acp_rpc::Frame;
use anyhow::Context;

use crate::commands::proxy::Listen;
use crate::exit;

/// Plays to one client on standard streams, or to any number of them on a port, each from the beginning.
pub(super) fn run(recording: &Recording, listen: Listen, speed: Option<f64>) -> anyhow::Result<ExitCode> {
    let script = Script::of(&recording.said);
    if script.is_empty() {
        eprintln!("acp replay: there is no request in {}; an agent has nothing to answer", recording.name);
        return Ok(ExitCode::from(exit::USAGE));
    }
    if listen == Listen::Nobody {
        eprintln!("acp replay: an agent needs a client; use --listen stdio, tcp://… or ws://…");
        return Ok(ExitCode::from(exit::USAGE));
    }
    if let Listen::Tcp(address) | Listen::WebSocket(address) = listen
        && !address.ip().is_loopback()
    {
        eprintln!(
            "acp replay: {address} can be reached from other machines; only loopback addresses are served"
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let wire = Wire::default();
        match listen {
            Listen::Nobody => anyhow::Ok(()),
            Listen::Stdio => {
                let link = stdio::own(&wire).context("cannot use standard input and output")?;
                play(link, Player::new(script, speed)).await;
                Ok(())
            }
            Listen::Tcp(address) => {
                let listener = tcp::listen(address, &wire).await;
                let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
                announce(&listener.local_addr()?.to_string());
                loop {
                    let (link, _) = listener.accept().await?;
                    tokio::spawn(play(link, Player::new(script.clone(), speed)));
                }
            }
            Listen::WebSocket(address) => {
                let listener = ws::listen(address, &wire).await;
                let mut listener = listener.with_context(|| format!("cannot listen on {address}"))?;
                announce(&listener.local_addr()?.to_string());
                loop {
                    let (link, _) = listener.accept().await?;
                    tokio::spawn(play(link, Player::new(script.clone(), speed)));
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn announce(address: &str) {
    println!("{}", serde_json::json!({ "listening": address }));
    eprintln!("acp replay: listening on {address}");
}

/// Plays to one client until it goes away.
async fn play(mut link: Link, mut player: Player) {
    let began = Instant::now();
    loop {
        while let Some(frame) = player.poll() {
            if link.tx.send(frame.raw()).await.is_err() {
                return;
            }
        }
        player.notes().iter().for_each(|note| eprintln!("acp replay: {note}"));
        let deadline = player.next_deadline().map(|at| began + at);
        tokio::select! {
            arrival = link.rx.recv() => match arrival {
                Some(arrival) => player.receive(began.elapsed(), &Frame::from(arrival.line)),
                None => break,
            },
            () = sleep_until(deadline), if deadline.is_some() => player.tick(began.elapsed()),
        }
    }
    // What can still be said at once is said: the client may only have ended its output.
    player.tick(began.elapsed() + Duration::from_secs(3600));
    while let Some(frame) = player.poll() {
        if link.tx.send(frame.raw()).await.is_err() {
            return;
        }
    }
    let _ = link.tx.finish().await;
}

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline.into()).await;
    }
}
