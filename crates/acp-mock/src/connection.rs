//! One connection: an agent, and what it has beside the link to its client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_dialect::{ClientDialect, RoutedFrame};
use acp_driver::{Machine, Output, drive};
use acp_link::process_guard::ProcessGuard;
use acp_link::{Arrival, Link, LinkClosed, Receiver};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use acp_rpc::{Frame, View};
use acp_script::MockAgent;
use acp_script::agent::{AgentEffect, McpTool, timestamp};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::forms;
use crate::local_tools::{LocalTools, session_of};
use crate::process;
use crate::store::MockStore;
use crate::watch::Watch;

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
    mut link: Link,
    player: MockAgent,
    client: ClientDialect,
    store: Arc<MockStore>,
    watch: Watch,
    process_guard: Option<ProcessGuard>,
) -> Ending {
    let (events, mcp) = mpsc::unbounded_channel();
    let (answers, answered) = mpsc::unbounded_channel();
    let mut conversation = Conversation {
        local_tools: LocalTools::new(process_guard.clone()),
        answers,
        answered,
        player,
        store,
        began: Instant::now(),
        hub: Hub::new("acp-mock", events).leashed(process_guard),
        mcp,
        waiting: VecDeque::new(),
        survives: false,
        refused: false,
        client,
        known: false,
        watch,
        kept: 0,
    };
    let ending = drive(&mut link, &mut conversation).await;
    conversation.end(ending, link).await
}

struct Conversation {
    player: MockAgent,
    store: Arc<MockStore>,
    began: Instant,
    hub: Hub,
    mcp: mpsc::UnboundedReceiver<HubEvent>,
    local_tools: LocalTools,
    /// Where the answers of its own tools go, and come from.
    answers: mpsc::UnboundedSender<Frame>,
    answered: mpsc::UnboundedReceiver<Frame>,
    /// What is to be written.
    waiting: VecDeque<Waiting>,
    /// Whether it goes on after the end of its input.
    survives: bool,
    /// Whether the client has shown a wrong token.
    refused: bool,
    client: ClientDialect,
    /// Whether we have acted on the client's form.
    known: bool,
    watch: Watch,
    /// How much of the agent's journal is in its file.
    kept: usize,
}

/// What is to be written, in order.
enum Waiting {
    Frame(Frame),
    Raw(Bytes),
    End(Ending),
}

/// What happens beside the link.
enum Event {
    Mcp(HubEvent),
    /// Its own hands have answered.
    Own(Frame),
}

impl Machine for Conversation {
    type Event = Event;
    type Ending = Ending;

