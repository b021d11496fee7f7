//! Using a verb: processes, signals, flags, pauses.

use std::time::Instant;

use acp_comply::program::PermissionHabit;
use acp_comply::run::DriveOutcome;
use rustix::process::Signal;
use serde_json::Value;

use super::fields::values_of;
use super::{ClientHands, EndsWith, LOOK, LaterVerb, OpenDrive, OutputUse};
use crate::driver::{DriverKind, DriverVerb, DriverWords};
use crate::process;

/// Words of these verbs belong to every later start of the client, not to the next one alone.
const LASTING: [&str; 2] = ["mcp", "dirs"];

impl ClientHands<'_> {
    /// Begins to use a verb. An error is what came of it at once, good or bad.
    pub(super) fn begin(&mut self, drive: u32, name: &str, fields: &Value) -> Result<(), DriveOutcome> {
        if name == "answer" {
            return self.take_habit(drive, fields);
        }
        let Some(verb) = self.client.driver.verbs.get(name).cloned() else {
            return self.without_verb(drive, name);
        };
        let asks = self.processes.iter().any(|process| process.is_alive() && process.verb == "prompt");
        let verb = match verb.for_ask {
            Some(other) if asks => *other,
            _ => verb,
        };
        let now = Instant::now();
        // A client of one process for each verb is opened again after it has ended.
        let alone = name == "reload" && verb.run.is_some() && self.is_running();
        if verb.pause.is_some() || alone {
            let at = now + verb.pause.unwrap_or(LOOK).mul_f64(self.factor);
            let alone_by = alone.then(|| at + self.client.driver.limits.quit.mul_f64(self.factor));
            let (name, fields) = (name.to_owned(), fields.clone());
            self.later.push(LaterVerb { at, alone_by, drive, name, verb, fields });
            return Ok(());
        }
        self.use_verb(drive, name, &verb, fields)
    }

    /// Uses what waited for its moment.
    pub(super) fn use_what_waited(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|later| later.at <= now);
        self.later = later;
        let due: Vec<LaterVerb> = due;
        for mut later in due {
            match later.alone_by {
                Some(by) if self.is_running() && now < by => {
                    later.at = now + LOOK;
                    self.later.push(later);
                    continue;
                }
                Some(_) => self.processes.iter().for_each(|process| {
                    let _ = process.signal(Signal::TERM);
                }),
                None => {}
            }
            if let Err(outcome) = self.use_verb(later.drive, &later.name, &later.verb, &later.fields) {
                self.done(later.drive, outcome);
            }
        }
    }

    fn use_verb(
        &mut self,
        drive: u32,
        name: &str,
        verb: &DriverVerb,
        fields: &Value,
    ) -> Result<(), DriveOutcome> {
        let values = values_of(&self.values, fields, self.session.as_deref(), self.place)
            .map_err(DriveOutcome::Failed)?;
        if let Some(flags) = &verb.flags {
            let words = values.fill(flags).map_err(DriveOutcome::Lacks)?;
            if LASTING.contains(&name) {
                self.flags.0.extend(words);
            } else if self.processes.is_empty() {
                self.flags.1.extend(words);
            } else {
                let words = format!("the client takes the verb {name} only at its start");
                return Err(DriveOutcome::Lacks(words));
            }
            return Err(DriveOutcome::Done);
        }
        if let Some(signal) = verb.signal.as_deref().and_then(process::signal) {
            let reached = self.processes.iter().rev().find(|process| process.is_alive());
            return Err(match reached.is_some_and(|process| process.signal(signal)) {
                true => DriveOutcome::Done,
                false => {
                    DriveOutcome::Failed(format!("the verb {name} needs a client that runs, and none does"))
                }
            });
        }
        match self.kind() {
            DriverKind::Command => self.run(drive, name, verb, &values),
            DriverKind::Talk => self.talk(drive, name, verb, fields),
            DriverKind::Tty => self.type_keys(drive, name, verb, &values),
            DriverKind::Hand => Err(DriveOutcome::Lacks("this driver needs a person".to_owned())),
        }
    }

    fn run(
        &mut self,
        drive: u32,
        name: &str,
        verb: &DriverVerb,
        values: &crate::words::WordValues,
    ) -> Result<(), DriveOutcome> {
        let Some(run) = &verb.run else {
            // There is nothing to do but wait.
            self.open_drive(drive, name, EndsWith::AllProcesses);
            return Ok(());
        };
        let mut words = self.start_words(values)?;
        words.extend(values.fill(run).map_err(DriveOutcome::Lacks)?);
        let until = self.limit(name);
        let number = self.start(name, &words, OutputUse::Keep)?;
        let ends_with = match verb.background {
            true if self.has_launched => return Err(DriveOutcome::Done),
            // A client that ends before it has started the agent was not started in the right way.
            true => EndsWith::Launch,
            false => EndsWith::Process(number),
        };
        self.open.push(OpenDrive { drive, verb: name.to_owned(), until, ends_with });
        Ok(())
    }

    /// The words that start the client, with the flags of earlier verbs.
    pub(super) fn start_words(&self, values: &crate::words::WordValues) -> Result<Vec<String>, DriveOutcome> {
        let mut values = values.clone();
        let flags = match self.client.driver.permission_words(self.habit) {
            Some(DriverWords::Flags(flags)) => flags.clone(),
            _ => Vec::new(),
        };
        values.several.push(("permission", flags));
        let mut words = values.fill(self.client.driver.start_words()).map_err(DriveOutcome::Failed)?;
        words.extend(self.flags.0.iter().chain(&self.flags.1).cloned());
        Ok(words)
    }

    pub(super) fn open_drive(&mut self, drive: u32, verb: &str, ends_with: EndsWith) {
        let until = self.limit(verb);
        self.open.push(OpenDrive { drive, verb: verb.to_owned(), until, ends_with });
    }

    /// What can be done without a verb of that name: to end a client, there is always a way.
    fn without_verb(&mut self, drive: u32, name: &str) -> Result<(), DriveOutcome> {
        if name != "quit" {
            return Err(DriveOutcome::Lacks(format!("the driver has no verb {name}")));
        }
        let verbs = &self.client.driver.verbs;
        let ends_itself = |verb: &str| verbs.get(verb).is_some_and(|verb| verb.quits);
        self.tell_to_end = Some(Instant::now() + super::GRACE.mul_f64(self.factor));
        for process in self.processes.iter_mut().filter(|process| process.is_alive()) {
            if !ends_itself(&process.verb) {
                if self.client.driver.kind == DriverKind::Talk {
                    process.close_input();
                } else {
                    let _ = process.signal(Signal::TERM);
                }
            }
        }
        self.open_drive(drive, name, EndsWith::AllProcesses);
        Ok(())
    }

    fn take_habit(&mut self, drive: u32, fields: &Value) -> Result<(), DriveOutcome> {
        let word = fields.get("with").and_then(Value::as_str).unwrap_or_default();
        let habit = PermissionHabit::of(word).filter(|habit| self.client.driver.habits().contains(habit));
        let habit = habit.ok_or_else(|| {
            DriveOutcome::Lacks(format!("the driver cannot make the client answer questions with {word:?}"))
        })?;
        if self.kind() == DriverKind::Command && self.is_running() && habit != self.habit {
            return Err(DriveOutcome::Lacks(
                "the client is told at its start how to answer questions".to_owned(),
            ));
        }
        self.habit = habit;
        if self.kind() == DriverKind::Talk && !self.processes.is_empty() {
            return self.tell_habit(drive);
        }
        Err(DriveOutcome::Done)
    }
}
