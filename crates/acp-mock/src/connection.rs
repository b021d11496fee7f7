//! One connection: an agent on one side, a link on the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_link::{Link, TrySendError};
use acp_rpc::Frame;
use acp_script::agent::{Agent, AgentConfig, Effect};
use tokio::sync::mpsc;

use crate::mcp::{Hub, McpEvent};
use crate::store::Store;

/// How many effects are carried out before the other side is heard again.
const BURST: usize = 256;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client went away.
    Gone,
}

/// Serves one connection until the client goes away.
pub(crate) async fn converse(link: Link, config: AgentConfig, store: Arc<Store>) -> Ending {
    let (events, heard) = mpsc::unbounded_channel();
    let conversation = Conversation {
        agent: Agent::new(config),
        store,
        began: Instant::now(),
        hub: Hub::new(events),
        held: None,
        link,
    };
    conversation.run(heard).await
}

struct Conversation {
    agent: Agent,
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
    Closed,
}

impl Conversation {
    async fn run(mut self, mut heard: mpsc::UnboundedReceiver<McpEvent>) -> Ending {
        loop {
            let progress = self.act();
            if progress == Progress::Closed {
                break;
            }
            let deadline = self.agent.next_deadline().map(|at| self.began + at);
            tokio::select! {
                biased;
                arrival = self.link.rx.recv() => match arrival {
                    Some(arrival) => {
                        let now = self.now();
                        self.agent.receive(now, &Frame::from(arrival.line));
                    }
                    None => break,
                },
                Some(event) = heard.recv() => self.mcp(event),
                () = sleep_until(deadline), if deadline.is_some() && progress != Progress::Full => {
                    let now = self.now();
                    self.agent.tick(now);
                }
                _ = self.link.tx.ready(), if progress == Progress::Full => {}
                () = std::future::ready(()), if progress == Progress::More => tokio::task::yield_now().await,
            }
        }
        self.wind_up().await;
        Ending::Gone
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Carries out effects until there are none, the link is full, or others must have their turn.
    fn act(&mut self) -> Progress {
        for _ in 0..BURST {
            let effect = match self.held.take() {
                Some(frame) => Effect::Send(frame),
                None => match self.agent.poll_effect() {
                    Some(effect) => effect,
                    None => return Progress::Idle,
                },
            };
            match self.perform(effect) {
                Progress::Idle => {}
                other => return other,
            }
        }
        Progress::More
    }

    fn perform(&mut self, effect: Effect) -> Progress {
        match effect {
            Effect::Send(frame) => match self.link.tx.try_send(frame.raw()) {
                Ok(()) => {}
                Err(TrySendError::Full) => {
                    self.held = Some(frame);
                    return Progress::Full;
                }
                Err(_) => return Progress::Closed,
            },
            Effect::McpConnect { key, server, cwd } => self.hub.connect(key, &server, &cwd),
            Effect::McpDisconnect { key } => self.hub.disconnect(key),
            Effect::McpCall { key, token, tool, arguments } => self.hub.call(key, token, tool, arguments),
            Effect::StoreSession(record) => complain(self.store.put(*record)),
            Effect::DeleteSession(id) => complain(self.store.remove(&id)),
            Effect::FetchSession { token, id } => {
                let record = self.store.fetch(&id);
                self.agent.session_fetched(token, &id, record);
            }
            Effect::ListSessions { token } => self.agent.sessions_listed(token, self.store.list()),
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
                self.agent.mcp_connected(key, outcome);
            }
            McpEvent::Answered { token, answer } => self.agent.mcp_answered(token, answer),
        }
    }

    /// The client has ended its output: what can be answered at once still is.
    async fn wind_up(mut self) {
        loop {
            match self.act() {
                Progress::Idle | Progress::Closed => break,
                Progress::More => {}
                Progress::Full => {
                    if self.link.tx.ready().await.is_err() {
                        break;
                    }
                }
            }
        }
        let _ = self.link.tx.finish().await;
        self.hub.close().await;
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
