//! From a request and a script to what is played back.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use acp_profile::{Profile, ToolHint};
use serde_json::{Value, json};

use crate::exchange::{ModelExchange, PersonMessage};
use crate::fill::whole;
use crate::script::{ModelRule, ModelScript, RuleAction, vars};
use crate::talk::{AnswerForm, Delta, Input, ModelRequest, ModelStop, Usage};
use crate::tools::{Chosen, Place, absolute, choose};
use crate::wanted::WantedTool;
use crate::wishes;

/// The same call so often is a loop.
const LOOP: usize = 50;

/// What is known about the agent.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Its tools, by intent.
    pub intents: BTreeMap<String, ToolHint>,
    /// Tags of its own words in user messages.
    pub reminders: Vec<String>,
    /// How a file that is to be changed is read, so that patches fit it.
    pub files: Option<FileReader>,
}

/// Reads the text of a file; `None` when there is none.
pub type FileReader = fn(&Path) -> Option<String>;

impl From<&Profile> for Hints {
    fn from(profile: &Profile) -> Self {
        let reminders = profile.model.as_ref().map(|model| model.reminders.clone()).unwrap_or_default();
        Self { intents: profile.intents.clone(), reminders, files: None }
    }
}

/// What must be kept between requests: how often rules were used, and whether an agent goes in circles.
#[derive(Debug, Default)]
pub struct Memory {
    used: Vec<u32>,
    last: u64,
    repeats: usize,
}

/// One beat of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Beat {
    /// Nothing for a while.
    Wait(Duration),
    /// A piece of the answer.
    Say(Delta),
    /// Nothing until the agent gives up.
    Stall,
    /// An error.
    Fail {
        /// The HTTP status.
        status: u16,
        /// The vendor's word.
        kind: Option<String>,
        /// The message.
        message: String,
        /// Seconds for a `retry-after` header.
        retry_after: Option<u64>,
    },
    /// The end of the connection.
    Cut,
}

/// An answer, and why it is this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Play {
    /// The beats, in order.
    pub beats: Vec<Beat>,
    /// For the journal.
    pub decision: Value,
}

/// Decides the answer to one request. `number` makes ids unique; `pace` is the pause between words.
pub fn decide(
    request: &ModelRequest,
    script: &ModelScript,
    hints: &Hints,
    memory: &mut Memory,
    number: u64,
    pace: Duration,
) -> Play {
    let exchange = ModelExchange::of(request, &hints.reminders);
    let side = request.tools.is_empty();
    // A reviewer that wants JSON of a schema may have tools, too: the words it judges are no wishes.
    if let Some(schema) = request.answer.schema() {
        let actions = [RuleAction::Text(whole(schema).to_string(), None)];
        return Player::new(request, &exchange, hints, number, pace)
            .play(&actions, json!({"by": "schema", "json": true}));
    }
    if side && let Some(answer) = json_answer(request) {
        let actions = [RuleAction::Text(answer, None)];
        return Player::new(request, &exchange, hints, number, pace)
            .play(&actions, json!({"by": "side", "json": true}));
    }
    let (actions, decision) = match by_rule(request, script, &exchange, memory, side) {
        Some(found) => found,
        None if script.no_wishes => (
            vec![RuleAction::Text("No rule of the script matches.".to_owned(), None)],
            json!({"by": "nothing"}),
        ),
        None => by_wishes(request, &exchange, side),
    };
    let mut player = Player::new(request, &exchange, hints, number, pace);
    if memory.goes_round(request, &actions) {
        player.circling = Some(format!("the same request came {LOOP} times"));
    }
    player.play(&actions, decision)
}

impl Memory {
    /// Whether the same request, which again leads to a call, came too often without anything between.
    fn goes_round(&mut self, request: &ModelRequest, actions: &[RuleAction]) -> bool {
        if !actions.iter().any(|action| matches!(action, RuleAction::Call(_))) {
            (self.last, self.repeats) = (0, 0);
            return false;
        }
        let mut hasher = DefaultHasher::new();
        format!("{:?}", request.turns).hash(&mut hasher);
        let hash = hasher.finish();
        self.repeats = if hash == self.last { self.repeats + 1 } else { 1 };
        self.last = hash;
        self.repeats > LOOP
    }
}

