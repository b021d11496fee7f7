//! Scripts: rules `when` → `do`, read from JSON.

use std::time::Duration;

use acp_match::{Template, Vars};
use fancy_regex::Regex;
use serde_json::{Map, Value};

use crate::action_error::ActionError;
use crate::talk::{ModelStop, Usage};
use crate::wanted::WantedTool;

/// What the endpoint answers. Without a rule that matches, the plain wishes decide.
#[derive(Debug, Default)]
pub struct ModelScript {
    /// The rules; the first that matches is taken.
    pub rules: Vec<ModelRule>,
    /// Whether plain wishes are understood where no rule matches.
    pub no_wishes: bool,
}

/// One rule.
#[derive(Debug)]
pub struct ModelRule {
    /// When it applies.
    pub when: RuleCondition,
    /// What is done, as written: `${…}` is filled in when it is played.
    pub actions: Vec<Value>,
    /// How often it may be used.
    pub times: Option<u32>,
    /// Whether it also applies to requests without tools, whatever it does there.
    pub side: bool,
}

/// When a rule applies. Everything given must hold.
#[derive(Debug, Default)]
pub struct RuleCondition {
    /// Found in the person's words.
    pub user: Option<Regex>,
    /// Found in the last tool result.
    pub result: Option<Regex>,
    /// The number of tool results since the person's words.
    pub step: Option<u64>,
    /// Found in the model's name.
    pub model: Option<Regex>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleAction {
    /// Say this, word by word; spread over a time when one is given.
    Text(String, Option<Duration>),
    /// Say this in one piece.
    Whole(String),
    /// Think this, likewise.
    Think(String, Option<Duration>),
    /// Call tools, all at once.
    Call(Vec<WantedTool>),
    /// Say that this is for the agent to do, not for its model.
    Beyond(String),
    /// Say nothing more until the agent gives up.
    Stall,
    /// Answer with an error; after words, break off with one.
    Error {
        /// The HTTP status.
        status: u16,
        /// The vendor's word for it.
        kind: Option<String>,
        /// The message.
        message: String,
        /// Seconds for a `retry-after` header.
        retry_after: Option<u64>,
    },
    /// Report this usage.
    Usage(Usage),
    /// Wait, keeping the stream alive.
    Wait(Duration),
    /// Stop for this reason.
    Stop(ModelStop),
    /// Close the connection in the middle.
    Cut,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ModelScriptError {
    /// Where in the script, for instance `rules[2].do[0]`.
    pub place: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl ModelScript {
    /// Reads a script: a list of rules, or `{"rules": […], "wishes": false}`.
    pub fn parse(text: &str) -> Result<Self, ModelScriptError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| bad("the script", format!("it is not JSON: {error}")))?;
        Self::from_value(&value)
    }

    /// The same from JSON that is already read, for instance the `model` of a test file.
    pub fn from_value(value: &Value) -> Result<Self, ModelScriptError> {
        let (rules, no_wishes) = match value {
            Value::Array(rules) => (rules, false),
            Value::Object(map) => {
                known("the script", map, &["rules", "wishes"])?;
                let rules = map.get("rules").and_then(Value::as_array);
                let wishes = map.get("wishes").is_none_or(|wishes| wishes != &Value::Bool(false));
                (rules.ok_or_else(|| bad("the script", "\"rules\" must be a list".to_owned()))?, !wishes)
            }
            _ => return Err(bad("the script", "it must be a list of rules".to_owned())),
        };
        let rules = rules.iter().enumerate().map(|(n, rule)| ModelRule::parse(&format!("rules[{n}]"), rule));
        Ok(Self { rules: rules.collect::<Result<_, _>>()?, no_wishes })
    }
}

impl ModelRule {
    fn parse(place: &str, value: &Value) -> Result<Self, ModelScriptError> {
        let Some(map) = value.as_object() else {
            return Err(bad(place, "a rule must be an object".to_owned()));
        };
        known(place, map, &["when", "do", "times", "side", "note"])?;
        let when = RuleCondition::parse(&format!("{place}.when"), map.get("when").unwrap_or(&Value::Null))?;
        let actions = match map.get("do") {
            Some(Value::Array(list)) => list.clone(),
            Some(single @ Value::Object(_)) => vec![single.clone()],
            _ => return Err(bad(place, "\"do\" must be an action or a list of actions".to_owned())),
        };
        let any = sample_vars();
        for (n, action) in actions.iter().enumerate() {
            parse_filled(action, &any)
                .map_err(|error| bad(&format!("{place}.do[{n}]"), error.to_string()))?;
        }
        let times = map.get("times").map(|times| {
            let count = times.as_u64().and_then(|n| u32::try_from(n).ok());
            count.ok_or_else(|| bad(place, "\"times\" must be a number".to_owned()))
        });
        Ok(Self {
            when,
            actions,
            times: times.transpose()?,
            side: map.get("side") == Some(&Value::Bool(true)),
        })
    }

