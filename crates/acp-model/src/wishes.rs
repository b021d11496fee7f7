//! The default script: plain wishes of the person, turned into calls and words.

use std::time::Duration;

use acp_script::wishes::{Intent, parse};
use serde_json::{Map, Value};

use crate::exchange::{ModelExchange, PersonMessage};
use crate::script::RuleAction;
use crate::talk::{ModelRequest, ModelStop};
use crate::tools::is_mcp;
use crate::wanted::WantedTool;

/// How much of a tool's result is repeated in an answer.
const REPEATED: usize = 4000;

/// The replies that the person's wishes ask for, one per round of calls; the person's words they came from.
pub(crate) fn segments(
    exchange: &ModelExchange,
    request: &ModelRequest,
) -> (Vec<Vec<RuleAction>>, PersonMessage) {
    let with_wish = exchange.said.iter().rev().find_map(|said| {
        let intents = parse(&said.text);
        (!intents.is_empty()).then(|| (intents, said.clone()))
    });
    let Some((intents, said)) = with_wish else {
        let said = exchange.last_said().cloned().unwrap_or_default();
        return (vec![vec![text(plain_answer(&said.text))]], said);
    };
    let mut segments = vec![Vec::new()];
    for intent in intents {
        let actions = actions(&intent, exchange, request, &said);
        let calls = actions.iter().any(|action| matches!(action, RuleAction::Call(_)));
        if let Some(last) = segments.last_mut() {
            last.extend(actions);
        }
        if calls {
            segments.push(Vec::new());
        }
    }
    if let Some(last) = segments.last_mut().filter(|last| last.is_empty()) {
        last.push(text(found(exchange)));
    }
    (segments, said)
}

fn text(words: impl Into<String>) -> RuleAction {
    RuleAction::Text(words.into(), None)
}

fn call(wanted: WantedTool) -> Vec<RuleAction> {
    vec![RuleAction::Call(vec![wanted])]
}

fn actions(
    intent: &Intent,
    exchange: &ModelExchange,
    request: &ModelRequest,
    said: &PersonMessage,
) -> Vec<RuleAction> {
    match intent.clone() {
        Intent::Read { path, line, limit } => call(WantedTool::Read { path, line, limit }),
        Intent::ReadLink => match linked(&said.text) {
            Some(path) => call(WantedTool::Read { path, line: None, limit: None }),
            None => vec![text("I see no link to a file in your message.")],
        },
        Intent::Write { path, text } => call(WantedTool::Write { path, text }),
        Intent::Edit { path, old, new } => call(WantedTool::Edit { path, old, new }),
        Intent::Append { path, text } => call(WantedTool::Append { path, text }),
        Intent::Run { command, .. } => call(WantedTool::Run { command }),
        Intent::Search { text, path } => call(WantedTool::Search { text, path }),
        Intent::Find(text) => call(WantedTool::Search { text, path: None }),
        Intent::Show { symbol, path } => call(WantedTool::Search { text: symbol, path }),
        Intent::Files { path, .. } => {
            let command = path.map_or_else(|| "ls".to_owned(), |path| format!("ls -- {path}"));
            call(WantedTool::Run { command })
        }
        Intent::Plan { steps, topic } => call(WantedTool::Plan { steps: plan(steps, topic.as_deref()) }),
        Intent::Mcp { server, tool, arguments } => {
            let args = arguments.and_then(|json| serde_json::from_str::<Map<String, Value>>(&json).ok());
            call(WantedTool::Mcp { server, tool, args: args.unwrap_or_default() })
        }
        Intent::McpList => vec![text(mcp_list(request))],
        Intent::Permission => call(WantedTool::Run { command: "touch permission-asked".to_owned() }),
        Intent::ToolFailure => call(WantedTool::Run { command: "exit 7".to_owned() }),
        Intent::Think(time) => think(time.unwrap_or(Duration::from_millis(2500))),
        Intent::Count(to) => {
            let numbers: Vec<_> = (1..=to).map(|n| n.to_string()).collect();
            vec![RuleAction::Text(numbers.join(" "), Some(Duration::from_millis(100) * to))]
        }
        Intent::Wait(time) => vec![RuleAction::Wait(time), text("I waited.")],
        Intent::Parts(parts) => {
            let parts: Vec<_> = (1..=parts).map(|n| format!("This is part {n} of {parts}.")).collect();
            vec![text(parts.join("\n\n"))]
        }
        Intent::Say(words) => vec![RuleAction::Whole(words)],
        Intent::Remember(word) => vec![text(format!("I will remember {word}."))],
        Intent::Recall => vec![text(recall(request))],
        Intent::WhereAmI => {
            let told = exchange.cwd.as_deref().map(|cwd| format!("I work in {cwd}."));
            vec![text(told.unwrap_or_else(|| "Nobody told me where I work.".to_owned()))]
        }
        Intent::Refuse => vec![text("I will not do that."), RuleAction::Stop(ModelStop::Refusal)],
        Intent::MaxTokens => vec![text("I am running out of"), RuleAction::Stop(ModelStop::Length)],
        Intent::Fail(code) => vec![RuleAction::Error {
            status: 400,
            kind: None,
            message: format!("failed as wished (code {})", code.unwrap_or(-32603)),
            retry_after: None,
        }],
        Intent::ElicitForm(what) if !is_secret(what.as_deref()) => call(question(what.as_deref())),
        other => vec![RuleAction::Beyond(wish_name(&other))],
    }
}