fn by_rule(
    request: &ModelRequest,
    script: &ModelScript,
    exchange: &ModelExchange,
    memory: &mut Memory,
    side: bool,
) -> Option<(Vec<RuleAction>, Value)> {
    memory.used.resize(script.rules.len(), 0);
    for (index, rule) in script.rules.iter().enumerate() {
        if rule.times.is_some_and(|times| memory.used[index] >= times) {
            continue;
        }
        let Some(found) = matches(rule, request, exchange) else { continue };
        let vars = vars(
            &found.captures,
            &found.said.text,
            last_result(exchange),
            exchange.cwd.as_deref().unwrap_or_default(),
        );
        let Ok(actions) = rule.filled(&vars) else { continue };
        let one_reply = rule.when.step.is_some() || rule.when.result.is_some();
        let actions = if one_reply { actions } else { segment(actions, found.said.rounds) };
        let actions = if side && !rule.side { quiet(actions) } else { actions };
        if !side || rule.side {
            memory.used[index] += 1;
        }
        return Some((actions, json!({"by": "rule", "rule": index, "step": found.said.results})));
    }
    None
}

struct Found {
    captures: Vec<String>,
    said: PersonMessage,
}

fn matches(rule: &ModelRule, request: &ModelRequest, exchange: &ModelExchange) -> Option<Found> {
    let hit = |regex: &fancy_regex::Regex, text: &str| regex.is_match(text).unwrap_or(false);
    if rule.when.model.as_ref().is_some_and(|regex| !hit(regex, &request.model)) {
        return None;
    }
    let found = match &rule.when.user {
        None => Found { captures: Vec::new(), said: exchange.last_said().cloned().unwrap_or_default() },
        Some(regex) => exchange.said.iter().rev().find_map(|said| {
            let captures = regex.captures(&said.text).ok()??;
            let groups =
                captures.iter().map(|group| group.map(|group| group.as_str().to_owned()).unwrap_or_default());
            Some(Found { captures: groups.collect(), said: said.clone() })
        })?,
    };
    let at_step = rule.when.step.is_none_or(|step| step == found.said.results as u64);
    let result_fits = match &rule.when.result {
        None => true,
        Some(regex) => found.said.results > 0 && hit(regex, last_result(exchange)),
    };
    (at_step && result_fits).then_some(found)
}

fn last_result(exchange: &ModelExchange) -> &str {
    exchange.results.last().map(|result| result.text.as_str()).unwrap_or_default()
}

/// A list of actions is a whole turn: each reply ends with its calls, and their results bring the next one.
fn segment(actions: Vec<RuleAction>, rounds: usize) -> Vec<RuleAction> {
    let mut replies = vec![Vec::new()];
    for action in actions {
        let ends = matches!(action, RuleAction::Call(_));
        if let Some(last) = replies.last_mut() {
            last.push(action);
        }
        if ends {
            replies.push(Vec::new());
        }
    }
    match replies.into_iter().nth(rounds) {
        Some(reply) if !reply.is_empty() => reply,
        _ => vec![RuleAction::Text("The script is done.".to_owned(), None)],
    }
}

fn by_wishes(request: &ModelRequest, exchange: &ModelExchange, side: bool) -> (Vec<RuleAction>, Value) {
    let (segments, said) = wishes::segments(exchange, request);
    let last = segments.len().saturating_sub(1);
    let actions = segments.into_iter().nth(said.rounds.min(last)).unwrap_or_default();
    let actions = if side { quiet(actions) } else { actions };
    (actions, json!({"by": if side { "side" } else { "wishes" }, "step": said.results}))
}

