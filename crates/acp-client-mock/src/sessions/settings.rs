//! Modes and options of a session.

use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionConfigOptionValue;
use serde_json::Value;

use crate::state::{OpenSession, Shared, result_of};

/// Sets the mode: by an option if there is one for it, and by a mode if not. Without a name, the next one.
pub(super) async fn mode(shared: &Arc<Shared>, wanted: Option<String>) -> Result<(), String> {
    let (client, session) = shared.open().ok_or("no session is open")?;
    if let Some(option) = session.options.iter().find(|option| text(option, "category") == "mode") {
        let id = text(option, "id").to_owned();
        return self::option(shared, Some(id), wanted.map(Value::from)).await;
    }
    let mode = match wanted {
        Some(mode) if session.modes.contains(&mode) => mode,
        Some(mode) => return Err(format!("the agent does not offer the mode {mode:?}")),
        None => session.modes.last().cloned().ok_or("the agent offers no modes")?,
    };
    client.set_mode(&session.id, &mode).await.map(drop).map_err(|error| error.to_string())
}

/// Sets an option: this one or the first one that can be set, to this value or another than it has.
pub(super) async fn option(
    shared: &Arc<Shared>,
    wanted: Option<String>,
    value: Option<Value>,
) -> Result<(), String> {
    let (client, session) = shared.open().ok_or("no session is open")?;
    let (id, value) = choice(&session, wanted.as_deref(), value)?;
    let answer =
        client.set_config_option(&session.id, &id, value).await.map_err(|error| error.to_string())?;
    if let Some(options) = result_of(&answer.frame)["configOptions"].as_array()
        && let Some(open) = &mut shared.state().session
    {
        open.options.clone_from(options);
    }
    Ok(())
}

/// Which option is set to which value.
fn choice(
    session: &OpenSession,
    wanted: Option<&str>,
    value: Option<Value>,
) -> Result<(String, SessionConfigOptionValue), String> {
    let can_be_set = |option: &&Value| matches!(text(option, "type"), "select" | "boolean");
    let mut settable = session.options.iter().filter(can_be_set);
    let option = settable.find(|option| wanted.is_none_or(|wanted| text(option, "id") == wanted));
    let option = option.ok_or_else(|| match wanted {
        Some(wanted) => format!("the agent offers no option {wanted:?} that can be set"),
        None => "the agent offers no options".to_owned(),
    })?;
    let id = text(option, "id").to_owned();
    let current = &option["currentValue"];
    if text(option, "type") == "boolean" {
        let value = match value {
            None => !current.as_bool().unwrap_or_default(),
            Some(value) => {
                let said = value.as_bool().or_else(|| value.as_str()?.parse().ok());
                said.ok_or_else(|| format!("the option {id:?} is on or off, not {value}"))?
            }
        };
        return Ok((id, SessionConfigOptionValue::boolean(value)));
    }
    let offered = values(option);
    let value = match value {
        Some(value) => offered.iter().find(|offered| **offered == value),
        None => offered.iter().find(|offered| *offered != current).or(offered.first()),
    };
    match value.and_then(Value::as_str) {
        Some(value) => Ok((id, SessionConfigOptionValue::value_id(value.to_owned()))),
        None => Err(format!("the option {id:?} does not have this value")),
    }
}

/// The values of a select, in groups or not.
fn values(option: &Value) -> Vec<Value> {
    let items = option["options"].as_array().into_iter().flatten();
    let value = |item: &Value| item.get("value").cloned();
    items
        .flat_map(|item| match item["options"].as_array() {
            Some(group) => group.iter().filter_map(value).collect(),
            None => value(item).into_iter().collect::<Vec<_>>(),
        })
        .collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