/// A form must never ask for a secret, and a model that keeps to that does not, either.
fn is_secret(what: Option<&str>) -> bool {
    let what = what.unwrap_or_default().to_lowercase();
    let secrets = ["password", "token", "secret", "api key", "credential", "passphrase"];
    secrets.iter().any(|word| what.contains(word))
}

fn question(what: Option<&str>) -> WantedTool {
    let what = what.unwrap_or("answer");
    let topic = what.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    WantedTool::Ask { question: format!("What is your {what}?"), topic: topic.collect() }
}

/// The wish in a word: the name of its variant.
fn wish_name(intent: &Intent) -> String {
    let words = format!("{intent:?}");
    words.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn think(time: Duration) -> Vec<RuleAction> {
    let beats = (time.as_millis() / 100).clamp(10, 600);
    let words: Vec<_> = (1..=beats).map(|n| format!("thought {n},")).collect();
    let words = format!("Let me see: {} and that is all.", words.join(" "));
    vec![
        RuleAction::Think("I should take my time over this.".to_owned(), None),
        RuleAction::Text(words, Some(time)),
    ]
}

fn plan(steps: Option<u32>, topic: Option<&str>) -> Vec<String> {
    let topic = topic.unwrap_or("the task");
    let verbs = ["Look at", "Prepare", "Carry out", "Check"];
    let count = steps.unwrap_or(3).clamp(1, 50);
    (0..count)
        .map(|n| format!("{} {topic} ({} of {count})", verbs[n as usize % verbs.len()], n + 1))
        .collect()
}

fn found(exchange: &ModelExchange) -> String {
    let texts = exchange.results.iter().map(|result| result.text.trim()).filter(|text| !text.is_empty());
    let all = texts.collect::<Vec<_>>().join("\n");
    if all.is_empty() {
        return "It is done.".to_owned();
    }
    let cut = all.char_indices().nth(REPEATED).map_or(all.len(), |(at, _)| at);
    format!("It is done. This came back:\n{}", &all[..cut])
}

fn mcp_list(request: &ModelRequest) -> String {
    let names: Vec<_> =
        request.tools.iter().filter(|tool| is_mcp(tool)).map(|tool| tool.name.as_str()).collect();
    if names.is_empty() {
        "I have no MCP tools.".to_owned()
    } else {
        format!("My MCP tools: {}.", names.join(", "))
    }
}

/// What the person asked to remember, in any turn before.
fn recall(request: &ModelRequest) -> String {
    let mut word = None;
    for (_, said) in request.user_texts() {
        for intent in parse(&said) {
            if let Intent::Remember(kept) = intent {
                word = Some(kept);
            }
        }
    }
    word.map_or_else(|| "I was not asked to remember anything.".to_owned(), |word| format!("It is {word}."))
}

fn linked(said: &str) -> Option<String> {
    let at = said.find("file://")? + "file://".len();
    let end = said[at..].find([')', ']', '>', '"', '\'', ' ', '\n', '`']).map_or(said.len(), |end| at + end);
    let path = said[at..end].replace("%20", " ");
    path.starts_with('/').then_some(path)
}

fn plain_answer(said: &str) -> String {
    let head: String = said.trim().chars().take(200).collect();
    format!("This is the scripted model. You said: {head}")
}
