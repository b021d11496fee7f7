//! What only a person can see: shown, and asked about. The answers are noted as given by hand, and never pass a test.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use acp_proto::{method, option_kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::talk::Talk;

/// An answer that comes sooner than this is a policy's, not a person's.
const TOO_SOON: Duration = Duration::from_millis(300);

/// Something to look at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// The requirement.
    pub row: String,
    /// What is asked.
    pub question: String,
    /// What the client must state, a path in its first request.
    #[serde(default)]
    pub capability: Option<String>,
    /// What is shown first.
    #[serde(default)]
    pub updates: Vec<Value>,
    /// A form that is shown first.
    #[serde(default)]
    pub form: Option<Value>,
}

/// What a person said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenByHand {
    /// The requirement.
    pub row: String,
    /// What was asked.
    pub question: String,
    /// `yes`, `no`, `cannot tell`, or why there is no answer.
    pub answer: String,
}

/// All questions.
pub(super) fn questions() -> &'static [Question] {
    static QUESTIONS: OnceLock<Vec<Question>> = OnceLock::new();
    QUESTIONS
        .get_or_init(|| serde_json::from_str(include_str!("../../data/questions.json")).unwrap_or_default())
}

/// The answer to a request of the exam's own, while everything else is answered as usual. `None`: none came in time.
pub(super) enum Reply {
    Came(Value),
    None,
    Cancelled,
    Gone,
}

/// Waits for it.
pub(super) async fn reply(talk: &mut Talk, id: &Value, patience: Duration) -> Reply {
    let until = tokio::time::Instant::now() + patience;
    loop {
        let heard = match tokio::time::timeout_at(until, talk.hear()).await {
            Ok(Some(heard)) => heard,
            Ok(None) => return Reply::Gone,
            Err(_) => return Reply::None,
        };
        if heard.is_answer() && heard.value["id"] == *id {
            return Reply::Came(heard.value);
        }
        if heard.method() == method::SESSION_CANCEL {
            return Reply::Cancelled;
        }
        let _ = talk.answer_usually(&heard);
    }
}

/// Shows and asks; `Err` ends the questions.
pub(super) async fn ask(
    talk: &mut Talk,
    session: &str,
    question: &Question,
    patience: Duration,
) -> Result<SeenByHand, ()> {
    for update in &question.updates {
        talk.update(session, update);
    }
    let seen = |answer: &str| SeenByHand {
        row: question.row.clone(),
        question: question.question.clone(),
        answer: answer.to_owned(),
    };
    if let Some(form) = &question.form {
        let mut params = form.clone();
        params["sessionId"] = json!(session);
        let id = talk.ask(method::ELICITATION_CREATE, &params);
        if matches!(reply(talk, &id, patience).await, Reply::Gone | Reply::Cancelled) {
            return Err(());
        }
    }
    let options = [
        ("yes", "Yes", option_kind::ALLOW_ONCE),
        ("no", "No", option_kind::REJECT_ONCE),
        ("cannot tell", "Cannot tell", option_kind::REJECT_ONCE),
    ]
    .map(|(id, name, kind)| json!({ "optionId": id, "name": name, "kind": kind }));
    let title = format!("{} ({} s)", question.question, patience.as_secs());
    let call = json!({ "toolCallId": format!("look-{}", question.row), "title": title, "status": "pending" });
    let params = json!({ "sessionId": session, "toolCall": call, "options": options });
    let began = Instant::now();
    let id = talk.ask(method::SESSION_REQUEST_PERMISSION, &params);
    match reply(talk, &id, patience).await {
        Reply::Came(_) if began.elapsed() < TOO_SOON => Ok(seen("not asked: the client answers by itself")),
        Reply::Came(value) => {
            let chosen = value["result"]["outcome"]["optionId"].as_str();
            Ok(seen(chosen.unwrap_or("no answer")))
        }
        Reply::None => Ok(seen("no answer")),
        Reply::Cancelled | Reply::Gone => Err(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_question_is_about_a_known_requirement_of_clients() {
        assert!(super::questions().len() >= 5);
        for question in super::questions() {
            let row = acp_rules::registry().get(&question.row);
            assert!(row.is_some_and(|row| row.binds == acp_rules::Side::Client), "{}", question.row);
            assert!(question.form.is_some() == question.updates.is_empty(), "{}", question.row);
        }
    }
}
