//! Who an agent is: what it calls itself, its modes, config options and slash commands.

use super::habits::{Feature, Habits};
use acp_policy::Policy;
use serde_json::Value;

/// The config option that mirrors the mode.
/// A client names a mode that there is not; the text says which there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownModeError(pub(super) String);

pub(super) const MODE_OPTION: &str = "mode";

/// What an agent says about itself, and what it lets a person choose. The default is the mock's.
#[derive(Clone, Debug)]
pub struct Persona {
    /// `agentInfo.title`
    pub title: String,
    /// How it speaks of itself, with its article.
    pub myself: String,
    /// The name in the addresses that it makes up: `https://NAME.invalid/…`
    pub host: String,
    /// The way to sign in over the protocol.
    pub login: Login,
    /// The way to sign in in a terminal, for clients that have one.
    pub terminal_login: Option<(Login, Vec<String>)>,
    /// Its modes; a new session is in the first one.
    pub modes: Vec<Mode>,
    /// Modes that it has but does not let clients choose, with the reason.
    pub barred: Vec<(Mode, String)>,
    /// Its config options, the mode among them.
    pub options: Vec<ConfigOption>,
    /// Its slash commands.
    pub commands: Vec<SlashCommand>,
    /// Whether it understands sounds.
    pub audio: bool,
    /// How many tokens it can hold at once.
    pub context: u64,
    /// What a million tokens cost in US dollars, if it says so.
    pub price: Option<f64>,
    /// `_meta` of `agentCapabilities`.
    pub meta: Option<Value>,
    /// `_meta` of the whole answer to `initialize`.
    pub hello: Option<Value>,
    /// What it says about itself; without it, it echoes what it does not understand.
    pub help: Option<Help>,
}

/// What an agent can do, for people.
#[derive(Clone, Debug)]
pub struct Help {
    /// The answer to `/help`.
    pub whole: String,
    /// Some sentences for someone whose words were not understood.
    pub brief: String,
    /// Where there is more of it.
    pub more: String,
}

/// A way to sign in.
#[derive(Clone, Debug)]
pub struct Login {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// A mode of a session.
#[derive(Clone, Debug)]
pub struct Mode {
    /// Its id.
    pub id: String,
    /// Other names under which it can be asked for in words, and by clients whose form of the protocol has them.
    pub aliases: Vec<String>,
    /// Its name.
    pub name: String,
    /// What it means.
    pub description: String,
    /// What may be done in it.
    pub policy: Policy,
}

/// One config option.
#[derive(Clone, Debug)]
pub struct ConfigOption {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it means.
    pub description: String,
    /// Its category, if the protocol has one for it.
    pub category: Option<String>,
    /// Its values.
    pub kind: OptionKind,
}

/// The values of a config option.
#[derive(Clone, Debug)]
pub enum OptionKind {
    /// One of several.
    Select {
        /// Value and name of each.
        values: Vec<(String, String)>,
        /// The value of a new session.
        default: String,
    },
    /// Yes or no.
    Boolean {
        /// The value of a new session.
        default: bool,
    },
}

/// A slash command.
#[derive(Clone, Debug)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it.
    pub hint: Option<String>,
}

impl Login {
    /// A way to sign in.
    pub fn new(id: &str, name: &str, description: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), description: description.to_owned() }
    }
}

impl Mode {
    /// A mode without another name.
    pub fn new(id: &str, name: &str, description: &str, policy: Policy) -> Self {
        let (id, name, description) = (id.to_owned(), name.to_owned(), description.to_owned());
        Self { id, aliases: Vec::new(), name, description, policy }
    }

    fn is_called(&self, name: &str) -> bool {
        let called = |text: &str| text.eq_ignore_ascii_case(name);
        called(&self.id) || self.aliases.iter().any(|alias| called(alias))
    }

    /// The same under another name too.
    #[must_use]
    pub fn or(mut self, alias: &str) -> Self {
        self.aliases.push(alias.to_owned());
        self
    }
}

impl ConfigOption {
    /// The option that mirrors the mode.
    pub fn mode(modes: &[Mode]) -> Self {
        let values = modes.iter().map(|mode| (mode.id.clone(), mode.name.clone())).collect();
        let default = modes.first().map(|mode| mode.id.clone()).unwrap_or_default();
        Self {
            id: MODE_OPTION.to_owned(),
            name: "Mode".to_owned(),
            description: "How freely the agent acts".to_owned(),
            category: Some(MODE_OPTION.to_owned()),
            kind: OptionKind::Select { values, default },
        }
    }

    /// A choice among several values; the default is one of them.
    pub fn select(id: &str, name: &str, description: &str, values: &[(&str, &str)], default: &str) -> Self {
        let values = values.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            category: Some(id.to_owned()),
            kind: OptionKind::Select { values, default: default.to_owned() },
        }
    }

    /// A choice that the protocol has no category for.
    fn own(id: &str) -> Self {
        let values = [("plain", "Plain"), ("rich", "Rich")];
        Self { category: None, ..Self::select(id, id, "A matter of taste", &values, "plain") }
    }

    /// Yes or no.
    pub fn boolean(id: &str, name: &str, description: &str, default: bool) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            category: None,
            kind: OptionKind::Boolean { default },
        }
    }
}

