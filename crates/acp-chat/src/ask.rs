//! Questions to the person at the terminal.

mod form;

use std::io::Write;

use acp_host::{Ask, Elicited, PermissionChoice, UserAnswer, UserQuestion};
use acp_policy::{PermissionOptionKind, ToolKind};
use acp_text::line as clean;
use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

use super::keys::typed_line;

const BOLD: Style = Style::new().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Puts a question on standard error and answers it with what the person types. Ends without an answer when nobody
/// waits for it any more.
pub async fn put(mut question: UserQuestion, agent: &str) {
    let ask = question.ask.clone();
    let asked = tokio::select! {
        asked = answer(&ask, agent) => asked,
        () = question.stale() => {
            say("(no longer needed)\n");
            return;
        }
    };
    question.answer(asked);
}

async fn answer(ask: &Ask, agent: &str) -> UserAnswer {
    match ask {
        Ask::Permission { title, kind, subjects, options, params } => {
            say(&format!(
                "\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} asks for permission: {} ({})\n",
                clean(agent),
                clean(title),
                clean(&kind.to_string())
            ));
            for subject in subjects {
                say(&format!("  {}\n", clean(subject)));
            }
            if let Some(detail) = details(params, title) {
                say(&format!("  {detail}\n"));
            }
            choose(options, *kind).await
        }
        Ask::Access { method, subject, always, .. } => {
            say(&format!(
                "\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} wants {method} on {}\n",
                clean(agent),
                clean(subject)
            ));
            access(always.as_deref()).await
        }
        Ask::Form { message, schema } => {
            say(&format!("\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} asks: {}\n", clean(agent), clean(message)));
            UserAnswer::Elicited(form::fill(schema).await)
        }
        Ask::Url { message, url } => {
            let host = url
                .split_once("://")
                .map_or(url.as_str(), |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(rest));
            say(&format!(
                "\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} wants you to open a page: {}\n",
                clean(agent),
                clean(message)
            ));
            say(&format!("  host {BOLD}{}{BOLD:#}\n  {}\n", clean(host), clean(url)));
            if host.contains("xn--") || !host.is_ascii() {
                say("  careful: the host's name is not plain ASCII and may imitate another\n");
            }
            let agreed = yes("  will you open it yourself? [y/N] ").await;
            UserAnswer::Elicited(if agreed { Elicited::Accept(Map::new()) } else { Elicited::Decline })
        }
    }
}

/// The agent's own options, chosen by number or by a word's beginning.
async fn choose(options: &[PermissionChoice], of: ToolKind) -> UserAnswer {
    let shown = options.iter().map(|option| (clean(&option.name), meaning(option.kind, of), option.kind));
    match menu(&shown.collect::<Vec<_>>()).await {
        Some(index) => UserAnswer::Option(options[index].id.clone()),
        None => UserAnswer::Cancelled,
    }
}

/// What the client itself would do for the agent, which did not ask.
async fn access(always: Option<&str>) -> UserAnswer {
    let mut shown = vec![("Allow once".to_owned(), "", Some(PermissionOptionKind::AllowOnce))];
    if let Some(always) = always {
        let words = format!("Allow {} in this session", clean(always));
        shown.push((words, "", Some(PermissionOptionKind::AllowAlways)));
    }
    shown.push(("Reject".to_owned(), "", Some(PermissionOptionKind::RejectOnce)));
    match menu(&shown).await.and_then(|index| shown[index].2) {
        Some(PermissionOptionKind::AllowOnce) => UserAnswer::Yes,
        Some(PermissionOptionKind::AllowAlways) => UserAnswer::Always,
        _ => UserAnswer::No,
    }
}

