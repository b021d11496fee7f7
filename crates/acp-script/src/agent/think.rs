//! Turns that a model decides: it is asked, it speaks, it calls tools, it is asked again.

use std::collections::VecDeque;

use acp_proto::StopReason;
use acp_rpc::RpcError;
use serde_json::Value;

use super::calls;
use super::effect::{Counted, Effect, McpTool, Question, Thought, ThoughtEnd, Token, Wanted};
use super::job::{TOOL_NAMES, mcp_name};
use super::mcp::SERVERS;
use super::record::Record;
use super::reports::Mold;
use super::session::Session;
use super::step::{Step, Stream, Voice};
use super::turn::Wait;
use super::{Agent, Later, Round, Seal};

impl Agent {
    /// Asks the model with everything that was said and done so far.
    pub(super) fn think(&mut self, session: &str) {
        if self.servers_coming(session) {
            self.insert(session, [Step::Think]);
            self.wait(session, Wait::Servers { until: self.now + SERVERS });
            return;
        }
        let most = self.config.max_rounds;
        let Some(turn) = self.turn(session) else { return };
        if turn.rounds >= most {
            let words = format!("I stopped because I have asked the model {most} times in this turn.");
            self.say(session, words);
            return self.append(session, [Step::Usage, Step::End(StopReason::MaxTurnRequests)]);
        }
        turn.rounds += 1;
        let wanted = if turn.overflows > 0 { Wanted::Anyway } else { Wanted::Answer };
        let token = self.number();
        let Some(question) = self.question(session, wanted, None) else { return };
        self.outbox.push_back(Effect::Think { token, question: Box::new(question) });
        self.wait(session, Wait::Model { token });
    }

    /// The question with the conversation so far, or with what stands before this entry of the history.
    pub(super) fn question(
        &mut self,
        session: &str,
        wanted: Wanted,
        until: Option<usize>,
    ) -> Option<Question> {
        let model = self.option(session, "model").and_then(|model| model.as_str().map(str::to_owned));
        let level = self.option(session, "thought_level").and_then(|level| level.as_str().map(str::to_owned));
        let outward = self.outward(session).to_owned();
        let delegated = !self.is_root(session);
        let servers = self.sessions.get(&outward).map(|open| open.servers.as_slice());
        let mut mcp = calls::mcp_tools(servers.unwrap_or_default());
        mcp.retain(|(seen, server, tool)| {
            !self.closed(session, &[&mcp_name(&server.name, &tool.name), seen])
        });
        let mcp = mcp.into_iter().map(|(name, _, tool)| McpTool { name, ..tool.clone() }).collect();
        let closed = TOOL_NAMES.into_iter().filter(|tool| self.closed(session, &[tool])).collect();
        let planning = self.planning(session);
        let policy = self.policy(session);
        let open = self.sessions.get_mut(session)?;
        let record = &mut open.record;
        if wanted != Wanted::Summary {
            record.rounds.push(Round { at: record.history.len(), ..Round::default() });
        }
        let (history, rounds, counted) = conversation(record, until);
        Some(Question {
            wanted,
            counted,
            cuts: open.turn.as_ref().map_or(0, |turn| turn.cuts),
            overflows: open.turn.as_ref().map_or(0, |turn| turn.overflows),
            session: outward,
            cwd: record.cwd.clone(),
            roots: record.roots.clone(),
            model: model.unwrap_or_default(),
            planning,
            policy,
            delegated,
            thought_level: level.unwrap_or_default(),
            history,
            rounds,
            closed,
            mcp,
        })
    }

    /// A piece of the answer to [`Effect::Think`].
    pub fn thought(&mut self, token: Token, thought: Thought) {
        let waits =
            |wait: &Option<Wait>| matches!(wait, Some(Wait::Model { token: waited }) if *waited == token);
        let found = self
            .sessions
            .iter()
            .find(|(_, open)| open.turn.as_ref().is_some_and(|turn| waits(&turn.wait)))
            .map(|(id, _)| id.clone());
        let Some(session) = found else { return };
        if self.turn(&session).is_some_and(|turn| turn.summary.is_some()) {
            return self.summary_comes(&session, thought);
        }
        match thought {
            Thought::Text(text) => self.utter(&session, Voice::Agent, &text),
            Thought::Thinking(text) => self.utter(&session, Voice::Thought, &text),
            Thought::Call { name, arguments } => {
                self.fall_silent(&session);
                if let Some(turn) = self.turn(&session) {
                    turn.calls.push((name, arguments));
                }
            }
            Thought::Dropped(name) => {
                if let Some(turn) = self.turn(&session) {
                    turn.dropped.push(name);
                }
            }
            Thought::Context(tokens) => self.learn_context(&session, tokens),
            Thought::Seal(seal) => {
                self.fall_silent(&session);
                if let Some(open) = self.sessions.get_mut(&session)
                    && let Some(round) = open.record.rounds.last_mut()
                {
                    let calls = open.turn.as_ref().map_or(0, |turn| turn.calls.len());
                    round.seals.push(Seal { calls, at: open.record.history.len(), text: seal });
                }
            }
            Thought::Notice(text) => self.model_notice(&session, &text),
            Thought::Usage { input, output } => {
                self.fall_silent(&session);
                // A server that counts nothing says 0.
                if let Some(open) = self.sessions.get_mut(&session).filter(|_| input > 0) {
                    open.record.used = input + output;
                    open.record.counted = open.record.history.len();
                    self.report_usage(&session);
                }
            }
            Thought::End(end) => self.thought_out(&session, end),
        }
    }