    /// The actions with `${…}` filled in.
    pub(crate) fn filled(&self, vars: &Vars) -> Result<Vec<RuleAction>, ActionError> {
        let mut all = Vec::new();
        for action in &self.actions {
            all.extend(parse_filled(action, vars)?);
        }
        Ok(all)
    }
}

impl RuleCondition {
    fn parse(place: &str, value: &Value) -> Result<Self, ModelScriptError> {
        let regex = |name: &str, text: &Value| {
            let text =
                text.as_str().ok_or_else(|| bad(place, format!("{name:?} must be a regular expression")))?;
            Regex::new(text)
                .map_err(|error| bad(place, format!("{name:?} is not a regular expression: {error}")))
        };
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(_) => Ok(Self { user: Some(regex("when", value)?), ..Self::default() }),
            Value::Object(map) => {
                known(place, map, &["user", "result", "step", "model"])?;
                let optional = |name: &str| map.get(name).map(|text| regex(name, text)).transpose();
                let step = map.get("step").map(|step| {
                    step.as_u64().ok_or_else(|| bad(place, "\"step\" must be a number".to_owned()))
                });
                Ok(Self {
                    user: optional("user")?,
                    result: optional("result")?,
                    step: step.transpose()?,
                    model: optional("model")?,
                })
            }
            _ => Err(bad(place, "\"when\" must be a regular expression or an object".to_owned())),
        }
    }
}

/// The variables a rule may use: what its `user` expression captured, and what was said and found.
pub(crate) fn vars(captures: &[String], user: &str, result: &str, cwd: &str) -> Vars {
    let mut vars = Vars::new().with("user", user).with("result", result).with("cwd", cwd);
    for n in 0..=9 {
        vars.set(n.to_string(), captures.get(n).cloned().unwrap_or_default());
    }
    vars
}

fn sample_vars() -> Vars {
    vars(&[], "", "", "")
}

fn parse_filled(action: &Value, vars: &Vars) -> Result<Vec<RuleAction>, ActionError> {
    let mut action = action.clone();
    Template::render_value(&mut action, vars).map_err(|(at, error)| ActionError::Template { at, error })?;
    parse_action(&action)
}

