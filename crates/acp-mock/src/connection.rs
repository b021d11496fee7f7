//! One connection: an agent on one side, a link on the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_link::{Link, TrySendError};
use acp_rpc::Frame;
use acp_script::Player;
use acp_script::agent::Effect;
use tokio::sync::mpsc;

use crate::mcp::{Hub, McpEvent};
use crate::process;
use crate::store::Store;

/// How many effects are carried out before the other side is heard again.
const BURST: usize = 256;

/// How long an agent goes on that does not notice the end of its input.
const UNDYING: Duration = Duration::from_secs(600);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client went away, or we did.
    Gone,
    /// The whole process shall end with this code.
    Exit(i32),
}

/// Serves one connection until the client goes away.
pub(crate) async fn converse(link: Link, player: Player, store: Arc<Store>) -> Ending {
    let (events, heard) = mpsc::unbounded_channel();
    let conversation = Conversation {
        player,
        store,
        began: Instant::now(),
        hub: Hub::new(events),
        held: None,
        link,
    };
    conversation.run(heard).await
}

struct Conversation {
    player: Player,
    store: Arc<Store>,
    began: Instant,
    hub: Hub,
    /// A frame for which the link had no room.
    held: Option<Frame>,
    link: Link,
}

/// What came of carrying out effects.
#[derive(PartialEq, Eq)]
enum Progress {
    Idle,
    More,
    Full,
    Over(Ending),
}

impl Conversation {
    async fn run(mut self, mut heard: mpsc::UnboundedReceiver<McpEvent>) -> Ending {
        let ending = loop {
            let progress = self.act().await;
            if let Progress::Over(ending) = progress {
                break ending;
            }
            let deadline = self.player.next_deadline().map(|at| self.began + at);
            tokio::select! {
                biased;
                arrival = self.link.rx.recv() => match arrival {
                    Some(arrival) => {
                        let now = self.now();
                        self.player.receive(now, &Frame::from(arrival.line));
                    }
                    None => break self.input_ended().await,
                },
                Some(event) = heard.recv() => self.mcp(event),
                () = sleep_until(deadline), if deadline.is_some() && progress != Progress::Full => {
                    let now = self.now();
                    self.player.tick(now);
                }
                _ = self.link.tx.ready(), if progress == Progress::Full => {}
                () = std::future::ready(()), if progress == Progress::More => tokio::task::yield_now().await,
            }
        };
        let _ = self.link.tx.finish().await;
        self.hub.close().await;
        ending
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Carries out effects until there are none, the link is full, or others must have their turn.
    async fn act(&mut self) -> Progress {
        for _ in 0..BURST {
            let effect = match self.held.take() {
                Some(frame) => Effect::Send(frame),
                None => match self.player.poll_effect() {
                    Some(effect) => effect,
                    None => return Progress::Idle,
                },
            };
            match self.perform(effect).await {
                Progress::Idle => {}
                other => return other,
            }
        }
        Progress::More
    }

    async fn perform(&mut self, effect: Effect) -> Progress {
        match effect {
            Effect::Send(frame) => match self.link.tx.try_send(frame.raw()) {
                Ok(()) => {}
                Err(TrySendError::Full) => {
                    self.held = Some(frame);
                    return Progress::Full;
                }
                Err(_) => return Progress::Over(Ending::Gone),
            },
            Effect::SendRaw(bytes) => {
                // One write each, so that pieces arrive as pieces.
                if self.link.tx.send_raw(bytes).await.is_err() || self.link.tx.flush().await.is_err() {
                    return Progress::Over(Ending::Gone);
                }
            }
            Effect::Stderr(line) => eprintln!("{}", String::from_utf8_lossy(&line)),
            Effect::Exit(code) => return Progress::Over(Ending::Exit(code)),
            Effect::Hangup => return Progress::Over(Ending::Gone),
            Effect::LeaveChild => process::leave_child(),
            Effect::Grandchild(text) => process::grandchild(&text),
            Effect::McpConnect { key, server, cwd } => self.hub.connect(key, &server, &cwd),
            Effect::McpDisconnect { key } => self.hub.disconnect(key),
            Effect::McpCall { key, token, tool, arguments } => self.hub.call(key, token, tool, arguments),
            Effect::StoreSession(record) => complain(self.store.put(*record)),
            Effect::DeleteSession(id) => complain(self.store.remove(&id)),
            Effect::FetchSession { token, id } => {
                let record = self.store.fetch(&id);
                self.player.agent().session_fetched(token, &id, record);
            }
            Effect::ListSessions { token } => {
                let sessions = self.store.list();
                self.player.agent().sessions_listed(token, sessions);
            }
        }
        Progress::Idle
    }

    fn mcp(&mut self, event: McpEvent) {
        match event {
            McpEvent::Connected { key, outcome } => {
                let outcome = outcome.map(|(client, tools)| {
                    self.hub.keep(key, client);
                    tools
                });
                self.player.agent().mcp_connected(key, outcome);
            }
            McpEvent::Answered { token, answer } => self.player.agent().mcp_answered(token, answer),
        }
    }

    /// The client has ended its output: what can be answered at once still is.
    async fn input_ended(&mut self) -> Ending {
        let now = self.now();
        let survives = self.player.end(now);
        loop {
            match self.act().await {
                Progress::Idle => break,
                Progress::Over(ending) => return ending,
                Progress::More => {}
                Progress::Full => {
                    if self.link.tx.ready().await.is_err() {
                        break;
                    }
                }
            }
        }
        if survives {
            tokio::time::sleep(UNDYING).await;
        }
        Ending::Gone
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// A session that could not be kept is a fault of this machine, not of the conversation.
fn complain(outcome: Result<(), crate::StoreError>) {
    if let Err(error) = outcome {
        eprintln!("acp mock: {error}");
    }
}
