//! The scripted model of one test, and what its journal says about the test.

use std::time::Duration;

use acp_comply::{Program, TestOutcome, Verdict};
use acp_model::{EndpointSettings, Hints, ModelEndpoint, ModelScript, ModelScriptError};
use serde_json::{Value, json};

use crate::cell::Cell;

/// How many entries of the journal are kept at each end, and how long a text in them may be.
const KEPT: usize = 25;
const TEXT: usize = 400;

/// A model endpoint that belongs to one test.
pub(crate) struct Mind {
    endpoint: ModelEndpoint,
    seen: u64,
}

/// Why the model cannot go on as the test wishes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The agent has no tool for it.
    Unfit(String),
    /// The same was asked again and again.
    Circle(String),
}

/// Why a test has no scripted model.
#[derive(Debug, thiserror::Error)]
pub enum ModelSetupError {
    /// Its rules cannot be read.
    #[error("\"model\" of {file}: {error}")]
    Rules {
        /// The test.
        file: String,
        /// What is wrong.
        error: ModelScriptError,
    },
    /// Its address is not to be had.
    #[error("the scripted model cannot listen on loopback: {0}")]
    Listen(std::io::Error),
}

/// Whether the rules that a test has for its model can be used.
pub fn check_rules(program: &Program) -> Result<(), ModelSetupError> {
    let somewhere =
        |text: &str| crate::cell::FOLDERS.iter().fold(text.to_owned(), |text, name| text.replace(name, "/"));
    script(program, somewhere).map(|_| ())
}

/// The rules of a test, with the cell's folders filled in.
fn script(program: &Program, fill: impl Fn(&str) -> String) -> Result<ModelScript, ModelSetupError> {
    let rules: Value = program.model.iter().map(|rule| filled(rule, &fill)).collect();
    ModelScript::from_value(&rules)
        .map_err(|error| ModelSetupError::Rules { file: program.file.clone(), error })
}

fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, fill)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, item)| (key.clone(), filled(item, fill))).collect())
        }
        other => other.clone(),
    }
}

impl Mind {
    /// Starts the endpoint with the test's rules; what no rule matches is answered as a plain wish.
    pub async fn start(program: &Program, cell: &Cell, hints: Hints) -> Result<Mind, ModelSetupError> {
        let script = script(program, |text| cell.fill_in(text))?;
        let settings = EndpointSettings {
            script,
            hints,
            stall_limit: Duration::from_secs(120),
            ..EndpointSettings::default()
        };
        let endpoint = ModelEndpoint::start(settings).await.map_err(ModelSetupError::Listen)?;
        Ok(Mind { endpoint, seen: 0 })
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// What stands in the way since the last look.
    pub fn trouble(&mut self) -> Option<Trouble> {
        let (entries, seen) = self.endpoint.journal().since(self.seen);
        self.seen = seen;
        entries.iter().find_map(trouble_in)
    }

    /// Puts the journal beside the outcome, and says so where it explains it.
    pub fn testify(&self, outcome: &mut TestOutcome) {
        let entries = self.endpoint.journal().entries();
        explain(&entries, outcome);
        outcome.model = shortened(entries);
    }
}

fn trouble_in(entry: &Value) -> Option<Trouble> {
    let decision = entry.get("decision")?;
    if let Some(unfit) = decision.get("unfit") {
        let intent = unfit["intent"].as_str().unwrap_or_default();
        if intent == "mcp" {
            // Whether a server's tools reach the model is for the test to judge.
            return None;
        }
        if unfit["beyond"] == true {
            let words = format!("no model can make an agent do {intent:?} by calling its tools");
            return Some(Trouble::Unfit(words));
        }
        let offered: Vec<&str> =
            unfit["offered"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        return Some(Trouble::Unfit(format!(
            "the agent offers its model no tool for {intent:?} (it offers: {offered})"
        )));
    }
    let circle = decision.get("loop")?.as_str().unwrap_or_default();
    Some(Trouble::Circle(format!("the agent and its model go in circles: {circle}")))
}

/// A failed test whose agent asked only for what the model does not have could not be judged; in any other case
/// what the journal shows is worth a note.
fn explain(entries: &[Value], outcome: &mut TestOutcome) {
    let of = |event: &str| entries.iter().filter(|entry| entry["event"] == event).collect::<Vec<_>>();
    let asked = of("request");
    let mut unknown: Vec<String> = of("unknown")
        .iter()
        .chain(&of("upgrade refused"))
        .map(|entry| {
            format!(
                "{} {}",
                entry["method"].as_str().unwrap_or_default(),
                entry["path"].as_str().unwrap_or_default()
            )
        })
        .collect();
    unknown.sort();
    unknown.dedup();
    let is_unmet = matches!(outcome.verdict, Verdict::Fail | Verdict::Partial | Verdict::Warn);
    if !is_unmet {
        return;
    }
    if asked.is_empty() && !unknown.is_empty() {
        let reason = outcome.reason.take().unwrap_or_default();
        outcome.reason = Some(format!(
            "the agent called what the scripted model does not have ({}) and never asked it for an answer; {reason}",
            unknown.join(", ")
        ));
        outcome.verdict = Verdict::Na;
        outcome.blocked = true;
        return;
    }
    if !unknown.is_empty() {
        outcome
            .notes
            .push(format!("the scripted model was asked for what it does not have: {}", unknown.join(", ")));
    }
    for unreadable in of("unreadable") {
        let reason = unreadable["reason"].as_str().unwrap_or_default();
        outcome.notes.push(format!("the scripted model could not read a request: {reason}"));
    }
    let gone = of("end").iter().filter(|entry| entry["how"] == "peer closed").count();
    let mut words = format!("the scripted model was asked {} times", asked.len());
    if gone > 0 {
        words.push_str(&format!("; the agent gave up {gone} of its answers"));
    }
    outcome.notes.push(words);
}

/// The beginning and the end of the journal, without long texts, and without a list of tools that stood there before.
fn shortened(mut entries: Vec<Value>) -> Vec<Value> {
    if entries.len() > 2 * KEPT {
        let left_out = entries.len() - 2 * KEPT;
        entries.splice(KEPT..KEPT + left_out, [json!({"event": "left out", "entries": left_out})]);
    }
    let mut tools = Value::Null;
    for entry in &mut entries {
        shorten(entry);
        if let Some(offered) = entry.get_mut("tools") {
            if *offered == tools {
                *offered = "as before".into();
            } else {
                tools = offered.clone();
            }
        }
    }
    entries
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT => {
            let end = (0..=TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(map) => map.values_mut().for_each(shorten),
        _ => {}
    }
}
