//! Reading what only a test of a client has: its agent, its folders.

use super::{Reader, Side, inside, unknown};
use crate::json::{Json, JsonKind};
use crate::program::{
    AgentAnswer, AgentOffer, AnswerBody, ClientTest, PermissionHabit, SandboxLink, StubHabits,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Variables of a test of a client.
pub(super) const VARIABLES: [&str; 7] =
    ["sandbox", "outside", "home", "sessionId", "launch", "http", "childPid"];

/// The areas of a client that can be its own code.
const AREAS: [&str; 7] = ["wire", "process", "fs", "terminal", "permission", "session", "elicit"];

impl Reader<'_> {
    /// Which side the test is for.
    pub(super) fn side(&mut self, json: &Json) -> Side {
        match json.get("side").map(|side| (side.as_text(), side)) {
            None | Some((Some("agent"), _)) => Side::Agent,
            Some((Some("client"), _)) => {
                self.vars = VARIABLES.map(str::to_owned).into();
                Side::Client
            }
            Some((_, value)) => {
                self.error(value.span.clone(), "this is no side").hint("use \"agent\" or \"client\"");
                Side::Agent
            }
        }
    }

    /// What the file says about the agent, the driver and the folders.
    pub(super) fn client_test(&mut self, json: &Json) -> ClientTest {
        let provokes = self.words(json, "provokes");
        let mut test = ClientTest { own: self.own(json), provokes, ..ClientTest::default() };
        if let Some(sandbox) = self.map_at(json, "sandbox") {
            test.links = self.links(sandbox, "files");
            test.outside_links = self.links(sandbox, "outside");
            test.outside = self.files(sandbox, "outside");
        }
        let Some(init) = self.map_at(json, "init") else { return test };
        self.known_fields(init, &[unknown::CLIENT_INIT]);
        test.offer = match init.get("agentCapabilities") {
            None => AgentOffer::Full,
            Some(value) => match value.as_text() {
                Some("full") => AgentOffer::Full,
                Some("bare") => AgentOffer::Bare,
                _ => AgentOffer::Exactly(value.clone()),
            },
        };
        test.auth_methods = init.get("authMethods").cloned();
        test.version = init.get("protocolVersion").cloned();
        if let Some(workspace) = init.get("workspace") {
            self.check_templates(workspace);
            test.workspace = self.text_at(init, "workspace").map(|(text, _)| text);
        }
        test.hold = self.texts(init, "hold");
        test.answers = self.answers(init);
        test.stub = self.stub(init);
        if let Some((word, span)) = self.text_at(init, "permission") {
            match PermissionHabit::of(&word) {
                Some(habit) => test.permission = habit,
                None => self
                    .error(span, "this is no way to answer")
                    .hint("use \"allow\", \"reject\" or \"leave\""),
            }
        }
        test
    }

    fn own(&mut self, json: &Json) -> Vec<String> {
        let own = self.texts(json, "own");
        if let Some(strange) = own.iter().find(|area| !AREAS.contains(&area.as_str())) {
            let span = json.get("own").map_or(json.span.clone(), |own| own.span.clone());
            self.error(span, format!("a client has no area {strange:?}"))
                .hint(format!("areas are {}", AREAS.join(", ")));
        }
        own
    }

    fn links(&mut self, sandbox: &Json, list: &str) -> Vec<SandboxLink> {
        let mut found = Vec::new();
        for item in self.list_at(sandbox, list) {
            let Some(leaf) = item.get("link") else { continue };
            let (Some((path, _)), Some((target, _))) =
                (self.text_at(item, "path"), self.text_at(item, "link"))
            else {
                continue;
            };
            self.check_templates(leaf);
            if inside(&path).is_ok() {
                found.push(SandboxLink { path, target });
            }
        }
        found
    }

    fn answers(&mut self, init: &Json) -> BTreeMap<String, Vec<AgentAnswer>> {
        let mut found = BTreeMap::new();
        let Some(answers) = self.map_at(init, "answers") else { return found };
        for member in answers.members() {
            let one = std::slice::from_ref(&member.value);
            let list = member.value.as_list().unwrap_or(one);
            let answers: Vec<AgentAnswer> = list.iter().filter_map(|item| self.agent_answer(item)).collect();
            if answers.is_empty() {
                self.error(member.value.span.clone(), "a method needs at least one answer");
            }
            found.insert(member.key.clone(), answers);
        }
        found
    }

    fn agent_answer(&mut self, item: &Json) -> Option<AgentAnswer> {
        self.known_fields(item, &[unknown::AGENT_ANSWER]);
        let body = self.answer_body(item)?;
        let after = match item.get("afterMs") {
            Some(value) => self.millis(value, "afterMs").unwrap_or_default(),
            None => Duration::ZERO,
        };
        let before = self.list_at(item, "before").to_vec();
        before.iter().for_each(|frame| self.check_templates(frame));
        let until = self.text_at(item, "until").map(|(text, _)| text);
        Some(AgentAnswer { body, after, before, until })
    }

    /// One of `result`, `error`, `merge` and `never`.
    pub(super) fn answer_body(&mut self, item: &Json) -> Option<AnswerBody> {
        let named = ["result", "error", "merge", "never"];
        let found: Vec<_> = named.into_iter().filter_map(|key| Some((key, item.get(key)?))).collect();
        let [(key, value)] = found.as_slice() else {
            self.error(item.span.clone(), "an answer is a result or an error")
                .hint("write one of \"result\", \"error\", \"merge\" and \"never\"");
            return None;
        };
        self.check_templates(value);
        Some(match *key {
            "result" => AnswerBody::Result((*value).clone()),
            "error" => AnswerBody::Error((*value).clone()),
            "merge" => {
                if !value.is_map() {
                    self.wrong_type("merge", "an object", value);
                }
                AnswerBody::Merge((*value).clone())
            }
            _ => AnswerBody::Never,
        })
    }

    fn stub(&mut self, init: &Json) -> StubHabits {
        let Some(stub) = self.map_at(init, "stub") else { return StubHabits::default() };
        self.known_fields(stub, &[unknown::STUB]);
        let mut environment = BTreeMap::new();
        if let Some(variables) = self.map_at(stub, "environment") {
            self.check_templates(variables);
            for member in variables.members() {
                match &member.value.kind {
                    JsonKind::Text(text) => {
                        environment.insert(member.key.clone(), text.clone());
                    }
                    _ => self.wrong_type(&member.key, "a string", &member.value),
                }
            }
        }
        StubHabits {
            ignores: self.texts(stub, "ignores"),
            child: self.flag(stub, "child"),
            wrapped: self.flag(stub, "wrapped"),
            environment,
        }
    }
}
