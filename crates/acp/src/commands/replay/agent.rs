//! A recorded agent, for clients.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use acp_driver::{Machine, Output, drive};
use acp_link::{AccessControl, Arrival, Link, LinkClosed, LinkSettings, Listener, Receiver, stdio};
use acp_proxy::replay::{Player, Recording, Script};
use acp_rpc::Frame;
use anyhow::Context;

use crate::commands::listen::Listen;
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
    if let Some(at) = listen.address().filter(|at| !at.is_loopback()) {
        eprintln!(
            "acp replay: {} can be reached from other machines; only loopback addresses are served",
            at.socket
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let wire = LinkSettings::default();
        match listen {
            Listen::Nobody => {}
            Listen::Stdio => {
                let link = stdio::own(&wire).context("cannot use standard input and output")?;
                play(link, Player::new(script, speed)).await;
            }
            Listen::Socket(at) => {
                let listener = Listener::bind(at, &wire, AccessControl::default())?;
                announce(&listener.address().to_string());
                let serve = |link, _| play(link, Player::new(script.clone(), speed));
                let failed = |error: &io::Error| eprintln!("acp replay: cannot accept a connection: {error}");
                listener.serve(std::future::pending(), serve, failed).await;
            }
        }
        anyhow::Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn announce(address: &str) {
    println!("{}", serde_json::json!({ "listening": address }));
    eprintln!("acp replay: listening on {address}");
}

/// Plays to one client until it goes away.
async fn play(mut link: Link, player: Player) {
    let mut playing = Playing { player, began: Instant::now() };
    drive(&mut link, &mut playing).await;
    let _ = link.tx.finish().await;
}

struct Playing {
    player: Player,
    began: Instant,
}

impl Machine for Playing {
    type Event = std::convert::Infallible;
    type Ending = ();

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.player.receive(self.began.elapsed(), &Frame::from(arrival.line));
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<()> {
        // What can still be said at once is said: the client may only have ended its output.
        self.player.tick(self.began.elapsed() + Duration::from_secs(3600));
        Some(())
    }

    fn poll(&mut self) -> Output<()> {
        let frame = self.player.poll();
        self.player.notes().iter().for_each(|note| eprintln!("acp replay: {note}"));
        frame.map_or(Output::Idle, Output::Frame)
    }

    fn next_deadline(&mut self, is_free: bool) -> Option<Instant> {
        self.player.next_deadline().filter(|_| is_free).map(|at| self.began + at)
    }

    fn tick(&mut self) {
        self.player.tick(self.began.elapsed());
    }

    fn event(&mut self, _: bool) -> impl Future<Output = Self::Event> + Send {
        std::future::pending()
    }

    fn happened(&mut self, event: Self::Event) {
        match event {}
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<()> {
        Some(())
    }
}
