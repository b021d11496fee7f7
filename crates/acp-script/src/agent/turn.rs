//! A prompt turn: its steps, what it waits for, how it ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_proto::{StopReason, method, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::chunks::ChunkTemplate;
use super::compact::Summary;
use super::cx::Cx;
use super::delegate::Children;
use super::effect::Token;
use super::session::{OpenSession, Session};
use super::step::{Step, Stream, Voice};
use super::tools::{Stage, Work, cut};

/// So many chunks of a message are made in one go where nothing is to happen between them.
const AT_ONCE: usize = 32;

/// A running turn.
///
/// ```text
///            ┌───────────── answer, deadline ─────────────┐
///  steps ──► running ──► waiting (reply │ time │ MCP) ─────┘
///               │ cancel: steps are replaced by the winding down
///               ▼
///             ended: the prompt is answered once
/// ```
pub(super) struct Turn {
    pub(super) request: Id,
    pub(super) serial: u64,
    pub(super) steps: VecDeque<Step>,
    pub(super) wait: Option<Wait>,
    pub(super) tools: Vec<Tool>,
    pub(super) terminals: Vec<String>,
    pub(super) cancel: Option<Cancel>,
    pub(super) waited_for_servers: bool,
    /// Whether a model decides what comes next.
    pub(super) model: bool,
    /// How often the model was asked.
    pub(super) rounds: u32,
    /// How many of the model's last answers were cut off by the limit of their length.
    pub(super) cuts: u32,
    /// The tools whose calls were cut off in the answer that is coming.
    pub(super) dropped: Vec<String>,
    /// How often the conversation was too long for the model since its last answer.
    pub(super) overflows: u32,
    /// The summary that the model is writing.
    pub(super) summary: Option<Summary>,
    /// What the model is saying.
    pub(super) saying: Option<Stream>,
    /// What the model wants to call.
    pub(super) calls: Vec<(String, Value)>,
    /// Tasks handed to sessions of its own.
    pub(super) children: Children,
    /// When a delegated turn has to be done.
    pub(super) limit: Option<Duration>,
}

/// What a turn waits for.
pub(super) enum Wait {
    Until(Duration),
    Reply {
        id: i64,
        until: Option<Duration>,
    },
    /// A tool of an MCP server or of the edge.
    Tool {
        token: Token,
        work: Box<Work>,
    },
    Model {
        token: Token,
    },
    Children,
    Servers {
        until: Duration,
    },
    /// Until it is cancelled.
    Forever,
}

/// A tool call of the turn, as the client knows it.
pub(super) struct Tool {
    pub(super) body: Value,
    pub(super) done: bool,
}

/// Who cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// `session/cancel`, or the end of the session: answered with `cancelled`.
    Session,
    /// `$/cancel_request`: answered with -32800.
    Request,
    /// A delegated turn took too long.
    Overdue,
}

/// A request of ours that the client has not answered yet.
pub(super) struct Pending {
    pub(super) session: String,
    pub(super) serial: u64,
    pub(super) then: Await,
    /// Whether it was asked of our own hands.
    pub(super) own: bool,
}

/// What to do with an answer.
pub(super) enum Await {
    Work(Box<Work>, Stage),
    Form { key: String },
    Page { elicitation: String },
    Script { r#as: Option<String> },
    Cleanup,
}

/// What a prompt is answered with.
pub(super) enum Outcome {
    Stop(StopReason),
    Result(Value),
}

/// How a turn ended.
pub(super) type End = Result<Outcome, RpcError>;

/// What came of one step of a turn.
pub(super) enum Advance {
    /// It can go on at once.
    Ready,
    /// It waits for something.
    Waiting,
    /// It has ended.
    Ended(End),
}

/// A running turn with all that it works on.
pub(super) struct ActiveTurn<'a> {
    pub(super) cx: &'a mut Cx,
    pub(super) session: &'a mut Session,
    pub(super) turn: &'a mut Turn,
    /// The sessions that work on tasks of this turn.
    pub(super) children: &'a mut BTreeMap<String, OpenSession>,
    /// For a delegated task, the turn that delegated it.
    pub(super) parent: Option<ParentTurn<'a>>,
}

