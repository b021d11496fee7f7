//! The `drive` step: a verb of the driver, and what it brings.

use super::super::claims::Unmet;
use super::super::{Run, RunAction, State, TestEnding};

use super::{DriveRecord, Waiting};
use crate::agent_table::{AgentTable, Verb};
use crate::json::Json;
use crate::program::{ClientStep, DriveWait, MessageKind, StepKind};
use crate::verdict::BreakKind;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A verb that is waited for.
#[derive(Debug)]
pub(in super::super) struct Driving {
    pub until: Duration,
    /// Which of the verbs that were used.
    number: u32,
    wait: DriveWait,
    since: Since,
}

/// Where the client stood when a verb was used.
#[derive(Debug, Clone, Copy)]
struct Since {
    messages: usize,
    answers: usize,
    launch: u32,
}

/// A verb that was used before its step: a prompt that opens the session, or words of the client's command line.
#[derive(Debug)]
pub(super) struct EarlyDrive {
    /// The place of its step in the order.
    at: usize,
    number: u32,
    since: Since,
}

/// What a verb was waited for.
enum Brought {
    Message(usize),
    Answer(String),
    Launch(u32),
    End,
    Word,
}

/// How a client that opens a session only with a prompt is opened.
enum Opening {
    /// With the prompt of the step at this place.
    Early { at: usize, fields: Value },
    /// With a prompt of the runner's own.
    Own,
    /// By the step that follows.
    Later,
}

impl Run {
    pub(super) fn begin_drive(
        &mut self,
        verb: &str,
        fields: &Json,
        wait: DriveWait,
        timeout: Option<Duration>,
    ) {
        let Some(client) = &mut self.client else { return };
        let table = client.table.clone();
        let known = table.verbs.get(verb).cloned().unwrap_or_default();
        let limit = self.drive_limit(&known, timeout);
        if let Some(early) = self.take_early() {
            return self.drive_again(&early, &known, wait, limit);
        }
        let mut fields = match self.drive_fields(&known, fields) {
            Ok(fields) => fields,
            Err(reason) => return self.end(TestEnding::NotApplicable { reason, blocked: true }),
        };
        self.open_window();
        let since = self.since();
        if let Some(client) = &mut self.client {
            client.before_drive = since.launch;
        }
        let starts = (known.opens && known.again) || self.is_unlaunched();
        if starts && !known.is_done_at_once() {
            self.prepare_start(&table, since);
        }
        let opens_by_prompt = known.opens && !known.again && self.setup.can.opens_by_prompt;
        let number = if opens_by_prompt {
            match self.open_by_prompt(&table, since) {
                Some(number) => number,
                None => return self.step_done(Some("the client is opened by what follows".to_owned())),
            }
        } else if known.opens && self.setup.can.prompts.contains(verb) {
            self.use_with_prompt(verb, &mut fields, &table, since)
        } else {
            self.use_verb(verb, fields)
        };
        let begins = known.prepares && !known.is_done_at_once() && self.setup.can.prepares.contains(verb);
        if begins && wait == DriveWait::Frame {
            if self.is_opened_next(&table) {
                return self.step_done(None);
            }
            self.start_client(&table);
        }
        if wait == DriveWait::Nothing || (wait == DriveWait::Frame && known.is_done_at_once()) {
            return self.client_step_met(None);
        }
        self.await_drive(Driving { until: limit, number, wait, since });
    }

    fn await_drive(&mut self, driving: Driving) {
        self.state = State::Client(Waiting::Drive(driving));
    }

    fn since(&self) -> Since {
        Since {
            messages: self.inbox.messages().len(),
            answers: self.client.as_ref().map_or(0, |client| client.answers.len()),
            launch: self
                .client
                .as_ref()
                .and_then(|client| client.launches.keys().next_back().copied())
                .unwrap_or(0),
        }
    }

    fn drive_limit(&self, verb: &Verb, timeout: Option<Duration>) -> Duration {
        let can = &self.setup.can;
        let usual = match verb.ends {
            true => can.quit,
            false if self.is_unlaunched() || verb.again => can.start + can.verb,
            false => can.verb,
        };
        self.step_began + self.scaled(timeout.unwrap_or(usual))
    }

    /// What the verb is used with: what the step says, and what is always there.
    fn drive_fields(&self, verb: &Verb, fields: &Json) -> Result<Value, String> {
        let text = fields.render(&self.vars).map_err(|error| self.missing_words(&error))?;
        let given: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let mut all: Map<String, Value> =
            verb.fields.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        all.extend(given);
        Ok(Value::Object(all))
    }

    fn use_verb(&mut self, verb: &str, fields: Value) -> u32 {
        let Some(client) = &mut self.client else { return 0 };
        let number = u32::try_from(client.drives.len()).unwrap_or(u32::MAX);
        client.drives.push(DriveRecord { verb: verb.to_owned(), is_done: false });
        client.gone_since = None;
        self.actions.push_back(RunAction::Drive { drive: number, verb: verb.to_owned(), fields });
        number
    }

