//! One connection: the agent on one side, a link on the other, and its hands, tools and mind beside it.

mod keeping;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_dialect::{Dialect, Heading, Tongue};
use acp_link::{Link, TrySendError};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use acp_proto::method;
use acp_rpc::{Frame, View};
use acp_script::agent::{Agent, AgentEffect, McpTool, SessionRecord, Thought, Token, ToolOutput, timestamp};
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::TryRecvError;

use crate::claims::Holder;
use crate::debug::Debug;
use crate::instructions::Reader;
use crate::local_tools::{LocalTools, session_of};
use crate::model_tasks::ModelTasks;
use crate::modes;
use crate::probe::{self, FileWish};
use crate::server::Shared;
use crate::store::{self, Kept, StoreError};
use crate::tools::Tools;
use keeping::{opens_session, refusal};

/// How many effects are carried out before the other side is heard again.
const BURST: usize = 256;
/// The rest after each frame to a client that takes one read for one message, where it cannot be seen that it read.
const PACE: Duration = Duration::from_millis(2);
/// How long such a client may take to read one when it has ended its output: it may be waiting for our end.
const LAST_READ: Duration = Duration::from_secs(2);
/// How long a client may take to read what was said when the server is told to stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// Something that was done beside the conversation.
pub(crate) enum Event {
    /// Our own hands have answered.
    Own(Frame),
    /// A tool has answered.
    Used { token: Token, answer: Result<ToolOutput, String> },
    /// A session was looked up.
    Fetched { token: Token, id: String, found: Result<Option<Box<SessionRecord>>, StoreError> },
    /// All sessions were looked up.
    Listed { token: Token, found: Result<Vec<SessionRecord>, StoreError> },
    /// Something to send.
    Say(Frame),
}

/// What waits to be sent.
enum Held {
    Frame(Frame),
    /// Until this is safe, nothing behind it is sent.
    Until(Kept),
}

#[derive(PartialEq, Eq)]
enum Progress {
    Idle,
    More,
    Full,
    Unread,
    Keeping,
    Over,
}

/// Serves one connection until the client goes away.
pub(crate) async fn converse(link: Link, agent: Agent, tongue: Tongue, shared: Arc<Shared>) {
    let (events, heard) = mpsc::unbounded_channel();
    let (mcp, mcp_heard) = mpsc::unbounded_channel();
    let reader = Reader::new(shared.fence.clone(), &shared.settings.deny);
    let max_tokens = shared.settings.choice.max_tokens;
    let (model_tasks, thoughts) =
        ModelTasks::new(shared.provider.clone(), shared.abilities, reader.clone(), max_tokens);
    let conversation = Conversation {
        agent,
        refused: false,
        began: Instant::now(),
        hub: Hub::new(crate::identity::NAME, mcp).leashed(shared.settings.leash.clone()),
        local_tools: LocalTools::new(
            shared.fence.clone(),
            shared.settings.deny.clone(),
            shared.settings.leash.clone(),
        ),
        tools: Tools::new(events.clone(), shared.fence.clone(), reader),
        model_tasks,
        debug: Debug::new(shared.settings.debug),
        known: tongue.dialect(),
        holder: Arc::new(Holder::new(&shared.claims)),
        aliases: HashMap::new(),
        tongue,
        held: VecDeque::new(),
        unread: false,
        trouble: None,
        begun: Vec::new(),
        events,
        shared,
        link,
    };
    conversation.run(heard, mcp_heard, thoughts).await;
}

struct Conversation {
    agent: Agent,
    /// Whether the client has shown a wrong token.
    refused: bool,
    began: Instant,
    hub: Hub,
    local_tools: LocalTools,
    tools: Tools,
    model_tasks: ModelTasks,
    debug: Debug,
    tongue: Tongue,
    /// The client's form, once we have acted on it.
    known: Option<Dialect>,
    /// Which sessions are ours.
    holder: Arc<Holder>,
    /// The client's session ids that are kept already, with ours.
    aliases: HashMap<String, String>,
    held: VecDeque<Held>,
    /// Whether a client that takes one read for one message may not have read the last one yet.
    unread: bool,
    /// Why the last thing to keep was not kept.
    trouble: Option<Arc<StoreError>>,
    /// Tool calls of a `probe` client, with the time of their begin.
    begun: Vec<(String, u64)>,
    events: mpsc::UnboundedSender<Event>,
    shared: Arc<Shared>,
    link: Link,
}