/// What a request without tools may be told: words. It may be a title, a classifier or a probe, which nobody
/// wants to hang or to fail.
fn quiet(actions: Vec<RuleAction>) -> Vec<RuleAction> {
    let words = |action: &RuleAction| {
        matches!(action, RuleAction::Text(..) | RuleAction::Whole(_) | RuleAction::Usage(_))
    };
    if actions.iter().all(|action| words(action) || matches!(action, RuleAction::Think(..))) {
        return actions.into_iter().filter(words).collect();
    }
    vec![RuleAction::Text("Scripted conversation".to_owned(), None)]
}

/// JSON for a request that wants it without a schema, with the fields that such requests are known to want.
fn json_answer(request: &ModelRequest) -> Option<String> {
    match &request.answer {
        AnswerForm::Json(_) => {}
        AnswerForm::Free => {
            let words = format!(
                "{}\n{}",
                request.system,
                request.user_texts().last().map(|(_, text)| text).unwrap_or_default()
            );
            let words = words.to_lowercase();
            let asked = [
                "json object",
                "valid json",
                "json format",
                "as json",
                "in json",
                "json only",
                "only json",
                "json schema",
            ];
            if !asked.iter().any(|phrase| words.contains(phrase)) {
                return None;
            }
        }
    }
    let known = json!({
        "title": "Scripted conversation", "reasoning": "scripted", "next_speaker": "user", "model_choice": "flash",
        "complexity_reasoning": "scripted", "complexity_score": 1, "corrected_target_snippet": "", "isNewTopic": false,
    });
    Some(known.to_string())
}

struct Player<'r> {
    request: &'r ModelRequest,
    exchange: &'r ModelExchange,
    hints: &'r Hints,
    number: u64,
    pace: Duration,
    circling: Option<String>,
    beats: Vec<Beat>,
    calls: Vec<Value>,
    unfit: Option<Value>,
    said: usize,
}

impl<'r> Player<'r> {
    fn new(
        request: &'r ModelRequest,
        exchange: &'r ModelExchange,
        hints: &'r Hints,
        number: u64,
        pace: Duration,
    ) -> Self {
        let (beats, calls) = (Vec::new(), Vec::new());
        Self { request, exchange, hints, number, pace, circling: None, beats, calls, unfit: None, said: 0 }
    }

    fn play(mut self, actions: &[RuleAction], mut decision: Value) -> Play {
        let mut usage = None;
        let mut stop = None;
        for action in actions {
            match action {
                RuleAction::Text(words, over) => self.words(words, *over, Delta::Text),
                RuleAction::Whole(words) => {
                    self.said += words.len();
                    self.beats.push(Beat::Say(Delta::Text(words.clone())));
                }
                RuleAction::Think(words, over) => self.words(words, *over, Delta::Think),
                RuleAction::Call(wanted) => wanted.iter().for_each(|wanted| self.call(wanted)),
                RuleAction::Beyond(wish) => {
                    self.unfit = Some(json!({"intent": wish, "beyond": true, "offered": []}));
                    self.words(
                        &format!("That is for the agent to do, not for its model: {wish}."),
                        None,
                        Delta::Text,
                    );
                }
                RuleAction::Usage(given) => usage = Some(*given),
                RuleAction::Wait(time) => self.beats.push(Beat::Wait(*time)),
                RuleAction::Stop(why) => stop = Some(*why),
                RuleAction::Stall => self.beats.push(Beat::Stall),
                RuleAction::Cut => self.beats.push(Beat::Cut),
                RuleAction::Error { status, kind, message, retry_after } => self.beats.push(Beat::Fail {
                    status: *status,
                    kind: kind.clone(),
                    message: message.clone(),
                    retry_after: *retry_after,
                }),
            }
        }
        decision["calls"] = self.calls.clone().into();
        if let Some(unfit) = &self.unfit {
            decision["unfit"] = unfit.clone();
        }
        if let Some(why) = &self.circling {
            decision["loop"] = why.clone().into();
        }
        decision["actions"] = actions.iter().map(action_name).collect();
        let stop = stop.unwrap_or(if self.calls.is_empty() { ModelStop::End } else { ModelStop::Tools });
        let usage = usage.unwrap_or_else(|| self.estimate());
        self.beats.push(Beat::Say(Delta::End { stop, usage }));
        Play { beats: self.beats, decision }
    }

