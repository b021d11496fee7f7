//! One connection: an agent on one side, a link on the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_dialect::{ClientDialect, RoutedFrame};
use acp_link::leash::Leash;
use acp_link::{Link, TrySendError};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use acp_rpc::{Frame, View};
use acp_script::Player;
use acp_script::agent::{Effect, McpTool, timestamp};
use tokio::sync::mpsc;

use crate::forms;
use crate::hands::{Hands, session_of};
use crate::process;
use crate::store::Store;
use crate::watch::Watch;

/// How many effects are carried out before the other side is heard again.
const BURST: usize = 256;

/// The rest after each frame to a client that takes one read for one message, where it cannot be seen that it read.
const PACE: Duration = Duration::from_millis(2);

/// How long such a client may take to read one when it has ended its output: it may be waiting for our end.
const LAST_READ: Duration = Duration::from_secs(2);

/// How long an agent goes on that does not notice the end of its input.
const UNDYING: Duration = Duration::from_secs(600);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client went away, or we did.
    Gone,
    /// The same, and the client did not do what the script's `verify` says.
    Unverified,
    /// The whole process shall end with this code.
    Exit(i32),
}

/// Serves one connection until the client goes away.
pub(crate) async fn converse(
    link: Link,
    player: Player,
    client: ClientDialect,
    store: Arc<Store>,
    watch: Watch,
    leash: Option<Leash>,
) -> Ending {
    let (events, heard) = mpsc::unbounded_channel();
    let (answers, answered) = mpsc::unbounded_channel();
    let conversation = Conversation {
        hands: Hands::new(leash.clone()),
        answers,
        player,
        store,
        began: Instant::now(),
        hub: Hub::new("acp-mock", events).leashed(leash),
        held: VecDeque::new(),
        unread: false,
        refused: false,
        client,
        known: false,
        watch,
        kept: 0,
        link,
    };
    conversation.run(heard, answered).await
}

struct Conversation {
    player: Player,
    store: Arc<Store>,
    began: Instant,
    hub: Hub,
    hands: Hands,
    /// Where the answers of its own hands go.
    answers: mpsc::UnboundedSender<Frame>,
    /// Frames for which the link had no room yet.
    held: VecDeque<Frame>,
    /// Whether a client that takes one read for one message may not have read the last one yet.
    unread: bool,
    /// Whether the client has shown a wrong token.
    refused: bool,
    client: ClientDialect,
    /// Whether we have acted on the client's form.
    known: bool,
    watch: Watch,
    /// How much of the agent's journal is in its file.
    kept: usize,
    link: Link,
}

/// What came of carrying out effects.
#[derive(PartialEq, Eq)]
enum Progress {
    Idle,
    More,
    Full,
    Unread,
    Over(Ending),
}

impl Conversation {
    async fn run(
        mut self,
        mut heard: mpsc::UnboundedReceiver<HubEvent>,
        mut answered: mpsc::UnboundedReceiver<Frame>,
    ) -> Ending {
        let ending = loop {
            // What a client has an answer to is in the journal.
            self.watch.keep(self.player.agent().journal(), &mut self.kept);
            let progress = self.act().await;
            if let Progress::Over(ending) = progress {
                break ending;
            }
            let deadline = self.player.next_deadline().map(|at| self.began + at);
            let free = matches!(progress, Progress::Idle | Progress::More);
            tokio::select! {
                biased;
                arrival = self.link.rx.recv() => match arrival {
                    Some(arrival) => {
                        self.player.saw_returns(self.link.rx.crlf_lines());
                        self.hear(&Frame::from(arrival.line));
                    }
                    None => break self.input_ended().await,
                },
                Some(event) = heard.recv() => self.mcp(event),
                Some(frame) = answered.recv() => {
                    let now = self.now();
                    self.player.agent().own_answered(now, &frame);
                }
                () = sleep_until(deadline), if deadline.is_some() && free => {
                    let now = self.now();
                    self.player.tick(now);
                }
                _ = self.link.tx.ready(), if progress == Progress::Full => {}
                _ = self.link.tx.drained(PACE), if progress == Progress::Unread => self.unread = false,
                () = std::future::ready(()), if progress == Progress::More => tokio::task::yield_now().await,
            }
        };
        let _ = self.link.tx.finish().await;
        self.hub.close().await;
        self.hands.close();
        let complaints = self.player.agent().complaints();
        complaints.iter().for_each(|complaint| {
            eprintln!("acp mock: not as the script says: {}", acp_text::line(complaint));
        });
        if ending == Ending::Gone && !complaints.is_empty() { Ending::Unverified } else { ending }
    }

    /// Takes a frame from the client, whatever form it has.
    fn hear(&mut self, frame: &Frame) {
        if let Some(shown) = acp_link::token::shown(frame) {
            return self.shown(&shown);
        }
        if self.refused {
            return self.held.extend(acp_link::token::refused(frame));
        }
        self.watch.saw("<-", frame);
        if self.client.is_canonical() {
            let now = self.now();
            self.player.receive(now, frame);
        } else {
            let headings = self.client.client_says(frame, wall_clock);
            if let Some(dialect) = self.client.dialect().filter(|_| !self.known) {
                self.known = true;
                forms::speak(self.player.agent(), dialect);
            }
            self.head(headings);
        }
    }

