//! Questions to the person at the terminal.

mod form;

use std::io::Write;

use acp_host::{Ask, Asked, Elicited, PermissionChoice, Question};
use acp_policy::PermissionOptionKind;
use acp_text::line as clean;
use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

use super::keys::typed_line;

const BOLD: Style = Style::new().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Puts a question on standard error and answers it with what the person types. Ends without an answer when nobody
/// waits for it any more.
pub async fn put(mut question: Question, agent: &str) {
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

async fn answer(ask: &Ask, agent: &str) -> Asked {
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
            choose(options).await
        }
        Ask::Access { method, subject, .. } => {
            say(&format!(
                "\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} wants {method} on {}\n",
                clean(agent),
                clean(subject)
            ));
            if yes("  allow it? [y/N] ").await { Asked::Yes } else { Asked::No }
        }
        Ask::Form { message, schema } => {
            say(&format!("\n{WARN}?{WARN:#} {BOLD}{}{BOLD:#} asks: {}\n", clean(agent), clean(message)));
            Asked::Elicited(form::fill(schema).await)
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
            Asked::Elicited(if agreed { Elicited::Accept(Map::new()) } else { Elicited::Decline })
        }
    }
}

/// The agent's own options, chosen by number or by a word's beginning.
async fn choose(options: &[PermissionChoice]) -> Asked {
    if options.is_empty() {
        return Asked::Cancelled;
    }
    for (index, option) in options.iter().enumerate() {
        say(&format!("  {}) {} {}\n", index + 1, clean(&option.name), meaning(option.kind)));
    }
    loop {
        say("  which? ");
        let Some(line) = typed_line().await else { return Asked::Cancelled };
        match pick(line.trim(), options) {
            Some(option) => return Asked::Option(option.id.clone()),
            None => say(&format!("  please type a number from 1 to {}, or y or n\n", options.len())),
        }
    }
}

fn pick<'a>(word: &str, options: &'a [PermissionChoice]) -> Option<&'a PermissionChoice> {
    if let Ok(number) = word.parse::<usize>() {
        return options.get(number.checked_sub(1)?);
    }
    let of_kind = |kind: PermissionOptionKind| options.iter().find(|option| option.kind == Some(kind));
    match word.to_lowercase().as_str() {
        "y" | "yes" => of_kind(PermissionOptionKind::AllowOnce),
        "n" | "no" => of_kind(PermissionOptionKind::RejectOnce),
        "a" | "always" => of_kind(PermissionOptionKind::AllowAlways),
        _ => None,
    }
}

fn meaning(kind: Option<PermissionOptionKind>) -> &'static str {
    match kind {
        Some(PermissionOptionKind::AllowOnce) => "(allow once)",
        Some(PermissionOptionKind::AllowAlways) => "(allow always)",
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

async fn yes(question: &str) -> bool {
    say(question);
    typed_line().await.is_some_and(|line| matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
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
        let option =
            |id: &str, kind| PermissionChoice { id: id.to_owned(), name: id.to_owned(), kind: Some(kind) };
        let options =
            [option("go", PermissionOptionKind::AllowOnce), option("stop", PermissionOptionKind::RejectOnce)];
        let picked = |word| pick(word, &options).map(|option| option.id.as_str());
        assert_eq!(
            (picked("1"), picked("2"), picked("Y"), picked("no")),
            (Some("go"), Some("stop"), Some("go"), Some("stop"))
        );
        assert_eq!((picked("0"), picked("3"), picked("a"), picked("")), (None, None, None, None));
    }
}
