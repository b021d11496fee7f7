//! Updates about the session itself, and the chunks of messages.

use serde::Serialize;
use serde_json::{Value, json};

use super::step::Voice;
use super::{Agent, record};

impl Agent {
    pub(super) fn change_config(&mut self, session: &str, option: &str, value: &Value) {
        self.change_option(session, option, value);
        let options = self.options(session);
        self.update(session, &json!({ "sessionUpdate": "config_option_update", "configOptions": options }));
    }

    pub(super) fn retitle(&mut self, session: &str, title: String) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.record.title = Some(title);
        }
        self.report_info(session);
    }

    pub(super) fn report_info(&mut self, session: &str) {
        let updated = record::timestamp(self.wall_clock());
        let title = self.sessions.get(session).and_then(|open| open.record.title.clone());
        let mut update = json!({ "sessionUpdate": "session_info_update", "updatedAt": updated });
        if let Some(title) = title {
            update["title"] = json!(title);
        }
        self.update(session, &update);
    }

    pub(super) fn report_usage(&mut self, session: &str) {
        let used = self.sessions.get(session).map_or(0, |open| open.record.used);
        let persona = &self.config.persona;
        let mut update = json!({ "sessionUpdate": "usage_update", "used": used, "size": persona.context });
        if let Some(price) = persona.price {
            #[expect(clippy::cast_precision_loss, reason = "a pretended price")]
            let amount = (used as f64 * price).round() / 1e6;
            update["cost"] = json!({ "amount": amount, "currency": "USD" });
        }
        self.update(session, &update);
    }
}

/// A chunk of text, in the order of the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    session_id: &'a str,
    update: ChunkUpdate<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChunkUpdate<'a> {
    session_update: &'static str,
    content: Text<'a>,
    message_id: &'a str,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Chunk<'a> {
    pub(super) fn new(session_id: &'a str, voice: Voice, text: &'a str, message_id: &'a str) -> Self {
        let content = Text { r#type: "text", text };
        Self { session_id, update: ChunkUpdate { session_update: voice.update(), content, message_id } }
    }
}
