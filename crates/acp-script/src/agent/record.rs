//! What is kept of a session between turns, connections and processes.
//!
//! Thinking is kept twice: as words for people, and as the vendor's sealed block, which goes back only over the wire it
//! came from, because vendors refuse the next question of a thinking model without it. A model's answer is kept as a
//! round: which calls it made in which order, and each sealed thought by the number of calls before it, because the
//! history has calls in the order in which they ended.

use std::collections::{BTreeMap, BTreeSet};

use acp_proto::update;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::step::is_notice;

/// A session at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: String,
    /// The working folder it was last opened with.
    pub cwd: String,
    /// Further roots it was last opened with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// When it was made, in milliseconds of the Unix epoch.
    pub created: u64,
    /// When something last happened in it.
    pub updated: u64,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The current mode.
    pub mode: String,
    /// The values of the config options, by id.
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
    /// The word to remember.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Tokens used.
    #[serde(default)]
    pub used: u64,
    /// How many entries of the history the provider counted for `used`; 0 where it is an estimate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted: usize,
    /// What the conversation was before it was compacted, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// How often a model was asked, and what of its answers the history does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Round>,
    /// How many tasks were delegated.
    #[serde(default)]
    pub delegated: u32,
    /// The last states of tool calls and messages that a running turn has not finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draft: Vec<Value>,
    /// The bodies of the updates that tell the conversation so far.
    #[serde(default)]
    pub history: Vec<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl SessionRecord {
    /// The same session without its history.
    #[must_use]
    pub fn summary(&self) -> Self {
        Self {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            roots: self.roots.clone(),
            title: self.title.clone(),
            mode: self.mode.clone(),
            config: self.config.clone(),
            word: self.word.clone(),
            digest: None,
            rounds: Vec::new(),
            draft: Vec::new(),
            history: Vec::new(),
            ..*self
        }
    }

    /// The entry of `session/list`.
    pub fn info(&self) -> Value {
        let mut info = json!({ "sessionId": self.id, "cwd": self.cwd, "updatedAt": timestamp(self.updated) });
        if !self.roots.is_empty() {
            info["additionalDirectories"] = json!(self.roots);
        }
        if let Some(title) = &self.title {
            info["title"] = json!(title);
        }
        info
    }
}

/// A question to a model, and the shape of its answer.
///
/// The history has finished calls in the order in which they ended, with what they did on the way before them: it does
/// not tell in which order the model made them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Where in the history the answer begins.
    pub at: usize,
    /// Whether the provider did not take what the person said just before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Whether the answer was cut off by the limit of its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The tool calls of the answer that were begun, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// What the provider wants back unread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seals: Vec<SealedThought>,
    /// The messages that stand behind calls: the history has them before these, because they were heard before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Later>,
}

impl Round {
    /// Puts it where the history has so many entries less in front, and so many more.
    pub(super) fn shift(&mut self, less: usize, more: usize) {
        let seals = self.seals.iter_mut().map(|seal| &mut seal.at);
        let places = seals.chain(self.later.iter_mut().map(|said| &mut said.at)).chain([&mut self.at]);
        places.for_each(|at| *at = *at - less + more);
    }
}

/// An answer that was cut off by the limit of its length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The tools that it called, and that were not used: what they should do may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
}

/// A message behind calls of the same answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// How many calls of the answer stand before it.
    pub calls: usize,
    /// Which entry of the history it is.
    pub at: usize,
}

/// Where in the history the words stand that a provider did not take: told again, they would be refused again. Notices
/// may stand between them and the question.
pub fn refused(rounds: &[Round], history: &[Value]) -> BTreeSet<usize> {
    let is_users = |at: &usize| history[*at]["sessionUpdate"] == update::USER_MESSAGE_CHUNK;
    let mut places = BTreeSet::new();
    let mut before = 0;
    for round in rounds {
        let end = round.at.min(history.len());
        if round.refused {
            let asked =
                (before.min(end)..end).rev().take_while(|at| is_users(at) || is_notice(&history[*at]));
            places.extend(asked.filter(is_users));
        }
        before = round.at;
    }
    places
}

/// Something that a provider wants back unread, in its place of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedThought {
    /// How many calls of the answer stand before it.
    pub calls: usize,
    /// Before which entry of the history it stands, when it stands before all calls.
    pub at: usize,
    /// The thing itself.
    pub text: String,
}

/// What a compacted conversation was about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How many entries of the history it stands for.
    pub entries: usize,
    /// What they said, in short.
    pub text: String,
}

/// ISO 8601, from milliseconds of the Unix epoch.
pub fn timestamp(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