impl SlashCommand {
    /// A command; an empty hint is none.
    pub fn new(name: &str, description: &str, hint: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        }
    }
}

impl Persona {
    /// Closes modes to clients, for this reason.
    pub fn bar(&mut self, closed: impl Fn(&Mode) -> bool, reason: &str) {
        let (closed, open) = std::mem::take(&mut self.modes).into_iter().partition(|mode| closed(mode));
        self.modes = open;
        self.barred.extend(Vec::into_iter(closed).map(|mode| (mode, reason.to_owned())));
        self.refresh_mode_option();
    }

    /// Gives modes that have one of these as another name that name as their id; the old id stays as another name.
    pub fn call_modes(&mut self, names: &[&str]) {
        for mode in &mut self.modes {
            if let Some(alias) = mode.aliases.iter_mut().find(|alias| names.contains(&alias.as_str())) {
                std::mem::swap(&mut mode.id, alias);
            }
        }
        self.refresh_mode_option();
    }

    fn refresh_mode_option(&mut self) {
        for option in self.options.iter_mut().filter(|option| option.id == MODE_OPTION) {
            *option = ConfigOption::mode(&self.modes);
        }
    }

    /// Offers what the habits offer, and gives up what they do without.
    pub(super) fn give_up(&mut self, habits: &Habits) {
        if let Some(names) = &habits.modes {
            self.modes.retain(|mode| names.iter().any(|name| mode.is_called(name)));
            self.refresh_mode_option();
        }
        if let Some(names) = &habits.options {
            let known = std::mem::take(&mut self.options);
            let find = |name: &String| known.iter().find(|option| option.id == *name).cloned();
            self.options =
                names.iter().map(|name| find(name).unwrap_or_else(|| ConfigOption::own(name))).collect();
        }
        if !habits.has(Feature::Modes) {
            self.options.retain(|option| option.id != MODE_OPTION);
        }
        if !habits.has(Feature::ConfigOptions) {
            self.options.clear();
        }
        if !habits.has(Feature::Commands) {
            self.commands.clear();
        }
    }

    /// The mode of that id or other name, whatever its case.
    pub(super) fn mode(&self, name: &str) -> Option<&Mode> {
        self.modes.iter().find(|mode| mode.is_called(name))
    }

    /// Why there is no mode of that name here, with the names of those that there are.
    pub(super) fn no_mode(&self, name: &str) -> String {
        let known: Vec<&str> = self.modes.iter().map(|mode| mode.id.as_str()).collect();
        let known = known.join(", ");
        match self.barred.iter().find(|(mode, _)| mode.is_called(name)) {
            Some((_, reason)) => format!("the mode {name:?} is closed: {reason}; there are {known}"),
            None => format!("there is no mode {name:?}; there are {known}"),
        }
    }

    /// What may be done in the mode of that id; one that there is not is as a new session's.
    pub(super) fn policy(&self, mode: &str) -> Policy {
        let known = self.modes.iter().find(|known| known.id == mode).or(self.modes.first());
        known.map_or(Policy::Default, |mode| mode.policy)
    }
}

impl Default for Persona {
    fn default() -> Self {
        let modes = vec![
            Mode::new("code", "Code", "Reads, and asks before it writes or runs anything", Policy::Default)
                .or("default"),
            Mode::new("plan", "Plan", "Reads and plans, changes nothing", Policy::Plan),
            Mode::new("auto", "Auto", "Writes and runs without asking", Policy::BypassPermissions)
                .or("bypassPermissions"),
            Mode::new("acceptEdits", "Accept edits", "Writes without asking", Policy::AcceptEdits),
        ];
        let options = vec![
            ConfigOption::mode(&modes),
            ConfigOption::select(
                "model",
                "Model",
                "Which pretended model answers",
                &[("mock-small", "Mock small"), ("mock-large", "Mock large")],
                "mock-small",
            ),
            ConfigOption::select(
                "thought_level",
                "Thought level",
                "How much it thinks aloud",
                &[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                "medium",
            ),
            ConfigOption::boolean("verbose", "Verbose", "Whether answers say more than they must", false),
        ];
        Self {
            title: "ACP mock agent".to_owned(),
            myself: "a mock agent".to_owned(),
            host: "mock".to_owned(),
            login: Login::new("mock-login", "Mock login", "Signs in at once, without asking anything"),
            terminal_login: Some((
                Login::new(
                    "mock-terminal-login",
                    "Mock login in a terminal",
                    "Starts the agent once more to sign in and ends by itself",
                ),
                vec!["--login".to_owned()],
            )),
            modes,
            barred: Vec::new(),
            options,
            commands: vec![
                SlashCommand::new("help", "Say which requests are understood", ""),
                SlashCommand::new("echo", "Repeat a text", "the text"),
                SlashCommand::new("plan", "Draft a plan", "what the plan is for"),
                SlashCommand::new("compact", "Compact the conversation", ""),
                SlashCommand::new("status", "Say where and in which mode the session works", ""),
            ],
            audio: true,
            context: 200_000,
            price: Some(2.0),
            meta: None,
            hello: None,
            help: None,
        }
    }
}
