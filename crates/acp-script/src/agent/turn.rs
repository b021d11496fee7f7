//! A prompt turn: its steps, what it waits for, how it ends.

use std::collections::VecDeque;
use std::time::Duration;

use acp_proto::{StopReason, error_code, method, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::Agent;
use super::compact::Summary;
use super::delegate::Children;
use super::effect::{Effect, Token};
use super::habits::{Connecting, SecondPrompt};
use super::params::{self, Params};
use super::reports::Mold;
use super::step::{Step, Stream, Voice};
use super::tools::{Stage, Work, cut};
use crate::switch::Switch;

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
    /// Whether it has begun something new after it was cancelled.
    pub(super) encore: bool,
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
enum Outcome {
    Stop(StopReason),
    Result(Value),
}

impl Turn {
    pub(super) fn wake_at(&self) -> Option<Duration> {
        let waited = match self.wait.as_ref()? {
            Wait::Until(at) | Wait::Servers { until: at } => Some(*at),
            Wait::Reply { until, .. } => *until,
            Wait::Tool { .. } | Wait::Model { .. } | Wait::Children | Wait::Forever => None,
        };
        [waited, self.limit].into_iter().flatten().min()
    }
}

impl Turn {
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

impl Agent {
    pub(super) fn prompt(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        let blocks = params.list("prompt")?;
        params::content_blocks(blocks)?;
        self.gate()?;
        self.known(&session)?;
        if let Some(open) = self.sessions.get_mut(&session) {
            if open.turn.is_some() && self.config.habits.second_prompt == SecondPrompt::Queue {
                open.queue.push_back((id.clone(), blocks.to_vec()));
                return Ok(());
            }
            open.idle()?;
        }
        if let Some(code) = self.config.fail_on_prompt {
            let error = RpcError::new(code, "this agent was started to fail on every prompt");
            return Err(match &self.config.fail_reason {
                Some(reason) => error.with_data(serde_json::json!({ "reason": reason })),
                None => error,
            });
        }
        self.take_turn(id, &session, blocks);
        Ok(())
    }

    fn take_turn(&mut self, id: &Id, session: &str, blocks: &[Value]) {
        if self.config.habits.mcp == Connecting::FirstPrompt {
            self.wake_servers(session);
        }
        self.prompts += 1;
        let (steps, model) = self.plan_turn(session, blocks);
        self.begin_turn(id, session, blocks, steps);
        if let Some(turn) = self.turn(session) {
            turn.model = model;
        }
    }

    /// Takes the turn that waited for the one that has ended.
    fn next_turn(&mut self, session: &str) {
        let next = self.sessions.get_mut(session).and_then(|open| open.queue.pop_front());
        if let Some((id, blocks)) = next {
            self.take_turn(&id, session, &blocks);
        }
    }

    /// Ends the turns that wait, because the session was cancelled.
    pub(super) fn cancel_queue(&mut self, session: &str) {
        let waiting = self.sessions.get_mut(session).map(|open| std::mem::take(&mut open.queue));
        for (id, _) in waiting.into_iter().flatten() {
            self.respond(&id, &json!({ "stopReason": StopReason::Cancelled.as_str() }));
        }
    }

    pub(super) fn begin_turn(&mut self, id: &Id, session: &str, blocks: &[Value], steps: VecDeque<Step>) {
        let message = self.fresh_id("msg");
        let serial = self.number();
        let Some(open) = self.sessions.get_mut(session) else { return };
        open.news.clear();
        for block in blocks {
            open.remember(
                json!({ "sessionUpdate": update::USER_MESSAGE_CHUNK, "content": block, "messageId": message }),
            );
        }
        open.turn = Some(Turn {
            request: id.clone(),
            serial,
            steps,
            wait: None,
            tools: Vec::new(),
            terminals: Vec::new(),
            cancel: None,
            waited_for_servers: false,
            encore: false,
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
        });
        self.checkpoint(session);
        self.schedule(session);
    }

    pub(super) fn turn(&mut self, session: &str) -> Option<&mut Turn> {
        self.sessions.get_mut(session)?.turn.as_mut()
    }

    pub(super) fn schedule(&mut self, session: &str) {
        if !self.runnable.iter().any(|id| id == session) {
            self.runnable.push_back(session.to_owned());
        }
    }

    /// Puts steps before those that are left.
    pub(super) fn insert(
        &mut self,
        session: &str,
        steps: impl IntoIterator<Item = Step, IntoIter: DoubleEndedIterator>,
    ) {
        if let Some(turn) = self.turn(session) {
            for step in steps.into_iter().rev() {
                turn.steps.push_front(step);
            }
        }
    }

    /// Says something next.
    pub(super) fn say(&mut self, session: &str, text: impl Into<String>) {
        let stream = Stream::text(Voice::Agent, text, self.config.chunk_size);
        self.insert(session, [Step::Stream(stream)]);
    }

    /// Says something next, unless a model does the talking.
    pub(super) fn tell(&mut self, session: &str, text: impl Into<String>) {
        if self.turn(session).is_some_and(|turn| !turn.model) {
            self.say(session, text);
        }
    }

    /// A text that is not too long for an answer.
    pub(super) fn shorten(&self, session: &str, text: &str) -> String {
        cut(text, if self.is_verbose(session) { 40_000 } else { 2000 })
    }

    /// Whether the person wants to see results at full length.
    pub(super) fn is_verbose(&self, session: &str) -> bool {
        self.option(session, "verbose") == Some(Value::Bool(true))
    }

    /// Performs one step; whether the turn can go on at once.
    pub(super) fn advance(&mut self, session: &str) -> bool {
        let Some(turn) = self.turn(session) else { return false };
        if turn.wait.is_some() {
            return false;
        }
        let step = turn.steps.pop_front().unwrap_or(Step::End(StopReason::EndTurn));
        self.perform(session, step);
        self.turn(session).is_some_and(|turn| turn.wait.is_none())
    }

    fn perform(&mut self, session: &str, step: Step) {
        match step {
            Step::Stream(stream) => self.stream(session, stream),
            Step::Update(update, keep) => {
                self.update(session, &update);
                if keep {
                    self.keep(session, update);
                }
            }
            Step::Show(block) => {
                let message = self.fresh_id("msg");
                let update = json!({ "sessionUpdate": update::AGENT_MESSAGE_CHUNK, "content": block, "messageId": message });
                self.update(session, &update);
                self.keep(session, update);
            }
            Step::Pause(_) if self.config.habits.instant => {}
            Step::Pause(time) => self.wait(session, Wait::Until(self.now + time)),
            Step::Begin(job) => self.begin(session, job),
            Step::Think => self.think(session),
            Step::Call { name, arguments } => self.call(session, name, arguments),
            Step::Delegate(tasks) => self.delegate(session, tasks),
            Step::Digest => self.digest(session),
            Step::Summarize { entries } => self.summarize(session, entries),
            Step::Mcp { server, tool, arguments } => self.begin_mcp(session, server, tool, arguments),
            Step::McpList => self.list_mcp(session),
            Step::Form(what) => self.ask_form(session, what.as_deref()),
            Step::Page => self.ask_page(session),
            Step::PageDone(elicitation) => {
                self.notify(method::ELICITATION_COMPLETE, &json!({ "elicitationId": elicitation }));
            }
            Step::Remember(word) => {
                if self.wrong(Switch::SharedMemory) {
                    self.sessions.values_mut().for_each(|open| open.record.word = Some(word.clone()));
                    self.gossip = Some(word);
                } else if let Some(open) = self.sessions.get_mut(session) {
                    open.record.word = Some(word);
                }
            }
            Step::Mode(mode) => self.change_mode(session, &mode),
            Step::Config { option, value } => self.change_config(session, &option, &value),
            Step::Title(title) => self.retitle(session, title),
            Step::Usage => self.report_usage(session),
            Step::Info => self.report_info(session),
            Step::Kill(terminal) => self.kill_terminal(session, &terminal),
            Step::Release(terminal) => self.release_terminal(session, &terminal),
            Step::Finish(work) => self.finish_run(session, &work),
            Step::CloseTools => self.close_tools(session),
            Step::Act(act) => self.act(session, act),
            Step::Respond(result) => self.finish(session, Ok(Outcome::Result(result))),
            Step::End(stop) => self.finish(session, Ok(Outcome::Stop(stop))),
            Step::Fail(error) => self.finish(session, Err(error)),
        }
    }

    pub(super) fn keep(&mut self, session: &str, update: Value) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.remember(update);
            self.checkpoint(session);
        }
    }

    pub(super) fn wait(&mut self, session: &str, wait: Wait) {
        if let Some(turn) = self.turn(session) {
            turn.wait = Some(wait);
        }
    }

    fn stream(&mut self, session: &str, mut stream: Stream) {
        let chunks = self.config.habits.chunks;
        let Some((mut piece, mut more)) = stream.next_piece(chunks) else {
            return;
        };
        let message = match stream.message.take() {
            Some(message) => message,
            None => self.fresh_id("msg"),
        };
        let mold = self.is_shown(session).then(|| Mold::new(session, stream.voice, &message));
        stream.message = Some(message);
        let delay = match self.config.habits.instant {
            true => Duration::ZERO,
            false => stream.delay.max(self.config.streaming_delay).max(self.config.habits.chunk_delay),
        };
        let mut due = false;
        for count in 1.. {
            if let Some(mold) = &mold {
                self.outbox.push_back(Effect::Send(mold.chunk(&piece)));
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
            self.keep_said(session, &stream);
            return;
        }
        let until = self.now + delay;
        let Some(turn) = self.turn(session) else { return };
        turn.steps.push_front(Step::Stream(stream));
        if !delay.is_zero() {
            turn.wait = Some(Wait::Until(until));
        }
        if due {
            self.checkpoint(session);
        }
    }

    /// Keeps what was said of a message as one entry of the history.
    pub(super) fn keep_said(&mut self, session: &str, stream: &Stream) {
        if let Some(update) = stream.update() {
            self.keep(session, update);
        }
    }

    fn finish(&mut self, session: &str, outcome: Result<Outcome, RpcError>) {
        let Some(turn) = self.sessions.get_mut(session).and_then(|open| open.turn.take()) else { return };
        if !self.is_root(session) {
            let outcome = match outcome {
                Ok(Outcome::Stop(stop)) => Ok(stop),
                Ok(Outcome::Result(_)) => Ok(StopReason::EndTurn),
                Err(error) => Err(error.message),
            };
            return self.child_ended(session, &turn, outcome);
        }
        self.pending.retain(|_, pending| pending.session != session || pending.serial != turn.serial);
        self.touch(session);
        match (outcome, turn.cancel) {
            (Ok(_), Some(Cancel::Request)) => {
                self.refuse(
                    &turn.request,
                    &RpcError::new(error_code::REQUEST_CANCELLED, "request cancelled"),
                );
            }
            (Ok(Outcome::Stop(stop)), _) => {
                self.respond(&turn.request, &json!({ "stopReason": stop.as_str() }));
            }
            (Ok(Outcome::Result(result)), _) => self.respond(&turn.request, &result),
            (Err(error), _) => self.refuse(&turn.request, &error),
        }
        self.ended(session);
        self.next_turn(session);
    }
}