    fn words(&mut self, words: &str, over: Option<Duration>, delta: impl Fn(String) -> Delta) {
        self.said += words.len();
        let pieces: Vec<&str> = words.split_inclusive(char::is_whitespace).collect();
        let pause =
            over.map_or(self.pace, |over| over / u32::try_from(pieces.len().max(1)).unwrap_or(u32::MAX));
        for piece in pieces {
            self.beats.push(Beat::Say(delta(piece.to_owned())));
            if !pause.is_zero() {
                self.beats.push(Beat::Wait(pause));
            }
        }
    }

    fn call(&mut self, wanted: &WantedTool) {
        let cwd = self.exchange.cwd.as_deref();
        let file = wanted.path().zip(self.hints.files);
        let present = file.and_then(|(path, read)| read(Path::new(&absolute(path, cwd))));
        let place = Place { cwd, present: present.as_deref() };
        let chosen = match choose(wanted, &self.request.tools, &self.hints.intents, place) {
            Ok(chosen) => chosen,
            Err(unfit) => {
                self.unfit = Some(json!({"intent": unfit.intent, "offered": unfit.offered}));
                return self.words(&format!("I cannot do this: {unfit}."), None, Delta::Text);
            }
        };
        let text = chosen.input.text();
        let before = self
            .exchange
            .calls
            .iter()
            .filter(|(name, input)| *name == chosen.name && same(input, &text))
            .count();
        if before >= LOOP {
            self.circling = Some(format!("the call of {:?} was made {before} times", chosen.name));
        }
        if let Some(why) = &self.circling {
            let words = format!("I stop here: {why}.");
            return self.words(&words, None, Delta::Text);
        }
        self.say_call(wanted, chosen, &text);
    }

    fn say_call(&mut self, wanted: &WantedTool, chosen: Chosen, text: &str) {
        let index = self.calls.len();
        self.said += text.len();
        self.calls.push(json!({"intent": wanted.name(), "tool": chosen.name, "input": text}));
        self.beats.push(Beat::Say(Delta::Call {
            index,
            id: format!("call_{}_{index}", self.number),
            name: chosen.name,
            namespace: chosen.namespace,
            free_text: matches!(chosen.input, Input::Text(_)),
        }));
        // In two pieces, so that an agent must put them together.
        let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        for piece in [&text[..middle], &text[middle..]] {
            if !piece.is_empty() {
                self.beats.push(Beat::Say(Delta::Args { index, text: piece.to_owned() }));
            }
        }
    }

    /// About four characters to a token, as vendors say.
    fn estimate(&self) -> Usage {
        let words =
            self.request.system.len() + self.request.user_texts().map(|(_, text)| text.len()).sum::<usize>();
        let results: usize = self.exchange.results.iter().map(|result| result.text.len()).sum();
        let tokens = |chars: usize| (chars as u64).div_ceil(4).max(1);
        Usage { input: tokens(words + results), output: tokens(self.said), ..Usage::default() }
    }
}

/// Agents write the arguments of old calls in their own way.
fn same(a: &str, b: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

fn action_name(action: &RuleAction) -> Value {
    let name = match action {
        RuleAction::Text(..) | RuleAction::Whole(_) => "text",
        RuleAction::Think(..) => "think",
        RuleAction::Call(_) => "call",
        RuleAction::Beyond(_) => "beyond",
        RuleAction::Stall => "stall",
        RuleAction::Error { .. } => "error",
        RuleAction::Usage(_) => "usage",
        RuleAction::Wait(_) => "wait",
        RuleAction::Stop(_) => "stop",
        RuleAction::Cut => "cut",
    };
    name.into()
}
