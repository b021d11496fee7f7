//! What the reference agent says about itself to a person who asks, or who was not understood.

use std::fmt::Write as _;

use acp_script::agent::{Help, SlashCommand};

use crate::provider::SCRIPTED;
use crate::server::AgentServerSettings;

/// Questions that it answers by searching.
const QUESTIONS: [&str; 2] = ["Where is the retry logic?", "How does authentication work?"];
/// Wishes that need nothing.
const WISHES: [&str; 7] = [
    "What files are in this project?",
    "Search for authenticate",
    "Show me the function main",
    "Read README.md",
    "Search for 'TODO'",
    "Query the pattern '$A.unwrap()' in rust",
    "Run the command 'git status'",
];
/// Wishes that need `--allow-edit`.
const EDITS: [&str; 2] = ["Replace 'old' with 'new' in notes.txt", "Write 'hello' to notes.txt"];
/// A wish that needs `--enable-delegate`.
const TASKS: [&str; 1] = ["Delegate the task 'Read README.md'"];
/// A wish that needs `--enable-mcp`.
const SERVERS: [&str; 1] = ["Which MCP tools do you have?"];

/// How to get a real model.
const MODELS: &str = "To talk to a model, start the agent with `--provider anthropic`, `openai`, `google` or \
                      `ollama`, and `--model NAME` if you like: \
                      `acp chat --command \"acp agent --provider anthropic\"`.";

/// The help for an agent with these settings and commands.
pub(crate) fn help(settings: &AgentServerSettings, commands: &[SlashCommand]) -> Help {
    if is_scripted(settings) { without_model(settings, commands) } else { with_model(settings, commands) }
}

fn is_scripted(settings: &AgentServerSettings) -> bool {
    settings.choice.provider.is_empty() || settings.choice.provider == SCRIPTED
}

fn without_model(settings: &AgentServerSettings, commands: &[SlashCommand]) -> Help {
    let mut whole = String::from(
        "I am the reference agent of ACP Workbench. No model is connected: I do what plain requests ask for, and answer \
         questions by searching the code.\n\nQuestions, for example:\n",
    );
    list(&mut whole, &QUESTIONS);
    whole.push_str("\nRequests, for example:\n");
    list(&mut whole, &WISHES);
    for (examples, allowed, flag) in [
        (&EDITS[..], settings.allow_edit, "--allow-edit"),
        (&TASKS, settings.enable_delegate, "--enable-delegate"),
        (&SERVERS, settings.enable_mcp, "--enable-mcp"),
    ] {
        if allowed {
            list(&mut whole, examples);
        } else {
            let _ = writeln!(whole, "- {} (when started with `{flag}`)", examples[0]);
        }
    }
    described(&mut whole, commands);
    let _ = write!(whole, "\n{MODELS}");
    let mut brief = String::from(
        "No model is connected: I do what plain requests ask for, and answer questions by searching the code. For \
         example:\n",
    );
    list(&mut brief, &[QUESTIONS[0], WISHES[0], WISHES[2], WISHES[3]]);
    let more = format!("/help lists more. {MODELS}");
    let _ = write!(brief, "\n{more}");
    Help { whole, brief, more }
}

fn with_model(settings: &AgentServerSettings, commands: &[SlashCommand]) -> Help {
    let provider = &settings.choice.provider;
    let mut whole = format!(
        "I am the reference agent of ACP Workbench, and a model of {provider} does the thinking. It can search, query and \
         extract code, read files and run commands"
    );
    for (words, allowed) in [
        (", change files", settings.allow_edit),
        (", delegate tasks", settings.enable_delegate),
        (", use your MCP servers", settings.enable_mcp),
    ] {
        whole.push_str(if allowed { words } else { "" });
    }
    whole.push_str(". Just say what you want.\n");
    described(&mut whole, commands);
    let brief = "Say what you want; /help lists what needs no model.".to_owned();
    Help { whole, more: brief.clone(), brief }
}

fn list(text: &mut String, examples: &[&str]) {
    for example in examples {
        let _ = writeln!(text, "- {example}");
    }
}

fn described(text: &mut String, commands: &[SlashCommand]) {
    text.push_str("\nCommands:\n");
    for SlashCommand { name, description, hint } in commands {
        let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let _ = writeln!(text, "- /{name}: {description}{hint}");
    }
}

#[cfg(test)]
mod tests {
    use acp_script::wishes;

    use super::{EDITS, SERVERS, TASKS, WISHES};

    #[test]
    fn every_wish_that_it_names_is_one() {
        for example in WISHES.iter().chain(&EDITS).chain(&TASKS).chain(&SERVERS) {
            assert_eq!(wishes::parse(example).len(), 1, "{example}");
        }
    }
}
