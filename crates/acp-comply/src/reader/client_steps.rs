//! Reading the steps that only a test of a client has.

use super::{Reader, unknown};
use crate::agent_table::AgentTable;
use crate::json::{Json, JsonKind};
use crate::program::{ClientLook, ClientStep, DriveWait, RawBytes, Step, StepKind, WhichLaunch, Witness};
use std::collections::BTreeSet;

/// Every step kind of a test of a client.
pub(super) const KINDS: [&str; 19] = [
    "drive",
    "send",
    "expect",
    "forbid",
    "answer",
    "alive",
    "delayMs",
    "raw",
    "close",
    "pauseRead",
    "repeat",
    "stderr",
    "exit",
    "expectFile",
    "expectAgent",
    "expectClient",
    "expectProcess",
    "expectHttp",
    "expectJudged",
];

/// The verbs that the steps use.
pub(super) fn verbs_of(steps: &[Step]) -> BTreeSet<String> {
    let mut verbs = BTreeSet::new();
    for step in steps {
        match &step.kind {
            StepKind::Client(client) => {
                if let ClientStep::Drive { verb, .. } = client.as_ref() {
                    verbs.insert(verb.clone());
                }
            }
            StepKind::Repeat { steps, .. } => verbs.extend(verbs_of(steps)),
            _ => {}
        }
    }
    verbs
}