/// A choice: its name, a remark, and its kind.
type Choice = (String, &'static str, Option<PermissionOptionKind>);

/// Lists the choices and asks until one of them is named; nothing when the input ends.
async fn menu(choices: &[Choice]) -> Option<usize> {
    if choices.is_empty() {
        return None;
    }
    for (index, (name, remark, _)) in choices.iter().enumerate() {
        say(format!("  {}) {name} {remark}", index + 1).trim_end());
        say("\n");
    }
    loop {
        say("  which? ");
        let line = typed_line().await?;
        match pick(line.trim(), choices) {
            Some(index) => return Some(index),
            None => say(&format!("  please type {}\n", answers(choices))),
        }
    }
}

/// The words that stand for a kind of choice, the short one first.
const WORDS: [(PermissionOptionKind, [&str; 2]); 3] = [
    (PermissionOptionKind::AllowOnce, ["y", "yes"]),
    (PermissionOptionKind::AllowAlways, ["a", "always"]),
    (PermissionOptionKind::RejectOnce, ["n", "no"]),
];

fn pick(word: &str, choices: &[Choice]) -> Option<usize> {
    if let Ok(number) = word.parse::<usize>() {
        return number.checked_sub(1).filter(|index| *index < choices.len());
    }
    let word = word.to_lowercase();
    let (kind, _) = WORDS.iter().find(|(_, words)| words.contains(&word.as_str()))?;
    choices.iter().position(|(_, _, known)| known.as_ref() == Some(kind))
}

/// What can be typed, in words.
fn answers(choices: &[Choice]) -> String {
    let is_there =
        |kind: &PermissionOptionKind| choices.iter().any(|(_, _, known)| known.as_ref() == Some(kind));
    let known = WORDS.iter().filter(|(kind, _)| is_there(kind)).map(|(_, words)| words[0]);
    let letters: Vec<&str> = known.collect();
    let number = match choices.len() {
        1 => "1".to_owned(),
        last => format!("a number from 1 to {last}"),
    };
    match letters.split_last() {
        None => number,
        Some((last, [])) => format!("{number}, or {last}"),
        Some((last, others)) => format!("{number}, or {} or {last}", others.join(", ")),
    }
}

/// What an option means. The agent remembers "always" as it likes; the client goes by what it showed.
fn meaning(kind: Option<PermissionOptionKind>, of: ToolKind) -> &'static str {
    match kind {
        Some(PermissionOptionKind::AllowOnce) => "(allow once)",
        Some(PermissionOptionKind::AllowAlways) => match of {
            ToolKind::Edit => "(allow always; acp itself asks again about other files)",
            ToolKind::Execute => "(allow always; acp itself asks again about other commands)",
            _ => "(allow always)",
        },
        Some(PermissionOptionKind::RejectOnce) => "(reject once)",
        Some(PermissionOptionKind::RejectAlways) => "(reject always)",
        None => "",
    }
}

/// What else the request shows of the call: where it would fetch from.
fn details(params: &Value, title: &str) -> Option<String> {
    let url = params["toolCall"]["rawInput"]["url"].as_str()?;
    (!title.contains(url)).then(|| format!("url: {}", clean(url)))
}

/// Asks until the answer is one; no answer, and the end of the input, are a no.
async fn yes(question: &str) -> bool {
    loop {
        say(question);
        let Some(line) = typed_line().await else { return false };
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" | "" => return false,
            _ => say("  please type y or n\n"),
        }
    }
}

fn say(text: &str) {
    let mut err = anstream::stderr();
    let _ = write!(err, "{text}");
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_picked_by_number_or_word() {
        let option = |name: &str, kind| (name.to_owned(), "", Some(kind));
        let mut options = vec![
            option("go", PermissionOptionKind::AllowOnce),
            option("stop", PermissionOptionKind::RejectOnce),
        ];
        let picked = |word| pick(word, &options);
        assert_eq!(
            (picked("1"), picked("2"), picked("Y"), picked("no")),
            (Some(0), Some(1), Some(0), Some(1))
        );
        assert_eq!((picked("0"), picked("3"), picked("a"), picked("")), (None, None, None, None));
        assert_eq!(answers(&options), "a number from 1 to 2, or y or n");
        options.push(option("ever", PermissionOptionKind::AllowAlways));
        assert_eq!((pick("a", &options), pick("always", &options)), (Some(2), Some(2)));
        assert_eq!(answers(&options), "a number from 1 to 3, or y, a or n");
    }
}
