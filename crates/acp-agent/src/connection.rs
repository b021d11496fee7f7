//! One connection: the agent on one side, a link on the other, and its hands, tools and mind beside it.

mod keeping;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_dialect::detect::refuser;
use acp_dialect::{ClientDialect, Dialect, DialectChoice, RoutedFrame};
use acp_driver::{Machine, Output, drive};
use acp_link::{Arrival, Link, LinkClosed, Receiver};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use acp_rpc::{Frame, View};
use acp_script::agent::{Agent, AgentEffect, McpTool, SessionRecord, Thought, Token, ToolOutput, timestamp};
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::TryRecvError;

use crate::claims::Holder;
use crate::debug::Debug;
use crate::files::FileRequest;
use crate::instructions::Reader;
use crate::local_tools::{LocalTools, session_of};
use crate::model_tasks::ModelTasks;
use crate::modes;
use crate::server::Shared;
use crate::store::{self, Kept, SessionStoreError};
use crate::tools::Tools;
use keeping::{opens_session, refusal};

/// How long a client may take to read what was said when the server is told to stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// Something that was done beside the conversation.
pub(crate) enum Event {
    /// Our own hands have answered.
    Own(Frame),
    /// A tool has answered.
    Used { token: Token, answer: Result<ToolOutput, String> },
    /// A session was looked up.
    Fetched { token: Token, id: String, found: Result<Option<Box<SessionRecord>>, SessionStoreError> },
    /// All sessions were looked up.
    Listed { token: Token, found: Result<Vec<SessionRecord>, SessionStoreError> },
    /// Something to send.
    Say(Frame),
}

/// What happens beside the link.
enum Happened {
    /// What stands first in the queue is safe, or not.
    Kept(Result<(), Arc<SessionStoreError>>),
    Event(Event),
    Mcp(HubEvent),
    Thought(Token, Thought),
}

/// What waits to be sent.
enum Waiting {
    Frame(Frame),
    /// Until this is safe, nothing behind it is sent.
    Until(Kept),
}

/// Serves one connection until the client goes away.
pub(crate) async fn converse(mut link: Link, agent: Agent, client: ClientDialect, shared: Arc<Shared>) {
    let (events, happened) = mpsc::unbounded_channel();
    let (mcp_events, mcp) = mpsc::unbounded_channel();
    let reader = Reader::new(shared.fence.clone(), &shared.settings.deny);
    let max_tokens = shared.settings.choice.max_tokens;
    let (model_tasks, thoughts) =
        ModelTasks::new(shared.provider.clone(), shared.abilities, reader.clone(), max_tokens);
    let mut conversation = Conversation {
        agent,
        refused: false,
        began: Instant::now(),
        hub: Hub::new(crate::identity::NAME, mcp_events).leashed(shared.settings.process_guard.clone()),
        local_tools: LocalTools::new(
            shared.fence.clone(),
            shared.settings.deny.clone(),
            shared.settings.process_guard.clone(),
        ),
        tools: Tools::new(events.clone(), shared.fence.clone(), reader),
        model_tasks,
        debug: Debug::new(shared.settings.debug),
        known: client.dialect(),
        holder: Arc::new(Holder::new(&shared.claims)),
        aliases: HashMap::new(),
        client,
        waiting: VecDeque::new(),
        trouble: None,
        events,
        happened,
        mcp,
        thoughts,
        shared: shared.clone(),
    };
    if let Some(dialect) = conversation.known {
        conversation.speaks(dialect);
    }
    tokio::select! {
        () = drive(&mut link, &mut conversation) => {}
        () = shared.stopped() => {}
    }
    conversation.end(link).await;
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
    client: ClientDialect,
    /// The client's form, once we have acted on it.
    known: Option<Dialect>,
    /// Which sessions are ours.
    holder: Arc<Holder>,
    /// The client's session ids that are kept already, with ours.
    aliases: HashMap<String, String>,
    waiting: VecDeque<Waiting>,
    /// Why the last thing to keep was not kept.
    trouble: Option<Arc<SessionStoreError>>,
    events: mpsc::UnboundedSender<Event>,
    happened: mpsc::UnboundedReceiver<Event>,
    mcp: mpsc::UnboundedReceiver<HubEvent>,
    thoughts: mpsc::Receiver<(Token, Thought)>,
    shared: Arc<Shared>,
}

impl Machine for Conversation {
    type Event = Happened;
    type Ending = ();

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.hear(&Frame::from(arrival.line));
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<()> {
        Some(())
    }