impl Reader<'_> {
    /// A step with this name, unless every test has it.
    pub(super) fn client_step(&mut self, name: &str, value: &Json) -> Option<StepKind> {
        if !value.is_map() {
            self.wrong_type(name, "an object", value);
            return None;
        }
        let step = match name {
            "drive" => self.drive(value),
            "answer" => self.answer(value),
            "alive" => {
                self.known_fields(value, &[unknown::ALIVE]);
                Some(ClientStep::Alive { timeout: self.timeout(value, 3_000) })
            }
            "stderr" => self.stderr(value),
            "exit" => self.exit(value),
            "expectAgent" => self.look(value, Witness::Agent, 10_000),
            "expectClient" => self.look(value, Witness::Driver, 10_000),
            "expectHttp" => self.look(value, Witness::Http, 5_000),
            "expectProcess" => self.process(value),
            _ => self.judged(value),
        };
        step.map(|step| StepKind::Client(Box::new(step)))
    }

    fn drive(&mut self, value: &Json) -> Option<ClientStep> {
        let Some((verb, span)) = self.text_at(value, "verb") else {
            self.error(value.span.clone(), "a drive step needs \"verb\"");
            return None;
        };
        let verbs = AgentTable::built_in().verb_names();
        if !verbs.contains(&verb) {
            self.error(span, format!("drivers have no verb {verb:?}"))
                .hint(format!("verbs are {}", verbs.join(", ")));
            return None;
        }
        let wait = match self.text_at(value, "wait") {
            None => DriveWait::Frame,
            Some((word, span)) => match word.as_str() {
                "frame" => DriveWait::Frame,
                "done" => DriveWait::Done,
                "none" => DriveWait::Nothing,
                _ => {
                    self.error(span, "nothing of this name can be waited for")
                        .hint("use \"frame\", \"done\" or \"none\"");
                    return None;
                }
            },
        };
        let timeout = value.get("timeoutMs").and_then(|time| self.millis(time, "timeoutMs"));
        let fields = without(value, &["verb", "wait", "timeoutMs"]);
        self.check_templates(&fields);
        Some(ClientStep::Drive { verb, fields, wait, timeout })
    }

    fn answer(&mut self, value: &Json) -> Option<ClientStep> {
        self.known_fields(value, &[unknown::ANSWER]);
        let Some((to, _)) = self.text_at(value, "to") else {
            self.error(value.span.clone(), "an answer step needs \"to\": the method of the open request");
            return None;
        };
        Some(ClientStep::Answer { to, body: self.answer_body(value)?, all: self.flag(value, "all") })
    }

    fn stderr(&mut self, value: &Json) -> Option<ClientStep> {
        self.known_fields(value, &[unknown::STDERR]);
        let bytes = match (self.text_at(value, "text"), value.get("base64")) {
            (Some((text, _)), None) => RawBytes::Text(text),
            (None, Some(_)) => RawBytes::Bytes(self.base64(value)?),
            _ => {
                self.error(value.span.clone(), "a stderr step has either \"text\" or \"base64\"");
                return None;
            }
        };
        let times = self.count(value, "times", 1, 10_000_000)?;
        Some(ClientStep::Stderr { bytes, times, timeout: self.timeout(value, 10_000) })
    }

    fn exit(&mut self, value: &Json) -> Option<ClientStep> {
        self.known_fields(value, &[unknown::EXIT]);
        let code = self.count(value, "code", 0, 255)?;
        Some(ClientStep::Exit { code: u8::try_from(code).unwrap_or(u8::MAX) })
    }

    fn look(&mut self, value: &Json, at: Witness, default: u64) -> Option<ClientStep> {
        let launch = match at {
            Witness::Agent => self.which_launch(value),
            Witness::Driver | Witness::Http => None,
        };
        let captures = self.captures(value);
        self.vars.extend(captures.iter().map(|capture| capture.var.clone()));
        let pattern = without(value, &["launch", "timeoutMs", "absent", "captures"]);
        self.check_pattern(&pattern);
        let absent = self.flag(value, "absent");
        Some(ClientStep::Look(ClientLook {
            at,
            pattern,
            launch,
            absent,
            timeout: self.timeout(value, default),
            captures,
        }))
    }

    fn process(&mut self, value: &Json) -> Option<ClientStep> {
        self.known_fields(value, &[unknown::PROCESS]);
        let (Some(pid), Some(_)) = (value.get("pid"), value.get("running")) else {
            self.error(value.span.clone(), "expectProcess needs \"pid\" and \"running\"");
            return None;
        };
        self.check_templates(pid);
        let running = self.flag(value, "running");
        Some(ClientStep::Process { pid: pid.clone(), running, timeout: self.timeout(value, 5_000) })
    }

    fn judged(&mut self, value: &Json) -> Option<ClientStep> {
        self.known_fields(value, &[unknown::JUDGED]);
        let none = self.claims(value, "none");
        if none.is_empty() {
            self.error(value.span.clone(), "expectJudged needs \"none\": a list of requirements");
            return None;
        }
        Some(ClientStep::Judged { none })
    }

    /// `launch` of an envelope or a look: a number, or `"new"`.
    pub(super) fn which_launch(&mut self, value: &Json) -> Option<WhichLaunch> {
        let launch = value.get("launch")?;
        match (&launch.kind, launch.as_text()) {
            (_, Some("new")) => return Some(WhichLaunch::New),
            (_, Some("later")) => return Some(WhichLaunch::Later),
            (JsonKind::Number(number), _) => {
                if let Ok(number @ 1..) = number.parse::<u32>() {
                    return Some(WhichLaunch::Number(number));
                }
            }
            _ => {}
        }
        self.error(launch.span.clone(), "this is no launch")
            .hint("launches count from 1; \"new\" began after the last drive, \"later\" after that of the step above");
        None
    }

    fn count(&mut self, value: &Json, key: &str, default: u32, most: u32) -> Option<u32> {
        let Some(given) = value.get(key) else { return Some(default) };
        let number = given.to_value().as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| *number <= most) {
            Some(number) => Some(number),
            None => {
                self.error(given.span.clone(), format!("{key} is a whole number up to {most}"));
                None
            }
        }
    }
}

/// The object without these members.
fn without(value: &Json, keys: &[&str]) -> Json {
    let mut rest = value.clone();
    if let JsonKind::Map(members) = &mut rest.kind {
        members.retain(|member| !keys.contains(&member.key.as_str()));
    }
    rest
}
