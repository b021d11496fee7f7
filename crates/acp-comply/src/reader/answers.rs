//! A response is an answer: which request of the file it answers, and what to do when there seems to be none.

use super::Reader;
use crate::json::{Json, JsonKind, JsonMember};
use acp_match::Pattern;
use serde_json::Value;
use std::collections::BTreeMap;

/// The first id that a request without one is given.
const GIVEN: u64 = 901;

/// Ids for steps whose answer is expected although they have none, by where the step stands.
pub(super) type GivenIds = BTreeMap<usize, Json>;

/// What a test has asked so far.
#[derive(Default)]
struct Asked {
    ids: Vec<Value>,
    /// Of these, requests whose answer no expectation has named yet.
    open: usize,
    /// Something went out that may be answered with any id.
    anything: bool,
    /// Steps that would be answered if they had an id, the latest last.
    without_id: Vec<(usize, Unnamed)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Unnamed {
    Send,
    NewSession,
}

impl Reader<'_> {
    /// Every expected response must answer something that went out before. A `send` without an id takes one, with a
    /// warning, and the answer of a `newSession` step can be seen, when nothing else could be meant.
    pub(super) fn check_answers(&mut self, json: &Json) -> GivenIds {
        let mut given = GivenIds::new();
        if let Some(steps) = json.get("steps") {
            self.walk_answers(steps, &mut Asked::default(), &mut given);
        }
        given
    }

    fn walk_answers(&mut self, steps: &Json, asked: &mut Asked, given: &mut GivenIds) {
        for step in steps.as_list().unwrap_or(&[]) {
            if let Some(frame) = step.get("send") {
                asked.note(frame, step.span.start);
            }
            if step.get("newSession").is_some() {
                asked.without_id.push((step.span.start, Unnamed::NewSession));
            }
            asked.anything |= step.get("raw").is_some();
            if let Some(inner) = step.get("repeat").and_then(|repeat| repeat.get("steps")) {
                self.walk_answers(inner, asked, given);
            }
            let messages = step.get("expect").and_then(|expect| expect.get("messages"));
            for message in messages.and_then(Json::as_list).unwrap_or(&[]) {
                let alternatives =
                    message.get("anyOf").and_then(Json::as_list).unwrap_or(std::slice::from_ref(message));
                let accepted = message.get("accepts").and_then(Json::as_list).unwrap_or(&[]);
                let mut responses =
                    alternatives.iter().chain(accepted).filter_map(|item| item.get("response")).peekable();
                let expects = responses.peek().is_some();
                for response in responses {
                    self.check_answer(response, asked, given, steps);
                }
                asked.open = asked.open.saturating_sub(usize::from(expects));
            }
        }
    }

    fn check_answer(&mut self, response: &Json, asked: &mut Asked, given: &mut GivenIds, steps: &Json) {
        if asked.anything {
            return;
        }
        let id = response.get("id");
        let is_open_id = id.is_none_or(|id| {
            id.kind == JsonKind::Null || id.as_text().is_some_and(|text| text.contains("${"))
        });
        let is_answered = match id {
            Some(id) if !is_open_id => {
                let Ok(pattern) = Pattern::compile(&id.to_value()) else { return };
                asked.ids.iter().any(|sent| pattern.matches(sent))
            }
            _ => asked.open > 0,
        };
        if is_answered {
            return;
        }
        if let Some((start, what)) = asked.without_id.pop() {
            return self.give_id(start, what, id.filter(|_| !is_open_id), asked, given, steps);
        }
        if asked.ids.is_empty() {
            self.error(response.span.clone(), "no request was sent before this, so no response can come")
                .hint("a frame without \"id\" is a notification, which is never answered: give the request an \"id\"");
        } else if let Some(id) = id.filter(|_| !is_open_id) {
            let sent: Vec<String> = asked.ids.iter().map(ToString::to_string).collect();
            self.error(id.span.clone(), "no request with this id was sent before")
                .hint(format!("ids sent so far: {}", sent.join(", ")));
        }
    }

    /// Gives an id to the step that stands there: the one that is expected, or one that nobody uses.
    fn give_id(
        &mut self,
        start: usize,
        what: Unnamed,
        wanted: Option<&Json>,
        asked: &mut Asked,
        given: &mut GivenIds,
        steps: &Json,
    ) {
        let place = start..start + 1;
        let is_plain = |id: &&Json| matches!(id.kind, JsonKind::Number(_));
        let id = wanted.filter(is_plain).cloned().unwrap_or_else(|| {
            let number = GIVEN + u64::try_from(given.len()).unwrap_or(0);
            Json { span: place.clone(), kind: JsonKind::Number(number.to_string()) }
        });
        let value = id.to_value();
        if what == Unnamed::Send {
            let item = steps.as_list().unwrap_or(&[]).iter().find(|item| item.span.start == start);
            let span = item.and_then(|item| item.get("send")).map_or(place, |frame| frame.span.clone());
            self.warning(
                span,
                format!("this frame has no id, but its response is expected: it is sent with id {value}"),
            )
            .hint("give the request an \"id\"");
        }
        asked.ids.push(value);
        asked.open += 1;
        given.insert(start, id);
    }
}

impl Asked {
    fn note(&mut self, frame: &Json, start: usize) {
        match &frame.kind {
            JsonKind::List(frames) if frames.is_empty() => self.anything = true,
            JsonKind::List(frames) => frames.iter().for_each(|frame| self.note(frame, usize::MAX)),
            JsonKind::Map(_) => self.note_object(frame, start),
            _ => self.anything = true,
        }
    }

    fn note_object(&mut self, frame: &Json, start: usize) {
        let named = frame.get("method").is_some_and(|method| method.as_text().is_some());
        let version = frame.get("jsonrpc").and_then(Json::as_text) == Some("2.0");
        let is_answer = frame.get("result").is_some() || frame.get("error").is_some();
        match frame.get("id") {
            Some(id) if named => {
                let is_template = id.as_text().is_some_and(|text| text.contains("${"));
                self.anything |= is_template;
                self.ids.push(id.to_value());
                self.open += 1;
            }
            None if named && start != usize::MAX => self.without_id.push((start, Unnamed::Send)),
            _ => {}
        }
        // A frame that is not a good message may be refused with a null id.
        self.anything |= !is_answer && (!named || !version);
    }
}

/// The frame with this id, after its version.
pub(super) fn with_id(frame: &mut Json, id: Json) {
    if let JsonKind::Map(members) = &mut frame.kind {
        let key_span = id.span.clone();
        let place = members.iter().position(|member| member.key == "jsonrpc").map_or(0, |index| index + 1);
        members.insert(place, JsonMember { key: "id".to_owned(), key_span, value: id });
    }
}