    fn poll(&mut self) -> Output<()> {
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting {
                Waiting::Frame(frame) => return Output::Frame(self.acknowledged(frame)),
                Waiting::Until(mut kept) => match kept.try_recv() {
                    Ok(outcome) => self.settled(outcome),
                    Err(TryRecvError::Closed) => self.settled(Err(Arc::new(SessionStoreError::Ended))),
                    Err(TryRecvError::Empty) => {
                        self.waiting.push_front(Waiting::Until(kept));
                        return Output::Blocked;
                    }
                },
            }
        }
        match self.agent.poll_effect() {
            None => Output::Idle,
            Some(effect) => {
                self.perform(effect);
                Output::Done
            }
        }
    }

    fn next_deadline(&mut self, is_free: bool) -> Option<Instant> {
        self.agent.next_deadline().filter(|_| is_free).map(|at| self.began + at)
    }

    fn tick(&mut self) {
        let now = self.now();
        self.agent.tick(now);
    }

    async fn event(&mut self, is_free: bool) -> Happened {
        tokio::select! {
            biased;
            kept = first_kept(&mut self.waiting) => Happened::Kept(kept),
            Some(event) = self.happened.recv() => Happened::Event(event),
            Some(event) = self.mcp.recv() => Happened::Mcp(event),
            Some((token, thought)) = self.thoughts.recv(), if is_free => Happened::Thought(token, thought),
            else => std::future::pending().await,
        }
    }

    fn happened(&mut self, event: Happened) {
        match event {
            Happened::Kept(outcome) => {
                self.waiting.pop_front();
                self.settled(outcome);
            }
            Happened::Event(event) => self.answered(event),
            Happened::Mcp(event) => self.mcp(event),
            Happened::Thought(token, thought) => self.agent.thought(token, thought),
        }
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<()> {
        Some(())
    }

    fn is_one_by_one(&self) -> bool {
        self.client.needs_pauses()
    }
}

impl Conversation {
    /// Ends what was started for the client.
    async fn end(self, link: Link) {
        self.holder.free_all();
        self.local_tools.close();
        let given_up = async {
            self.shared.stopped().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            _ = link.tx.finish() => {}
            () = given_up => {}
        }
        self.hub.close().await;
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
            return self.waiting.extend(acp_link::token::refused(frame).map(Waiting::Frame));
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
            Some(Err(refusal)) => return self.waiting.push_back(Waiting::Frame(refusal)),
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
            self.agent.allow(crate::identity::unasked(&self.shared.settings));
            let policy = self.shared.settings.policy;
            self.agent.bar_modes(
                |mode| crate::identity::needs_leave(mode, policy),
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
                    self.waiting.extend(self.client.complete(frame, unix_millis()).map(Waiting::Frame));
                }
            }
        }
    }

    /// The client asks for a file of ours.
    fn file(&mut self, wish: Result<FileRequest, Frame>) {
        let wish = match wish {
            Ok(wish) => wish,
            Err(refusal) => return self.waiting.push_back(Waiting::Frame(refusal)),
        };
        if !self.agent.signed_in() {
            return self.waiting.push_back(Waiting::Frame(wish.refused("authentication required")));
        }
        let (root, settings) = (self.shared.work_dir.clone(), &self.shared.settings);
        if let Some(reason) = wish.forbidden(&root, settings) {
            return self.waiting.push_back(Waiting::Frame(wish.refused(&reason)));
        }
        if wish.writes() && self.agent.planning_anywhere() {
            return self.waiting.push_back(Waiting::Frame(wish.refused("nothing is changed while PLANNING")));
        }
        let (events, deny) = (self.events.clone(), settings.deny.clone());
        tokio::spawn(async move {
            let _ = events.send(Event::Say(wish.grant(root, deny).await));
        });
    }

    /// A frame that is about to be sent: what is not kept is not acknowledged.
    fn acknowledged(&mut self, frame: Frame) -> Frame {
        let is_response = self.trouble.is_some() && matches!(frame.view(), View::Response { .. });
        let frame = match self.trouble.take_if(|_| is_response) {
            None => frame,
            Some(trouble) => {
                let id = frame.id().cloned().unwrap_or(acp_rpc::Id::Null);
                Frame::failure(&id, &refusal(&trouble))
            }
        };
        self.debug.sent(&frame);
        frame
    }

    /// What was to be kept is safe, or not.
    fn settled(&mut self, outcome: Result<(), Arc<SessionStoreError>>) {
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
                if self.client.is_canonical() {
                    self.waiting.push_back(Waiting::Frame(frame));
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
                self.waiting.push_back(Waiting::Until(kept));
            }
            AgentEffect::DeleteSession(id) => {
                let kept = match self.holder.take(&id) {
                    Ok(()) => self.shared.store.remove(id.clone()),
                    Err(error) => store::refused(error),
                };
                self.free_unless_open(&id);
                self.waiting.push_back(Waiting::Until(kept));
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

    fn answered(&mut self, event: Event) {
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
            Event::Say(frame) => self.waiting.push_back(Waiting::Frame(frame)),
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
}

/// Waits for what stands first in the queue.
async fn first_kept(waiting: &mut VecDeque<Waiting>) -> Result<(), Arc<SessionStoreError>> {
    match waiting.front_mut() {
        Some(Waiting::Until(kept)) => kept.await.unwrap_or_else(|_| Err(Arc::new(SessionStoreError::Ended))),
        _ => std::future::pending().await,
    }
}

fn tool(tool: acp_mcp::ServerTool) -> McpTool {
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
