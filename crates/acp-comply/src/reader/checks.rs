//! What only a look across the file can tell: variables and regular expressions.

use super::Reader;
use super::nearest::nearest;
use crate::json::Json;
use crate::program::Envelope;
use crate::wish::{Unclosed, Wish, blanked, wishes};
use acp_match::{CompileError, Pattern, Template, TemplateError, Vars};

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