    /// The client shows a token, which is no part of the conversation.
    fn shown(&mut self, shown: &str) {
        let agent = self.player.agent();
        match agent.token().map(|token| acp_link::same_secret(shown, token)) {
            Some(true) => agent.admit(),
            Some(false) => {
                self.refused = true;
                eprintln!("acp mock: a client has shown a wrong token");
            }
            None => {}
        }
    }

    fn head(&mut self, headings: Vec<RoutedFrame>) {
        let now = self.now();
        for heading in headings {
            match heading {
                RoutedFrame::ToAgent(frame) => self.player.receive(now, &frame),
                RoutedFrame::ToClient(frame) => self.held.push_back(frame),
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Carries out effects until there are none, the link is full, or others must have their turn.
    async fn act(&mut self) -> Progress {
        for _ in 0..BURST {
            while let Some(frame) = self.held.front() {
                if self.unread {
                    return Progress::Unread;
                }
                match self.link.tx.try_send(frame.raw()) {
                    Ok(()) => {
                        self.watch.saw("->", frame);
                        self.held.pop_front();
                        self.unread = self.client.needs_pauses();
                    }
                    Err(TrySendError::Full) => return Progress::Full,
                    Err(_) => return Progress::Over(Ending::Gone),
                }
            }
            match self.player.poll_effect() {
                None if self.held.is_empty() => return Progress::Idle,
                None => {}
                // By far the most of them.
                Some(Effect::Send(frame)) if self.client.is_canonical() => self.held.push_back(frame),
                Some(effect) => match self.perform(effect).await {
                    Progress::Idle => {}
                    other => return other,
                },
            }
        }
        Progress::More
    }

    async fn perform(&mut self, effect: Effect) -> Progress {
        match effect {
            Effect::Send(frame) => {
                let answers = matches!(frame.view(), View::Response { .. });
                let headings = self.client.agent_says(frame);
                if answers {
                    // Before the client hears of a session, others can find it under the client's name for it.
                    self.store.add_aliases(self.client.session_ids());
                }
                self.head(headings);
            }
            Effect::SendRaw(bytes) => {
                while let Some(frame) = self.held.pop_front() {
                    if self.link.tx.send(frame.raw().clone()).await.is_err() {
                        return Progress::Over(Ending::Gone);
                    }
                }
                if std::mem::take(&mut self.unread) {
                    let _ = self.link.tx.drained(PACE).await;
                }
                // One write each, so that pieces arrive as pieces.
                if self.link.tx.send_raw(bytes).await.is_err() || self.link.tx.flush().await.is_err() {
                    return Progress::Over(Ending::Gone);
                }
            }
            Effect::Stderr(line) => eprintln!("{}", String::from_utf8_lossy(&line)),
            Effect::Exit(code) => return self.over(Ending::Exit(code)).await,
            Effect::Hangup => return self.over(Ending::Gone).await,
            Effect::LeaveChild => process::leave_child(),
            Effect::Grandchild(text) => process::grandchild(&text, self.watch.stdout.as_deref()),
            Effect::Own(frame) => self.own(&frame),
            // Only of agents with tools or a model, which the mock is not.
            Effect::Tool(_) | Effect::Think { .. } | Effect::SessionClosed(_) => {}
            Effect::Abandon { token } => self.hub.abandon(token),
            Effect::McpConnect { key, server, cwd } => {
                self.hub.connect(key, ServerSpec::from_session(&server, &cwd));
            }
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

    /// Does something by itself that is usually asked of the client.
    fn own(&mut self, frame: &Frame) {
        let session = session_of(frame);
        let folder =
            self.player.agent().folders(&session).map(|(cwd, roots)| (cwd.to_owned(), roots.to_vec()));
        if let Some(answer) = self.hands.answer(frame, &session, folder) {
            let answers = self.answers.clone();
            tokio::spawn(async move {
                let _ = answers.send(answer.await);
            });
        }
    }

    /// The end, after what was said before it.
    async fn over(&mut self, ending: Ending) -> Progress {
        while let Some(frame) = self.held.pop_front() {
            if self.link.tx.send(frame.raw().clone()).await.is_err() {
                break;
            }
        }
        Progress::Over(ending)
    }

    fn mcp(&mut self, event: HubEvent) {
        match event {
            HubEvent::Connected { key, outcome } => {
                let outcome = self.hub.keep(key, outcome).map(|tools| tools.into_iter().map(tool).collect());
                self.player.agent().mcp_connected(key, outcome);
            }
            HubEvent::Answered { token, answer } => self.player.agent().mcp_answered(token, answer),
        }
    }

    /// The client has ended its output: what can be answered at once still is.
    async fn input_ended(&mut self) -> Ending {
        let now = self.now();
        let survives = self.player.end(now);
        let mut patience = Instant::now() + LAST_READ;
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
                Progress::Unread => {
                    let drained = tokio::time::timeout_at(patience.into(), self.link.tx.drained(PACE)).await;
                    if drained.is_ok() {
                        patience = Instant::now() + LAST_READ;
                    }
                    self.unread = false;
                }
            }
        }
        if survives {
            tokio::time::sleep(UNDYING).await;
        }
        Ending::Gone
    }
}

fn tool(tool: acp_mcp::Tool) -> McpTool {
    McpTool { name: tool.name, description: tool.description.unwrap_or_default(), schema: tool.input_schema }
}

/// The time as RFC 3339 text.
fn wall_clock() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(u64::try_from(now.as_millis()).unwrap_or_default())
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
