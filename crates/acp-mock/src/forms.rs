//! What other forms of the protocol say about an agent and version 1 does not.

use acp_dialect::Dialect;
use acp_script::agent::{Agent, Persona};
use serde_json::json;

/// The tools of the mock, as its tool calls name them.
const TOOLS: [&str; 5] = ["read_file", "search_file", "write_file", "run_command", "take_note"];
/// The modes as the form `go` names them.
const GO_MODES: [&str; 4] = ["default", "acceptEdits", "bypassPermissions", "plan"];

/// Lets the agent introduce itself in the words of those forms, too.
pub(crate) fn introduce(persona: &mut Persona) {
    let ids = persona.modes.iter().map(|mode| mode.id.as_str());
    let modes: Vec<&str> = ["agent", "ask"].into_iter().chain(ids).collect();
    persona.meta.get_or_insert_with(|| {
        json!({ Dialect::V2025_1.meta_key(): { "audio": false, "supported_modes": modes, "tools": TOOLS } })
    });
    let instructions =
        format!("I am {}: I do what plain sentences ask for, without a model.", persona.myself);
    persona
        .hello
        .get_or_insert_with(|| json!({ Dialect::V2025_1.meta_key(): { "instructions": instructions } }));
}

/// The client's form is known.
pub(crate) fn speak(agent: &mut Agent, dialect: Dialect) {
    if dialect == Dialect::Go {
        agent.call_modes(&GO_MODES);
    }
}