/// The turn that waits for a delegated task, and its session.
pub(super) struct ParentTurn<'a> {
    pub(super) session: &'a mut Session,
    pub(super) turn: &'a Turn,
}

impl Turn {
    fn new(request: Id, serial: u64, steps: VecDeque<Step>) -> Self {
        Self {
            request,
            serial,
            steps,
            wait: None,
            tools: Vec::new(),
            terminals: Vec::new(),
            cancel: None,
            waited_for_servers: false,
            model: false,
            rounds: 0,
            cuts: 0,
            dropped: Vec::new(),
            overflows: 0,
            summary: None,
            saying: None,
            calls: Vec::new(),
            children: Children::default(),
            limit: None,
        }
    }

    pub(super) fn wake_at(&self) -> Option<Duration> {
        let waited = match self.wait.as_ref()? {
            Wait::Until(at) | Wait::Servers { until: at } => Some(*at),
            Wait::Reply { until, .. } => *until,
            Wait::Tool { .. } | Wait::Model { .. } | Wait::Children | Wait::Forever => None,
        };
        [waited, self.limit].into_iter().flatten().min()
    }

    /// What it has begun and not finished: open tool calls, and the message that is being said.
    pub(super) fn draft(&self) -> Vec<Value> {
        let open = self.tools.iter().filter(|tool| !tool.done).map(|tool| tool.body.clone());
        let streams = self.steps.iter().filter_map(|step| match step {
            Step::Stream(stream) => stream.update(),
            _ => None,
        });
        streams.chain(self.saying.as_ref().and_then(Stream::update)).chain(open).collect()
    }
}

impl OpenSession {
    /// Begins a turn with these steps.
    pub(super) fn begin(
        &mut self,
        cx: &mut Cx,
        request: &Id,
        blocks: &[Value],
        steps: VecDeque<Step>,
    ) -> &mut Turn {
        let message = cx.fresh_id("msg");
        let serial = cx.number();
        self.session.news.clear();
        for block in blocks {
            let said = json!({ "sessionUpdate": update::USER_MESSAGE_CHUNK, "content": block, "messageId": message });
            self.session.remember(said, false);
        }
        let turn = self.turn.insert(Turn::new(request.clone(), serial, steps));
        self.session.checkpoint(cx, turn);
        cx.schedule(self.session.id());
        turn
    }
}

