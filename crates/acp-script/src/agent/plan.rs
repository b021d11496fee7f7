//! From a prompt to the steps of its turn, and the questions to the person.

use std::collections::VecDeque;
use std::time::Duration;

use acp_proto::{StopReason, error_code, update};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::habits::Feature;
use super::job::{Change, Job, Old};
use super::offers;
use super::plain;
use super::session::Session;
use super::step::{Step, Stream, Voice};
use super::{Agent, ClientCaps};
use crate::switch::Switch;
use crate::wishes::{self, Intent};

/// Between two chunks of an answer that shall take its time.
const SLOW: Duration = Duration::from_millis(100);
/// Counting further than this is done without pauses.
const MANY: u32 = 1000;
/// How long such an answer takes when the wish does not say.
const A_WHILE: Duration = Duration::from_millis(2500);
/// A red point.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Four samples of silence.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

impl Agent {
    /// What to do about a prompt, and whether a model decides it.
    pub(super) fn plan_turn(&self, session: &str, blocks: &[Value]) -> (VecDeque<Step>, bool) {
        let Some(open) = self.sessions.get(session) else { return (VecDeque::new(), false) };
        let text = prompt_text(blocks);
        let model = self.config.model && !self.is_command(&text);
        let habits = &self.config.habits;
        let is_willing = habits.patience.is_none_or(|most| self.prompts <= most);
        let understood = !model && habits.understands && is_willing;
        let intents = if understood { wishes::parse(&text) } else { Vec::new() };
        let mut steps = VecDeque::new();
        let delay = self.config.response_delay.max(self.config.habits.turn_delay);
        if !delay.is_zero() {
            steps.push_back(Step::Pause(delay));
        }
        if open.record.title.is_none() {
            steps.push_back(Step::Title(title(&text)));
        } else {
            steps.push_back(Step::Info);
        }
        if self.config.send_permissions && !intents.contains(&Intent::Permission) {
            steps.push_back(Step::Begin(Job::Harmless { fails: false }));
        }
        let notice = |news: &String| Stream::text(Voice::Notice, format!("{news}\n"), self.config.chunk_size);
        steps.extend(open.news.iter().map(notice).map(Step::Stream));
        if model {
            steps.push_back(Step::Think);
            return (steps, true);
        }
        self.musings(&mut steps);
        let question = plain::about_code(&text).filter(|_| intents.is_empty() && self.config.code);
        let plan: Vec<(String, bool)> = match &question {
            _ if !self.config.careful || !self.planning(session) => Vec::new(),
            Some(words) => vec![(format!("Search the code for {words:?}"), false)],
            None => deeds(&intents),
        };
        steps.extend(self.planned(&plan, false));
        match question {
            Some(words) => {
                steps.push_back(
                    self.speak(format!("No model is connected, so I search the code for {words:?}.\n\n")),
                );
                steps.push_back(code_tool("search", json!({ "query": words, "max_results": 5 })));
            }
            None if intents.is_empty() => steps.push_back(Step::Stream(self.plain_answer(blocks, &text))),
            None => {}
        }
        if self.option(session, "thought_level") == Some(json!("high")) && self.config.careful {
            let thought = format!("I understood this as {} wishes.", intents.len());
            steps.push_back(Step::Stream(Stream::text(Voice::Thought, thought, None)));
        }
        for intent in intents {
            self.steps(open, intent, blocks, &mut steps);
        }
        steps.extend(self.planned(&plan, true).into_iter().take(1));
        steps.extend([Step::Usage, Step::End(StopReason::EndTurn)]);
        (steps, false)
    }

    /// What an agent thinks and plans in every turn.
    fn musings(&self, steps: &mut VecDeque<Step>) {
        if self.config.habits.thinks {
            let thought = "I look at what was asked, and then at what is there.";
            steps.push_back(Step::Stream(Stream::text(Voice::Thought, thought, None)));
        }
        if self.config.habits.plans {
            plan_updates(&drafted(2, None), steps);
        }
    }

