//! The default agent: it answers what the test does not.

use super::super::{AgentAct, Run, RunAction};
use super::GivenAnswer;

use crate::agent_table::fill;
use crate::json::Json;
use crate::program::{AgentAnswer, AgentOffer, AnswerBody};
use crate::table::find;
use acp_match::Vars;
use acp_rpc::{Frame, Id, View};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

/// A request of the client without an answer.
#[derive(Debug, Clone)]
pub(super) struct OpenRequest {
    pub number: u64,
    pub launch: u32,
    pub method: String,
    id: Id,
    frame: Value,
    /// The default agent leaves it open, and answers it at the end; otherwise the test does.
    is_held: bool,
}

/// An answer that goes out later.
#[derive(Debug)]
pub(super) struct DueAnswer {
    pub request: u64,
    at: Duration,
    answer: AgentAnswer,
}

/// What an answer says: the name of its member, and the text.
type Body = (&'static str, String);

impl Run {
    /// The client asks something of the agent, with the message at this place of the inbox.
    pub(in super::super) fn client_asks(&mut self, id: &Id, index: usize) {
        let message = &self.inbox.messages()[index];
        let (method, frame, launch) =
            (message.method.clone().unwrap_or_default(), message.value.clone(), message.launch);
        let number = self.opened(launch, method, id.clone(), frame);
        if let Some(line) = self.canned_reply(index) {
            let reply = Frame::parse(line);
            let body = match (reply.result(), reply.error()) {
                (Some(result), _) => ("result", result.to_owned()),
                (None, error) => ("error", error.unwrap_or("null").to_owned()),
            };
            return self.give_or_say(number, &body, &[]);
        }
        if self.stays_silent(index) {
            return;
        }
        self.answer_by_default(number);
    }

    fn opened(&mut self, launch: u32, method: String, id: Id, frame: Value) -> u64 {
        let Some((table, client)) = self.client_side() else { return 0 };
        let number = client.next_request;
        client.next_request += 1;
        let names_session = table.methods.get(&method).is_some_and(|known| known.opens && known.id.is_none());
        let session = names_session.then(|| find(&frame, &table.session).cloned()).flatten();
        client.open.push(OpenRequest { number, launch, method, id, frame, is_held: false });
        if let Some(session) = session.filter(Value::is_string) {
            client.session_launch = Some(launch);
            self.vars.set("sessionId", session);
            self.choose_current();
        }
        number
    }

    fn request(&self, number: u64) -> Option<&OpenRequest> {
        self.client.as_ref()?.open.iter().find(|request| request.number == number)
    }

    /// As the test's own answers say, or as the table says, unless the test holds the method.
    fn answer_by_default(&mut self, number: u64) {
        let Some(method) = self.request(number).map(|request| request.method.clone()) else { return };
        if self.client_test().is_some_and(|test| test.hold.contains(&method)) {
            return;
        }
        if let Some(answer) = self.own_answer(&method) {
            if answer.after.is_zero() {
                return self.give_answer(number, &answer);
            }
            let at = self.now + answer.after;
            if let Some(client) = &mut self.client {
                client.due.push(DueAnswer { request: number, at, answer });
            }
            return;
        }
        let Some((table, client)) = self.client_side() else { return };
        let is_held = table.methods.get(&method).is_some_and(|known| known.held);
        let opens_only = is_held && client.first_prompts > 0;
        if opens_only {
            client.first_prompts -= 1;
        }
        if is_held && !opens_only {
            let request = client.open.iter_mut().find(|request| request.number == number);
            return request.into_iter().for_each(|request| request.is_held = true);
        }
        match self.usual(number) {
            Ok(body) => self.give_or_say(number, &body, &[]),
            Err(reason) => self.notes.push(reason),
        }
    }

    /// The test's answer to this call of the method.
    fn own_answer(&mut self, method: &str) -> Option<AgentAnswer> {
        let program = self.program.clone();
        let answers = program.client.as_ref()?.answers.get(method)?;
        let client = self.client.as_mut()?;
        let given = |method: &String| {
            client.answers.iter().any(|answer| answer.is_result && answer.method == *method)
        };
        let is_over = |answer: &&AgentAnswer| answer.until.as_ref().is_some_and(given);
        let mut call = client.calls.get(method).copied().unwrap_or_default().min(answers.len() - 1);
        while answers.get(call).filter(is_over).is_some() {
            call += 1;
        }
        let answer = answers.get(call)?;
        let next = if answer.until.is_some() { call } else { call + 1 };
        client.calls.insert(method.to_owned(), next);
        Some(answer.clone())
    }

    /// The usual answer, or the error for an unknown method.
    fn usual(&mut self, number: u64) -> Result<Body, String> {
        match self.usual_result(number)? {
            Some(result) => Ok(("result", result.to_string())),
            None => {
                let unknown = self.client.as_ref().map(|client| client.table.unknown.clone());
                Ok(("error", unknown.unwrap_or_default().to_string()))
            }
        }
    }

    fn usual_result(&mut self, number: u64) -> Result<Option<Value>, String> {
        let vars = self.answer_vars(number);
        let Some(method) = self.request(number).map(|request| request.method.clone()) else {
            return Ok(None);
        };
        let Some((table, client)) = self.client_side() else { return Ok(None) };
        let Some(known) = table.methods.get(&method) else { return Ok(None) };
        if known.id.is_some() {
            client.sessions += 1;
        }
        let name = format!("{}{}", table.session_names, client.sessions);
        fill(&known.result, &vars?.with("newSessionId", name)).map(Some)
    }

    /// What the usual answers are made of.
    fn answer_vars(&self, number: u64) -> Result<Vars, String> {
        let mut vars = self.vars.clone();
        vars.set("toolVersion", self.setup.tool_version.as_str());
        let (Some(client), Some(test)) = (&self.client, self.client_test()) else { return Ok(vars) };
        for name in client.table.keeps.keys() {
            if let Some(value) = client.kept.get(name) {
                vars.set(name.as_str(), value.clone());
            }
        }
        let value = |json: &Json| -> Result<Value, String> {
            let text = json.render(&self.vars).map_err(|error| self.missing_words(&error))?;
            serde_json::from_str(&text).map_err(|error| error.to_string())
        };
        let asked =
            self.request(number).and_then(|request| find(&request.frame, &client.table.version.asked));
        let most = client.table.version.most;
        let agreed = asked.and_then(Value::as_u64).map_or(most, |asked| asked.min(most));
        vars.set("version", test.version.as_ref().map_or_else(|| Ok(json!(agreed)), value)?);
        vars.set("authMethods", test.auth_methods.as_ref().map_or_else(|| Ok(json!([])), value)?);
        match &test.offer {
            AgentOffer::Full => vars.set("capabilities", client.table.capabilities.clone()),
            AgentOffer::Bare => {}
            AgentOffer::Exactly(offer) => vars.set("capabilities", value(offer)?),
        }
        Ok(vars)
    }

    /// What an answer of the file says; nothing when it says to never answer.
    fn body_of(&mut self, number: u64, body: &AnswerBody) -> Result<Option<Body>, String> {
        let render =
            |run: &Run, json: &Json| json.render(&run.vars).map_err(|error| run.missing_words(&error));
        Ok(match body {
            AnswerBody::Never => None,
            AnswerBody::Result(result) => Some(("result", render(self, result)?)),
            AnswerBody::Error(error) => Some(("error", render(self, error)?)),
            AnswerBody::Merge(over) => {
                let over: Value =
                    serde_json::from_str(&render(self, over)?).map_err(|error| error.to_string())?;
                let mut result = self.usual_result(number)?.unwrap_or_else(|| json!({}));
                if let Value::Object(members) = &mut result {
                    for (key, value) in over.as_object().into_iter().flatten() {
                        match value {
                            Value::Null => members.shift_remove(key),
                            value => members.insert(key.clone(), value.clone()),
                        };
                    }
                }
                Some(("result", result.to_string()))
            }
        })
    }

    fn give_answer(&mut self, number: u64, answer: &AgentAnswer) {
        match self.body_of(number, &answer.body) {
            Ok(Some(body)) => self.give_or_say(number, &body, &answer.before),
            Ok(None) => {}
            Err(reason) => self.notes.push(format!("the default agent cannot answer: {reason}")),
        }
    }

    fn give_or_say(&mut self, number: u64, body: &Body, before: &[Json]) {
        if let Err(reason) = self.give(number, body, before) {
            self.notes.push(format!("the default agent cannot answer: {reason}"));
        }
    }

    /// Answers an open request, and takes note of the session that the answer opens.
    fn give(&mut self, number: u64, (key, body): &Body, before: &[Json]) -> Result<(), String> {
        let Some((table, client)) = self.client_side() else { return Ok(()) };
        let Some(place) = client.open.iter().position(|request| request.number == number) else {
            return Ok(());
        };
        let request = client.open.remove(place);
        client.due.retain(|due| due.request != number);
        let launch = request.launch;
        if *key == "result" {
            let result: Value = serde_json::from_str(body).unwrap_or(Value::Null);
            for (name, keeps) in &table.keeps {
                if let Some(value) = find(&result, &keeps.path) {
                    client.kept.set(name.as_str(), value.clone());
                }
            }
            if let Some(known) = table.methods.get(&request.method).filter(|known| known.opens) {
                let named = find(&request.frame, &table.session);
                let id = known.id.as_ref().map_or(named, |path| find(&result, path));
                if let Some(id) = id.filter(|id| id.is_string()).cloned() {
                    client.session_launch = Some(launch);
                    self.vars.set("sessionId", id);
                    self.tally.opened = true;
                    self.choose_current();
                }
                self.session = Some(result);
            }
        }
        for frame in before {
            let line = frame.render(&self.vars).map_err(|error| self.missing_words(&error))?;
            self.say_to(launch, line.into());
        }
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{key}\":{body}}}", request.id);
        self.say_to(launch, line.into());
        if let Some(client) = &mut self.client {
            let (method, is_result) = (request.method, *key == "result");
            client.answers.push(GivenAnswer { launch, method, is_result });
        }
        Ok(())
    }

    /// A notification that ends a held request, unless the test holds it.
    pub(in super::super) fn client_tells(&mut self, index: usize) {
        let message = &self.inbox.messages()[index];
        let (Some(method), launch) = (message.method.clone(), message.launch) else { return };
        if self.client_test().is_some_and(|test| test.hold.contains(&method)) {
            return;
        }
        let Some(client) = &self.client else { return };
        let table = client.table.clone();
        let Some(ends) = table.cancels.get(&method) else { return };
        let session = find(&message.value, &table.session);
        let ended = client.open.iter().filter(|request| {
            let is_meant = session.is_none() || find(&request.frame, &table.session) == session;
            request.is_held && request.method == ends.ends && request.launch == launch && is_meant
        });
        let ended: Vec<u64> = ended.map(|request| request.number).collect();
        let body = ("result", ends.result.to_string());
        ended.into_iter().for_each(|number| self.give_or_say(number, &body, &[]));
    }

    /// The `answer` step.
    pub(super) fn answer_open(&mut self, to: &str, body: &AnswerBody, all: bool) {
        let open = self.client.iter().flat_map(|client| &client.open);
        let open: Vec<u64> =
            open.filter(|request| request.method == to).map(|request| request.number).collect();
        if open.is_empty() {
            return self.nothing_open(to);
        }
        let count = if all { open.len() } else { 1 };
        for number in &open[..count] {
            let given = match self.body_of(*number, body) {
                Ok(Some(body)) => self.give(*number, &body, &[]),
                other => other.map(|_| ()),
            };
            if let Err(reason) = given {
                return self.end(super::TestEnding::NotApplicable { reason, blocked: true });
            }
        }
        self.client_step_met(Some(format!("{count} answered")));
    }

    /// When the next answer goes out by itself.
    pub(in super::super) fn due_answer(&self) -> Option<Duration> {
        self.client.as_ref()?.due.iter().map(|due| due.at).min()
    }

    /// Gives the answers whose time has come.
    pub(in super::super) fn give_due_answers(&mut self) {
        while let Some(client) = &mut self.client
            && let Some(place) = client.due.iter().position(|due| due.at <= self.now)
        {
            let due = client.due.remove(place);
            self.give_answer(due.request, &due.answer);
        }
    }

    /// The test is over: what waits is answered now.
    pub(in super::super) fn close_turns(&mut self) {
        self.write_waiting_lines();
        let Some(client) = &mut self.client else { return };
        for due in std::mem::take(&mut client.due) {
            self.give_answer(due.request, &due.answer);
        }
        let held = self.client.iter().flat_map(|client| &client.open).filter(|request| request.is_held);
        let held: Vec<u64> = held.map(|request| request.number).collect();
        for number in held {
            if let Ok(body) = self.usual(number) {
                self.give_or_say(number, &body, &[]);
            }
        }
    }

    /// After the test, while the client ends, the default agent goes on answering, and holds nothing.
    pub(in super::super) fn answer_after_the_end(&mut self, launch: u32, frame: &Frame) {
        if let View::Batch(frames) = frame.view() {
            return frames.iter().for_each(|frame| self.answer_after_the_end(launch, frame));
        }
        let (Some(method), Some(id)) = (frame.method(), frame.id()) else { return };
        let value = frame.text().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let number = self.opened(launch, method.to_owned(), id.clone(), value);
        match self.own_answer(method) {
            Some(answer) => self.give_answer(number, &answer),
            None => {
                if let Ok(body) = self.usual(number) {
                    self.give_or_say(number, &body, &[]);
                }
            }
        }
    }

    /// Writes a line of the default agent, but not into the middle of a line of the test.
    fn say_to(&mut self, launch: u32, line: Bytes) {
        match &mut self.client {
            Some(client) if client.current == launch && !self.wire.partial.is_empty() => {
                client.waiting_lines.push((launch, line));
            }
            _ => self.write_to(launch, line),
        }
    }

    /// A line of the test is whole: what waited for that goes out.
    pub(in super::super) fn write_waiting_lines(&mut self) {
        let Some(client) = &mut self.client else { return };
        for (launch, line) in std::mem::take(&mut client.waiting_lines) {
            self.write_to(launch, line);
        }
    }

    /// Writes a line as a launch of the agent.
    pub(in super::super) fn write_to(&mut self, launch: u32, line: impl Into<Bytes>) {
        let line = line.into();
        let direction = self.said_direction();
        self.inbox.record(self.now, direction, &line);
        self.wire.last_activity = self.now;
        self.actions.push_back(RunAction::AsAgent { launch, act: AgentAct::Write(line) });
    }
}
