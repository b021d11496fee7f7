//! The default agent and the verbs of drivers, as data.

use acp_match::{Template, Vars};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/client/agent.json"));

/// How the default agent answers, and what verbs bring.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentTable {
    /// A method that nobody has: any answer shows that the client lives.
    pub alive: String,
    /// The version that is agreed on.
    pub version: AgreedVersion,
    /// Everything that an agent can offer.
    pub capabilities: Value,
    /// The error for a method that is not in the table.
    pub unknown: Value,
    /// Path of the session's id in a frame of the client.
    pub session: String,
    /// What the ids of new sessions begin with.
    pub session_names: String,
    /// What is kept of answers, for later answers.
    pub keeps: BTreeMap<String, Keeps>,
    /// The client's requests.
    pub methods: BTreeMap<String, AgentMethod>,
    /// Notifications that end a held request.
    pub cancels: BTreeMap<String, Ends>,
    /// The verbs of drivers.
    pub verbs: BTreeMap<String, Verb>,
    /// The verb and the text that open a session of a client that opens none without.
    pub first_prompt: FirstPrompt,
    /// The client's area that a requirement, or all of a group, is about.
    pub areas: BTreeMap<String, String>,
}

/// Where the client's version stands, and the highest that the agent has.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct AgreedVersion {
    pub asked: String,
    pub most: u64,
}

/// A value of an answer that is kept.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Keeps {
    /// Path in the result.
    pub path: String,
    /// Before there was one.
    pub otherwise: Value,
}

/// How a request is answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentMethod {
    /// The usual result, a template. Members whose variable has no value are left out.
    pub result: Value,
    /// It is not answered by itself.
    #[serde(default)]
    pub held: bool,
    /// It opens a session.
    #[serde(default)]
    pub opens: bool,
    /// Path of the new session's id in the result; otherwise the request names the session.
    #[serde(default)]
    pub id: Option<String>,
}

/// What a notification ends.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ends {
    /// The held request's method.
    pub ends: String,
    /// Its result.
    pub result: Value,
}

/// What a verb brings about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Verb {
    /// Methods of the messages that it brings.
    #[serde(default)]
    pub brings: Vec<String>,
    /// A session is opened.
    #[serde(default)]
    pub opens: bool,
    /// The client starts the agent again.
    #[serde(default)]
    pub again: bool,
    /// The client ends.
    #[serde(default)]
    pub ends: bool,
    /// It prepares what follows.
    #[serde(default)]
    pub prepares: bool,
    /// The field that says how questions for permission are answered.
    #[serde(default)]
    pub permission: Option<String>,
    /// Fields that it always has.
    #[serde(default)]
    pub fields: BTreeMap<String, Value>,
}

impl Verb {
    /// Whether there is nothing to wait for.
    pub fn is_done_at_once(&self) -> bool {
        self.brings.is_empty() && !self.opens && !self.again && !self.ends
    }
}

/// See [`AgentTable::first_prompt`].
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FirstPrompt {
    pub verb: String,
    pub text: String,
}

impl AgentTable {
    /// The table that is part of this crate.
    pub fn built_in() -> Arc<AgentTable> {
        static TABLE: LazyLock<Arc<AgentTable>> = LazyLock::new(|| {
            let table = serde_json::from_str(TEXT);
            Arc::new(
                table.unwrap_or_else(|error| unreachable!("the default agent is checked by a test: {error}")),
            )
        });
        Arc::clone(&TABLE)
    }

    /// The verbs of drivers, in the order of the alphabet.
    pub fn verb_names(&self) -> Vec<String> {
        self.verbs.keys().cloned().collect()
    }

    /// The area of a client that a requirement is about: that of the requirement itself, or else of its group.
    pub fn area_of(&self, row: &str) -> Option<&str> {
        let group = row.rsplit_once('-').map(|(group, _)| group);
        let found = self.areas.get(row).or_else(|| self.areas.get(group?));
        found.map(String::as_str)
    }
}

/// A template with its holes filled. A member that is one hole without a value is left out.
pub(crate) fn fill(template: &Value, vars: &Vars) -> Result<Value, String> {
    let mut filled = template.clone();
    drop_unset(&mut filled, vars);
    Template::render_value(&mut filled, vars).map_err(|(_, error)| error.to_string())?;
    Ok(filled)
}

fn drop_unset(value: &mut Value, vars: &Vars) {
    let Value::Object(members) = value else { return };
    let kept = std::mem::take(members).into_iter().filter(|(_, member)| {
        let hole = member.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
        hole.is_none_or(|name| vars.contains(name))
    });
    *members = kept.collect::<Map<String, Value>>();
    members.values_mut().for_each(|member| drop_unset(member, vars));
}

/// The verbs that drivers can have.
pub fn driver_verbs() -> Vec<String> {
    AgentTable::built_in().verb_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_match::Path;

    #[test]
    fn the_default_agent_can_be_read() {
        let table: AgentTable = serde_json::from_str(TEXT).unwrap();
        let ids = table.methods.values().filter_map(|method| method.id.as_ref());
        let kept = table.keeps.values().map(|keeps| &keeps.path);
        for path in ids.chain(kept).chain([&table.session, &table.version.asked]) {
            Path::parse(path).unwrap();
        }
        assert!(table.verbs.contains_key(&table.first_prompt.verb));
        let held = table.cancels.values().all(|ends| table.methods[&ends.ends].held);
        assert!(held, "a notification ends what is held");
    }

    #[test]
    fn a_requirement_has_its_own_area_or_that_of_its_group() {
        let table = AgentTable::built_in();
        assert_eq!(table.area_of("C-FS-02"), Some("fs"));
        assert_eq!(table.area_of("C-TRN-01"), Some("wire"));
        assert_eq!(table.area_of("C-TRN-05"), Some("process"));
        assert_eq!(table.area_of("RPC-01"), None);
    }
}