    /// Shows a plan of these deeds, in words too where nobody would see it otherwise.
    fn planned(&self, deeds: &[(String, bool)], end: bool) -> Vec<Step> {
        if deeds.is_empty() {
            return Vec::new();
        }
        let mut shown = vec![Step::Update(deeds_plan(deeds, end), true)];
        let lines = deeds.iter().map(|(deed, changes)| {
            let waits = if *changes { " (not while PLANNING)" } else { "" };
            format!("{deed}{waits}")
        });
        shown.extend(self.plan_in_words(lines));
        shown
    }

    /// A plan as a list, for a client whose form has none.
    fn plan_in_words(&self, lines: impl Iterator<Item = String>) -> Option<Step> {
        let list = || lines.map(|line| format!("- {line}\n")).collect::<String>();
        self.config.plans_in_words.then(|| self.speak(format!("The plan:\n{}\n", list())))
    }

    /// Whether the text is one of the slash commands on offer.
    fn is_command(&self, text: &str) -> bool {
        let name = text.trim_start().strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
        let known = |name: &str| self.config.persona.commands.iter().any(|command| command.name == name);
        // Plans and instructions are left to the model.
        name.is_some_and(|name| known(name) && !(["plan", "init"].contains(&name) && self.config.model))
    }

    /// What a wish of a script brings about.
    pub(super) fn wish_steps(&self, session: &str, text: &str) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        if let Some(open) = self.sessions.get(session) {
            for intent in wishes::parse(text) {
                self.steps(open, intent, &[], &mut steps);
            }
        }
        steps
    }

    pub(super) fn speak(&self, text: impl Into<String>) -> Step {
        Step::Stream(Stream::text(Voice::Agent, text, self.config.chunk_size))
    }

    fn steps(&self, open: &Session, intent: Intent, blocks: &[Value], steps: &mut VecDeque<Step>) {
        let caps = self.caps();
        match intent {
            Intent::Read { path, line, limit } => {
                steps.push_back(Step::Begin(Job::Read {
                    path: self.resolve(open, &path),
                    line,
                    limit,
                    search: None,
                }));
            }
            Intent::ReadLink => match linked_file(blocks) {
                Some(path) => steps.push_back(Step::Begin(Job::Read {
                    path: self.resolve(open, &path),
                    line: None,
                    limit: None,
                    search: None,
                })),
                None => steps.push_back(Step::Stream(self.plain_answer(blocks, &prompt_text(blocks)))),
            },
            Intent::Write { path, text } => steps.push_back(self.change(open, &path, Change::Whole(text))),
            Intent::Edit { path, old, new } => {
                steps.push_back(self.change(open, &path, Change::Replace { old, new }));
            }
            Intent::Append { path, text } => steps.push_back(self.change(open, &path, Change::Append(text))),
            Intent::Run { command, kill_after } => {
                steps.push_back(Step::Begin(Job::run(command, kill_after)));
            }
            Intent::Search { text, path: Some(path) } => steps.push_back(Step::Begin(Job::Read {
                path: self.resolve(open, &path),
                line: None,
                limit: None,
                search: Some(text),
            })),
            Intent::Search { text, path: None } if self.config.code => {
                steps.push_back(code_tool("search", json!({ "query": text, "exact": true })));
            }
            Intent::Find(words) if self.config.code => {
                steps.push_back(code_tool("search", json!({ "query": words, "max_results": 5 })));
            }
            Intent::Files { path, pattern } => steps.push_back(self.files(path, pattern)),
            Intent::Show { symbol, path } if self.config.code => {
                let target = format!("{}#{symbol}", path.unwrap_or_default());
                let search = Job::Tool {
                    name: "search".to_owned(),
                    arguments: json!({ "query": symbol, "max_results": 5 }),
                    otherwise: None,
                };
                steps.push_back(Step::Begin(Job::Tool {
                    name: "extract".to_owned(),
                    arguments: json!({ "files": [target] }),
                    otherwise: Some(Box::new(search)),
                }));
            }
            Intent::Query { pattern, language } if self.config.code => {
                let mut arguments = json!({ "pattern": pattern });
                if let Some(language) = language {
                    arguments["language"] = json!(language);
                }
                steps.push_back(code_tool("query", arguments));
            }
            Intent::Extract(target) if self.config.code => {
                steps.push_back(code_tool("extract", json!({ "files": [target] })));
            }
            Intent::Query { .. } | Intent::Extract(_) => {
                steps.push_back(self.speak("I have no code engine to do that with; `acp agent` has."));
            }
            Intent::Delegate(task) => match steps.back_mut() {
                Some(Step::Delegate(tasks)) => tasks.push(task),
                _ if self.config.delegate => steps.push_back(Step::Delegate(vec![task])),
                _ => steps.push_back(
                    self.speak("I have nobody to delegate a task to; `acp agent --enable-delegate` has."),
                ),
            },
            Intent::Search { text, path: None } | Intent::Find(text) | Intent::Show { symbol: text, .. } => {
                let quoted = shlex::try_quote(&text).map(std::borrow::Cow::into_owned).unwrap_or_default();
                steps.push_back(Step::Begin(Job::run(format!("grep -rnF -- {quoted} ."), None)));
            }
            Intent::Plan { steps: number, topic } => {
                let drafted = drafted(number.unwrap_or(3).clamp(1, 50) as usize, topic.as_deref());
                plan_updates(&drafted, steps);
                steps.extend(self.plan_in_words(drafted.into_iter()));
                steps.push_back(self.speak(match self.config.careful {
                    false => "The plan is made, and every step of it is done.",
                    true => {
                        "That is what a plan looks like. Nothing was done: without a model I can show plans, but not \
                         make them."
                    }
                }));
            }
            Intent::Parts(parts) => {
                for part in 1..=parts {
                    steps.push_back(self.speak(format!("Part {part} of {parts} of the answer.")));
                    if part < parts {
                        steps.push_back(Step::Pause(SLOW));
                    }
                }
            }
            Intent::Think(time) => think(time.unwrap_or(A_WHILE), steps),
            Intent::Count(to) => {
                let pace = if to > MANY { Duration::ZERO } else { SLOW };
                steps.push_back(Step::Stream(Stream::numbers(to).every(pace)));
            }
            Intent::Wait(time) => {
                steps.push_back(Step::Pause(time));
                steps.push_back(self.speak("I waited, as you wished."));
            }
            Intent::Say(text) => steps.push_back(self.speak(text)),
            Intent::Remember(word) => {
                let said = "I shall remember it.";
                steps.push_back(Step::Remember(word));
                steps.push_back(self.speak(said));
            }
            Intent::Recall => {
                // A word of the same prompt comes first: it is only kept when its step is done.
                let told = steps.iter().rev().find_map(|step| match step {
                    Step::Remember(word) => Some(word),
                    _ => None,
                });
                let word = told.or(open.record.word.as_ref()).or(self.gossip.as_ref());
                steps.push_back(self.speak(match word {
                    Some(word) => format!("The word was {word}."),
                    None => "You have not told me a word in this session.".to_owned(),
                }));
            }
            Intent::Mcp { server, tool, arguments } => steps.push_back(Step::Mcp { server, tool, arguments }),
            Intent::McpList => steps.push_back(Step::McpList),
            Intent::ElicitForm(what) => steps.push_back(Step::Form(what)),
            Intent::ElicitUrl => steps.push_back(Step::Page),
            Intent::Permission => steps.push_back(Step::Begin(Job::Harmless { fails: false })),
            Intent::ToolFailure => steps.push_back(Step::Begin(Job::Harmless { fails: true })),
            Intent::Refuse => {
                steps.push_back(self.speak("I refuse, as you wished."));
                steps.extend([Step::Usage, Step::End(StopReason::Refusal)]);
            }
            Intent::MaxTokens => {
                steps.push_back(self.speak("This answer is cut off because the tokens ran"));
                steps.extend([Step::Usage, Step::End(StopReason::MaxTokens)]);
            }
            Intent::MaxTurnRequests => {
                steps.push_back(self.speak("I have asked the model too often in this turn."));
                steps.extend([Step::Usage, Step::End(StopReason::MaxTurnRequests)]);
            }
            Intent::Fail(code) => steps.push_back(Step::Fail(RpcError::new(
                code.unwrap_or(error_code::INTERNAL_ERROR),
                "this prompt failed, as was wished",
            ))),
            Intent::Mode(_) if !self.config.habits.has(Feature::Modes) => {
                steps.push_back(self.speak("I have no modes."));
            }
            Intent::Mode(mode) => match self.config.persona.mode(&mode) {
                Some(mode) => {
                    steps.push_back(Step::Mode(mode.id.clone()));
                    steps.push_back(self.speak(format!("I am in {} mode now.", mode.name)));
                }
                None => {
                    let reason = self.config.persona.no_mode(&mode);
                    steps.push_back(self.speak(format!("I stay in my mode: {reason}.")));
                }
            },
            Intent::Config { option, value } => {
                match offers::meant(&self.config.persona, &option, &value, caps) {
                    Some((option, value)) => {
                        let said = format!("{option} is {value} now.");
                        steps.push_back(Step::Config { option, value });
                        steps.push_back(self.speak(said));
                    }
                    None => steps.push_back(self.speak(format!("I cannot set {option} to {value}."))),
                }
            }
            Intent::Notice(text) => self.notice(text, caps, steps),
            Intent::Compact if self.config.model => {
                steps.push_back(Step::Summarize { entries: usize::MAX });
            }
            Intent::Compact => steps.push_back(Step::Digest),
            Intent::Title(title) => {
                steps.push_back(Step::Title(title.clone()));
                steps.push_back(self.speak(format!("This session is called {title:?} now.")));
            }
            Intent::Usage => {
                steps.push_back(Step::Usage);
                steps.push_back(self.speak(format!("This session has used {} tokens.", open.record.used)));
            }
            Intent::Commands => {
                steps.push_back(Step::Update(offers::commands(&self.config.persona), false));
                steps.push_back(self.speak(format!("I understand {}.", self.command_names())));
            }
            Intent::WhereAmI => steps.push_back(self.speak(place(open))),
            Intent::Image => {
                steps.push_back(self.speak("Here is a very small image:"));
                steps.push_back(Step::Show(json!({ "type": "image", "mimeType": "image/png", "data": PNG })));
            }
            Intent::Audio => {
                steps.push_back(self.speak("Here is a very short sound:"));
                steps.push_back(Step::Show(json!({ "type": "audio", "mimeType": "audio/wav", "data": WAV })));
            }
            Intent::Resource => {
                let uri = format!("file://{}/README.md", open.record.cwd);
                steps.push_back(self.speak("Here are a link and a resource:"));
                steps.push_back(Step::Show(
                    json!({ "type": "resource_link", "name": "README.md", "uri": uri }),
                ));
                steps.push_back(Step::Show(json!({
                    "type": "resource",
                    "resource": { "uri": format!("{}://note", self.config.persona.host), "mimeType": "text/plain", "text": "an embedded note" },
                })));
            }
            Intent::Slash { name, input } => self.slash(open, &name, input, blocks, steps),
        }
    }

    /// Lists files: with the code engine, or with a command.
    fn files(&self, path: Option<String>, pattern: Option<String>) -> Step {
        if !self.config.code {
            let path = path.as_deref().map(|path| shlex::try_quote(path).unwrap_or_default());
            let line = path.map_or_else(|| "ls".to_owned(), |path| format!("ls -- {path}"));
            return Step::Begin(Job::run(line, None));
        }
        let mut arguments = json!({});
        if let Some(path) = path {
            arguments["path"] = json!(path);
        }
        match pattern {
            Some(pattern) => {
                arguments["pattern"] = json!(pattern);
                code_tool("glob", arguments)
            }
            None => code_tool("list_files", arguments),
        }
    }

    /// The slash commands, as a list in words.
    fn command_names(&self) -> String {
        let names: Vec<String> =
            self.config.persona.commands.iter().map(|command| format!("/{}", command.name)).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.join(""),
        }
    }

    fn change(&self, open: &Session, path: &str, change: Change) -> Step {
        Step::Begin(Job::Write { path: self.resolve(open, path), change, old: Old::Unknown })
    }

    /// A path of a wish as an absolute one.
    fn resolve(&self, open: &Session, path: &str) -> String {
        match open.record.roots.first() {
            Some(root) if self.wrong(Switch::RelativeToRoots) && !path.starts_with('/') => {
                format!("{root}/{path}")
            }
            _ => open.resolve(path),
        }
    }

    fn slash(&self, open: &Session, name: &str, input: String, blocks: &[Value], steps: &mut VecDeque<Step>) {
        match name {
            "help" => steps.push_back(self.speak(self.help())),
            "echo" => steps.push_back(self.speak(input)),
            "plan" => {
                let topic = (!input.is_empty()).then_some(input);
                self.steps(open, Intent::Plan { steps: None, topic }, blocks, steps);
            }
            "init" if self.config.code => steps.push_back(code_tool("survey", json!({}))),
            "compact" => self.steps(open, Intent::Compact, blocks, steps),
            "search" | "query" | "extract" | "delegate" if input.is_empty() => {
                steps.push_back(self.speak(format!("/{name} what? Write it behind the command.")));
            }
            "search" if self.config.code => steps.push_back(code_tool("search", json!({ "query": input }))),
            "query" => self.steps(open, Intent::Query { pattern: input, language: None }, blocks, steps),
            "extract" => self.steps(open, Intent::Extract(input), blocks, steps),
            "delegate" => self.steps(open, Intent::Delegate(input), blocks, steps),
            "status" => steps.push_back(self.speak(self.status(open))),
            other => steps.push_back(self.speak(format!("There is no command /{other}; /help lists them."))),
        }
    }

    fn notice(&self, text: Option<String>, caps: ClientCaps, steps: &mut VecDeque<Step>) {
        if !caps.notices {
            steps.push_back(self.speak("I would send a notice, but this client cannot show one."));
            return;
        }
        let title = text.unwrap_or_else(|| "A notice, as was wished".to_owned());
        let update = json!({
            "sessionUpdate": update::NOTICE, "severity": "info", "title": title,
            "description": "Sent because the prompt asked for it.",
        });
        steps.push_back(Step::Update(update, false));
        steps.push_back(self.speak("I sent a notice."));
    }
}

