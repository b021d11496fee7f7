//! What is said to a prompt that holds no wish, and what an agent says about itself.

use serde_json::Value;

use super::plan::{Planner, place, title};
use super::step::{Stream, Voice};
use crate::wishes;

impl Planner<'_> {
    /// The answer to a prompt that holds no wish: what would be one, or for an agent without help, an echo.
    pub(super) fn plain_answer(&self, text: &str) -> Stream {
        if let Some(chunks) = self.cx.config.pace.chunks {
            return Stream::words(chunks, self.cx.config.pace.chunk_size.unwrap_or(0));
        }
        let persona = &self.cx.config.persona;
        let (text, myself) = (text.trim(), &persona.myself);
        let mut answer = match &persona.help {
            Some(help) if is_greeting(text) => format!("Hello. I am {myself}. {}", help.brief),
            Some(help) if is_about_me(text) => format!("I am {myself}. {}", help.brief),
            Some(help) if text.is_empty() => format!("There were no words in that. {}", help.brief),
            Some(help) => match unable(text) {
                Some((what, example)) => format!("{what} For example:\n- {example}\n\n{}", help.more),
                None => format!("I do not know what to do with that. {}", help.brief),
            },
            None if text.is_empty() => format!("I am {myself} and heard no words."),
            None => format!("I am {myself} and heard you say: {text}"),
        };
        let others: Vec<String> = self.blocks.iter().filter_map(describe).collect();
        if !others.is_empty() {
            answer.push_str(&format!("\nYou also sent {}.", others.join(", ")));
        }
        // Even a short answer comes in two chunks.
        let size = self.cx.config.pace.chunk_size.unwrap_or((answer.len() / 2).min(40));
        Stream::text(Voice::Agent, answer, Some(size))
    }

    /// What it understands: its own words about that, or an example of every wish.
    pub(super) fn help(&self) -> String {
        if let Some(help) = &self.cx.config.persona.help {
            return help.whole.clone();
        }
        let examples: Vec<String> = wishes::TABLE
            .iter()
            .filter_map(|wish| Some(format!("- {}: \"{}\"\n", wish.name, wish.examples.first()?)))
            .collect();
        format!("I understand plain requests, for instance:\n{}", examples.concat())
    }

    /// Where a session works, and how.
    pub(super) fn status(&self) -> String {
        let record = &self.session.record;
        let model = self.session.option(self.cx, "model");
        let model = model.as_ref().and_then(Value::as_str).unwrap_or("none");
        format!(
            "{} Mode: {}. Model: {model}. {} of {} tokens used.",
            place(self.session),
            record.mode,
            record.used,
            self.cx.config.persona.context
        )
    }
}

/// What only a model can do, by words that ask for it: what is possible instead, and an example of that.
const BEYOND: [(&[&str], &str, &str); 5] = [
    (
        &["test", "tests", "build", "compile", "lint", "format", "install", "deploy", "start", "launch"],
        "Without a model I do not know which command that is. Tell me, and I run it.",
        "Run the command 'make test'",
    ),
    (
        &["commit", "push", "pull", "merge", "rebase", "branch", "git"],
        "Without a model I use git only as you tell me.",
        "Run the command 'git status'",
    ),
    (
        &["delete", "remove", "rename", "move", "copy"],
        "Without a model I do that only with a command that you name.",
        "Run the command 'mv old.txt new.txt'",
    ),
    (
        &["translate", "summarize", "summarise", "review", "compare", "why"],
        "Without a model I can show code, but not judge it.",
        "Show me the function main",
    ),
    (
        &[
            "fix",
            "refactor",
            "implement",
            "improve",
            "rewrite",
            "optimize",
            "optimise",
            "debug",
            "solve",
            "add",
            "create",
            "write",
            "generate",
            "change",
            "update",
            "convert",
            "make",
            "extend",
            "simplify",
            "clean",
        ],
        "Without a model I cannot write code, but I can make a change that you spell out.",
        "Replace 'old' with 'new' in notes.txt",
    ),
];

/// What to say to a wish that needs a model.
fn unable(text: &str) -> Option<(&'static str, &'static str)> {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    // What is asked for stands at the beginning: "please fix…", "can you add…".
    let asked = words.iter().take(4);
    let found = asked.filter_map(|word| BEYOND.iter().find(|(verbs, ..)| verbs.contains(&word.as_str())));
    let (_, what, example) = found.into_iter().next()?;
    Some((*what, *example))
}

