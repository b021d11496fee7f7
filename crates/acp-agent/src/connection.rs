//! One connection: the agent on one side, a link on the other, and its hands, tools and mind beside it.

mod keeping;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_dialect::detect::refuser;
use acp_dialect::{ClientDialect, Dialect, DialectChoice, RoutedFrame};
use acp_link::{Link, TrySendError};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use acp_rpc::{Frame, View};
use acp_script::agent::{Agent, Effect, McpTool, Record, Thought, Token, ToolOutput, timestamp};
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::TryRecvError;

use crate::claims::Holder;
use crate::debug::Debug;
use crate::files::FileRequest;
use crate::hands::{Hands, session_of};
use crate::instructions::Reader;
use crate::mind::Mind;
use crate::modes;
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
    Fetched { token: Token, id: String, found: Result<Option<Box<Record>>, StoreError> },
    /// All sessions were looked up.
    Listed { token: Token, found: Result<Vec<Record>, StoreError> },
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
pub(crate) async fn converse(link: Link, agent: Agent, client: ClientDialect, shared: Arc<Shared>) {
    let (events, heard) = mpsc::unbounded_channel();
    let (mcp, mcp_heard) = mpsc::unbounded_channel();
    let reader = Reader::new(shared.fence.clone(), &shared.settings.deny);
    let max_tokens = shared.settings.choice.max_tokens;
    let (mind, thoughts) = Mind::new(shared.provider.clone(), shared.abilities, reader.clone(), max_tokens);
    let conversation = Conversation {
        agent,
        refused: false,
        began: Instant::now(),
        hub: Hub::new(crate::character::NAME, mcp).leashed(shared.settings.leash.clone()),
        hands: Hands::new(shared.fence.clone(), shared.settings.deny.clone(), shared.settings.leash.clone()),
        tools: Tools::new(events.clone(), shared.fence.clone(), reader),
        mind,
        debug: Debug::new(shared.settings.debug),
        known: client.dialect(),
        holder: Arc::new(Holder::new(&shared.claims)),
        aliases: HashMap::new(),
        client,
        held: VecDeque::new(),
        unread: false,
        trouble: None,
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
    hands: Hands,
    tools: Tools,
    mind: Mind,
    debug: Debug,
    client: ClientDialect,
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
        self.hands.close();
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
        if let Some(files) = self.known.and_then(|dialect| dialect.traits().agent_files)
            && let Some(wish) = FileRequest::read(frame, files)
        {
            return self.file(wish);
        }
        if self.client.is_canonical() {
            let now = self.now();
            return self.agent.receive(now, frame);
        }
        if self.known.is_none()
            && let Some(dialect) = refuser(frame)
        {
            self.client = ClientDialect::new(DialectChoice::Only(dialect), self.shared.translation());
        }
        let aliases = self.known.is_some_and(|dialect| dialect.traits().mode_aliases);
        let respelled = if aliases { modes::in_our_words(frame, &self.agent) } else { None };
        let headings = match respelled {
            None => self.client.client_says(frame, wall_clock),
            Some(Ok(respelled)) => self.client.client_says(&respelled, wall_clock),
            Some(Err(refusal)) => return self.held.push_back(Held::Frame(refusal)),
        };
        if self.known.is_none()
            && let Some(dialect) = self.client.dialect()
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
        self.aliases = self.client.session_ids().into_iter().collect();
        self.agent.set_mode_aliases(!dialect.is_canonical());
        let traits = dialect.traits();
        if !traits.clients_can_be_asked {
            self.agent.set_askable(false);
            self.agent.allow(crate::character::unasked(&self.shared.settings));
            let policy = self.shared.settings.policy;
            self.agent.bar_modes(
                |mode| crate::character::needs_leave(mode, policy),
                "this client cannot be asked, so only --policy bypassPermissions opens it",
            );
        }
        self.agent.set_tool_errors(traits.tool_errors);
        self.agent.set_plans_in_words(traits.plans_in_words);
    }

    fn head(&mut self, headings: Vec<RoutedFrame>) {
        let now = self.now();
        for heading in headings {
            match heading {
                RoutedFrame::ToAgent(frame) => self.agent.receive(now, &frame),
                RoutedFrame::ToClient(frame) => {
                    self.held.extend(self.client.complete(frame, unix_millis()).map(Held::Frame));
                }
            }
        }
    }

    /// The client asks for a file of ours.
    fn file(&mut self, wish: Result<FileRequest, Frame>) {
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
                        self.unread = self.client.needs_pauses();
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

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send(frame) => {
                self.debug.told(&frame);
                if self.client.is_canonical() {
                    self.held.push_back(Held::Frame(frame));
                } else {
                    if let ClientDialect::Foreign(translator) = &mut self.client {
                        translator.set_wall_clock(wall_clock());
                    }
                    let opens = opens_session(&frame);
                    let headings = self.client.agent_says(frame);
                    if opens {
                        self.keep_aliases();
                    }
                    self.head(headings);
                }
            }
            Effect::Own(frame) => self.own(&frame),
            Effect::Tool(tool) => self.tools.start(*tool),
            Effect::Think { token, question } => self.mind.think(token, &question),
            Effect::Abandon { token } => {
                self.tools.abandon(token);
                self.mind.abandon(token);
                self.hub.abandon(token);
            }
            Effect::McpConnect { key, server, cwd } => {
                self.hub.connect(key, ServerSpec::from_session(&server, &cwd));
            }
            Effect::McpDisconnect { key } => self.hub.disconnect(key),
            Effect::McpCall { key, token, tool, arguments } => self.hub.call(key, token, tool, arguments),
            Effect::StoreSession(record) => {
                let kept = match self.holder.take(&record.id) {
                    Ok(()) => self.shared.store.put(record),
                    Err(error) => store::refused(error),
                };
                self.held.push_back(Held::Until(kept));
            }
            Effect::DeleteSession(id) => {
                let kept = match self.holder.take(&id) {
                    Ok(()) => self.shared.store.remove(id.clone()),
                    Err(error) => store::refused(error),
                };
                self.free_unless_open(&id);
                self.held.push_back(Held::Until(kept));
            }
            Effect::SessionClosed(id) => {
                self.hands.close_session(&id);
                self.tools.close_session(&id);
                self.free_unless_open(&id);
            }
            Effect::FetchSession { token, id } => self.fetch(token, id),
            Effect::ListSessions { token } => {
                self.look_up(move |store| Event::Listed { token, found: store.list() });
            }
            // Only scripts and defects of the mock do these.
            Effect::SendRaw(_)
            | Effect::Stderr(_)
            | Effect::Exit(_)
            | Effect::Hangup
            | Effect::LeaveChild
            | Effect::Grandchild(_) => {}
        }
    }

    fn own(&mut self, frame: &Frame) {
        if frame.id().is_none() {
            return self.hands.observe(frame);
        }
        let session = session_of(frame);
        let answer = self.hands.answer(frame, &session, self.agent.folders(&session));
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

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or_default()
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
