//! Reads a driver file, and says what is wrong with it and where.

use std::time::Duration;

use acp_comply::{did_you_mean, driver_verbs};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{AgentForm, ClientDriver, DriverKind};

/// The areas that a client can have code for.
pub const AREAS: [&str; 7] = ["wire", "process", "fs", "terminal", "permission", "session", "elicit"];

const FILE: [&str; 17] = [
    "name",
    "title",
    "notes",
    "npm",
    "pip",
    "cargo",
    "needs",
    "kind",
    "agent",
    "own",
    "home",
    "env",
    "limits",
    "permission",
    "base",
    "start",
    "ready",
];
const AGENT: [&str; 4] = ["form", "path", "json", "text"];
const LIMITS: [&str; 3] = ["start", "verb", "quit"];
const PERMISSION: [&str; 5] = ["verb", "ready", "allow", "reject", "leave"];
const VERB: [&str; 11] =
    ["run", "flags", "signal", "keys", "line", "wait", "background", "opens", "quits", "pause", "forAsk"];

/// A driver that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DriverError {
    /// The file, and the place in it.
    pub place: String,
    /// What is wrong and what to do.
    pub reason: String,
}

impl DriverError {
    pub(crate) fn new(place: impl Into<String>, reason: impl Into<String>) -> DriverError {
        DriverError { place: place.into(), reason: reason.into() }
    }
}

impl ClientDriver {
    /// Reads a driver file. `place` is named in errors.
    pub fn parse(place: &str, text: &str) -> Result<ClientDriver, DriverError> {
        let text = acp_profile::strip_comments(text);
        let file: Value = serde_json::from_str(&text)
            .map_err(|error| DriverError::new(place, format!("it is not JSON: {error}")))?;
        let whole = file.as_object().ok_or_else(|| DriverError::new(place, "it must be a JSON object"))?;
        known_fields(place, whole)?;
        let mut driver: ClientDriver = serde_json::from_str(&text)
            .map_err(|error| DriverError::new(place, format!("it is not a driver: {error}")))?;
        driver.file = file;
        driver.check().map_err(|(at, reason)| DriverError::new(format!("{place}, {at}"), reason))?;
        Ok(driver)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |at: &str, reason: &str| Err((at.to_owned(), reason.to_owned()));
        if self.start_words().is_empty() && self.kind != DriverKind::Hand {
            let field = if self.kind == DriverKind::Talk { "start" } else { "base" };
            return wrong(field, "name the words that start the client");
        }
        let (path, content) =
            (self.agent.path.is_some(), self.agent.json.is_some() || self.agent.text.is_some());
        match self.agent.form {
            AgentForm::File if !(path && content) => {
                return wrong("agent", "the form file needs path, and json or text");
            }
            AgentForm::File => {}
            _ if path || content => return wrong("agent", "path, json and text are for the form file"),
            _ => {}
        }
        if let Some(area) = self.own.iter().find(|area| !AREAS.contains(&area.as_str())) {
            let near = did_you_mean(area, AREAS);
            return wrong("own", &format!("there is no area {area:?}{near}; there are {}", AREAS.join(", ")));
        }
        if self.verbs.get("open").or(self.verbs.get("prompt")).is_none() {
            return wrong("verbs", "name open or prompt, or no test can be run");
        }
        for (at, pattern) in [("ready", &self.ready), ("permission.ready", &self.permission.ready)] {
            if let Some(error) = pattern.as_deref().and_then(|pattern| regex::Regex::new(pattern).err()) {
                return wrong(at, &format!("it is no pattern: {error}"));
            }
        }
        self.verbs.iter().try_for_each(|(name, verb)| self.check_verb(name, verb))
    }

    fn check_verb(&self, name: &str, verb: &super::DriverVerb) -> Result<(), (String, String)> {
        let wrong = |reason: String| Err((format!("verbs.{name}"), reason));
        if let Some(signal) = verb.signal.as_deref().filter(|signal| crate::process::signal(signal).is_none())
        {
            return wrong(format!(
                "there is no signal {signal:?}; there are INT, TERM, HUP, QUIT, KILL, USR1, USR2"
            ));
        }
        let does = verb.run.is_some() || verb.flags.is_some() || verb.signal.is_some() || verb.wait;
        match self.kind {
            DriverKind::Command if !does => {
                return wrong("say what it does: run, flags, signal or wait".to_owned());
            }
            DriverKind::Command if verb.keys.is_some() => {
                return wrong("keys are for the kind tty".to_owned());
            }
            DriverKind::Tty if !does && verb.keys.is_none() => {
                return wrong("say what it does: keys, flags, signal or wait".to_owned());
            }
            _ => {}
        }
        verb.for_ask.as_deref().map_or(Ok(()), |other| self.check_verb(name, other))
    }
}

