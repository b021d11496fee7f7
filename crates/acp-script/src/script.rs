//! Scripts: what an agent shall do, as data.
//!
//! A [`AgentScript`] is a list of rules; the first one that means an incoming frame decides what is done about it
//! ([`Act`]). What no rule means is served as a conforming agent would. `verify` says what the client was supposed
//! to do; [`ScriptState::complaints`] says where it did not.

use std::collections::BTreeMap;

use acp_match::{Template, Vars};
use acp_rpc::{Frame, Id, Pending};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::faults::{FrameWay, Seen, Select, Time};

/// A script file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentScript {
    /// What it is about.
    #[serde(default)]
    pub title: String,
    /// Variables from the start.
    #[serde(default)]
    pub vars: BTreeMap<String, Value>,
    /// What to do about which frame; the first rule that fits is used.
    #[serde(default)]
    pub rules: Vec<ScriptRule>,
    /// What the client must have done by the end.
    #[serde(default)]
    pub verify: Vec<ScriptCheck>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptRule {
    /// Which frame.
    #[serde(flatten)]
    pub select: Select,
    /// A regular expression that the prompt's text must match; its named groups become variables.
    pub wish: Option<String>,
    /// What to do.
    pub r#do: Vec<Act>,
}

/// Something to do.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// A message.
    Say(String),
    /// A thought.
    Think(String),
    /// The body of a `session/update`.
    Update(Value),
    /// Whatever a plain wish would bring about.
    Wish(String),
    /// A request to the client; its result becomes a variable.
    Ask {
        /// The method.
        method: String,
        /// The parameters; `sessionId` is added.
        #[serde(default)]
        params: Value,
        /// The variable for the result (or for the error, as `{"error": …}`).
        #[serde(default)]
        r#as: Option<String>,
    },
    /// A notification to the client.
    Notify {
        /// The method.
        method: String,
        /// The parameters.
        #[serde(default)]
        params: Value,
    },
    /// Silence.
    Wait(Time),
    /// Variables.
    Let(BTreeMap<String, Value>),
    /// One more in this variable.
    Count(String),
    /// The result of the request.
    Respond(Value),
    /// The error of the request.
    Fail {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The stop reason of the turn.
    End(String),
    /// Nothing more, ever: the request stays unanswered.
    Silence,
}

/// What the client must have done.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptCheck {
    /// In words, for the complaint.
    pub say: String,
    /// Frames to count.
    #[serde(default)]
    pub frame: Option<Select>,
    /// Exactly this often.
    #[serde(default)]
    pub times: Option<u64>,
    /// At least this often; 1 if nothing else is said.
    #[serde(default)]
    pub min: Option<u64>,
    /// At most this often.
    #[serde(default)]
    pub max: Option<u64>,
    /// Or: these frames in this order, others between them allowed.
    #[serde(default)]
    pub order: Vec<Select>,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("not a script: {0}")]
pub struct AgentScriptError(String);

impl AgentScript {
    /// Reads a script.
    pub fn parse(text: &str) -> Result<Self, AgentScriptError> {
        let mut script: Self =
            serde_json::from_str(text).map_err(|error| AgentScriptError(error.to_string()))?;
        // A script is about what the client sends.
        let checks =
            script.verify.iter_mut().flat_map(|check| check.frame.iter_mut().chain(&mut check.order));
        for select in script.rules.iter_mut().map(|rule| &mut rule.select).chain(checks) {
            select.on = FrameWay::In;
        }
        for rule in &script.rules {
            if let Some(wish) = &rule.wish {
                Regex::new(wish).map_err(|error| AgentScriptError(format!("wish {wish:?}: {error}")))?;
            }
        }
        Ok(script)
    }
}

/// A script on one connection.
#[derive(Debug)]
pub struct ScriptState {
    script: AgentScript,
    wishes: Vec<Option<Regex>>,
    vars: Vars,
    met: Vec<u64>,
    /// How often each check's frame came, or how far its order has got.
    seen: Vec<u64>,
    /// The methods of the agent's open requests.
    asked: Pending<String>,
}

