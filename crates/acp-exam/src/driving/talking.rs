//! Clients that read verbs as JSON lines and tell events in the same way.

use acp_comply::run::DriveOutcome;
use serde_json::{Map, Value, json};

use super::{ClientHands, EVENTS, EndsWith, OutputUse};
use crate::driver::DriverVerb;

impl ClientHands<'_> {
    /// Says a verb, to a client that is started for it if none runs.
    pub(super) fn talk(
        &mut self,
        drive: u32,
        name: &str,
        verb: &DriverVerb,
        fields: &Value,
    ) -> Result<(), DriveOutcome> {
        if self.processes.is_empty() {
            let words = self.start_words(&self.values)?;
            self.start(name, &words, OutputUse::Lines)?;
            let _ = self.tell_habit(u32::MAX);
        }
        let ends_with = if name == "quit" { EndsWith::AllProcesses } else { EndsWith::Event };
        let said = verb.line.as_deref().unwrap_or(name).to_owned();
        let mut line = Map::from_iter([("verb".to_owned(), json!(said))]);
        line.extend(fields.as_object().cloned().unwrap_or_default());
        self.say(&Value::Object(line));
        if verb.wait {
            return Err(DriveOutcome::Done);
        }
        self.open_drive(drive, if name == "quit" { name } else { &said }, ends_with);
        Ok(())
    }

    /// Says how questions are answered from now on.
    pub(super) fn tell_habit(&mut self, drive: u32) -> Result<(), DriveOutcome> {
        if let Some(verb) = self.client.driver.permission.verb.clone() {
            self.say(&json!({ "verb": verb, "answer": self.habit.as_str() }));
        }
        self.done(drive, DriveOutcome::Done);
        Ok(())
    }

    fn say(&self, line: &Value) {
        if let Some(process) = self.processes.last() {
            process.write(format!("{line}\n").into_bytes());
        }
    }

    /// An event of the client.
    pub(super) fn heard(&mut self, line: &[u8]) {
        let Ok(event @ Value::Object(_)) = serde_json::from_slice::<Value>(line) else { return };
        let word = event.get("event").and_then(Value::as_str).unwrap_or_default();
        if matches!(word, "done" | "error")
            && let Some(verb) = event.get("verb").and_then(Value::as_str)
            && let Some(at) =
                self.open.iter().position(|open| open.verb == verb && open.ends_with == EndsWith::Event)
        {
            let open = self.open.remove(at);
            self.done(open.drive, DriveOutcome::Done);
        }
        if self.events.len() < EVENTS {
            self.events.push(event);
        }
        self.tell_record();
    }
}
