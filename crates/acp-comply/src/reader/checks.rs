//! What only a look across the file can tell: variables, regular expressions, answers without a question.

use super::Reader;
use super::nearest::nearest;
use crate::json::{Json, Kind};
use crate::program::Envelope;
use crate::wish::{Unclosed, Wish, blanked, wishes};
use acp_match::{CompileError, Pattern, Template, TemplateError, Vars};
use serde_json::Value;

impl Reader<'_> {
    /// Every `${…}` in the strings below must be set at this point of the file.
    pub(super) fn check_templates(&mut self, json: &Json) {
        for (leaf, text) in leaves(json) {
            self.check_leaf(leaf, text);
        }
    }

    /// The same for what is sent to the agent, where `${wish:…}` may stand too.
    pub(super) fn check_frame(&mut self, json: &Json) {
        for (leaf, text) in leaves(json) {
            match wishes(text) {
                Err(Unclosed(offset)) => self.bad_template(leaf, &TemplateError::Unclosed { offset }),
                Ok(found) => {
                    for wish in &found {
                        self.check_wish(leaf, wish);
                    }
                    self.check_leaf(leaf, &blanked(text, &found));
                }
            }
        }
    }

    fn check_wish(&mut self, leaf: &Json, wish: &Wish<'_>) {
        if self.wishes.is_empty() || self.wishes.contains_key(wish.name) {
            return;
        }
        let known = self.wishes;
        let span = self.inside_leaf(leaf, wish.span.start, wish.span.len());
        let hint = match nearest(wish.name, known.keys().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("known wishes are {}", known.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        self.error(span, format!("there is no wish {:?}", wish.name)).hint(hint);
    }

    fn check_leaf(&mut self, leaf: &Json, text: &str) {
        match Template::parse(text) {
            Ok(template) => {
                for (name, offset) in template.holes() {
                    self.check_variable(leaf, name, offset);
                }
            }
            Err(error) => self.bad_template(leaf, &error),
        }
    }

    fn check_variable(&mut self, leaf: &Json, name: &str, offset: usize) {
        if self.vars.contains(name) {
            return;
        }
        let span = self.inside_leaf(leaf, offset, name.len() + 3);
        let hint = if name == "sessionId" {
            "a session's id is known after a newSession step, or when a step before this captures it"
                .to_owned()
        } else {
            let known: Vec<&str> = self.vars.iter().map(String::as_str).collect();
            format!("known here: {}; a literal is written $${{", known.join(", "))
        };
        self.error(span, format!("unknown variable ${{{name}}}")).hint(hint);
    }

    fn bad_template(&mut self, leaf: &Json, error: &TemplateError) {
        let offset = match error {
            TemplateError::Unclosed { offset } | TemplateError::BadName { offset, .. } => *offset,
            TemplateError::Unknown(unknown) => unknown.offset,
        };
        let span = self.inside_leaf(leaf, offset, 2);
        let message = match error {
            TemplateError::Unclosed { .. } => "this ${ is not closed".to_owned(),
            TemplateError::BadName { name, .. } => format!("${{{name}}} is not a variable name"),
            TemplateError::Unknown(unknown) => format!("unknown variable ${{{}}}", unknown.name),
        };
        self.error(span, message).hint("a literal ${ is written $${");
    }

    /// Variables are known and every string is a regular expression.
    pub(super) fn check_pattern(&mut self, json: &Json) {
        let before = self.diagnostics.len();
        self.check_templates(json);
        if self.diagnostics.len() > before {
            return;
        }
        let mut vars = Vars::new();
        for name in &self.vars {
            vars.set(name.as_str(), "x");
        }
        let Err(CompileError::Pattern(error)) = Pattern::compile_with(&json.to_value(), &vars) else {
            return;
        };
        let span =
            json.at_pointer(&error.pointer).map_or_else(|| json.span.clone(), |leaf| leaf.span.clone());
        let reason = error.reason.lines().last().unwrap_or("").trim().trim_start_matches("error: ");
        self.error(span, format!("this is not a regular expression: {reason}")).hint(
            "expected strings are regular expressions; a literal bracket or dot is written \\\\( or \\\\.",
        );
    }

    /// Envelopes that show that the behaviour a test watches did happen.
    pub(super) fn exercised(&mut self, json: &Json) -> Vec<Envelope> {
        let saved = self.vars.clone();
        self.vars.insert("sessionId".to_owned());
        let found = self.list_at(json, "exercised").iter().filter_map(|item| self.envelope(item)).collect();
        self.vars = saved;
        found
    }

    /// A response is an answer: something that may draw one must have gone out before.
    pub(super) fn check_answers(&mut self, json: &Json) {
        let Some(steps) = json.get("steps") else { return };
        let mut asked = Asked::default();
        self.walk_answers(steps, &mut asked);
    }

    fn walk_answers(&mut self, steps: &Json, asked: &mut Asked) {
        for step in steps.as_list().unwrap_or(&[]) {
            if let Some(frame) = step.get("send") {
                asked.note(frame);
            }
            if step.get("raw").is_some() {
                asked.anything = true;
            }
            if let Some(inner) = step.get("repeat").and_then(|repeat| repeat.get("steps")) {
                self.walk_answers(inner, asked);
            }
            let messages = step.get("expect").and_then(|expect| expect.get("messages"));
            for message in messages.and_then(Json::as_list).unwrap_or(&[]) {
                let alternatives =
                    message.get("anyOf").and_then(Json::as_list).unwrap_or(std::slice::from_ref(message));
                let accepted = message.get("accepts").and_then(Json::as_list).unwrap_or(&[]);
                for response in alternatives.iter().chain(accepted).filter_map(|item| item.get("response")) {
                    self.check_answer(response, asked);
                }
            }
        }
    }

    fn check_answer(&mut self, response: &Json, asked: &Asked) {
        if asked.anything {
            return;
        }
        if asked.ids.is_empty() {
            self.error(response.span.clone(), "no request was sent before this, so no response can come")
                .hint("a frame without \"id\" is a notification, which is never answered: give the request an \"id\"");
            return;
        }
        let Some(id) = response.get("id") else { return };
        let is_template = id.as_text().is_some_and(|text| text.contains("${"));
        if is_template || id.kind == Kind::Null {
            return;
        }
        let Ok(pattern) = Pattern::compile(&id.to_value()) else { return };
        if asked.ids.iter().any(|sent| pattern.matches(sent)) {
            return;
        }
        let sent: Vec<String> = asked.ids.iter().map(ToString::to_string).collect();
        self.error(id.span.clone(), "no request with this id was sent before")
            .hint(format!("ids sent so far: {}", sent.join(", ")));
    }
}

/// The strings that hold a `${`.
fn leaves(json: &Json) -> Vec<(&Json, &str)> {
    let mut leaves = Vec::new();
    json.each_text(&mut |leaf, text| {
        if text.contains("${") {
            leaves.push((leaf, text));
        }
    });
    leaves
}

/// What a test has asked so far.
#[derive(Default)]
struct Asked {
    ids: Vec<Value>,
    /// Something went out that may be answered with any id.
    anything: bool,
}

impl Asked {
    fn note(&mut self, frame: &Json) {
        match &frame.kind {
            Kind::List(frames) if frames.is_empty() => self.anything = true,
            Kind::List(frames) => frames.iter().for_each(|frame| self.note(frame)),
            Kind::Map(_) => self.note_object(frame),
            _ => self.anything = true,
        }
    }

    fn note_object(&mut self, frame: &Json) {
        let named = frame.get("method").is_some_and(|method| method.as_text().is_some());
        let version = frame.get("jsonrpc").and_then(Json::as_text) == Some("2.0");
        let is_answer = frame.get("result").is_some() || frame.get("error").is_some();
        match frame.get("id") {
            Some(id) if named => {
                let is_template = id.as_text().is_some_and(|text| text.contains("${"));
                self.anything |= is_template;
                self.ids.push(id.to_value());
            }
            _ => {}
        }
        // A frame that is not a good message may be refused with a null id.
        self.anything |= !is_answer && (!named || !version);
    }
}
