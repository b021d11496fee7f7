//! What the exam asks of the person, as sentences.

use std::time::Duration;

use acp_comply::Program;
use acp_comply::program::PermissionHabit;
use acp_proto::{method, stop_reason};
use serde_json::{Value, json};

use super::talk::{Heard, Talk};

/// The words of a prompt.
pub(super) fn words(heard: &Heard) -> String {
    let blocks = heard.params()["prompt"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

/// Answers a prompt.
pub(super) fn end_turn(talk: &mut Talk, id: &Value, is_cancelled: bool) {
    let reason = if is_cancelled { stop_reason::CANCELLED } else { stop_reason::END_TURN };
    talk.answer(id, &json!({ "stopReason": reason }));
}

/// What the person is to do for a verb.
pub(super) fn sentence(verb: &str, fields: &Value, patience: Duration) -> String {
    let value = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    let seconds = patience.as_secs();
    match verb {
        "cancel" => format!("Press your editor's *stop* now, and answer nothing ({seconds} s).\n"),
        "mode" => format!("Switch the mode to *{}* now ({seconds} s).\n", value("mode")),
        "option" => {
            format!("Set the option *{}* to *{}* now ({seconds} s).\n", value("option"), value("value"))
        }
        "list" => format!("Open your editor's list of sessions now ({seconds} s).\n"),
        "answer" => match PermissionHabit::of(&value("with")) {
            Some(habit) => habit_sentence(habit),
            None => String::new(),
        },
        _ => String::new(),
    }
}

fn habit_sentence(habit: PermissionHabit) -> String {
    match habit {
        PermissionHabit::Allow => "I will ask: choose *allow*.\n",
        PermissionHabit::Reject => "I will ask: choose *reject*.\n",
        PermissionHabit::Leave => "I will ask: leave the question open.\n",
    }
    .to_owned()
}

/// What the person has to know before a test that asks.
pub(super) fn before(program: &Program, source: &str) -> Option<String> {
    let asks = |name: &str| source.contains(&format!("\"{name}\""));
    if asks(method::SESSION_REQUEST_PERMISSION) {
        return program.client.as_ref().map(|test| habit_sentence(test.permission));
    }
    asks(method::ELICITATION_CREATE).then(|| format!("A form or a page follows: {}.\n", program.title))
}

/// What the person has to know before a test that ends the turn.
pub(super) fn before_turn(source: &str, patience: Duration) -> String {
    let mut words = "This test ends the turn.".to_owned();
    if source.matches("\"verb\": \"prompt\"").count() > 1 {
        words.push_str(&format!(" Then send one more prompt, any words ({} s).", patience.as_secs()));
    }
    words.push('\n');
    words
}
