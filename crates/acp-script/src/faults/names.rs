//! Other ids for the owner's requests, and the way back.

use acp_rpc::Frame;
use serde_json::{Value, json};

use super::engine::{Faults, Patient};
use super::{IdStyle, edit};

impl Faults {
    /// Changes the id of a request of the owner, and keeps the way back.
    pub(super) fn rename(&mut self, patient: &mut Patient, style: IdStyle) {
        let Some(id) = patient.value.get("id").cloned() else { return };
        let other = match style {
            IdStyle::Text => Value::String(id.to_string()),
            IdStyle::Down => json!(1000 - id.as_i64().unwrap_or_default()),
            IdStyle::Fraction => json!(id.as_f64().unwrap_or_default() + 0.5),
            IdStyle::Null => Value::Null,
            IdStyle::Bool => Value::Bool(true),
            IdStyle::Object => json!({ "id": id }),
        };
        self.renamed.push((other.clone(), id));
        edit::set(&mut patient.value, "/id", &other);
        patient.edited = true;
    }

    /// Whoever takes a request back names it as it was sent.
    pub(super) fn rename_cancelled(&self, patient: &mut Patient) {
        if self.renamed.is_empty() || patient.frame.method() != Some(acp_proto::method::CANCEL_REQUEST) {
            return;
        }
        let named = patient.value.pointer("/params/requestId");
        if let Some((other, _)) = self.renamed.iter().find(|(_, id)| named == Some(id)) {
            edit::set(&mut patient.value, "/params/requestId", other);
            patient.edited = true;
            patient.settle();
        }
    }

    pub(super) fn named_back(&mut self, frame: Frame) -> Frame {
        if self.renamed.is_empty() || frame.method().is_some() {
            return frame;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(frame.raw()) else { return frame };
        let Some(at) = self.renamed.iter().position(|(other, _)| value.get("id") == Some(other)) else {
            return frame;
        };
        let (_, id) = self.renamed.remove(at);
        value["id"] = id;
        Frame::parse(value.to_string())
    }
}
