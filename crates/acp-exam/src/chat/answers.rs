//! What the exam answers between tests: the answers of the default agent, read from the same data as in a test.

use serde_json::{Map, Value, json};

const TABLE: &str = include_str!("../../../../suites/client/agent.json");

/// The default agent's answers.
#[derive(Debug)]
pub(super) struct UsualAnswers {
    table: Value,
}

impl UsualAnswers {
    pub fn built_in() -> UsualAnswers {
        UsualAnswers { table: serde_json::from_str(TABLE).unwrap_or_default() }
    }

    /// Whether an answer to this method opens a session.
    pub fn opens(&self, method: &str) -> bool {
        self.table["methods"][method]["opens"] == true
    }

    /// Whether the session that an answer to this method opens is a new one.
    pub fn names_session(&self, method: &str) -> bool {
        self.table["methods"][method]["id"].is_string()
    }

    /// The id of the new session of this number, counted from 1.
    pub fn session_name(&self, number: usize) -> String {
        format!("{}{number}", self.table["sessionNames"].as_str().unwrap_or_default())
    }

    /// The answer's `result` or `error` member; `session` is the id of a new session.
    pub fn body(&self, method: &str, params: &Value, session: &str) -> (&'static str, Value) {
        let known = &self.table["methods"][method]["result"];
        if known.is_null() {
            return ("error", self.table["unknown"].clone());
        }
        let most = self.table["version"]["most"].as_u64().unwrap_or(1);
        let asked = params["protocolVersion"].as_u64().unwrap_or(most);
        let mut values = Map::new();
        values.insert("version".to_owned(), json!(asked.min(most)));
        values.insert("capabilities".to_owned(), self.table["capabilities"].clone());
        values.insert("authMethods".to_owned(), json!([]));
        values.insert("toolVersion".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        values.insert("newSessionId".to_owned(), json!(session));
        values.insert("configOptions".to_owned(), json!([]));
        ("result", filled(known, &values))
    }
}

/// The value with the texts `${name}` replaced.
fn filled(value: &Value, values: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            name.and_then(|name| values.get(name)).unwrap_or(value).clone()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, values)).collect(),
        Value::Object(members) => {
            let pairs = members.iter().map(|(key, member)| (key.clone(), filled(member, values)));
            Value::Object(pairs.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_proto::method;

    #[test]
    fn the_usual_answers_are_those_of_the_default_agent() {
        let answers = UsualAnswers::built_in();
        let (kind, answer) = answers.body(method::INITIALIZE, &json!({ "protocolVersion": 7 }), "");
        assert_eq!((kind, &answer["protocolVersion"]), ("result", &json!(1)));
        assert_eq!(answer["agentCapabilities"]["loadSession"], true);
        let (_, opened) = answers.body(method::SESSION_NEW, &json!({}), "exam-4");
        assert_eq!(opened["sessionId"], answers.session_name(4));
        assert!(answers.opens(method::SESSION_LOAD) && !answers.opens(method::SESSION_PROMPT));
        assert_eq!(answers.body("foo/bar", &json!({}), "").1["code"], -32601);
    }
}
