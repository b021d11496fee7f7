//! What a dialect is to the translator.

use acp_rpc::{Frame, Id, RpcError};
use serde_json::Value;

use crate::chunk::ChunkForm;
use crate::codes::Codes;
use crate::core::{Core, OpenRequest, Refusal};
use crate::json::Map;
use crate::traits::{AgentCard, FormTraits};
use crate::{chunk, shared};

/// A request on its way.
pub(crate) struct Request<'r> {
    /// As it was received.
    pub(crate) frame: &'r Frame,
    pub(crate) id: &'r Id,
    /// The sender's name for the method.
    pub(crate) method: &'r str,
    pub(crate) params: Map,
}

/// One form of the protocol. *Decode* is from the form to v1, *encode* from v1 to the form; what an implementation leaves
/// out is the same in both. A method that needs an object of params or of a result gets one.
pub(crate) trait Form: Sync {
    /// Its names, and what it needs from the programs around.
    fn traits(&self) -> &'static FormTraits;

    /// Which error codes differ from v1's.
    fn codes(&self) -> &'static Codes {
        &Codes::V1
    }

    /// How it spells streamed text, for the short way without a tree.
    fn chunks(&self) -> &'static ChunkForm {
        &chunk::V1
    }

    // ---- detection ----------------------------------------------------------------------------------------

    /// The methods that only this form has.
    fn own_methods(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether only its clients begin with these params of `initialize`.
    fn is_initialize(&self, _params: &Map) -> bool {
        false
    }

    /// Whether only its agents answer `initialize` with this.
    fn is_initialized(&self, _result: &Map) -> bool {
        false
    }

    /// Whether only its peers go on with these params.
    fn is_later(&self, _params: &Map) -> bool {
        false
    }

    // ---- requests and notifications -----------------------------------------------------------------------

    /// A request of the foreign peer.
    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        shared::through_quietly(core, request.frame, request.id, request.method);
        Ok(())
    }

    /// A request for the foreign peer.
    fn encode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        shared::through_quietly(core, request.frame, request.id, request.method);
        Ok(())
    }

    /// A notification of the foreign peer.
    fn decode_notification(&self, core: &mut Core, frame: &Frame, _method: &str, _params: Map) {
        core.pass(frame);
    }

    /// A notification for the foreign peer.
    fn encode_notification(&self, core: &mut Core, frame: &Frame, _method: &str, _params: Map) {
        core.pass(frame);
    }

    // ---- answers ------------------------------------------------------------------------------------------

    /// A result of the foreign peer.
    fn decode_result(&self, core: &mut Core, id: &Id, _asked: OpenRequest, result: Value) {
        core.answer_on(id, result);
    }

    /// A result for the foreign peer.
    fn encode_result(&self, core: &mut Core, id: &Id, _asked: OpenRequest, result: Value) {
        core.answer_on(id, result);
    }

    /// The answer to `session/new` for a client that chose a mode with it.
    fn encode_made(&self, core: &mut Core, id: &Id, result: Map) {
        core.answer_on(id, result);
    }

    /// An error of the foreign peer that v1 does not say with an error: answers, and says that it did.
    fn decode_failure(&self, _core: &mut Core, _id: &Id, _asked: &OpenRequest, _error: &RpcError) -> bool {
        false
    }

    /// A permission request that the foreign agent made as a notification is answered with an error.
    fn permission_failed(&self, _core: &mut Core, _session: Option<&str>, _error: &RpcError) {}

    /// The message of an error about a request of this v1 method, with the names that the form's fields have.
    fn error_message(&self, _method: &str, message: String) -> String {
        message
    }

    // ---- the agent behind a client ------------------------------------------------------------------------

    /// What the `_meta` of the agent's capabilities says in this form.
    fn capabilities(&self, _card: &AgentCard) -> Option<Value> {
        None
    }

    /// What the `_meta` of the answer to `initialize` says in this form.
    fn introduction(&self, _card: &AgentCard) -> Option<Value> {
        None
    }

    /// A translated frame for the client of an agent that was made for all forms: with details that v1 does not have.
    /// `None` leaves it out.
    fn complete(&self, _core: &mut Core, frame: Frame, _unix_millis: u64) -> Option<Frame> {
        Some(frame)
    }
}