    /// Tells why the model takes longer.
    pub(super) fn model_notice(&mut self, session: &str, text: &str) {
        match self.caps().notices {
            true => self.warn(session, "The model is slow", text),
            false => self.utter(session, Voice::Thought, &format!("{text}\n")),
        }
    }

    pub(super) fn learn_context(&mut self, session: &str, tokens: u64) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.context = Some(tokens);
        }
    }

    /// Sends what the model says, and remembers it.
    fn utter(&mut self, session: &str, voice: Voice, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.turn(session).is_some_and(|turn| turn.saying.as_ref().is_some_and(|said| said.voice != voice))
        {
            self.fall_silent(session);
        }
        let fresh = self.fresh_id("msg");
        let Some(turn) = self.turn(session) else { return };
        let saying = turn.saying.get_or_insert_with(|| Stream::open(voice, fresh));
        saying.said.push_str(text);
        let message = saying.message.clone().unwrap_or_default();
        let due = saying.due();
        if self.is_shown(session) {
            self.outbox.push_back(Effect::Send(Mold::new(session, voice, &message).chunk(text)));
        }
        if due {
            self.checkpoint(session);
        }
    }

    /// The message that the model was saying has ended.
    fn fall_silent(&mut self, session: &str) {
        let Some(turn) = self.turn(session) else { return };
        let calls = turn.calls.len();
        let Some(said) = turn.saying.take() else { return };
        if let Some(record) = self.sessions.get_mut(session).map(|open| &mut open.record)
            && let Some(round) = record.rounds.last_mut().filter(|_| calls > 0 && said.voice == Voice::Agent)
        {
            round.later.push(Later { calls, at: record.history.len() });
        }
        self.keep_said(session, &said);
    }

    fn thought_out(&mut self, session: &str, end: ThoughtEnd) {
        self.fall_silent(session);
        let Some(open) = self.sessions.get_mut(session) else { return };
        let Some(turn) = &mut open.turn else { return };
        turn.wait = None;
        let calls = std::mem::take(&mut turn.calls);
        let dropped = std::mem::take(&mut turn.dropped);
        let steps: VecDeque<Step> = match end {
            ThoughtEnd::Failed(reason) => {
                VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
            }
            ThoughtEnd::Rejected(reason) => rejected(open, reason),
            ThoughtEnd::Overflow(reason) => self.overflowed(session, reason),
            ThoughtEnd::MaxTokens => self.cut_off(session, dropped),
            ThoughtEnd::Refusal => self.refused(session),
            ThoughtEnd::Done => {
                (turn.cuts, turn.overflows) = (0, 0);
                match calls.is_empty() {
                    true => VecDeque::from([Step::Usage, Step::End(StopReason::EndTurn)]),
                    false => call_steps(calls),
                }
            }
        };
        let Some(turn) = self.turn(session) else { return };
        turn.steps = steps;
        self.schedule(session);
    }

    fn append(&mut self, session: &str, steps: impl IntoIterator<Item = Step>) {
        if let Some(turn) = self.turn(session) {
            turn.steps.extend(steps);
        }
    }
}

/// The provider did not take the question: later ones are asked without what the person said last.
pub(super) fn rejected(open: &mut Session, mut reason: String) -> VecDeque<Step> {
    let first = open.turn.as_ref().is_some_and(|turn| turn.rounds <= 1);
    if let Some(round) = open.record.rounds.last_mut().filter(|_| first) {
        round.refused = true;
        reason.push_str("; the session goes on without this prompt");
    }
    VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
}

/// What a model is told of a session: its history behind the digest, the answers in it, and what of it is counted.
fn conversation(record: &Record, until: Option<usize>) -> (Vec<Value>, Vec<Round>, Option<Counted>) {
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
