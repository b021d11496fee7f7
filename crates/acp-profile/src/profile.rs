//! A profile as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One agent: how to get it, start it against a given model address, and drive it.
///
/// The file format is an editor's `agent_servers` entry (`command`, `args`, `env`) with more fields. String
/// values may hold `${…}`, see [`crate::VARIABLES`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// The short name, also the file's name.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Arguments that make it listen on TCP `${port}` instead, when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_args: Option<Vec<String>>,
    /// Environment variables to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files to write into the agent's private home before it starts: text as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub home: BTreeMap<String, Value>,
    /// Commands to run in the private home before the agent starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Vec<String>>,
    /// How it talks to its model; absent for an agent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ProfileModel>,
    /// How this agent names its tools, by intent: `read`, `write`, `edit`, `run`, `plan`, `search`, `ask`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intents: BTreeMap<String, ToolHint>,
    /// Requests to send after session/new: `{"method", "params"}` with `${sessionId}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Value>,
    /// What must be on the machine, by program: `{"node": ">=22"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, String>,
    /// The npm packages that make it up, the agent itself first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub npm: Vec<Package>,
    /// The PyPI packages that make it up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pip: Vec<Package>,
    /// It refuses to work for root: it is started as another user then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unprivileged: bool,
    /// An authentication method to use, when the agent insists on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// What a tester should know about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where the profile came from.
    #[serde(skip)]
    pub source: ProfileSource,
}

/// Where a profile came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileSource {
    /// A profile of our own.
    #[default]
    Profile,
    /// An editor's settings file.
    Settings,
    /// The public agent registry.
    Registry,
}

/// How an agent talks to its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileModel {
    /// The wire format it speaks.
    pub wire: WireFormat,
    /// The model name it is configured with (`${model}`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Variables that hold the model's address, for people who wire it up by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub url_env: Vec<String>,
    /// Tags whose content in user messages is the agent's own, not the person's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<String>,
}

/// The vendors' wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireFormat {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// Gemini generateContent.
    Gemini,
}

impl WireFormat {
    /// The name in profiles and journals.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
        }
    }
}

/// How one intent is served by one of the agent's tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolHint {
    /// The tool's names, the best first; the first that is offered is taken.
    pub tools: Vec<String>,
    /// Its arguments, with the intent's fields as `${path}`, `${text}`, `${command}`, `${old}`, `${new}`,
    /// `${patch}`, `${steps}`, `${question}`, `${topic}`. Absent: filled from the tool's own schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
}

/// A package of a registry, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub package: String,
    /// The exact version; empty takes the newest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ProfileError {
    /// The file, and the entry in it.
    pub place: String,
    /// What is wrong and what to do.
    pub reason: String,
}

impl ProfileError {
    pub(crate) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

impl Profile {
    /// Reads one profile file. `place` is named in errors.
    pub fn parse(place: &str, text: &str) -> Result<Self, ProfileError> {
        let profile: Self = serde_json::from_str(&crate::strip_comments(text))
            .map_err(|error| ProfileError::new(place, format!("it is not a profile: {error}")))?;
        profile.check(place)?;
        Ok(profile)
    }

    /// A profile with nothing but a command.
    pub fn bare(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: String::new(),
            command: command.into(),
            args: Vec::new(),
            tcp_args: None,
            env: BTreeMap::new(),
            home: BTreeMap::new(),
            prepare: Vec::new(),
            model: None,
            intents: BTreeMap::new(),
            setup: Vec::new(),
            needs: BTreeMap::new(),
            npm: Vec::new(),
            pip: Vec::new(),
            unprivileged: false,
            auth: None,
            notes: Vec::new(),
            source: ProfileSource::Profile,
        }
    }

    /// The version that is recorded in results: that of the first package.
    pub fn version(&self) -> Option<&str> {
        let first = self.npm.first().or(self.pip.first())?;
        (!first.version.is_empty()).then_some(first.version.as_str())
    }

    fn check(&self, place: &str) -> Result<(), ProfileError> {
        if self.command.trim().is_empty() {
            return Err(ProfileError::new(place, "\"command\" is empty; name the agent's program"));
        }
        for path in self.home.keys() {
            let inside =
                !path.starts_with('/') && path.split('/').all(|step| !step.is_empty() && step != "..");
            if !inside {
                let reason = format!("\"home\" names {path:?}; a path inside the home folder is needed");
                return Err(ProfileError::new(place, reason));
            }
        }
        for (index, request) in self.setup.iter().enumerate() {
            if !request["method"].is_string() {
                let reason = format!("\"setup\"[{index}] has no \"method\"");
                return Err(ProfileError::new(place, reason));
            }
        }
        for (intent, hint) in &self.intents {
            if !["read", "write", "edit", "run", "plan", "search", "ask"].contains(&intent.as_str()) {
                let reason =
                    format!("there is no intent {intent:?}; use read, write, edit, run, plan, search or ask");
                return Err(ProfileError::new(place, reason));
            }
            if hint.tools.is_empty() {
                return Err(ProfileError::new(place, format!("the intent {intent:?} names no tool")));
            }
        }
        Ok(())
    }
}
