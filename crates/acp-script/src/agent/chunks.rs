//! The chunks of messages.

use acp_proto::method;
use acp_rpc::Frame;
use serde_json::Value;

use super::step::Voice;

/// The chunks of one message: all of them are the same but for their text.
pub(super) struct ChunkTemplate {
    before: String,
    after: String,
}

impl ChunkTemplate {
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
