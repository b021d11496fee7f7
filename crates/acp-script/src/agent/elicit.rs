//! Questions to the person: forms and pages.

use std::time::Duration;

use acp_proto::method;
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::step::Step;
use super::turn::{ActiveTurn, Await};

/// Until a page reports that it is done.
const SLOW: Duration = Duration::from_millis(100);

impl ActiveTurn<'_> {
    pub(super) fn ask_form(&mut self, what: Option<&str>) {
        let what = what.unwrap_or("answer");
        let secret = ["password", "token", "secret", "api key", "credential", "passphrase"];
        let asks_secret = secret.iter().any(|word| what.to_lowercase().contains(word));
        if asks_secret && !self.cx.quirks.asks_for_secrets() {
            // A form must never ask for a secret; a page may.
            return self.ask_page();
        }
        if !self.cx.caps().form || !self.cx.config.habits.elicits {
            self.say(format!("I would ask you for the {what}, but this client cannot show a form."));
            return;
        }
        let key = slug(what);
        let params = json!({
            "sessionId": self.session.id(),
            "mode": "form",
            "message": format!("Please tell me the {what}."),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    (key.clone()): { "type": "string", "title": what, "minLength": 1, "maxLength": 200 },
                },
                "required": [key.clone()],
            },
        });
        self.ask(method::ELICITATION_CREATE, &params, Await::Form { key }, None);
    }

    pub(super) fn form_answered(&mut self, key: &str, answer: &Result<Value, RpcError>) {
        let said = match outcome(answer) {
            Outcome::Accepted(content) => match content.get(key).and_then(Value::as_str) {
                Some(text) if (1..=200).contains(&text.chars().count()) => format!("You answered: {text}"),
                _ => format!("The form came back without a usable {key}, so I go on without it."),
            },
            Outcome::Declined => "You declined to answer, so I go on without it.".to_owned(),
            Outcome::Cancelled => "You closed the form, so I go on without it.".to_owned(),
            Outcome::Failed(reason) => format!("I could not ask you ({reason}), so I go on without it."),
        };
        self.say(said);
    }

    pub(super) fn ask_page(&mut self) {
        if !self.cx.caps().url || !self.cx.config.habits.elicits {
            self.say("I would send you to a page, but this client cannot open one.");
            return;
        }
        let elicitation = self.cx.fresh_id("elicitation");
        let params = json!({
            "sessionId": self.session.id(),
            "mode": "url",
            "message": "Please open this page to go on.",
            "elicitationId": elicitation,
            "url": format!("https://{}.invalid/continue", self.cx.config.persona.host),
        });
        self.ask(method::ELICITATION_CREATE, &params, Await::Page { elicitation }, None);
    }

    pub(super) fn page_answered(&mut self, elicitation: String, answer: &Result<Value, RpcError>) {
        match outcome(answer) {
            Outcome::Accepted(_) => {
                self.say("Thank you, the page has reported that you are done.");
                self.insert([Step::Pause(SLOW), Step::PageDone(elicitation)]);
            }
            Outcome::Declined => self.say("You declined to open the page, so I go on without it."),
            Outcome::Cancelled => self.say("You did not open the page, so I go on without it."),
            Outcome::Failed(reason) => {
                self.say(format!("I could not send you to the page ({reason}), so I go on without it."));
            }
        }
    }
}

/// What a person made of a question.
enum Outcome<'a> {
    Accepted(&'a Value),
    Declined,
    Cancelled,
    Failed(String),
}

fn outcome(answer: &Result<Value, RpcError>) -> Outcome<'_> {
    match answer {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(answer) => match answer.get("action").and_then(Value::as_str) {
            Some("accept") => Outcome::Accepted(answer.get("content").unwrap_or(&Value::Null)),
            Some("decline") => Outcome::Declined,
            Some("cancel") => Outcome::Cancelled,
            // An action we do not know is none that we know.
            other => Outcome::Failed(format!("the action {:?} is unknown", other.unwrap_or_default())),
        },
    }
}

/// A property name out of what is asked for.
fn slug(what: &str) -> String {
    let name: String =
        what.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).take(40).collect();
    name.trim_matches('_').to_owned()
}
