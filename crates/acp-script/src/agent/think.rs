//! Turns that a model decides: it is asked, it speaks, it calls tools, it is asked again.

use std::collections::VecDeque;

use acp_rpc::RpcError;
use serde_json::Value;

use super::calls;
use super::effect::{Effect, McpTool, Question, Thought, ThoughtEnd, Token};
use super::job::{TOOL_NAMES, mcp_name};
use super::mcp::SERVERS;
use super::reports::Mold;
use super::step::{Step, Stop, Stream, Voice};
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
            return self.append(session, [Step::Usage, Step::End(Stop::MaxTurnRequests)]);
        }
        turn.rounds += 1;
        let token = self.number();
        let Some(question) = self.question(session) else { return };
        self.outbox.push_back(Effect::Think { token, question: Box::new(question) });
        self.wait(session, Wait::Model { token });
    }

    fn question(&mut self, session: &str) -> Option<Question> {
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
        record.rounds.push(Round { at: record.history.len(), ..Round::default() });
        let skip = record.digest.as_ref().map_or(0, |digest| digest.entries.min(record.history.len()));
        let mut history = record.history[skip..].to_vec();
        let mut rounds: Vec<Round> = record.rounds.iter().filter(|round| round.at >= skip).cloned().collect();
        let mut ahead = 0;
        if let Some(digest) = &record.digest {
            history.insert(0, super::digest::entry(digest));
            ahead = 1;
        }
        for round in &mut rounds {
            round.shift(skip, ahead);
        }
        Some(Question {
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
        match thought {
            Thought::Text(text) => self.utter(&session, Voice::Agent, &text),
            Thought::Thinking(text) => self.utter(&session, Voice::Thought, &text),
            Thought::Call { name, arguments } => {
                self.fall_silent(&session);
                if let Some(turn) = self.turn(&session) {
                    turn.calls.push((name, arguments));
                }
            }
            Thought::Seal(seal) => {
                self.fall_silent(&session);
                if let Some(open) = self.sessions.get_mut(&session)
                    && let Some(round) = open.record.rounds.last_mut()
                {
                    let calls = open.turn.as_ref().map_or(0, |turn| turn.calls.len());
                    round.seals.push(Seal { calls, at: open.record.history.len(), text: seal });
                }
            }
            Thought::Notice(text) if self.caps().notices => self.warn(&session, "The model is slow", &text),
            Thought::Notice(text) => self.utter(&session, Voice::Thought, &format!("{text}\n")),
            Thought::Usage { input, output } => {
                if let Some(open) = self.sessions.get_mut(&session) {
                    open.record.used = input + output;
                }
            }
            Thought::End(end) => self.thought_out(&session, end),
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
        if self.is_root(session) {
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
        let first = turn.rounds == 1;
        let steps: VecDeque<Step> = match end {
            ThoughtEnd::Failed(reason) => {
                VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
            }
            ThoughtEnd::Rejected(mut reason) => {
                if let Some(round) = open.record.rounds.last_mut().filter(|_| first) {
                    round.refused = true;
                    reason.push_str("; the session goes on without this prompt");
                }
                VecDeque::from([Step::CloseTools, Step::Fail(RpcError::internal(reason))])
            }
            ThoughtEnd::MaxTokens => VecDeque::from([Step::Usage, Step::End(Stop::MaxTokens)]),
            ThoughtEnd::Refusal => VecDeque::from([Step::Usage, Step::End(Stop::Refusal)]),
            ThoughtEnd::Done if calls.is_empty() => VecDeque::from([Step::Usage, Step::End(Stop::EndTurn)]),
            ThoughtEnd::Done => call_steps(calls),
        };
        turn.steps = steps;
        self.schedule(session);
    }

    fn append(&mut self, session: &str, steps: impl IntoIterator<Item = Step>) {
        if let Some(turn) = self.turn(session) {
            turn.steps.extend(steps);
        }
    }
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
