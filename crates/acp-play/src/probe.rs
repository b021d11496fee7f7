//! What an agent declares, and what it can be brought to do.

use std::sync::Arc;

use acp_comply::{Defaults, Observation, Program, Wordings};

use crate::agent::Actor;
use crate::play::{PlayConditions, PlayedProbe, play};

/// The probe of an agent, written as a test.
const PROBE: &str = r#"{"title": "Probe", "description": "Learns what the agent declares.", "severity": "advice",
  "docs": [], "sandbox": {"files": []}, "steps": [{"newSession": {}}, {"delayMs": 60}]}"#;

/// How many wordings of a wish are tried.
const WORDINGS: usize = 2;

/// What this agent declares, and what it can be brought to do.
pub fn probe(actor: &Actor, conditions: &PlayConditions) -> PlayedProbe {
    let reading = Program::read("probe.jsont", PROBE, &Defaults::default());
    let Some(program) = reading.program else { return PlayedProbe::default() };
    let mut probed = play(&Arc::new(program), actor, conditions, None).probed;
    for file in &conditions.calibration {
        calibrate(file, actor, conditions, &mut probed);
    }
    probed
}

/// Plays one calibration file with the first wording of its wishes, and with the second if the first does not work.
fn calibrate(file: &Arc<Program>, actor: &Actor, conditions: &PlayConditions, probed: &mut PlayedProbe) {
    let (names, wishes) = (file.provides(), file.wishes());
    let mut last = None;
    for attempt in 0..WORDINGS {
        let Some(wordings) = reworded(&conditions.wordings, &wishes, attempt) else { break };
        let wording = wishes.first().and_then(|wish| wordings.get(wish)?.first().cloned());
        let played = play(file, actor, &PlayConditions { wordings, ..conditions.clone() }, Some(probed));
        let is_shown = names.first().is_none_or(|main| played.outcome.provided.contains(main));
        last = Some((played, wording));
        if is_shown {
            break;
        }
    }
    let Some((played, wording)) = last else { return };
    for name in names {
        let is_wish = wishes.first() == Some(&name);
        if played.outcome.provided.contains(&name) {
            probed.missing.remove(&name);
            if is_wish || !probed.found.contains_key(&name) {
                let wording = wording.clone().filter(|_| is_wish);
                let found = Observation { wording, how: Some(file.title.clone()), ..Observation::default() };
                probed.found.insert(name, found);
            }
        } else if !probed.found.contains_key(&name) {
            let reason = played.outcome.reason.as_deref().unwrap_or("it did not happen");
            probed.missing.entry(name).or_insert_with(|| reason.to_owned());
        }
    }
}

/// The wordings with the one of this attempt first; `None` when no wish has so many.
fn reworded(wordings: &Wordings, wishes: &[String], attempt: usize) -> Option<Wordings> {
    let mut turned = wordings.clone();
    let mut changed = attempt == 0;
    for wish in wishes {
        if let Some(list) = turned.get_mut(wish).filter(|list| list.len() > attempt) {
            list.swap(0, attempt);
            changed = true;
        }
    }
    changed.then_some(turned)
}
