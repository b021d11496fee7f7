//! Turns that a model decides: it is asked, it speaks, it calls tools, it is asked again.

use std::collections::VecDeque;

use acp_policy::Policy;
use acp_proto::StopReason;
use acp_rpc::RpcError;
use serde_json::Value;

use super::calls;
use super::chunks::ChunkTemplate;
use super::effect::{AgentEffect, Counted, McpTool, ModelQuestion, QuestionKind, Thought, ThoughtEnd, Token};
use super::job::{TOOL_NAMES, mcp_name};
use super::mcp::SERVERS;
use super::record::SessionRecord;
use super::session::Session;
use super::step::{Step, Stream, Voice};
use super::turn::{ActiveTurn, Turn, Wait};
use super::{Agent, Later, Round, SealedThought};

impl Agent {
    /// A piece of the answer to [`AgentEffect::Think`].
    pub fn thought(&mut self, token: Token, thought: Thought) {
        let turn = self.waiting(|wait| matches!(wait, Wait::Model { token: waited } if *waited == token));
        match turn {
            Some(mut turn) if turn.turn.summary.is_some() => turn.summary_comes(thought),
            Some(mut turn) => turn.thought(thought),
            None => {}
        }
    }
}

impl ActiveTurn<'_> {
    /// Asks the model with everything that was said and done so far.
    pub(super) fn think(&mut self) {
        if self.servers_coming() {
            self.insert([Step::Think]);
            self.wait(Wait::Servers { until: self.cx.now + SERVERS });
            return;
        }
        let most = self.cx.config.limits.rounds;
        if self.turn.rounds >= most {
            let words = format!("I stopped because I have asked the model {most} times in this turn.");
            self.say(words);
            self.turn.steps.extend([Step::Usage, Step::End(StopReason::MaxTurnRequests)]);
            return;
        }
        self.turn.rounds += 1;
        let wanted = if self.turn.overflows > 0 { QuestionKind::Anyway } else { QuestionKind::Answer };
        let token = self.cx.number();
        let question = self.question(wanted, None);
        self.cx.outbox.push_back(AgentEffect::Think { token, question: Box::new(question) });
        self.wait(Wait::Model { token });
    }

    /// The question with the conversation so far, or with what stands before this entry of the history.
    pub(super) fn question(&mut self, wanted: QuestionKind, until: Option<usize>) -> ModelQuestion {
        let option = |id: &str| {
            let value = self.session.option(self.cx, id);
            value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (model, thought_level) = (option("model"), option("thought_level"));
        let mut mcp = calls::mcp_tools(&self.client_session().servers);
        mcp.retain(|(seen, server, tool)| !self.closed(&[&mcp_name(&server.name, &tool.name), seen]));
        let mcp = mcp.into_iter().map(|(name, _, tool)| McpTool { name, ..tool.clone() }).collect();
        let closed = TOOL_NAMES.into_iter().filter(|tool| self.closed(&[tool])).collect();
        let policy = self.policy();
        let record = &mut self.session.record;
        if wanted != QuestionKind::Summary {
            record.rounds.push(Round { at: record.history.len(), ..Round::default() });
        }
        let (history, rounds, counted) = conversation(record, until);
        ModelQuestion {
            wanted,
            counted,
            cuts: self.turn.cuts,
            overflows: self.turn.overflows,
            session: self.session.outward().to_owned(),
            cwd: self.session.record.cwd.clone(),
            roots: self.session.record.roots.clone(),
            model,
            planning: policy == Policy::Plan,
            policy,
            delegated: !self.session.is_root(),
            thought_level,
            history,
            rounds,
            closed,
            mcp,
        }
    }

    /// Takes a piece of the model's answer.
    fn thought(&mut self, thought: Thought) {
        match thought {
            Thought::Text(text) => self.utter(Voice::Agent, &text),
            Thought::Thinking(text) => self.utter(Voice::Thought, &text),
            Thought::Call { name, arguments } => {
                self.fall_silent();
                self.turn.calls.push((name, arguments));
            }
            Thought::Dropped(name) => self.turn.dropped.push(name),
            Thought::Context(tokens) => self.session.context = Some(tokens),
            Thought::Seal(text) => {
                self.fall_silent();
                let record = &mut self.session.record;
                if let Some(round) = record.rounds.last_mut() {
                    round.seals.push(SealedThought {
                        calls: self.turn.calls.len(),
                        at: record.history.len(),
                        text,
                    });
                }
            }
            Thought::Notice(text) => self.model_notice(&text),
            Thought::Usage { input, output } => {
                self.fall_silent();
                // A server that counts nothing says 0.
                if input > 0 {
                    self.session.record.used = input + output;
                    self.session.record.counted = self.session.record.history.len();
                    self.session.report_usage(self.cx);
                }
            }
            Thought::End(end) => self.thought_out(end),
        }
    }

    /// Tells why the model takes longer.
    pub(super) fn model_notice(&mut self, text: &str) {
        match self.cx.caps().notices {
            true => self.session.warn(self.cx, "The model is slow", text),
            false => self.utter(Voice::Thought, &format!("{text}\n")),
        }
    }

    /// Sends what the model says, and remembers it.
    fn utter(&mut self, voice: Voice, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.turn.saying.as_ref().is_some_and(|said| said.voice != voice) {
            self.fall_silent();
        }
        let is_shown = self.is_shown();
        let fresh = self.cx.fresh_id("msg");
        let saying = self.turn.saying.get_or_insert_with(|| Stream::open(voice, fresh));
        saying.said.push_str(text);
        let due = saying.due();
        if is_shown {
            let message = saying.message.as_deref().unwrap_or_default();
            self.cx.send(ChunkTemplate::new(self.session.id(), voice, message).chunk(text));
        }
        if due {
            self.checkpoint();
        }
    }

    /// The message that the model was saying has ended.
    fn fall_silent(&mut self) {
        let calls = self.turn.calls.len();
        let Some(said) = self.turn.saying.take() else { return };
        let record = &mut self.session.record;
        if let Some(round) = record.rounds.last_mut().filter(|_| calls > 0 && said.voice == Voice::Agent) {
            round.later.push(Later { calls, at: record.history.len() });
        }
        self.keep_said(&said);
    }

    fn thought_out(&mut self, end: ThoughtEnd) {
        self.fall_silent();
        self.turn.wait = None;
        let calls = std::mem::take(&mut self.turn.calls);
        let dropped = std::mem::take(&mut self.turn.dropped);
        self.turn.steps = match end {
            ThoughtEnd::Failed(reason) => {
                VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
            }
            ThoughtEnd::Rejected(reason) => rejected(self.session, self.turn, reason),
            ThoughtEnd::Overflow(reason) => self.overflowed(reason),
            ThoughtEnd::MaxTokens => self.cut_off(dropped),
            ThoughtEnd::Refusal => self.refused(),
            ThoughtEnd::Done => {
                (self.turn.cuts, self.turn.overflows) = (0, 0);
                match calls.is_empty() {
                    true => VecDeque::from([Step::Usage, Step::End(StopReason::EndTurn)]),
                    false => call_steps(calls),
                }
            }
        };
        self.schedule();
    }
}