impl ActiveTurn<'_> {
    /// Lets it go on.
    pub(super) fn schedule(&mut self) {
        self.cx.schedule(self.session.id());
    }

    pub(super) fn wait(&mut self, wait: Wait) {
        self.turn.wait = Some(wait);
    }

    pub(super) fn update(&mut self, update: &Value) {
        self.session.update(self.cx, update);
    }

    /// Puts steps before those that are left.
    pub(super) fn insert(&mut self, steps: impl IntoIterator<Item = Step, IntoIter: DoubleEndedIterator>) {
        for step in steps.into_iter().rev() {
            self.turn.steps.push_front(step);
        }
    }

    /// Says something next.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        let stream = Stream::text(Voice::Agent, text, self.cx.config.pace.chunk_size);
        self.insert([Step::Stream(stream)]);
    }

    /// Says something next, unless a model does the talking.
    pub(super) fn tell(&mut self, text: impl Into<String>) {
        if !self.turn.model {
            self.say(text);
        }
    }

    /// A text that is not too long for an answer.
    pub(super) fn shorten(&self, text: &str) -> String {
        cut(text, if self.is_verbose() { 40_000 } else { 2000 })
    }

    /// Whether the person wants to see results at full length.
    pub(super) fn is_verbose(&self) -> bool {
        self.session.option(self.cx, "verbose") == Some(Value::Bool(true))
    }

    /// Performs one step.
    pub(super) fn advance(&mut self) -> Advance {
        if self.turn.wait.is_some() {
            return Advance::Waiting;
        }
        let step = self.turn.steps.pop_front().unwrap_or(Step::End(StopReason::EndTurn));
        match self.perform(step) {
            Some(end) => Advance::Ended(end),
            None if self.turn.wait.is_none() => Advance::Ready,
            None => Advance::Waiting,
        }
    }

    /// Performs a step; gives back how the turn ends when it does.
    fn perform(&mut self, step: Step) -> Option<End> {
        match step {
            Step::Stream(stream) => self.stream(stream),
            Step::Update(update, keep) => {
                self.update(&update);
                if keep {
                    self.keep(update);
                }
            }
            Step::Show(block) => {
                let message = self.cx.fresh_id("msg");
                let update = json!({ "sessionUpdate": update::AGENT_MESSAGE_CHUNK, "content": block, "messageId": message });
                self.update(&update);
                self.keep(update);
            }
            Step::Pause(_) if self.cx.config.habits.instant => {}
            Step::Pause(time) => self.wait(Wait::Until(self.cx.now + time)),
            Step::Begin(job) => self.begin(job),
            Step::Think => self.think(),
            Step::Call { name, arguments } => self.call(name, arguments),
            Step::Delegate(tasks) => self.delegate(tasks),
            Step::Digest => self.digest(),
            Step::Summarize { entries } => self.summarize(entries),
            Step::Mcp { server, tool, arguments } => self.begin_mcp(server, tool, arguments),
            Step::McpList => self.list_mcp(),
            Step::Form(what) => self.ask_form(what.as_deref()),
            Step::Page => self.ask_page(),
            Step::PageDone(elicitation) => {
                self.cx.notify(method::ELICITATION_COMPLETE, &json!({ "elicitationId": elicitation }));
            }
            Step::Remember(word) => {
                if !self.cx.quirks.shares(&word) {
                    self.session.record.word = Some(word);
                }
            }
            Step::Mode(mode) => self.session.change_mode(self.cx, &mode),
            Step::Config { option, value } => self.session.change_option(self.cx, &option, &value),
            Step::Title(title) => {
                self.session.record.title = Some(title);
                self.session.report_info(self.cx);
            }
            Step::Usage => self.session.report_usage(self.cx),
            Step::Info => self.session.report_info(self.cx),
            Step::Kill(terminal) => self.kill_terminal(&terminal),
            Step::Release(terminal) => self.release_terminal(&terminal),
            Step::Finish(work) => self.finish_run(&work),
            Step::CloseTools => self.close_tools(),
            Step::Act(act) => self.act(act),
            Step::Respond(result) => return Some(Ok(Outcome::Result(result))),
            Step::End(stop) => return Some(Ok(Outcome::Stop(stop))),
            Step::Fail(error) => return Some(Err(error)),
        }
        None
    }

    /// Adds to the history.
    pub(super) fn keep(&mut self, update: Value) {
        self.session.remember(update, self.turn.model);
        self.checkpoint();
    }

    /// Keeps what was done so far, for an agent that wants to lose nothing.
    pub(super) fn checkpoint(&mut self) {
        self.session.checkpoint(self.cx, self.turn);
    }

    fn stream(&mut self, mut stream: Stream) {
        let chunks = self.cx.config.habits.chunks;
        let Some((mut piece, mut more)) = stream.next_piece(chunks) else {
            return;
        };
        let message = match stream.message.take() {
            Some(message) => message,
            None => self.cx.fresh_id("msg"),
        };
        let template = self.is_shown().then(|| ChunkTemplate::new(self.session.id(), stream.voice, &message));
        stream.message = Some(message);
        let delay = match self.cx.config.habits.instant {
            true => Duration::ZERO,
            false => {
                stream.delay.max(self.cx.config.pace.streaming_delay).max(self.cx.config.habits.chunk_delay)
            }
        };
        let mut due = false;
        for count in 1.. {
            if let Some(template) = &template {
                self.cx.send(template.chunk(&piece));
            }
            stream.said.push_str(&piece);
            due = due || stream.due();
            if !more || due || !delay.is_zero() || count == AT_ONCE {
                break;
            }
            let Some(next) = stream.next_piece(chunks) else { break };
            (piece, more) = next;
        }
        if !more {
            return self.keep_said(&stream);
        }
        self.turn.steps.push_front(Step::Stream(stream));
        if !delay.is_zero() {
            self.wait(Wait::Until(self.cx.now + delay));
        }
        if due {
            self.checkpoint();
        }
    }

    /// Keeps what was said of a message as one entry of the history.
    pub(super) fn keep_said(&mut self, stream: &Stream) {
        if let Some(update) = stream.update() {
            self.keep(update);
        }
    }
}
