//! What the exam says about tests.

use acp_comply::{TestOutcome, Verdict};
use acp_rules::{Side, registry};
use serde_json::Value;
use std::collections::BTreeSet;

use super::{ExamChat, Fit};
use crate::chat::questions::questions;

impl ExamChat<'_> {
    /// The first words: who the client says it is, and what the exam can do with it.
    pub(super) fn greeting(&mut self) -> String {
        let client = self.talk.client();
        let info = |name: &str| client["clientInfo"][name].as_str().unwrap_or_default().to_owned();
        let name = if info("name").is_empty() { "client without a name".to_owned() } else { info("name") };
        let stated = stated(&client["clientCapabilities"]);
        let fits = &self.exam.fits;
        let count = |fit: &dyn Fn(&Fit) -> bool| fits.iter().filter(|it| fit(it)).count();
        let applies = count(&|fit| !matches!(fit, Fit::Not(_)));
        let hands = count(&|fit| matches!(fit, Fit::Hand | Fit::Turn));
        let programs = self.exam.settings.programs.iter();
        let claimed: BTreeSet<&str> =
            programs.flat_map(|program| program.claims.iter().map(acp_comply::ClaimId::row)).collect();
        let unseen = registry()
            .all()
            .iter()
            .filter(|row| row.binds == Side::Client && !claimed.contains(row.id.as_str()))
            .count();
        let mut words = format!(
            "Hello {name} {}. You state: {stated}.\n{applies} of {} tests can be run in this chat, {hands} of them need your \
             hand. {unseen} requirements I cannot see; about {} of them I will ask you.\n/run works in a folder of its own in \
             your workspace, runs harmless commands through your terminals if you state them, and removes the folder at the \
             end. Type /run, or /list to see what there is.\n",
            info("version"),
            fits.len(),
            questions().len(),
        );
        let paper = self.paper();
        if paper.earlier > 0 {
            words.push_str(&format!("From an earlier conversation: {}\n", paper.summary()));
        }
        words
    }

    /// The areas, or the tests of one.
    pub(super) fn listing(&mut self, area: &str) -> String {
        let programs = &self.exam.settings.programs;
        let mut words = String::new();
        if area.is_empty() {
            let mut areas: Vec<&str> = Vec::new();
            for program in programs {
                if !areas.contains(&program.area.as_str()) {
                    areas.push(&program.area);
                }
            }
            for area in areas {
                let fits = programs.iter().zip(&self.exam.fits).filter(|(program, _)| program.area == area);
                let fits: Vec<&Fit> = fits.map(|(_, fit)| fit).collect();
                let count = |is: fn(&Fit) -> bool| fits.iter().filter(|fit| is(fit)).count();
                words.push_str(&format!(
                    "- {area}: {} tests, {} by hand, {} end the turn, {} not in a chat\n",
                    fits.len(),
                    count(|fit| *fit == Fit::Hand),
                    count(|fit| *fit == Fit::Turn),
                    count(|fit| matches!(fit, Fit::Not(_))),
                ));
            }
            return words;
        }
        let Ok(tests) = self.choose(area) else {
            return format!("There is no area and no test {area:?}; /list shows the areas.\n");
        };
        for at in tests {
            let (program, fit) = (self.program(at), self.fit(at));
            let how = match fit {
                Fit::Alone => String::new(),
                Fit::Hand => " (needs your hand)".to_owned(),
                Fit::Turn => " (ends the turn: /next)".to_owned(),
                Fit::Not(why) => format!(" (not here: {why})"),
            };
            let verdict = self.paper().outcome(&program.id).map(|outcome| outcome.verdict);
            let mark = verdict.map_or("-".to_owned(), |verdict| mark(verdict).to_owned());
            words.push_str(&format!("{mark} {}: {}{how}\n", program.id, program.title));
        }
        words
    }
}

/// The line about an outcome; good ones are only counted.
pub(super) fn line(outcome: &TestOutcome) -> Option<String> {
    if matches!(outcome.verdict, Verdict::Pass) {
        return None;
    }
    let what = match outcome.requirements.is_empty() {
        true => outcome.id.clone(),
        false => format!("{} ({})", outcome.requirements.join(", "), outcome.id),
    };
    let why = outcome.reason.as_deref().unwrap_or(&outcome.title);
    Some(format!("{} {what}: {why}\n", mark(outcome.verdict)))
}

/// One sign per verdict.
pub(super) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✓",
        Verdict::Fail => "✗",
        Verdict::Warn | Verdict::Partial => "!",
        Verdict::Na => "–",
        Verdict::Error => "?",
    }
}

/// The capabilities that are stated, as paths.
fn stated(capabilities: &Value) -> String {
    let mut paths = Vec::new();
    gather(capabilities, "", &mut paths);
    if paths.is_empty() { "no capabilities".to_owned() } else { paths.join(", ") }
}

fn gather(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members.iter().filter(|(name, _)| *name != "_meta") {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                gather(member, &below, paths);
            }
        }
        Value::Bool(false) | Value::Null => {}
        _ if path.is_empty() => {}
        _ => paths.push(path.to_owned()),
    }
}