/// The provider did not take the question: later ones are asked without what the person said last.
pub(super) fn rejected(session: &mut Session, turn: &Turn, mut reason: String) -> VecDeque<Step> {
    if let Some(round) = session.record.rounds.last_mut().filter(|_| turn.rounds <= 1) {
        round.refused = true;
        reason.push_str("; the session goes on without this prompt");
    }
    VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
}

/// What a model is told of a session: its history behind the digest, the answers in it, and what of it is counted.
fn conversation(record: &SessionRecord, until: Option<usize>) -> (Vec<Value>, Vec<Round>, Option<Counted>) {
    let end = until.unwrap_or(usize::MAX).min(record.history.len());
    let skip = record.digest.as_ref().map_or(0, |digest| digest.entries.min(end));
    let mut history = record.history[skip..end].to_vec();
    let inside = |round: &&Round| round.at >= skip && (round.at < end || until.is_none());
    let mut rounds: Vec<Round> = record.rounds.iter().filter(inside).cloned().collect();
    let mut ahead = 0;
    if let Some(digest) = &record.digest {
        history.insert(0, super::digest::entry(digest));
        ahead = 1;
    }
    for round in &mut rounds {
        round.shift(skip, ahead);
    }
    let counted = (record.counted > skip)
        .then(|| Counted { tokens: record.used, entries: record.counted.min(end) - skip + ahead });
    (history, rounds, counted)
}

/// One step for each call, tasks that stand side by side in one, and then the model again.
fn call_steps(calls: Vec<(String, Value)>) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    for (name, arguments) in calls {
        let task = arguments.get("task").and_then(Value::as_str);
        match (name.as_str(), task, steps.back_mut()) {
            ("delegate", Some(task), Some(Step::Delegate(tasks))) => tasks.push(task.to_owned()),
            ("delegate", Some(task), _) => steps.push_back(Step::Delegate(vec![task.to_owned()])),
            _ => steps.push_back(Step::Call { name, arguments }),
        }
    }
    steps.push_back(Step::Think);
    steps
}
