//! From a prompt to the steps of its turn.

use std::collections::VecDeque;
use std::time::Duration;

use acp_policy::Policy;
use acp_proto::{StopReason, update};
use serde_json::{Value, json};

use super::cx::Cx;
use super::job::Job;
use super::plain;
use super::session::Session;
use super::step::{Step, Stream, Voice};
use crate::wishes::{self, Intent};

/// Between two chunks of an answer that shall take its time.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// Writes down the steps of a turn.
pub(super) struct Planner<'a> {
    pub(super) cx: &'a Cx,
    pub(super) session: &'a Session,
    /// What is allowed in the mode of the session that the client knows.
    policy: Policy,
    /// The prompt.
    pub(super) blocks: &'a [Value],
    pub(super) steps: VecDeque<Step>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(cx: &'a Cx, session: &'a Session, policy: Policy, blocks: &'a [Value]) -> Self {
        Self { cx, session, policy, blocks, steps: VecDeque::new() }
    }

    /// What to do about the prompt, and whether a model decides it.
    pub(super) fn plan_turn(mut self) -> (VecDeque<Step>, bool) {
        let (config, blocks) = (&self.cx.config, self.blocks);
        let text = prompt_text(blocks);
        let model = config.model && !self.is_command(&text);
        let is_willing = config.habits.patience.is_none_or(|most| self.cx.prompts <= most);
        let understood = !model && config.habits.understands && is_willing;
        let intents = if understood { wishes::parse(&text) } else { Vec::new() };
        self.begin(&text, intents.contains(&Intent::Permission));
        if model {
            self.push(Step::Think);
            return (self.steps, true);
        }
        self.think_and_plan();
        let question = plain::about_code(&text).filter(|_| intents.is_empty() && config.abilities.code);
        let plan: Vec<(String, bool)> = match &question {
            _ if !config.rules.careful || self.policy != Policy::Plan => Vec::new(),
            Some(words) => vec![(format!("Search the code for {words:?}"), false)],
            None => deeds(&intents),
        };
        self.show_plan(&plan);
        match question {
            Some(words) => {
                self.say(format!("No model is connected, so I search the code for {words:?}.\n\n"));
                self.use_code_tool("search", json!({ "query": words, "max_results": 5 }));
            }
            None if intents.is_empty() => self.push(Step::Stream(self.plain_answer(&text))),
            None => {}
        }
        if config.rules.careful && self.session.option(self.cx, "thought_level") == Some(json!("high")) {
            let thought = format!("I understood this as {} wishes.", intents.len());
            self.push(Step::Stream(Stream::text(Voice::Thought, thought, None)));
        }
        for intent in intents {
            self.fulfil(intent);
        }
        if !plan.is_empty() {
            self.push(Step::Update(deeds_plan(&plan, true), true));
        }
        self.stop(StopReason::EndTurn);
        (self.steps, false)
    }

    /// What a wish of a script brings about.
    pub(super) fn wish_steps(mut self, text: &str) -> VecDeque<Step> {
        for intent in wishes::parse(text) {
            self.fulfil(intent);
        }
        self.steps
    }

    /// What every turn begins with.
    fn begin(&mut self, text: &str, asks_anyway: bool) {
        let config = &self.cx.config;
        let delay = config.pace.response_delay.max(config.habits.turn_delay);
        if !delay.is_zero() {
            self.push(Step::Pause(delay));
        }
        self.push(if self.session.record.title.is_none() { Step::Title(title(text)) } else { Step::Info });
        if config.send_permissions && !asks_anyway {
            self.push(Step::Begin(Job::Harmless { fails: false }));
        }
        for news in &self.session.news {
            self.push(Step::Stream(Stream::text(Voice::Notice, format!("{news}\n"), config.pace.chunk_size)));
        }
    }

    /// What an agent thinks and plans in every turn.
    fn think_and_plan(&mut self) {
        if self.cx.config.habits.thinks {
            let thought = "I look at what was asked, and then at what is there.";
            self.push(Step::Stream(Stream::text(Voice::Thought, thought, None)));
        }
        if self.cx.config.habits.plans {
            self.update_plan(&drafted(2, None));
        }
    }

    /// Shows a plan of these deeds, in words too where nobody would see it otherwise.
    fn show_plan(&mut self, deeds: &[(String, bool)]) {
        if deeds.is_empty() {
            return;
        }
        self.push(Step::Update(deeds_plan(deeds, false), true));
        self.say_plan(deeds.iter().map(|(deed, changes)| {
            let waits = if *changes { " (not while PLANNING)" } else { "" };
            format!("{deed}{waits}")
        }));
    }

    /// Says a plan as a list, for a client whose form has none.
    pub(super) fn say_plan(&mut self, lines: impl IntoIterator<Item = String>) {
        if self.cx.config.form.plans_in_words {
            let list: String = lines.into_iter().map(|line| format!("- {line}\n")).collect();
            self.say(format!("The plan:\n{list}\n"));
        }
    }

    /// A plan from its beginning to its end.
    pub(super) fn update_plan(&mut self, drafted: &[String]) {
        let number = drafted.len();
        for done in 0..=number {
            let entry = |(at, step): (usize, &String)| {
                let status = match at {
                    at if at < done => "completed",
                    at if at == done && done > 0 => "in_progress",
                    _ => "pending",
                };
                let priority = ["high", "medium", "low"][at.min(2)];
                json!({ "content": step, "priority": priority, "status": status })
            };
            let entries: Vec<Value> = drafted.iter().enumerate().map(entry).collect();
            let update = json!({ "sessionUpdate": update::PLAN, "entries": entries });
            self.push(Step::Update(update, done == number));
            if done < number {
                self.push(Step::Pause(SLOW / 5));
            }
        }
    }

    /// Whether the text is one of the slash commands on offer.
    fn is_command(&self, text: &str) -> bool {
        let name = text.trim_start().strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
        let config = &self.cx.config;
        let known = |name: &str| config.persona.commands.iter().any(|command| command.name == name);
        // Plans and instructions are left to the model.
        name.is_some_and(|name| known(name) && !(["plan", "init"].contains(&name) && config.model))
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.push(Step::Stream(Stream::text(Voice::Agent, text, self.cx.config.pace.chunk_size)));
    }

    pub(super) fn use_code_tool(&mut self, name: &str, arguments: Value) {
        self.push(Step::Begin(Job::Tool { name: name.to_owned(), arguments, otherwise: None }));
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.steps.extend([Step::Usage, Step::End(reason)]);
    }
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

/// The steps of a plan that was asked for.
pub(super) fn drafted(number: usize, topic: Option<&str>) -> Vec<String> {
    const DEEDS: [&str; 5] =
        ["Look at what is there", "Decide what to change", "Make the change", "Check it", "Tell about it"];
    let about = topic.map(|topic| format!(" ({topic})")).unwrap_or_default();
    (0..number).map(|at| format!("{}. {}{about}", at + 1, DEEDS[at % DEEDS.len()])).collect()
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