fn code_tool(name: &str, arguments: Value) -> Step {
    Step::Begin(Job::Tool { name: name.to_owned(), arguments, otherwise: None })
}

/// The plan of a prompt's wishes: without what is only said, where anything is done, and none beside one that was asked
/// for, which it would replace.
fn deeds(intents: &[Intent]) -> Vec<(String, bool)> {
    if intents.iter().any(drafts) {
        return Vec::new();
    }
    let done: Vec<_> = intents.iter().filter_map(deed).collect();
    match done.is_empty() && !intents.is_empty() {
        true => vec![("Answer".to_owned(), false)],
        false => done,
    }
}

/// Whether a plan is what is asked for.
fn drafts(intent: &Intent) -> bool {
    matches!(intent, Intent::Plan { .. }) || matches!(intent, Intent::Slash { name, .. } if name == "plan")
}

/// What a wish is about, in a plan, and whether it changes anything.
fn deed(intent: &Intent) -> Option<(String, bool)> {
    Some(match intent {
        Intent::Read { path, .. } => (format!("Read {path}"), false),
        Intent::Write { path, .. } => (format!("Write {path}"), true),
        Intent::Edit { path, .. } | Intent::Append { path, .. } => (format!("Edit {path}"), true),
        Intent::Run { command, .. } => (format!("Run `{command}`"), true),
        Intent::Search { text, .. } => (format!("Search for {text:?}"), false),
        Intent::Find(words) => (format!("Search for {words:?}"), false),
        Intent::Files { .. } => ("List the files".to_owned(), false),
        Intent::Show { symbol, .. } => (format!("Show {symbol}"), false),
        Intent::Query { pattern, .. } => (format!("Look for code like {pattern:?}"), false),
        Intent::Extract(target) => (format!("Take out {target}"), false),
        Intent::Delegate(task) => (format!("Delegate: {task}"), false),
        Intent::Mcp { tool, .. } => (format!("Call the tool {tool}"), true),
        _ => return None,
    })
}

