//! Updates about the session itself, and the chunks of messages.

use acp_proto::{method, update};
use acp_rpc::Frame;
use serde_json::{Value, json};

use super::step::Voice;
use super::{Agent, record};

impl Agent {
    pub(super) fn change_config(&mut self, session: &str, option: &str, value: &Value) {
        self.change_option(session, option, value);
        let options = self.options(session);
        self.update(
            session,
            &json!({ "sessionUpdate": update::CONFIG_OPTION_UPDATE, "configOptions": options }),
        );
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
        let mut update = json!({ "sessionUpdate": update::SESSION_INFO_UPDATE, "updatedAt": updated });
        if let Some(title) = title {
            update["title"] = json!(title);
        }
        self.update(session, &update);
    }

    /// How many tokens the session's model takes in at once.
    pub(super) fn context(&self, session: &str) -> u64 {
        let said = self.sessions.get(session).and_then(|open| open.context);
        said.unwrap_or(self.config.persona.context)
    }

    pub(super) fn report_usage(&mut self, session: &str) {
        let used = self.sessions.get(session).map_or(0, |open| open.record.used);
        let size = self.context(session);
        let persona = &self.config.persona;
        let mut update = json!({ "sessionUpdate": update::USAGE_UPDATE, "used": used, "size": size });
        if let Some(price) = persona.price {
            #[expect(clippy::cast_precision_loss, reason = "a pretended price")]
            let amount = (used as f64 * price).round() / 1e6;
            update["cost"] = json!({ "amount": amount, "currency": "USD" });
        }
        self.update(session, &update);
    }
}

/// The chunks of one message: all of them are the same but for their text.
pub(super) struct Mold {
    before: String,
    after: String,
}

impl Mold {
    pub(super) fn new(session: &str, voice: Voice, message: &str) -> Self {
        let quoted = |text: &str| Value::from(text).to_string();
        let (session, message) = (quoted(session), quoted(message));
        let kind = voice.update();
        let meta = voice.meta().map(|meta| format!(r#","_meta":{meta}"#)).unwrap_or_default();
        Self {
            before: format!(
                r#"{{"sessionId":{session},"update":{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"#
            ),
            after: format!(r#"}},"messageId":{message}{meta}}}}}"#),
        }
    }

    pub(super) fn chunk(&self, text: &str) -> Frame {
        Frame::notification_around(method::SESSION_UPDATE, &self.before, text, &self.after)
    }
}