impl ScriptState {
    /// A connection begins.
    pub fn new(script: AgentScript) -> Self {
        let mut vars = Vars::new();
        for (name, value) in &script.vars {
            vars.set(name.clone(), value.clone());
        }
        Self {
            wishes: script.rules.iter().map(|rule| Regex::new(rule.wish.as_deref()?).ok()).collect(),
            vars,
            met: vec![0; script.rules.len()],
            seen: vec![0; script.verify.len()],
            asked: Pending::default(),
            script,
        }
    }

    /// Notes a request of the agent, so that its answer can be told.
    pub(crate) fn asks(&mut self, id: &Id, method: &str) {
        let _ = self.asked.replace(id, method.to_owned());
    }

    /// Takes a frame of the client; what to do about it, if a rule means it.
    pub(crate) fn hears(&mut self, frame: &Frame, prompt: Option<&str>) -> Option<Vec<Act>> {
        let value: Value = serde_json::from_slice(frame.raw()).unwrap_or(Value::Null);
        let answers = match frame.method() {
            Some(_) => None,
            None => frame.id().and_then(|id| self.asked.remove(id)),
        };
        let seen = Seen { way: FrameWay::In, frame, answers: answers.as_deref(), value: &value };
        self.check(&seen);
        let mut chosen = None;
        for (at, rule) in self.script.rules.iter().enumerate() {
            let captures = match (&self.wishes[at], prompt) {
                (None, _) => None,
                (Some(wish), Some(text)) => match wish.captures(text) {
                    Some(captures) => Some((wish, captures)),
                    None => continue,
                },
                (Some(_), None) => continue,
            };
            if !rule.select.means(&seen, &self.vars) {
                continue;
            }
            self.met[at] += 1;
            let count = self.met[at];
            if count <= rule.select.skip
                || rule.select.times.is_some_and(|times| count - rule.select.skip > times)
            {
                continue;
            }
            if let Some((wish, captures)) = captures {
                for name in wish.capture_names().flatten() {
                    if let Some(found) = captures.name(name) {
                        self.vars.set(name, found.as_str());
                    }
                }
            }
            chosen = Some(rule.r#do.clone());
            break;
        }
        chosen
    }

    fn check(&mut self, seen: &Seen<'_>) {
        for (check, count) in self.script.verify.iter().zip(&mut self.seen) {
            let next = match &check.frame {
                Some(select) => Some(select),
                None => check.order.get(usize::try_from(*count).unwrap_or(usize::MAX)),
            };
            if next.is_some_and(|select| select.means(seen, &self.vars)) {
                *count += 1;
            }
        }
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.vars.set(name, value);
    }

    /// One more in a variable.
    pub(crate) fn count(&mut self, name: &str) {
        let count = self.vars.get(name).and_then(Value::as_u64).unwrap_or(0);
        self.vars.set(name, count + 1);
    }

    /// Fills the variables into a value; a variable that is not there leaves the value as it is.
    pub(crate) fn fill(&self, value: &Value) -> Value {
        let mut filled = value.clone();
        match Template::render_value(&mut filled, &self.vars) {
            Ok(()) => filled,
            Err(_) => value.clone(),
        }
    }

    /// Fills the variables into a text.
    pub(crate) fn fill_text(&self, text: &str) -> String {
        match self.fill(&Value::String(text.to_owned())) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// What the client did not do as it should have.
    pub fn complaints(&self) -> Vec<String> {
        let judged = self.script.verify.iter().zip(&self.seen);
        judged
            .filter_map(|(check, count)| Some(format!("{}: {}", check.say, check.complaint(*count)?)))
            .collect()
    }
}

impl ScriptCheck {
    fn complaint(&self, count: u64) -> Option<String> {
        if self.frame.is_none() {
            let all = self.order.len() as u64;
            return (count < all).then(|| format!("only {count} of {all} came in this order"));
        }
        if let Some(times) = self.times {
            return (count != times).then(|| format!("came {count} times instead of {times}"));
        }
        let min = self.min.unwrap_or(u64::from(self.max.is_none()));
        match self.max {
            _ if count < min => Some(format!("came {count} times, less than {min}")),
            Some(max) if count > max => Some(format!("came {count} times, more than {max}")),
            _ => None,
        }
    }
}