fn parse_action(action: &Value) -> Result<Vec<RuleAction>, ActionError> {
    let Some(map) = action.as_object() else { return Err(ActionError::must_be("an action", "an object")) };
    const KNOWN: &[&str] =
        &["text", "think", "overMs", "call", "calls", "stall", "error", "usage", "waitMs", "stop", "cut"];
    if let Some(name) = map.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(ActionError::UnknownAction { name: name.clone(), known: KNOWN });
    }
    let over = map
        .get("overMs")
        .map(|ms| ms.as_u64().ok_or_else(|| ActionError::member("overMs", "a number")))
        .transpose()?;
    let over = over.map(Duration::from_millis);
    let text = |name: &str| {
        map.get(name)
            .map(|text| text.as_str().map(str::to_owned).ok_or_else(|| ActionError::member(name, "a string")))
            .transpose()
    };
    let mut actions = Vec::new();
    if let Some(ms) = map.get("waitMs") {
        actions.push(RuleAction::Wait(Duration::from_millis(
            ms.as_u64().ok_or_else(|| ActionError::member("waitMs", "a number"))?,
        )));
    }
    if let Some(usage) = map.get("usage") {
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        actions.push(RuleAction::Usage(Usage {
            input: count("input"),
            output: count("output"),
            cached: count("cached"),
            reasoning: count("reasoning"),
        }));
    }
    actions.extend(text("think")?.map(|words| RuleAction::Think(words, over)));
    actions.extend(text("text")?.map(|words| RuleAction::Text(words, over)));
    if let Some(call) = map.get("call") {
        actions.push(RuleAction::Call(vec![WantedTool::parse(call)?]));
    }
    if let Some(calls) = map.get("calls") {
        let calls = calls
            .as_array()
            .filter(|calls| !calls.is_empty())
            .ok_or_else(|| ActionError::member("calls", "a list of calls"))?;
        actions.push(RuleAction::Call(calls.iter().map(WantedTool::parse).collect::<Result<_, _>>()?));
    }
    if map.get("stall") == Some(&Value::Bool(true)) {
        actions.push(RuleAction::Stall);
    }
    if let Some(error) = map.get("error") {
        actions.push(parse_error(error)?);
    }
    if let Some(stop) = map.get("stop") {
        actions.push(RuleAction::Stop(match stop.as_str() {
            Some("end") => ModelStop::End,
            Some("length") => ModelStop::Length,
            Some("refusal") => ModelStop::Refusal,
            _ => return Err(ActionError::UnknownStop),
        }));
    }
    if map.get("cut") == Some(&Value::Bool(true)) {
        actions.push(RuleAction::Cut);
    }
    Ok(actions)
}

fn parse_error(error: &Value) -> Result<RuleAction, ActionError> {
    let status = error.as_u64().or_else(|| error["status"].as_u64());
    let status =
        status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
    let status = status.ok_or(ActionError::NoStatus)?;
    Ok(RuleAction::Error {
        status,
        kind: error["type"].as_str().map(str::to_owned),
        message: error["message"].as_str().map_or_else(|| format!("scripted error {status}"), str::to_owned),
        retry_after: error["retryAfter"].as_u64(),
    })
}

fn known(place: &str, map: &Map<String, Value>, names: &[&str]) -> Result<(), ModelScriptError> {
    match map.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(bad(place, format!("there is no {name:?}; use {}", names.join(", ")))),
        None => Ok(()),
    }
}

fn bad(place: &str, reason: String) -> ModelScriptError {
    ModelScriptError { place: place.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_script_says_where_and_what() {
        let cases = [
            ("{", "the script: it is not JSON"),
            ("3", "the script: it must be a list of rules"),
            ("[{\"when\": \"a\"}]", "rules[0]: \"do\" must be"),
            ("[{\"when\": \"(\", \"do\": {}}]", "rules[0].when: \"when\" is not a regular expression"),
            ("[{\"do\": [{\"text\": 3}]}]", "rules[0].do[0]: \"text\" must be a string"),
            ("[{\"do\": [{\"sing\": \"x\"}]}]", "rules[0].do[0]: there is no action \"sing\""),
            ("[{\"do\": [{\"call\": {\"intent\": \"fly\"}}]}]", "rules[0].do[0]: there is no intent \"fly\""),
            ("[{\"do\": [{\"call\": {\"intent\": \"read\"}}]}]", "rules[0].do[0]: \"path\" is missing"),
            ("[{\"do\": [{\"error\": 99}]}]", "rules[0].do[0]: \"error\" needs a \"status\""),
            ("[{\"do\": [{\"text\": \"${nope}\"}]}]", "unknown variable \"${nope}\""),
            ("[{\"do\": {}, \"wen\": 1}]", "rules[0]: there is no \"wen\""),
        ];
        for (text, expected) in cases {
            let error = ModelScript::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