/// A plan of the deeds: at its end, what changes nothing is done, and the rest waits for leave.
fn deeds_plan(deeds: &[(String, bool)], end: bool) -> Value {
    let entries: Vec<Value> = deeds
        .iter()
        .map(|(deed, changes)| {
            let status = if end && !changes { "completed" } else { "pending" };
            json!({ "content": deed, "priority": "medium", "status": status })
        })
        .collect();
    json!({ "sessionUpdate": update::PLAN, "entries": entries })
}

fn think(time: Duration, steps: &mut VecDeque<Step>) {
    let thought = "I turn the question over in my mind, look at it from behind, and then begin to answer.";
    steps.push_back(Step::Stream(Stream::text(Voice::Thought, thought, None).every(SLOW / 2)));
    let pieces = u32::try_from(time.as_millis() / SLOW.as_millis()).unwrap_or(u32::MAX).max(2);
    steps.push_back(Step::Stream(Stream::words(pieces, 0).every(SLOW)));
}

/// The steps of a plan that was asked for.
fn drafted(number: usize, topic: Option<&str>) -> Vec<String> {
    const DEEDS: [&str; 5] =
        ["Look at what is there", "Decide what to change", "Make the change", "Check it", "Tell about it"];
    let about = topic.map(|topic| format!(" ({topic})")).unwrap_or_default();
    (0..number).map(|at| format!("{}. {}{about}", at + 1, DEEDS[at % DEEDS.len()])).collect()
}