    /// Opens a client that opens a session only with a prompt: with the test's next one, or with one of the runner's own.
    fn open_by_prompt(&mut self, table: &AgentTable, since: Since) -> Option<u32> {
        match self.opening(table) {
            Opening::Later => None,
            Opening::Own => Some(self.own_prompt(table)),
            Opening::Early { at, fields } => {
                let number = self.use_verb(&table.first_prompt.verb, fields);
                self.note_early(EarlyDrive { at, number, since });
                Some(number)
            }
        }
    }

    /// A verb that brings a prompt besides: the test's next one, or one that is answered at once.
    fn use_with_prompt(&mut self, verb: &str, fields: &mut Value, table: &AgentTable, since: Since) -> u32 {
        let opening = self.opening(table);
        if let (Opening::Early { fields: prompt, .. }, Value::Object(fields)) = (&opening, &mut *fields) {
            fields.extend(prompt.as_object().cloned().unwrap_or_default());
        }
        let number = self.use_verb(verb, fields.take());
        match (opening, &mut self.client) {
            (Opening::Early { at, .. }, _) => self.note_early(EarlyDrive { at, number, since }),
            (_, Some(client)) => client.first_prompts += 1,
            (_, None) => {}
        }
        number
    }

    fn note_early(&mut self, early: EarlyDrive) {
        let Some(client) = &mut self.client else { return };
        client.early.retain(|known| known.at != early.at);
        client.early.push(early);
    }

    /// Verbs of later steps that are words of the client's command line are used before it starts.
    fn prepare_start(&mut self, table: &AgentTable, since: Since) {
        let can = &self.setup.can;
        let mut later: Vec<(usize, String, Value)> = Vec::new();
        for (at, verb, fields) in self.drives_from(self.at + 1) {
            let Some(known) = table.verbs.get(verb) else { continue };
            if known.opens && known.again {
                break;
            }
            let is_new = !later.iter().any(|(_, other, _)| other == verb);
            if can.prepares.contains(verb)
                && !known.prepares
                && is_new
                && let Ok(fields) = self.drive_fields(known, fields)
            {
                later.push((at, verb.to_owned(), fields));
            }
        }
        for (at, verb, fields) in later {
            let number = self.use_verb(&verb, fields);
            self.note_early(EarlyDrive { at, number, since });
        }
    }

    /// The verb of this step, when it was used before.
    fn take_early(&mut self) -> Option<EarlyDrive> {
        let client = self.client.as_mut()?;
        let place = client.early.iter().position(|early| early.at == self.at)?;
        Some(client.early.remove(place))
    }

    /// Waits for what a verb brings that was used before.
    fn drive_again(&mut self, early: &EarlyDrive, verb: &Verb, wait: DriveWait, until: Duration) {
        self.early_window(early, verb);
        if wait == DriveWait::Nothing {
            return self.client_step_met(None);
        }
        self.await_drive(Driving { until, number: early.number, wait, since: early.since });
    }

    fn own_prompt(&mut self, table: &AgentTable) -> u32 {
        if let Some(client) = &mut self.client {
            client.first_prompts += 1;
        }
        self.use_verb(&table.first_prompt.verb, json!({ "text": table.first_prompt.text }))
    }

    fn opening(&self, table: &AgentTable) -> Opening {
        let mut is_prepared = false;
        for (at, verb, fields) in self.drives_from(self.at + 1) {
            let known = table.verbs.get(verb);
            if verb == table.first_prompt.verb {
                let fields = known.map(|known| self.drive_fields(known, fields));
                return match fields {
                    Some(Ok(_)) if is_prepared => Opening::Later,
                    Some(Ok(fields)) => Opening::Early { at, fields },
                    _ => Opening::Own,
                };
            }
            match known {
                Some(known) if known.prepares => is_prepared = true,
                Some(known) if known.permission.is_some() => {}
                _ => break,
            }
        }
        Opening::Own
    }

    /// The verbs from this place of the order on.
    fn drives_from(&self, at: usize) -> impl Iterator<Item = (usize, &str, &Json)> {
        self.order.iter().enumerate().skip(at).filter_map(|(at, turn)| {
            let StepKind::Client(step) = &self.arena[turn.step].kind else { return None };
            let ClientStep::Drive { verb, fields, .. } = step.as_ref() else { return None };
            Some((at, verb.as_str(), fields))
        })
    }

    /// Whether the verb that follows starts the client.
    fn is_opened_next(&self, table: &AgentTable) -> bool {
        let next = self
            .drives_from(self.at + 1)
            .find(|(_, verb, _)| table.verbs.get(*verb).is_none_or(|known| !known.prepares));
        next.is_some_and(|(_, verb, _)| {
            verb == table.first_prompt.verb || table.verbs.get(verb).is_some_and(|known| known.opens)
        })
    }