const GREETINGS: [&str; 5] = ["hello", "hi", "hey", "greetings", "moin"];

fn is_greeting(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.len() <= 4 && words.first().is_some_and(|word| GREETINGS.contains(&word.as_str()))
}

/// The text without a greeting that something follows: "Hello, where is the parser?"
fn without_greeting(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let rest = text[end..].trim_start_matches(|c: char| !c.is_alphanumeric());
    let greets = GREETINGS.contains(&text[..end].to_lowercase().as_str());
    if greets && !rest.is_empty() { rest } else { text }
}

/// A question without a word that could stand in code: "What can you do?", "help".
fn is_about_me(text: &str) -> bool {
    let text = text.to_lowercase();
    (text.ends_with('?') && text.contains("you")) || text == "help" || text.starts_with("help ")
}

/// The words of a question about code that are worth looking for.
pub(super) fn about_code(text: &str) -> Option<String> {
    const ASKING: &str = " how what where why which who when whose does do is are was were can could should explain \
                          describe show find locate list look tell ";
    const COMMON: &str = " a an the this that these those it its i me my we us our you your he she they there here \
                          in on at of to for from by with about into and or not no be been being has have had did \
                          will would please code codebase project repository repo work works working happen happens \
                          implemented implement defined define handled handle located used use uses using made make \
                          makes done doing get gets help file files function functions method methods class classes \
                          s t re ll d ";
    if is_greeting(text) {
        return None;
    }
    let text = without_greeting(text.trim());
    let among = |list: &str, word: &str| list.contains(&format!(" {} ", word.to_lowercase()));
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    if !text.ends_with('?') && !words.first().is_some_and(|first| among(ASKING, first)) {
        return None;
    }
    let worth: Vec<&str> =
        words.into_iter().filter(|word| !among(ASKING, word) && !among(COMMON, word)).collect();
    (!worth.is_empty()).then(|| worth.join(" "))
}

/// What a block is, in words; nothing for plain text.
fn describe(block: &Value) -> Option<String> {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "image" => Some(format!("an image ({}, {} base64 characters)", text("mimeType"), text("data").len())),
        "audio" => Some(format!("a sound ({}, {} base64 characters)", text("mimeType"), text("data").len())),
        "resource_link" => Some(format!("a link to {} ({})", text("name"), text("uri"))),
        "resource" => {
            let resource = &block["resource"];
            let uri = resource["uri"].as_str().unwrap_or_default();
            match resource.get("text").and_then(Value::as_str) {
                Some(text) => Some(format!("the resource {uri}, which says {:?}", title(text))),
                None => Some(format!("the binary resource {uri}")),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{BEYOND, about_code, unable};
    use crate::wishes;

    #[test]
    fn a_question_is_looked_up_by_the_words_that_say_something() {
        for (question, words) in [
            ("where is the retry logic?", "retry logic"),
            ("How does authentication work in this codebase?", "authentication"),
            ("explain parseConfig", "parseConfig"),
            ("Hello, where is the config file parsed?", "config parsed"),
            ("explain hello", "hello"),
            ("What happens when the disk is full", "disk full"),
        ] {
            assert_eq!(about_code(question).as_deref(), Some(words), "{question}");
        }
    }

    #[test]
    fn what_needs_a_model_is_answered_with_something_that_works_without() {
        for (wish, example) in [
            ("fix the bug in net.rs", "Replace 'old' with 'new' in notes.txt"),
            ("please run the tests", "Run the command 'make test'"),
            ("Can you commit this", "Run the command 'git status'"),
            ("Rename foo to bar everywhere", "Run the command 'mv old.txt new.txt'"),
        ] {
            assert_eq!(unable(wish).map(|(_, example)| example), Some(example), "{wish}");
        }
        assert_eq!(unable("the weather is fine today"), None);
        for (_, _, example) in BEYOND {
            assert_eq!(wishes::parse(example).len(), 1, "{example}");
        }
    }

    #[test]
    fn what_is_no_question_about_code_is_not_looked_up() {
        for text in [
            "hi",
            "What can you do?",
            "hello, what can you do?",
            "who are you?",
            "fix the bug in net.rs",
            "",
            "Say hello.",
        ] {
            assert_eq!(about_code(text), None, "{text}");
        }
    }
}