/// A plan from its beginning to its end.
fn plan_updates(drafted: &[String], steps: &mut VecDeque<Step>) {
    let number = drafted.len();
    for done in 0..=number {
        let entries: Vec<Value> = drafted
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let status = match at {
                    at if at < done => "completed",
                    at if at == done && done > 0 => "in_progress",
                    _ => "pending",
                };
                let priority = ["high", "medium", "low"][at.min(2)];
                json!({ "content": step, "priority": priority, "status": status })
            })
            .collect();
        let update = json!({ "sessionUpdate": update::PLAN, "entries": entries });
        steps.push_back(Step::Update(update, done == number));
        if done < number {
            steps.push_back(Step::Pause(SLOW / 5));
        }
    }
}

pub(super) fn prompt_text(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter(|block| block["type"] == "text")
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .collect();
    texts.join("\n")
}

pub(super) fn title(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("Untitled").trim();
    match line.char_indices().nth(60) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

pub(super) fn place(open: &Session) -> String {
    let mut said = format!("I work in {}.", open.record.cwd);
    if !open.record.roots.is_empty() {
        said.push_str(&format!(" I may also use {}.", open.record.roots.join(", ")));
    }
    said
}

/// The file that a link of the prompt points to.
fn linked_file(blocks: &[Value]) -> Option<String> {
    blocks
        .iter()
        .filter(|block| block["type"] == "resource_link")
        .find_map(|block| block["uri"].as_str()?.strip_prefix("file://").map(str::to_owned))
}
