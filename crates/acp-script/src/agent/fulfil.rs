//! What is done about each wish of a prompt.

use std::time::Duration;

use acp_proto::{StopReason, error_code, update};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::habits::Feature;
use super::job::{Change, Job, Old};
use super::offers;
use super::plan::{Planner, SLOW, drafted, place, prompt_text};
use super::step::{Step, Stream, Voice};
use crate::wishes::Intent;

/// Counting further than this is done without pauses.
const MANY: u32 = 1000;
/// How long an answer that shall take its time takes when the wish does not say.
const A_WHILE: Duration = Duration::from_millis(2500);
/// A red point.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Four samples of silence.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

impl Planner<'_> {
    /// Adds the steps of a wish.
    pub(super) fn fulfil(&mut self, intent: Intent) {
        match intent {
            Intent::Read { path, line, limit } => self.read(&path, line, limit, None),
            Intent::ReadLink => match linked_file(self.blocks) {
                Some(path) => self.read(&path, None, None, None),
                None => self.push(Step::Stream(self.plain_answer(&prompt_text(self.blocks)))),
            },
            Intent::Write { path, text } => self.change(&path, Change::Whole(text)),
            Intent::Edit { path, old, new } => self.change(&path, Change::Replace { old, new }),
            Intent::Append { path, text } => self.change(&path, Change::Append(text)),
            Intent::Run { command, kill_after } => self.run(command, kill_after),
            Intent::Search { text, path: Some(path) } => self.read(&path, None, None, Some(text)),
            Intent::Search { .. }
            | Intent::Find(_)
            | Intent::Files { .. }
            | Intent::Show { .. }
            | Intent::Query { .. }
            | Intent::Extract(_) => self.look_at_code(intent),
            Intent::Delegate(task) => self.delegate(task),
            Intent::Plan { steps, topic } => self.draft_plan(steps, topic.as_deref()),
            Intent::Parts(parts) => self.say_parts(parts),
            Intent::Think(time) => self.think(time.unwrap_or(A_WHILE)),
            Intent::Count(to) => {
                let pace = if to > MANY { Duration::ZERO } else { SLOW };
                self.push(Step::Stream(Stream::numbers(to).every(pace)));
            }
            Intent::Wait(time) => {
                self.push(Step::Pause(time));
                self.say("I waited, as you wished.");
            }
            Intent::Say(text) => self.say(text),
            Intent::Remember(word) => {
                self.push(Step::Remember(word));
                self.say("I shall remember it.");
            }
            Intent::Recall => self.recall(),
            Intent::Mcp { server, tool, arguments } => self.push(Step::Mcp { server, tool, arguments }),
            Intent::McpList => self.push(Step::McpList),
            Intent::ElicitForm(what) => self.push(Step::Form(what)),
            Intent::ElicitUrl => self.push(Step::Page),
            Intent::Permission => self.push(Step::Begin(Job::Harmless { fails: false })),
            Intent::ToolFailure => self.push(Step::Begin(Job::Harmless { fails: true })),
            Intent::Refuse | Intent::MaxTokens | Intent::MaxTurnRequests | Intent::Fail(_) => {
                self.end_early(&intent);
            }
            Intent::Mode(_)
            | Intent::Config { .. }
            | Intent::Compact
            | Intent::Title(_)
            | Intent::Usage
            | Intent::Commands
            | Intent::WhereAmI => self.see_to_session(intent),
            Intent::Notice(text) => self.notice(text),
            Intent::Image | Intent::Audio | Intent::Resource => self.show_content(&intent),
            Intent::Slash { name, input } => self.slash(&name, input),
        }
    }

    fn read(&mut self, path: &str, line: Option<u32>, limit: Option<u32>, search: Option<String>) {
        let path = self.resolve(path);
        self.push(Step::Begin(Job::Read { path, line, limit, search }));
    }

    fn change(&mut self, path: &str, change: Change) {
        let path = self.resolve(path);
        self.push(Step::Begin(Job::Write { path, change, old: Old::Unknown }));
    }

    fn run(&mut self, command: String, kill_after: Option<Duration>) {
        self.push(Step::Begin(Job::run(command, kill_after)));
    }

    /// A path of a wish as an absolute one.
    fn resolve(&self, path: &str) -> String {
        let quirk = self.cx.quirks.resolve(path, &self.session.record.roots);
        quirk.unwrap_or_else(|| self.session.resolve(path))
    }

    /// Searches, lists and shows code: with the code engine, or as well as a command can.
    fn look_at_code(&mut self, intent: Intent) {
        let has_engine = self.cx.config.abilities.code;
        match intent {
            Intent::Files { path, pattern } => self.list_files(path, pattern),
            Intent::Search { text, .. } if has_engine => {
                self.use_code_tool("search", json!({ "query": text, "exact": true }));
            }
            Intent::Find(words) if has_engine => {
                self.use_code_tool("search", json!({ "query": words, "max_results": 5 }));
            }
            Intent::Show { symbol, path } if has_engine => {
                let target = format!("{}#{symbol}", path.unwrap_or_default());
                let arguments = json!({ "query": symbol, "max_results": 5 });
                let search = Job::Tool { name: "search".to_owned(), arguments, otherwise: None };
                self.push(Step::Begin(Job::Tool {
                    name: "extract".to_owned(),
                    arguments: json!({ "files": [target] }),
                    otherwise: Some(Box::new(search)),
                }));
            }
            Intent::Query { pattern, language } if has_engine => {
                let mut arguments = json!({ "pattern": pattern });
                if let Some(language) = language {
                    arguments["language"] = json!(language);
                }
                self.use_code_tool("query", arguments);
            }
            Intent::Extract(target) if has_engine => {
                self.use_code_tool("extract", json!({ "files": [target] }));
            }
            Intent::Search { text, .. } | Intent::Find(text) | Intent::Show { symbol: text, .. } => {
                let quoted = shlex::try_quote(&text).map(std::borrow::Cow::into_owned).unwrap_or_default();
                self.run(format!("grep -rnF -- {quoted} ."), None);
            }
            _ => {
                self.say(format!(
                    "I have no code engine to do that with{}.",
                    self.cx.config.hints.other_code
                ));
            }
        }
    }

    fn list_files(&mut self, path: Option<String>, pattern: Option<String>) {
        if !self.cx.config.abilities.code {
            let path = path.as_deref().map(|path| shlex::try_quote(path).unwrap_or_default());
            return self.run(path.map_or_else(|| "ls".to_owned(), |path| format!("ls -- {path}")), None);
        }
        let mut arguments = json!({});
        if let Some(path) = path {
            arguments["path"] = json!(path);
        }
        match pattern {
            Some(pattern) => {
                arguments["pattern"] = json!(pattern);
                self.use_code_tool("glob", arguments);
            }
            None => self.use_code_tool("list_files", arguments),
        }
    }

    /// Tasks that stand side by side are done side by side.
    fn delegate(&mut self, task: String) {
        match self.steps.back_mut() {
            Some(Step::Delegate(tasks)) => tasks.push(task),
            _ if self.cx.config.abilities.delegate => self.push(Step::Delegate(vec![task])),
            _ => self
                .say(format!("I have nobody to delegate a task to{}.", self.cx.config.hints.other_delegate)),
        }
    }

    fn draft_plan(&mut self, steps: Option<u32>, topic: Option<&str>) {
        let drafted = drafted(steps.unwrap_or(3).clamp(1, 50) as usize, topic);
        self.update_plan(&drafted);
        self.say_plan(drafted);
        self.say(match self.cx.config.rules.careful {
            false => "The plan is made, and every step of it is done.",
            true => {
                "That is what a plan looks like. Nothing was done: without a model I can show plans, but not make \
                 them."
            }
        });
    }

    fn say_parts(&mut self, parts: u32) {
        for part in 1..=parts {
            self.say(format!("Part {part} of {parts} of the answer."));
            if part < parts {
                self.push(Step::Pause(SLOW));
            }
        }
    }

    fn think(&mut self, time: Duration) {
        let thought =
            "I turn the question over in my mind, look at it from behind, and then begin to answer.";
        self.push(Step::Stream(Stream::text(Voice::Thought, thought, None).every(SLOW / 2)));
        let pieces = u32::try_from(time.as_millis() / SLOW.as_millis()).unwrap_or(u32::MAX).max(2);
        self.push(Step::Stream(Stream::words(pieces, 0).every(SLOW)));
    }

    fn recall(&mut self) {
        // A word of the same prompt comes first: it is only kept when its step is done.
        let told = self.steps.iter().rev().find_map(|step| match step {
            Step::Remember(word) => Some(word.as_str()),
            _ => None,
        });
        let kept = || self.cx.quirks.shared_word().or(self.session.record.word.as_deref());
        let said = match told.or_else(kept) {
            Some(word) => format!("The word was {word}."),
            None => "You have not told me a word in this session.".to_owned(),
        };
        self.say(said);
    }

    /// Ends the turn in another way than usual.
    fn end_early(&mut self, intent: &Intent) {
        let (words, reason) = match intent {
            Intent::Refuse => ("I refuse, as you wished.", StopReason::Refusal),
            Intent::MaxTokens => ("This answer is cut off because the tokens ran", StopReason::MaxTokens),
            Intent::Fail(code) => {
                let code = code.unwrap_or(error_code::INTERNAL_ERROR);
                return self.push(Step::Fail(RpcError::new(code, "this prompt failed, as was wished")));
            }
            _ => ("I have asked the model too often in this turn.", StopReason::MaxTurnRequests),
        };
        self.say(words);
        self.stop(reason);
    }

    /// Changes the session, or tells about it.
    fn see_to_session(&mut self, intent: Intent) {
        let config = &self.cx.config;
        match intent {
            Intent::Mode(mode) => self.change_mode(&mode),
            Intent::Config { option, value } => {
                match offers::meant(&config.persona, &option, &value, self.cx.caps()) {
                    Some((option, value)) => {
                        let said = format!("{option} is {value} now.");
                        self.push(Step::Config { option, value });
                        self.say(said);
                    }
                    None => self.say(format!("I cannot set {option} to {value}.")),
                }
            }
            Intent::Compact if config.model => self.push(Step::Summarize { entries: usize::MAX }),
            Intent::Compact => self.push(Step::Digest),
            Intent::Title(title) => {
                self.push(Step::Title(title.clone()));
                self.say(format!("This session is called {title:?} now."));
            }
            Intent::Usage => {
                self.push(Step::Usage);
                self.say(format!("This session has used {} tokens.", self.session.record.used));
            }
            Intent::Commands => {
                self.push(Step::Update(offers::commands(&config.persona), false));
                self.say(format!("I understand {}.", self.command_names()));
            }
            _ => self.say(place(self.session)),
        }
    }

    fn change_mode(&mut self, mode: &str) {
        let persona = &self.cx.config.persona;
        match persona.mode(mode) {
            _ if !self.cx.config.habits.has(Feature::Modes) => self.say("I have no modes."),
            Some(mode) => {
                self.push(Step::Mode(mode.id.clone()));
                self.say(format!("I am in {} mode now.", mode.name));
            }
            None => self.say(format!("I stay in my mode: {}.", persona.no_mode(mode))),
        }
    }

    /// The slash commands, as a list in words.
    fn command_names(&self) -> String {
        let commands = self.cx.config.persona.commands.iter();
        let names: Vec<String> = commands.map(|command| format!("/{}", command.name)).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.join(""),
        }
    }

    fn notice(&mut self, text: Option<String>) {
        if !self.cx.caps().notices {
            return self.say("I would send a notice, but this client cannot show one.");
        }
        let title = text.unwrap_or_else(|| "A notice, as was wished".to_owned());
        let update = json!({
            "sessionUpdate": update::NOTICE, "severity": "info", "title": title,
            "description": "Sent because the prompt asked for it.",
        });
        self.push(Step::Update(update, false));
        self.say("I sent a notice.");
    }

    /// Shows content other than text.
    fn show_content(&mut self, intent: &Intent) {
        match intent {
            Intent::Image => {
                self.say("Here is a very small image:");
                self.push(Step::Show(json!({ "type": "image", "mimeType": "image/png", "data": PNG })));
            }
            Intent::Audio => {
                self.say("Here is a very short sound:");
                self.push(Step::Show(json!({ "type": "audio", "mimeType": "audio/wav", "data": WAV })));
            }
            _ => {
                let link = format!("file://{}/README.md", self.session.record.cwd);
                let note = format!("{}://note", self.cx.config.persona.host);
                self.say("Here are a link and a resource:");
                self.push(Step::Show(json!({ "type": "resource_link", "name": "README.md", "uri": link })));
                self.push(Step::Show(json!({
                    "type": "resource",
                    "resource": { "uri": note, "mimeType": "text/plain", "text": "an embedded note" },
                })));
            }
        }
    }

    fn slash(&mut self, name: &str, input: String) {
        let has_engine = self.cx.config.abilities.code;
        match name {
            "help" => self.say(self.help()),
            "echo" => self.say(input),
            "plan" => self.draft_plan(None, (!input.is_empty()).then_some(&input)),
            "init" if has_engine => self.use_code_tool("survey", json!({})),
            "compact" => self.fulfil(Intent::Compact),
            "search" | "query" | "extract" | "delegate" if input.is_empty() => {
                self.say(format!("/{name} what? Write it behind the command."));
            }
            "search" if has_engine => self.use_code_tool("search", json!({ "query": input })),
            "query" => self.fulfil(Intent::Query { pattern: input, language: None }),
            "extract" => self.fulfil(Intent::Extract(input)),
            "delegate" => self.delegate(input),
            "status" => self.say(self.status()),
            other => self.say(format!("There is no command /{other}; /help lists them.")),
        }
    }
}

/// The file that a link of the prompt points to.
fn linked_file(blocks: &[Value]) -> Option<String> {
    blocks
        .iter()
        .filter(|block| block["type"] == "resource_link")
        .find_map(|block| block["uri"].as_str()?.strip_prefix("file://").map(str::to_owned))
}
