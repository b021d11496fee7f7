//! Wrong or unusual about how a connection and its sessions begin.

use acp_proto::{method, update};
use acp_rpc::Frame;
use serde_json::Value;

use super::{Around, WireQuirk, notification, request, result, text, with_params};

/// States these capabilities, as they are written.
pub(super) struct States(pub(super) Value);

impl WireQuirk for States {
    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::INITIALIZE) else { return Some(frame) };
        params["clientCapabilities"] = self.0.clone();
        Some(with_params(&frame, &params))
    }
}

/// Breaks when a capability of the agent is null.
pub(super) struct ChokesOnNull;

impl WireQuirk for ChokesOnNull {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if around.answers(method::INITIALIZE).is_some()
            && let Some((_, answer)) = result(&frame)
            && answer.get("agentCapabilities").is_some_and(has_null)
        {
            around.crash();
            return None;
        }
        Some(frame)
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Decodes the percent signs of a cursor.
pub(super) struct DecodesCursor;

impl WireQuirk for DecodesCursor {
    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::SESSION_LIST) else { return Some(frame) };
        let decoded = decoded(text(&params, "cursor"));
        if params.get("cursor").is_none_or(|cursor| *cursor == decoded.as_str()) {
            return Some(frame);
        }
        params["cursor"] = decoded.into();
        Some(with_params(&frame, &params))
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Begins to list where an earlier launch stopped.
#[derive(Default)]
pub(super) struct KeepsCursor {
    last: Option<Value>,
    /// Whether this launch has listed already.
    has_listed: bool,
}

impl WireQuirk for KeepsCursor {
    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::SESSION_LIST) else { return Some(frame) };
        let is_first = !std::mem::replace(&mut self.has_listed, true);
        if let Some(cursor) = params.get("cursor") {
            self.last = Some(cursor.clone());
        } else if let Some(cursor) = self.last.clone().filter(|_| is_first) {
            params["cursor"] = cursor;
            return Some(with_params(&frame, &params));
        }
        Some(frame)
    }

    fn launched(&mut self) {
        self.has_listed = false;
    }
}

/// Breaks at an option of a session that it does not know.
pub(super) enum OptionCrash {
    /// Because of its category.
    Category,
    /// Because of its type.
    Kind,
}

/// The categories and the types of options that version 1 knows.
const CATEGORIES: [&str; 4] = ["mode", "model", "model_config", "thought_level"];
const KINDS: [&str; 2] = ["select", "boolean"];

impl WireQuirk for OptionCrash {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let told = notification(&frame, method::SESSION_UPDATE).and_then(|mut params| {
            let told = params["update"].take();
            (text(&told, "sessionUpdate") == update::CONFIG_OPTION_UPDATE).then_some(told)
        });
        let options = told.or_else(|| result(&frame).map(|(_, answer)| answer));
        let (key, known): (_, &[&str]) = match self {
            Self::Category => ("category", &CATEGORIES),
            Self::Kind => ("type", &KINDS),
        };
        let options = options.as_ref().and_then(|holder| holder.get("configOptions")?.as_array());
        let mut words = options.into_iter().flatten().filter_map(|option| option.get(key)?.as_str());
        if words.any(|word| !known.contains(&word)) {
            around.crash();
            return None;
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn percent_signs_are_decoded_where_they_mean_something() {
        assert_eq!(decoded("==\u{1F600}/%7B\\\"\n"), "==\u{1F600}/{\\\"\n");
        assert_eq!(decoded("100%, %4"), "100%, %4");
    }
}
