//! A driver as data: how to start a client with our agent in its settings, and what it can be made to do.

mod catalogue;
mod parse;

use std::collections::BTreeMap;
use std::time::Duration;

use acp_comply::program::PermissionHabit;
use acp_profile::{Package, Profile};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use catalogue::{DriverCatalogue, expected, unpack};
pub use parse::DriverError;

/// How to start and use one client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientDriver {
    /// The short name, also the file's name.
    pub name: String,
    /// The name for people.
    #[serde(default)]
    pub title: String,
    /// What a tester should know about it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The npm packages that make up the client, the client itself first.
    #[serde(default)]
    pub npm: Vec<Package>,
    /// The PyPI packages.
    #[serde(default)]
    pub pip: Vec<Package>,
    /// The crates.
    #[serde(default)]
    pub cargo: Vec<Package>,
    /// What must be on the machine, by program.
    #[serde(default)]
    pub needs: BTreeMap<String, String>,
    /// How it is used.
    pub kind: DriverKind,
    /// How the client learns what to start.
    pub agent: AgentEntry,
    /// Areas that are the client's own code.
    #[serde(default)]
    pub own: Vec<String>,
    /// Files for the client's home: text as it is, anything else as JSON.
    #[serde(default)]
    pub home: BTreeMap<String, Value>,
    /// Variables for the client.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How long things may take.
    #[serde(default)]
    pub limits: DriverLimits,
    /// How questions for permission are answered.
    #[serde(default)]
    pub permission: DriverPermission,
    /// `command`, `tty`: the words of the start.
    #[serde(default)]
    pub base: Vec<String>,
    /// `talk`: the words of the start.
    #[serde(default)]
    pub start: Vec<String>,
    /// `tty`: what the screen's last line says when the client waits for input.
    #[serde(default)]
    pub ready: Option<String>,
    /// What there is.
    pub verbs: BTreeMap<String, DriverVerb>,
    /// The whole file, for preconditions.
    #[serde(skip)]
    pub file: Value,
}

/// How a driver uses its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    /// A process for each verb.
    Command,
    /// One process that reads verbs as JSON lines and writes events.
    Talk,
    /// Keys into a pseudo-terminal.
    Tty,
    /// A person.
    Hand,
}

/// How a client learns what to start.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentEntry {
    /// In which form.
    pub form: AgentForm,
    /// `file`: where the settings file is, below the client's home or absolute.
    #[serde(default)]
    pub path: Option<String>,
    /// `file`: its content as JSON.
    #[serde(default)]
    pub json: Option<Value>,
    /// `file`: its content as text.
    #[serde(default)]
    pub text: Option<String>,
}

/// The form in which a client is told what to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentForm {
    /// One quoted string.
    Shell,
    /// Words.
    Argv,
    /// A settings file.
    File,
    /// The name of a program.
    Name,
    /// An address.
    Connect,
}

/// How long a client may take, before any factor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DriverLimits {
    /// To start the agent.
    #[serde(deserialize_with = "parse::time")]
    pub start: Duration,
    /// To do what a verb says.
    #[serde(deserialize_with = "parse::time")]
    pub verb: Duration,
    /// To end.
    #[serde(deserialize_with = "parse::time")]
    pub quit: Duration,
}

impl Default for DriverLimits {
    fn default() -> DriverLimits {
        DriverLimits {
            start: Duration::from_secs(10),
            verb: Duration::from_secs(10),
            quit: Duration::from_secs(6),
        }
    }
}

/// How questions for permission are answered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DriverPermission {
    /// `talk`: the verb that says it.
    pub verb: Option<String>,
    /// `tty`: what the screen's last line says when the client asks.
    pub ready: Option<String>,
    /// How it is allowed.
    pub allow: Option<DriverWords>,
    /// How it is rejected.
    pub reject: Option<DriverWords>,
    /// How it is left open.
    pub leave: Option<DriverWords>,
}

/// Flags, or keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum DriverWords {
    /// Keys.
    Keys(String),
    /// Flags.
    Flags(Vec<String>),
}

/// One thing that a client can be made to do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DriverVerb {
    /// Words behind `base`.
    pub run: Option<Vec<String>>,
    /// Words for the next start.
    pub flags: Option<Vec<String>>,
    /// A signal to the process in the background, without `SIG`.
    pub signal: Option<String>,
    /// `tty`: keys.
    pub keys: Option<String>,
    /// `talk`: another name of the verb on the line.
    pub line: Option<String>,
    /// There is nothing to do but wait.
    pub wait: bool,
    /// The process keeps running.
    pub background: bool,
    /// It opens a session, too.
    pub opens: bool,
    /// The client ends after it.
    pub quits: bool,
    /// It waits first.
    #[serde(deserialize_with = "optional_time")]
    pub pause: Option<Duration>,
    /// What is done instead while a process of the verb `prompt` runs in the background.
    pub for_ask: Option<Box<DriverVerb>>,
}

fn optional_time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    parse::time(value).map(Some)
}

impl DriverVerb {
    /// Whether its words hold a prompt.
    pub fn takes_text(&self) -> bool {
        let words = self.run.iter().flatten().chain(&self.keys);
        words.into_iter().any(|word| word.contains("${text}"))
    }
}

impl ClientDriver {
    /// The version of its first package.
    pub fn version(&self) -> Option<&str> {
        let first = self.npm.first().or(self.pip.first()).or(self.cargo.first())?;
        (!first.version.is_empty()).then_some(first.version.as_str())
    }

    /// What its packages and needs are, as the installer of agents takes it.
    pub fn as_profile(&self) -> Profile {
        let mut profile = Profile::bare(&self.name, &self.name);
        profile.title.clone_from(&self.title);
        profile.npm.clone_from(&self.npm);
        profile.pip.clone_from(&self.pip);
        profile.needs.clone_from(&self.needs);
        profile
    }

    /// Whether its packages have to be installed first.
    pub fn has_packages(&self) -> bool {
        !(self.npm.is_empty() && self.pip.is_empty() && self.cargo.is_empty())
    }

    /// How the habit is brought about; `None` when it cannot be.
    pub fn permission_words(&self, habit: PermissionHabit) -> Option<&DriverWords> {
        match habit {
            PermissionHabit::Allow => self.permission.allow.as_ref(),
            PermissionHabit::Reject => self.permission.reject.as_ref(),
            PermissionHabit::Leave => self.permission.leave.as_ref(),
        }
    }

    /// The habits that the client can be given.
    pub fn habits(&self) -> Vec<PermissionHabit> {
        [PermissionHabit::Allow, PermissionHabit::Reject, PermissionHabit::Leave]
            .into_iter()
            .filter(|habit| self.permission.verb.is_some() || self.permission_words(*habit).is_some())
            .collect()
    }

    /// Whether the client opens a session only with a prompt.
    pub fn opens_by_prompt(&self) -> bool {
        !self.verbs.contains_key("open") && self.verbs.get("prompt").is_some_and(|verb| verb.opens)
    }

    /// The first words of its start.
    pub fn start_words(&self) -> &[String] {
        if self.kind == DriverKind::Talk { &self.start } else { &self.base }
    }

    /// How reports describe it: the command line without the folders of this machine.
    pub fn describe(&self) -> String {
        let words =
            self.start_words().iter().map(|word| word.rsplit_once("}/").map_or(word.as_str(), |it| it.1));
        words.collect::<Vec<_>>().join(" ")
    }
}
