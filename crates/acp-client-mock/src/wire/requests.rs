//! Which request a response answers, both ways.

use std::collections::HashMap;
use std::sync::Arc;

use acp_rpc::{Frame, Id, View};

use crate::quirk::Asked;

/// The open requests of both sides.
#[derive(Default)]
pub(super) struct Requests {
    of_client: HashMap<Id, Arc<Asked>>,
    of_agent: HashMap<Id, Arc<Asked>>,
}

impl Requests {
    /// The client says this: the request of the agent that it answers.
    pub(super) fn said(&mut self, frame: &Frame) -> Option<Arc<Asked>> {
        pass(frame, &mut self.of_client, &mut self.of_agent)
    }

    /// The client hears this: the request of the client that it answers.
    pub(super) fn heard(&mut self, frame: &Frame) -> Option<Arc<Asked>> {
        pass(frame, &mut self.of_agent, &mut self.of_client)
    }
}

fn pass(
    frame: &Frame,
    own: &mut HashMap<Id, Arc<Asked>>,
    other: &mut HashMap<Id, Arc<Asked>>,
) -> Option<Arc<Asked>> {
    match frame.view() {
        View::Request { id, method, params } => {
            let params = params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
            own.insert(id.clone(), Arc::new(Asked { method: method.to_owned(), params }));
            None
        }
        View::Response { id, .. } => other.remove(id),
        _ => None,
    }
}
