//! Editors' settings: the `agent_servers` table.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::profile::{Profile, ProfileError, ProfileSource};

/// Reads every agent of an editor's settings file (JSON, comments allowed). The table may be the value of
/// `agent_servers` or `agentServers`, anywhere at the top, or the whole file.
///
/// Entries without a command (an editor's own agents, or those it takes from the registry) come back as
/// errors next to the others, so that `--agent NAME` can say why a name cannot be used.
pub fn parse_settings(place: &str, text: &str) -> Result<Vec<Result<Profile, ProfileError>>, ProfileError> {
    let value: Value = serde_json::from_str(&crate::strip_comments(text))
        .map_err(|error| ProfileError::new(place, format!("the settings are not JSON: {error}")))?;
    let table = value.get("agent_servers").or_else(|| value.get("agentServers")).unwrap_or(&value);
    let Value::Object(table) = table else {
        return Err(ProfileError::new(place, "\"agent_servers\" is not an object of agents by name"));
    };
    Ok(table.iter().map(|(name, entry)| parse_entry(place, name, entry)).collect())
}

fn parse_entry(place: &str, name: &str, entry: &Value) -> Result<Profile, ProfileError> {
    let place = format!("{place}, agent {name:?}");
    let bad = |reason: String| ProfileError::new(place.clone(), reason);
    // Some editors nest the command: {"command": {"path": …, "args": …, "env": …}}.
    let inner = entry.get("command").filter(|command| command.is_object()).unwrap_or(entry);
    let program = inner.get("path").or_else(|| inner.get("command"));
    let Some(command) = program.and_then(Value::as_str).filter(|command| !command.trim().is_empty()) else {
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or("built into the editor");
        return Err(bad(format!("it has no \"command\" ({kind}); give one to use it here")));
    };
    let mut profile = Profile::bare(name, command);
    profile.source = ProfileSource::Settings;
    profile.args =
        strings(inner.get("args")).ok_or_else(|| bad("\"args\" is not a list of strings".to_owned()))?;
    profile.env = env(inner.get("env")).ok_or_else(|| bad("\"env\" is not a table of strings".to_owned()))?;
    Ok(profile)
}

/// A list of strings; nothing counts as an empty list.
pub(crate) fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|item| item.as_str().map(literal)).collect(),
        Some(_) => None,
    }
}

/// A table of strings; numbers and booleans are taken as their text.
pub(crate) fn env(value: Option<&Value>) -> Option<BTreeMap<String, String>> {
    match value {
        None | Some(Value::Null) => Some(BTreeMap::new()),
        Some(Value::Object(table)) => table
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => Some((name.clone(), literal(text))),
                Value::Number(_) | Value::Bool(_) => Some((name.clone(), value.to_string())),
                _ => None,
            })
            .collect(),
        Some(_) => None,
    }
}

/// Others' files know nothing of our variables: `${` in them is meant literally.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}
