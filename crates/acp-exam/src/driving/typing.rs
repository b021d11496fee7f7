//! Clients on a pseudo-terminal: keys go in when the screen says that the client waits for them.

use std::time::Instant;

use acp_comply::run::DriveOutcome;
use regex::Regex;

use super::{ClientHands, EndsWith, OutputUse};
use crate::driver::{DriverVerb, DriverWords};
use crate::terminal;
use crate::words::WordValues;

/// The verb that is for a client that works: it does not wait for the client to be ready.
const INTERRUPTS: &str = "cancel";

/// Keys that wait until the client is ready for them.
#[derive(Debug)]
pub(super) struct Keys {
    drive: u32,
    keys: String,
    /// They are pressed then at the latest.
    pub by: Instant,
    has_to_wait: bool,
}

impl ClientHands<'_> {
    /// Types a verb, on a terminal that is opened for it if there is none.
    pub(super) fn type_keys(
        &mut self,
        drive: u32,
        name: &str,
        verb: &DriverVerb,
        values: &WordValues,
    ) -> Result<(), DriveOutcome> {
        let by = self.limit(name);
        let runs_anew = verb.run.is_some();
        if self.processes.is_empty() || runs_anew {
            let mut words =
                vec![self.client.program.to_string_lossy().into_owned(), terminal::ARGUMENT.to_owned()];
            words.extend(self.start_words(values)?);
            words.extend(values.fill(verb.run.as_deref().unwrap_or_default()).map_err(DriveOutcome::Lacks)?);
            self.screen = super::ScreenLine::default();
            self.start(name, &words, OutputUse::Screen)?;
        }
        let keys = match &verb.keys {
            Some(keys) => values.fill_text(keys).map_err(DriveOutcome::Lacks)?,
            None => String::new(),
        };
        self.keys.push_back(Keys { drive, keys, by, has_to_wait: name != INTERRUPTS });
        let ends_with = if name == "quit" { EndsWith::AllProcesses } else { EndsWith::Keys };
        self.open_drive(drive, name, ends_with);
        Ok(())
    }

    pub(super) fn seen(&mut self, bytes: &[u8]) {
        self.screen.show(bytes);
    }

    /// Presses what is due, and answers a question on the screen.
    pub(super) fn press(&mut self) {
        let line = self.screen.text();
        let driver = &self.client.driver;
        let asks = driver.permission.ready.as_deref().is_some_and(|pattern| matches(pattern, &line));
        if asks && !self.answered {
            self.answered = true;
            if let Some(DriverWords::Keys(keys)) =
                driver.permission_words(self.habit).filter(|_| !self.processes.is_empty())
            {
                self.write_keys(&keys.clone());
            }
        }
        self.answered &= asks;
        while let Some(next) = self.keys.front() {
            let is_ready = driver.ready.as_deref().is_none_or(|pattern| matches(pattern, &line));
            if next.has_to_wait && !is_ready && Instant::now() < next.by {
                return;
            }
            let Some(keys) = self.keys.pop_front() else { return };
            self.write_keys(&keys.keys);
            if !keys.keys.is_empty() {
                // What follows waits for the next prompt.
                self.screen.show(b"\n");
            }
            self.end_drives(|open| open.drive == keys.drive && open.ends_with == EndsWith::Keys, None);
            if is_ready && !keys.keys.is_empty() && keys.has_to_wait {
                return;
            }
        }
    }

    fn write_keys(&self, keys: &str) {
        if let Some(process) = self.processes.iter().rev().find(|process| process.is_alive()) {
            process.write(keys.as_bytes().to_vec());
        }
    }
}

/// The pattern was checked when the driver was read.
fn matches(pattern: &str, line: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(line))
}
