//! Which lane of the timeline each frame of a conversation belongs to.

use std::collections::HashMap;

use acp_proto::Direction;
use acp_proto::update;
use serde_json::Value;

/// The lanes, from left to right.
pub(super) const LANES: [&str; 4] = ["client", "agent", "tools", "permissions"];

/// Sorts frames into lanes; a response goes where its request went.
#[derive(Default)]
pub(super) struct Lanes {
    /// The lanes of requests that are not answered yet, by who asked and the id as it is written.
    asked: HashMap<(bool, String), usize>,
}

impl Lanes {
    /// The lane of the next frame.
    pub(super) fn next(&mut self, dir: Direction, text: &str) -> usize {
        let from_client = dir == Direction::ClientToAgent;
        let own = usize::from(!from_client);
        let Ok(frame) = serde_json::from_str::<Value>(text) else { return own };
        let id = frame.get("id").map(ToString::to_string);
        let Some(method) = frame.get("method").and_then(Value::as_str) else {
            // The other side asked.
            let lane = id.and_then(|id| self.asked.remove(&(!from_client, id)));
            return match lane {
                Some(lane) if lane > 1 => lane,
                _ => own,
            };
        };
        let update = frame.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
        let lane = lane_of(method, update).unwrap_or(own);
        if let Some(id) = id {
            self.asked.insert((from_client, id), lane);
        }
        lane
    }
}

/// The lane of what is neither the client's nor the agent's own: tool calls with what they use, and questions to the person.
fn lane_of(method: &str, update: Option<&str>) -> Option<usize> {
    let is_question = method.ends_with("request_permission") || method.starts_with("elicitation/");
    let is_tool = method.starts_with("fs/") || method.starts_with("terminal/");
    match update {
        _ if is_question => Some(3),
        _ if is_tool => Some(2),
        Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_lane_of_their_question() {
        let mut lanes = Lanes::default();
        let mut lane = |dir, text: &str| LANES[lanes.next(dir, text)];
        assert_eq!(lane(Direction::ClientToAgent, r#"{"id":1,"method":"session/prompt"}"#), "client");
        assert_eq!(
            lane(
                Direction::AgentToClient,
                r#"{"method":"session/update","params":{"update":{"sessionUpdate":"plan"}}}"#
            ),
            "agent"
        );
        assert_eq!(
            lane(
                Direction::AgentToClient,
                r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call"}}}"#
            ),
            "tools"
        );
        assert_eq!(
            lane(Direction::AgentToClient, r#"{"id":1,"method":"session/request_permission"}"#),
            "permissions"
        );
        assert_eq!(lane(Direction::ClientToAgent, r#"{"id":1,"result":{}}"#), "permissions");
        assert_eq!(lane(Direction::AgentToClient, r#"{"id":2,"method":"fs/read_text_file"}"#), "tools");
        assert_eq!(lane(Direction::ClientToAgent, r#"{"id":2,"result":{}}"#), "tools");
        assert_eq!(lane(Direction::AgentToClient, r#"{"id":1,"result":{}}"#), "agent");
        assert_eq!(lane(Direction::AgentToClient, "no JSON"), "agent");
    }
}