    fn receive(&mut self, arrival: Arrival, from: &Receiver) {
        self.player.saw_returns(from.crlf_lines());
        self.hear(&Frame::from(arrival.line));
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<Ending> {
        let now = self.now();
        self.survives = self.player.end(now);
        Some(Ending::Gone)
    }

    fn poll(&mut self) -> Output<Ending> {
        // What a client has an answer to is in the journal.
        self.watch.keep(self.player.agent().journal(), &mut self.kept);
        if let Some(waiting) = self.waiting.pop_front() {
            return self.written(waiting);
        }
        match self.player.poll_effect() {
            None => Output::Idle,
            // By far the most of them.
            Some(AgentEffect::Send(frame)) if self.client.is_canonical() => {
                self.written(Waiting::Frame(frame))
            }
            Some(effect) => {
                self.perform(effect);
                Output::Done
            }
        }
    }

    fn next_deadline(&mut self, is_free: bool) -> Option<Instant> {
        self.player.next_deadline().filter(|_| is_free).map(|at| self.began + at)
    }

    fn tick(&mut self) {
        let now = self.now();
        self.player.tick(now);
    }

    async fn event(&mut self, _: bool) -> Event {
        tokio::select! {
            biased;
            Some(event) = self.mcp.recv() => Event::Mcp(event),
            Some(frame) = self.answered.recv() => Event::Own(frame),
            else => std::future::pending().await,
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Mcp(event) => self.mcp(event),
            Event::Own(frame) => {
                let now = self.now();
                self.player.agent().own_answered(now, &frame);
            }
        }
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<Ending> {
        self.survives = false;
        Some(Ending::Gone)
    }

    fn is_one_by_one(&self) -> bool {
        self.client.needs_pauses()
    }
}

impl Conversation {
    /// Ends what was started for the client.
    async fn end(mut self, ending: Ending, link: Link) -> Ending {
        if self.survives && ending == Ending::Gone {
            tokio::time::sleep(UNDYING).await;
        }
        let _ = link.tx.finish().await;
        self.hub.close().await;
        self.local_tools.close();
        let complaints = self.player.agent().complaints();
        complaints.iter().for_each(|complaint| {
            eprintln!("acp mock: not as the script says: {}", acp_text::line(complaint));
        });
        if ending == Ending::Gone && !complaints.is_empty() { Ending::Unverified } else { ending }
    }

    fn written(&self, waiting: Waiting) -> Output<Ending> {
        match waiting {
            Waiting::Frame(frame) => {
                self.watch.saw("->", &frame);
                Output::Frame(frame)
            }
            Waiting::Raw(bytes) => Output::Raw(bytes),
            Waiting::End(ending) => Output::End(ending),
        }
    }

    /// Takes a frame from the client, whatever form it has.
    fn hear(&mut self, frame: &Frame) {
        if let Some(shown) = acp_link::token::shown(frame) {
            return self.shown(&shown);
        }
        if self.refused {
            return self.waiting.extend(acp_link::token::refused(frame).map(Waiting::Frame));
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
                RoutedFrame::ToClient(frame) => self.waiting.push_back(Waiting::Frame(frame)),
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn perform(&mut self, effect: AgentEffect) {
        match effect {
            AgentEffect::Send(frame) => {
                let answers = matches!(frame.view(), View::Response { .. });
                let headings = self.client.agent_says(frame);
                if answers {
                    // Before the client hears of a session, others can find it under the client's name for it.
                    self.store.add_aliases(self.client.session_ids());
                }
                self.head(headings);
            }
            AgentEffect::SendRaw(bytes) => self.waiting.push_back(Waiting::Raw(bytes)),
            AgentEffect::Stderr(line) => eprintln!("{}", String::from_utf8_lossy(&line)),
            AgentEffect::Exit(code) => self.waiting.push_back(Waiting::End(Ending::Exit(code))),
            AgentEffect::Hangup => {
                self.survives = false;
                self.waiting.push_back(Waiting::End(Ending::Gone));
            }
            AgentEffect::LeaveChild => process::leave_child(),
            AgentEffect::Grandchild(text) => process::grandchild(&text, self.watch.stdout.as_deref()),
            AgentEffect::Own(frame) => self.own(&frame),
            // Only of agents with tools or a model, which the mock is not.
            AgentEffect::Tool(_) | AgentEffect::Think { .. } | AgentEffect::SessionClosed(_) => {}
            AgentEffect::Abandon { token } => self.hub.abandon(token),
            AgentEffect::McpConnect { key, server, cwd } => {
                self.hub.connect(key, ServerSpec::from_session(&server, &cwd));
            }
            AgentEffect::McpDisconnect { key } => self.hub.disconnect(key),
            AgentEffect::McpCall { key, token, tool, arguments } => {
                self.hub.call(key, token, tool, arguments);
            }
            AgentEffect::StoreSession(record) => complain(self.store.put(*record)),
            AgentEffect::DeleteSession(id) => complain(self.store.remove(&id)),
            AgentEffect::FetchSession { token, id } => {
                let record = self.store.fetch(&id);
                self.player.session_fetched(token, &id, record);
            }
            AgentEffect::ListSessions { token } => {
                let sessions = self.store.list();
                self.player.sessions_listed(token, sessions);
            }
        }
    }

    /// Does something by itself that is usually asked of the client.
    fn own(&mut self, frame: &Frame) {
        let session = session_of(frame);
        let folder =
            self.player.agent().folders(&session).map(|(cwd, roots)| (cwd.to_owned(), roots.to_vec()));
        if let Some(answer) = self.local_tools.answer(frame, &session, folder) {
            let answers = self.answers.clone();
            tokio::spawn(async move {
                let _ = answers.send(answer.await);
            });
        }
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
}

fn tool(tool: acp_mcp::ServerTool) -> McpTool {
    McpTool { name: tool.name, description: tool.description.unwrap_or_default(), schema: tool.input_schema }
}

/// The time as RFC 3339 text.
fn wall_clock() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(u64::try_from(now.as_millis()).unwrap_or_default())
}

/// A session that could not be kept is a fault of this machine, not of the conversation.
fn complain(outcome: Result<(), crate::MockStoreError>) {
    if let Err(error) = outcome {
        eprintln!("acp mock: {error}");
    }
}