fn known_fields(place: &str, file: &Map<String, Value>) -> Result<(), DriverError> {
    known(place, "", file, &[&FILE[..], &["verbs"]].concat())?;
    for (name, fields) in [("agent", &AGENT[..]), ("limits", &LIMITS), ("permission", &PERMISSION)] {
        if let Some(inner) = file.get(name).and_then(Value::as_object) {
            known(place, name, inner, fields)?;
        }
    }
    let Some(verbs) = file.get("verbs").and_then(Value::as_object) else { return Ok(()) };
    // A `talk` driver may have a verb for permission besides the usual ones.
    let permission = file.get("permission").and_then(|it| it.get("verb")).and_then(Value::as_str);
    let usual = driver_verbs();
    for (name, verb) in verbs {
        if !usual.contains(name) && permission != Some(name) {
            let near = did_you_mean(name, usual.iter().map(String::as_str));
            let reason = format!("there is no verb {name:?}{near}; there are {}", usual.join(", "));
            return Err(DriverError::new(format!("{place}, verbs"), reason));
        }
        let at = format!("verbs.{name}");
        let Some(verb) = verb.as_object() else { continue };
        known(place, &at, verb, &VERB)?;
        if let Some(other) = verb.get("forAsk").and_then(Value::as_object) {
            known(place, &format!("{at}.forAsk"), other, &VERB)?;
        }
    }
    Ok(())
}

fn known(place: &str, at: &str, object: &Map<String, Value>, fields: &[&str]) -> Result<(), DriverError> {
    let Some(field) = object.keys().find(|field| !fields.contains(&field.as_str())) else { return Ok(()) };
    let place = if at.is_empty() { place.to_owned() } else { format!("{place}, {at}") };
    let near = did_you_mean(field, fields.iter().copied());
    Err(DriverError::new(
        place,
        format!("there is no field {field:?}{near}; there are {}", fields.join(", ")),
    ))
}

/// A time such as `3s`, `250ms` or `2m`.
pub(super) fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(value)?;
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => 0,
    };
    match number.parse::<u64>() {
        Ok(number) if unit > 0 => Ok(Duration::from_millis(number.saturating_mul(unit))),
        _ => Err(serde::de::Error::custom(format!("{text:?} is no time; write it as 500ms, 3s or 2m"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{ "name": "x", "kind": "command", "agent": { "form": "shell" }, "base": ["x"],
        "limits": { "verb": "1500ms" }, "verbs": { "prompt": { "run": ["${text}"], "opens": true } } }"#;

    fn refusal(from: &str, to: &str) -> String {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL);
        ClientDriver::parse("x.json", &text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_small_driver_is_read() {
        let driver = ClientDriver::parse("x.json", SMALL).expect("a driver");
        assert_eq!(driver.limits.verb, Duration::from_millis(1500));
        assert!(driver.opens_by_prompt());
        assert!(driver.habits().is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_the_nearest_name() {
        let unknown = refusal("\"opens\"", "\"open\"");
        assert!(
            unknown.starts_with("x.json, verbs.prompt: there is no field \"open\"; did you mean opens?"),
            "{unknown}"
        );
        let verb = refusal("\"prompt\":", "\"promt\":");
        assert!(
            verb.starts_with("x.json, verbs: there is no verb \"promt\"; did you mean prompt?"),
            "{verb}"
        );
        let time = refusal("1500ms", "soon");
        assert!(time.contains("\"soon\" is no time") && time.contains("line 2"), "{time}");
        assert!(refusal("\"base\": [\"x\"],", "").contains("base: name the words that start the client"));
        assert!(
            refusal("\"run\": [\"${text}\"]", "\"signal\": \"NOISE\"")
                .contains("there is no signal \"NOISE\"")
        );
        assert!(refusal("\"form\": \"shell\"", "\"form\": \"file\"").contains("the form file needs path"));
    }
}
