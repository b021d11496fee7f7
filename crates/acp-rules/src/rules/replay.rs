//! A replay against what was live on the same connection.
//!
//! What may differ: where messages are split into chunks, white space, thoughts, plans, and everything that is no
//! history (titles, usage, commands, modes, notices).

use crate::rule::Rule;
use crate::said::{Part, Said, Voice, What, squeezed};

/// Shorter words say little.
const WORD: usize = 3;
/// So many words of a message are looked for.
const WORDS: usize = 64;
/// Shorter messages may come again by chance.
const LONG: usize = 8;

/// What a replay lacks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) rule: Rule,
    /// `SES-03`, or one of its clauses.
    pub(crate) claim: &'static str,
    pub(crate) message: String,
}

impl Lack {
    fn lost(message: String) -> Self {
        Self { rule: Rule::LoadWithoutReplay, claim: "SES-03", message }
    }

    fn differs(claim: &'static str, message: String) -> Self {
        Self { rule: Rule::ReplayDiffers, claim, message }
    }
}

/// What the replay lacks of the conversation. `whole` = all of the session was live here, and none of it was left out of
/// `live`.
pub(crate) fn lacks(live: &Said, replay: &Said, whole: bool) -> Vec<Lack> {
    let user = replay.joined(Voice::User);
    let agent = replay.joined(Voice::Agent);
    for (voice, word, heard) in [(Voice::User, "user", &user), (Voice::Agent, "agent", &agent)] {
        if heard.is_empty() && !live.joined(voice).is_empty() {
            let message = format!(
                "session/load was answered without any {word}_message_chunk, although there were turns"
            );
            return vec![Lack::lost(message)];
        }
    }
    if live.cut || replay.cut {
        return Vec::new();
    }
    let mut out = Vec::new();
    for turn in turns(live) {
        of_user(turn, &user, &mut out);
        of_agent(turn, &agent, &mut out);
    }
    let (had, has) = (live.tools(), replay.tools());
    if has < had {
        let message = format!("the replay has {has} tool calls, and there were {had}");
        out.push(Lack::differs("SES-03/tools", message));
    }
    if out.is_empty() {
        out.extend(misplaced(live, replay));
        out.extend(repeated(live, replay).filter(|_| whole));
    }
    out
}

/// The parts of each turn.
fn turns(said: &Said) -> impl Iterator<Item = &[Part]> {
    said.parts().chunk_by(|a, b| a.turn == b.turn)
}

fn of_user(turn: &[Part], heard: &str, out: &mut Vec<Lack>) {
    for part in turn {
        let What::User(text) = &part.what else { continue };
        if heard.contains(&squeezed(text)) {
            continue;
        }
        let (found, all) = found(text, heard);
        out.push(match found * 2 < all || all == 0 {
            true => Lack::lost(format!("the replay leaves out what the user said: {:?}", head(text))),
            false => Lack::differs(
                "SES-03/words",
                format!("the user said {:?}, the replay says it otherwise", head(text)),
            ),
        });
    }
}

fn of_agent(turn: &[Part], heard: &str, out: &mut Vec<Lack>) {
    let texts = || {
        turn.iter().filter_map(|part| match &part.what {
            What::Agent(text) => Some(text.as_str()),
            _ => None,
        })
    };
    let Some(missing) = texts().find(|text| !heard.contains(&squeezed(text))) else { return };
    // short words prove nothing
    let lost = texts().all(|text| matches!(found(text, heard), (0, all) if all > 0));
    out.push(match lost {
        true => Lack::lost(format!("the replay leaves out what the agent said: {:?}", head(missing))),
        false => Lack::differs(
            "SES-03/words",
            format!("the agent said {:?}, the replay does not have that", head(missing)),
        ),
    });
}

/// How many words of a text are there, and how many it has.
fn found(text: &str, heard: &str) -> (usize, usize) {
    let trimmed = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let words: Vec<&str> = trimmed.filter(|word| word.chars().count() >= WORD).take(WORDS).collect();
    (words.iter().filter(|word| heard.contains(**word)).count(), words.len())
}

/// Messages that are all there, in another order.
fn misplaced(live: &Said, replay: &Said) -> Option<Lack> {
    let heard: Vec<(bool, String)> = replay
        .parts()
        .iter()
        .filter_map(|part| match &part.what {
            What::User(text) => Some((true, squeezed(text))),
            What::Agent(text) => Some((false, squeezed(text))),
            What::Tool(_) => None,
        })
        .collect();
    let mut last: Option<usize> = None;
    let mut places: Vec<(usize, String)> = Vec::new();
    for turn in turns(live) {
        let mut own = String::new();
        let mut place = None;
        for part in turn {
            match &part.what {
                What::User(text) => {
                    let text = squeezed(text);
                    let from = place.or(last.map(|last| last + 1)).unwrap_or(0);
                    let find = |from: usize| {
                        (from..heard.len()).find(|at| heard[*at].0 && heard[*at].1.contains(&text))
                    };
                    let Some(at) = find(from).or_else(|| last.and_then(find)) else {
                        return Some(out_of_order("user", &text));
                    };
                    place = Some(at);
                }
                What::Agent(text) => own.push_str(text),
                What::Tool(_) => {}
            }
        }
        let place = place?;
        last = Some(place);
        places.push((place, squeezed(&own)));
    }
    for (number, (place, own)) in places.iter().enumerate() {
        let end = places.get(number + 1).map_or(heard.len(), |(next, _)| *next);
        let between: String =
            heard.get(*place..end)?.iter().filter(|(user, _)| !user).map(|(_, text)| text.as_str()).collect();
        // two messages of the user in one piece leave nothing between them
        if *place < end && !between.contains(own.as_str()) {
            return Some(out_of_order("agent", own));
        }
    }
    None
}

fn out_of_order(who: &str, text: &str) -> Lack {
    let message = format!("the replay has what the {who} said in another place: {:?}", head(text));
    Lack::differs("SES-03/order", message)
}

/// A prompt that is replayed more often than it was sent.
fn repeated(live: &Said, replay: &Said) -> Option<Lack> {
    let count = |said: &Said, wanted: &str| {
        let texts = said.parts().iter().filter_map(|part| match &part.what {
            What::User(text) => Some(squeezed(text)),
            _ => None,
        });
        texts.map(|text| text.matches(wanted).count()).sum::<usize>()
    };
    let mut texts = live.parts().iter().filter_map(|part| match &part.what {
        What::User(text) => Some(text),
        _ => None,
    });
    let text = texts.find(|text| {
        let wanted = squeezed(text);
        wanted.len() >= LONG && count(replay, &wanted) > count(live, &wanted)
    })?;
    let message = format!("the replay says more often than the user did: {:?}", head(text));
    Some(Lack::differs("SES-03/words", message))
}

/// The beginning of a text, for people.
fn head(text: &str) -> String {
    let mut out: String = text.chars().take(40).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
