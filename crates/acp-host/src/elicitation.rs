//! `elicitation/create`: an agent's question to the person, as a form or as a page to open.

use acp_rpc::RpcError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::offer::OfferedCapabilities;
use crate::question::Ask;

/// A person's answer to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// Yes, with the form's values (empty for a page).
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// The person turned away.
    Cancel,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ElicitationParams {
    #[serde(default)]
    pub session_id: Option<String>,
    message: String,
    mode: String,
    #[serde(default)]
    requested_schema: Option<Value>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    elicitation_id: Option<String>,
}

/// What to ask the person, or the error for a mode that the client did not offer or that does not exist.
pub(crate) fn ask(offer: OfferedCapabilities, params: &ElicitationParams) -> Result<Ask, RpcError> {
    let missing =
        |what: &str| RpcError::invalid_params(format!("elicitation/create needs {what} in this mode"));
    match params.mode.as_str() {
        "form" if offer.elicitation_form => {
            let schema = params.requested_schema.clone().ok_or_else(|| missing("requestedSchema"))?;
            Ok(Ask::Form { message: params.message.clone(), schema })
        }
        "url" if offer.elicitation_url => {
            params.elicitation_id.as_ref().ok_or_else(|| missing("elicitationId"))?;
            let url = params.url.clone().ok_or_else(|| missing("url"))?;
            Ok(Ask::Url { message: params.message.clone(), url })
        }
        mode => Err(RpcError::invalid_params(format!("this client did not offer elicitation mode {mode:?}"))),
    }
}

pub(crate) fn result(elicited: &Elicited) -> Value {
    match elicited {
        Elicited::Accept(content) if content.is_empty() => json!({"action": "accept"}),
        Elicited::Accept(content) => json!({"action": "accept", "content": content}),
        Elicited::Decline => json!({"action": "decline"}),
        Elicited::Cancel => json!({"action": "cancel"}),
    }
}