    /// Starts the client that a verb has only prepared.
    fn start_client(&mut self, table: &AgentTable) {
        if self.setup.can.opens_by_prompt {
            self.own_prompt(table);
            return;
        }
        let opens =
            table.verbs.iter().find(|(_, verb)| verb.opens && !verb.again).map(|(name, _)| name.clone());
        if let Some(verb) = opens {
            self.use_verb(&verb, json!({}));
        }
    }

    /// The window of a prompt that was sent early begins with its message.
    fn early_window(&mut self, early: &EarlyDrive, verb: &Verb) {
        let Some(index) = self.brought_message(verb, early.since.messages) else { return self.open_window() };
        self.open_window();
        self.wire.window = index;
    }

    fn brought_message(&self, verb: &Verb, from: usize) -> Option<usize> {
        let messages = self.inbox.messages().iter().enumerate().skip(from);
        let mut brought = messages.filter(|(_, message)| message.kind != MessageKind::Response);
        brought
            .find(|(_, message)| message.method.as_ref().is_some_and(|method| verb.brings.contains(method)))
            .map(|(index, _)| index)
    }

    fn brought(&self, driving: &Driving, verb: &Verb, table: &AgentTable) -> Option<Brought> {
        let client = self.client.as_ref()?;
        let since = driving.since;
        if driving.wait == DriveWait::Done {
            return client.drives.get(driving.number as usize)?.is_done.then_some(Brought::Word);
        }
        if let Some(index) = self.brought_message(verb, since.messages) {
            return Some(Brought::Message(index));
        }
        if verb.opens {
            let mut answers = client.answers.iter().skip(since.answers);
            let answer = answers.find(|answer| {
                let opens = table.methods.get(&answer.method).is_some_and(|known| known.opens);
                opens && (!verb.again || answer.launch > since.launch)
            })?;
            // A prompt of the runner's own belongs to it; its turn ends at once.
            let is_whole = client.first_prompts == 0 || !answer.is_result || self.now >= driving.until;
            return is_whole.then(|| Brought::Answer(answer.method.clone()));
        }
        if verb.again {
            let launch = client.launches.keys().find(|launch| **launch > since.launch);
            return launch.copied().map(Brought::Launch);
        }
        let has_ended = client.record.get("running").and_then(Value::as_bool) == Some(false);
        (verb.ends && (has_ended || (!self.is_unlaunched() && self.is_current_closed())))
            .then_some(Brought::End)
    }

    pub(super) fn check_drive(&mut self) -> bool {
        let State::Client(Waiting::Drive(driving)) = &self.state else { return false };
        let Some(client) = &self.client else { return false };
        let table = client.table.clone();
        let name = self.drive_name().to_owned();
        let verb = table.verbs.get(&name).cloned().unwrap_or_default();
        if let Some(brought) = self.brought(driving, &verb, &table) {
            let words = match brought {
                Brought::Message(index) => {
                    self.tally.taken = Some(index);
                    self.found_launch(self.inbox.messages()[index].launch);
                    self.inbox.messages()[index].method.clone()
                }
                Brought::Answer(method) => Some(format!("{method} was answered")),
                Brought::Launch(launch) => {
                    self.found_launch(launch);
                    Some(format!("launch {launch} began"))
                }
                Brought::End => Some("the client ended".to_owned()),
                Brought::Word => None,
            };
            self.client_step_met(words);
            return true;
        }
        if self.now < driving.until && !self.is_gone() {
            return false;
        }
        let wait = driving.wait;
        self.undriven(&name, &verb, wait);
        true
    }

    /// The verb of the step that runs now.
    fn drive_name(&self) -> &str {
        match self.kind() {
            Some(StepKind::Client(step)) => match step.as_ref() {
                ClientStep::Drive { verb, .. } => verb,
                _ => "",
            },
            _ => "",
        }
    }

    /// A verb brought nothing.
    fn undriven(&mut self, name: &str, verb: &Verb, wait: DriveWait) {
        let waited = self.now.saturating_sub(self.step_began).as_millis();
        let reason = if wait == DriveWait::Done {
            format!("the driver did not say within {waited} ms that {name:?} has ended")
        } else {
            let what = match verb {
                Verb { opens: true, again: true, .. } => {
                    "opened no session on a new launch of the agent".to_owned()
                }
                Verb { opens: true, .. } => "opened no session".to_owned(),
                Verb { ends: true, .. } => "did not end".to_owned(),
                Verb { brings, again: true, .. } => {
                    format!("sent no {} and did not start the agent again", brings.join(" or "))
                }
                Verb { brings, .. } => format!("sent no {}", brings.join(" or ")),
            };
            let how = match self.is_gone() {
                true => "; it ended".to_owned(),
                false => format!(" within {waited} ms"),
            };
            format!("the client {what} after the verb {name:?}{how}")
        };
        self.unmet(Unmet::new(BreakKind::Absent, reason));
    }
}
