//! What other dialects say about an agent and version 1 does not.

use acp_dialect::{AgentCard, Dialect};
use acp_script::agent::{Agent, Persona};

/// The tools of the mock, as its tool calls name them.
const TOOLS: [&str; 5] = ["read_file", "search_file", "write_file", "run_command", "take_note"];

/// Adds what clients of those dialects read to the agent's introduction.
pub(crate) fn introduce(persona: &mut Persona) {
    let ids = persona.modes.iter().map(|mode| mode.id.clone());
    let card = AgentCard {
        tools: TOOLS.map(str::to_owned).to_vec(),
        offered: Vec::new(),
        modes: ["agent", "ask"].map(str::to_owned).into_iter().chain(ids).collect(),
        instructions: format!("I am {}: I do what plain sentences ask for, without a model.", persona.myself),
    };
    persona.meta.get_or_insert_with(|| card.capabilities());
    persona.hello.get_or_insert_with(|| card.introduction());
}

/// The client's dialect is known.
pub(crate) fn speak(agent: &mut Agent, dialect: Dialect) {
    let ids = dialect.traits().mode_ids;
    if !ids.is_empty() {
        agent.call_modes(ids);
    }
}