impl Conversation {
    /// Talks until the client goes away or the server is told to stop; then ends what was started for it.
    async fn run(
        mut self,
        heard: mpsc::UnboundedReceiver<Event>,
        mcp: mpsc::UnboundedReceiver<HubEvent>,
        thoughts: mpsc::Receiver<(Token, Thought)>,
    ) {
        let shared = self.shared.clone();
        tokio::select! {
            () = self.talk(heard, mcp, thoughts) => {}
            () = shared.stopped() => {}
        }
        self.holder.free_all();
        self.local_tools.close();
        let given_up = async {
            shared.stopped().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            _ = self.link.tx.finish() => {}
            () = given_up => {}
        }
        self.hub.close().await;
    }

    async fn talk(
        &mut self,
        mut heard: mpsc::UnboundedReceiver<Event>,
        mut mcp: mpsc::UnboundedReceiver<HubEvent>,
        mut thoughts: mpsc::Receiver<(Token, Thought)>,
    ) {
        if let Some(dialect) = self.known {
            self.speaks(dialect);
        }
        loop {
            let progress = self.act();
            if progress == Progress::Over {
                break;
            }
            let deadline = self.agent.next_deadline().map(|at| self.began + at);
            let free = matches!(progress, Progress::Idle | Progress::More);
            let Self { link, held, .. } = &mut *self;
            tokio::select! {
                biased;
                arrival = link.rx.recv() => match arrival {
                    Some(arrival) => self.hear(&Frame::from(arrival.line)),
                    None => {
                        self.drain().await;
                        break;
                    }
                },
                kept = front(held), if progress == Progress::Keeping => self.settled(kept),
                Some(event) = heard.recv() => self.happened(event),
                Some(event) = mcp.recv() => self.mcp(event),
                Some((token, thought)) = thoughts.recv(), if free => self.agent.thought(token, thought),
                () = sleep_until(deadline), if deadline.is_some() && free => {
                    let now = self.now();
                    self.agent.tick(now);
                }
                _ = link.tx.ready(), if progress == Progress::Full => {}
                _ = link.tx.drained(PACE), if progress == Progress::Unread => self.unread = false,
                () = std::future::ready(()), if progress == Progress::More => tokio::task::yield_now().await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a frame from the client, whatever form it has.
    fn hear(&mut self, frame: &Frame) {
        if let Some(shown) = acp_link::token::shown(frame) {
            return self.shown(&shown);
        }
        if self.refused {
            return self.held.extend(acp_link::token::refused(frame).map(Held::Frame));
        }
        self.debug.received(frame);
        if self.known == Some(Dialect::Probe)
            && let Some(wish) = FileWish::read(frame)
        {
            return self.file(wish);
        }
        if self.tongue.is_canonical() {
            let now = self.now();
            return self.agent.receive(now, frame);
        }
        if self.known.is_none() && probe_of_another_version(frame) {
            self.tongue = Tongue::new(acp_dialect::Speak::Only(Dialect::Probe), self.shared.translation());
        }
        let respelled =
            if self.known == Some(Dialect::V2025_1) { modes::in_our_words(frame, &self.agent) } else { None };
        let headings = match respelled {
            None => self.tongue.client_says(frame, wall_clock),
            Some(Ok(respelled)) => self.tongue.client_says(&respelled, wall_clock),
            Some(Err(refusal)) => return self.held.push_back(Held::Frame(refusal)),
        };
        if self.known.is_none()
            && let Some(dialect) = self.tongue.dialect()
        {
            self.speaks(dialect);
        }
        self.head(headings);
    }

    /// The client shows a token, which is no part of the conversation.
    fn shown(&mut self, shown: &str) {
        match self.agent.token().map(|token| acp_link::same_secret(shown, token)) {
            Some(true) => self.agent.admit(),
            Some(false) => {
                self.refused = true;
                eprintln!("acp agent: a client has shown a wrong token");
            }
            None => {}
        }
    }

    /// The client's form is known: what it lacks is made up for.
    fn speaks(&mut self, dialect: Dialect) {
        self.known = Some(dialect);
        self.aliases = self.tongue.session_ids().into_iter().collect();
        self.agent.set_mode_aliases(dialect != Dialect::V1);
        if matches!(dialect, Dialect::Probe | Dialect::V2025_1) {
            self.agent.set_askable(false);
            self.agent.allow(crate::identity::unasked(&self.shared.settings));
            let policy = self.shared.settings.policy;
            self.agent.bar_modes(
                |mode| crate::identity::needs_leave(mode, policy),
                "this client cannot be asked, so only --policy bypassPermissions opens it",
            );
        }
        self.agent.set_tool_errors(dialect == Dialect::Probe);
        self.agent.set_plans_in_words(dialect == Dialect::Probe);
    }

    fn head(&mut self, headings: Vec<Heading>) {
        let now = self.now();
        for heading in headings {
            match heading {
                Heading::ToAgent(frame) => self.agent.receive(now, &frame),
                Heading::ToClient(frame) if self.known == Some(Dialect::Probe) => {
                    let dressed = probe::dressed(frame, &mut self.begun);
                    self.held.extend(dressed.map(Held::Frame));
                }
                Heading::ToClient(frame) => self.held.push_back(Held::Frame(frame)),
            }
        }
    }

    /// A client of the `probe` form asks for a file of ours.
    fn file(&mut self, wish: Result<FileWish, Frame>) {
        let wish = match wish {
            Ok(wish) => wish,
            Err(refusal) => return self.held.push_back(Held::Frame(refusal)),
        };
        if !self.agent.signed_in() {
            return self.held.push_back(Held::Frame(wish.refused("authentication required")));
        }
        let (root, settings) = (self.shared.work_dir.clone(), &self.shared.settings);
        if let Some(reason) = wish.forbidden(&root, settings) {
            return self.held.push_back(Held::Frame(wish.refused(&reason)));
        }
        if wish.writes() && self.agent.planning_anywhere() {
            return self.held.push_back(Held::Frame(wish.refused("nothing is changed while PLANNING")));
        }
        let (events, deny) = (self.events.clone(), settings.deny.clone());
        tokio::spawn(async move {
            let _ = events.send(Event::Say(wish.grant(root, deny).await));
        });
    }

    /// Carries out effects until there are none, something must be waited for, or others must have their turn.
    fn act(&mut self) -> Progress {
        for _ in 0..BURST {
            while let Some(held) = self.held.front_mut() {
                let frame = match held {
                    Held::Frame(_) if self.unread => return Progress::Unread,
                    Held::Frame(frame) => frame,
                    Held::Until(kept) => match kept.try_recv() {
                        Err(TryRecvError::Empty) => return Progress::Keeping,
                        Ok(outcome) => {
                            self.settled(outcome);
                            continue;
                        }
                        Err(TryRecvError::Closed) => {
                            self.settled(Err(Arc::new(StoreError::Ended)));
                            continue;
                        }
                    },
                };
                if let Some(trouble) =
                    self.trouble.as_ref().filter(|_| matches!(frame.view(), View::Response { .. }))
                {
                    // What is not kept is not acknowledged.
                    let id = frame.id().cloned().unwrap_or(acp_rpc::Id::Null);
                    *frame = Frame::failure(&id, &refusal(trouble));
                    self.trouble = None;
                }
                match self.link.tx.try_send(frame.raw()) {
                    Ok(()) => {
                        if let Some(Held::Frame(frame)) = self.held.pop_front() {
                            self.debug.sent(&frame);
                        }
                        self.unread = self.tongue.is_one_by_one();
                    }
                    Err(TrySendError::Full) => return Progress::Full,
                    Err(_) => return Progress::Over,
                }
            }
            match self.agent.poll_effect() {
                None if self.held.is_empty() => return Progress::Idle,
                None => {}
                Some(effect) => self.perform(effect),
            }
        }
        Progress::More
    }

    /// What stood first in the queue is safe, or not.
    fn settled(&mut self, outcome: Result<(), Arc<StoreError>>) {
        self.held.pop_front();
        match outcome {
            Ok(()) => self.trouble = None,
            Err(error) => {
                if self.trouble.is_none() && !error.is_elsewhere() {
                    eprintln!("acp agent: {error}");
                }
                self.trouble = Some(error);
            }
        }
    }

    fn perform(&mut self, effect: AgentEffect) {
        match effect {
            AgentEffect::Send(frame) => {
                self.debug.told(&frame);
                if self.tongue.is_canonical() {
                    self.held.push_back(Held::Frame(frame));
                } else {
                    if let Tongue::Foreign(translator) = &mut self.tongue {
                        translator.set_wall_clock(wall_clock());
                    }
                    let opens = opens_session(&frame);
                    let headings = self.tongue.agent_says(frame);
                    if opens {
                        self.keep_aliases();
                    }
                    self.head(headings);
                }
            }
            AgentEffect::Own(frame) => self.own(&frame),
            AgentEffect::Tool(tool) => self.tools.start(*tool),
            AgentEffect::Think { token, question } => self.model_tasks.think(token, &question),
            AgentEffect::Abandon { token } => {
                self.tools.abandon(token);
                self.model_tasks.abandon(token);
                self.hub.abandon(token);
            }
            AgentEffect::McpConnect { key, server, cwd } => {
                self.hub.connect(key, ServerSpec::from_session(&server, &cwd));
            }
            AgentEffect::McpDisconnect { key } => self.hub.disconnect(key),
            AgentEffect::McpCall { key, token, tool, arguments } => {
                self.hub.call(key, token, tool, arguments);
            }
            AgentEffect::StoreSession(record) => {
                let kept = match self.holder.take(&record.id) {
                    Ok(()) => self.shared.store.put(record),
                    Err(error) => store::refused(error),
                };
                self.held.push_back(Held::Until(kept));
            }
            AgentEffect::DeleteSession(id) => {
                let kept = match self.holder.take(&id) {
                    Ok(()) => self.shared.store.remove(id.clone()),
                    Err(error) => store::refused(error),
                };
                self.free_unless_open(&id);
                self.held.push_back(Held::Until(kept));
            }
            AgentEffect::SessionClosed(id) => {
                self.local_tools.close_session(&id);
                self.tools.close_session(&id);
                self.free_unless_open(&id);
            }
            AgentEffect::FetchSession { token, id } => self.fetch(token, id),
            AgentEffect::ListSessions { token } => {
                self.look_up(move |store| Event::Listed { token, found: store.list() });
            }
            // Only scripts and defects of the mock do these.
            AgentEffect::SendRaw(_)
            | AgentEffect::Stderr(_)
            | AgentEffect::Exit(_)
            | AgentEffect::Hangup
            | AgentEffect::LeaveChild
            | AgentEffect::Grandchild(_) => {}
        }
    }

    fn own(&mut self, frame: &Frame) {
        if frame.id().is_none() {
            return self.local_tools.observe(frame);
        }
        let session = session_of(frame);
        let answer = self.local_tools.answer(frame, &session, self.agent.folders(&session));
        let events = self.events.clone();
        tokio::spawn(async move {
            let _ = events.send(Event::Own(answer.await));
        });
    }

    fn happened(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Own(frame) => self.agent.own_answered(now, &frame),
            Event::Used { token, answer } => {
                self.tools.done(token);
                self.agent.tool_answered(token, answer);
            }
            Event::Fetched { token, id, found } => {
                // It may have been closed, and so given back, while it was looked up.
                match found.and_then(|found| self.holder.take(&id).map(|()| found)) {
                    Ok(record) => self.agent.session_fetched(token, &id, record.map(|record| *record)),
                    Err(error) if error.is_elsewhere() => {
                        self.agent.session_in_use(token, &error.to_string());
                    }
                    Err(error) => self.agent.store_failed(token, &error.to_string()),
                }
                self.free_unless_open(&id);
            }
            Event::Listed { token, found } => match found {
                Ok(sessions) => self.agent.sessions_listed(token, sessions),
                Err(error) => self.agent.store_failed(token, &error.to_string()),
            },
            Event::Say(frame) => self.held.push_back(Held::Frame(frame)),
        }
    }

    fn mcp(&mut self, event: HubEvent) {
        match event {
            HubEvent::Connected { key, outcome } => {
                let outcome = self.hub.keep(key, outcome).map(|tools| tools.into_iter().map(tool).collect());
                self.agent.mcp_connected(key, outcome);
            }
            HubEvent::Answered { token, answer } => self.agent.mcp_answered(token, answer),
        }
    }

    /// The client has ended its output: what can be answered at once still is.
    async fn drain(&mut self) {
        let mut patience = Instant::now() + LAST_READ;
        loop {
            match self.act() {
                Progress::Idle | Progress::Over => break,
                Progress::More => {}
                Progress::Keeping => {
                    let outcome = front(&mut self.held).await;
                    self.settled(outcome);
                }
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
    }
}

/// An `initialize` with a version in words that no form has: the form that has versions in words refuses it best.
fn probe_of_another_version(frame: &Frame) -> bool {
    let View::Request { method: method::INITIALIZE, params: Some(params), .. } = frame.view() else {
        return false;
    };
    let unknown = acp_dialect::detect([frame]).best().is_none();
    unknown
        && serde_json::from_str::<serde_json::Value>(params)
            .is_ok_and(|params| params["protocolVersion"].is_string())
}

/// Waits for what stands first in the queue.
async fn front(held: &mut VecDeque<Held>) -> Result<(), Arc<StoreError>> {
    match held.front_mut() {
        Some(Held::Until(kept)) => kept.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Ended))),
        _ => std::future::pending().await,
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
