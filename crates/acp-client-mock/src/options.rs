//! How the product's client is set up.

use std::time::Duration;

use acp_host::{ClientOptions, Timeouts};
use acp_policy::{Policy, PolicyRules};
use agent_client_protocol_schema::v1::AuthCapabilities;

use crate::state::Shared;

/// Waits without a limit: the driver of the client has its own.
const NEVER: Timeouts =
    Timeouts { initialize: None, authenticate: None, session: None, prompt: None, request: None };

/// How long an hour is for a command that should end.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(crate) fn of(shared: &Shared) -> ClientOptions {
    let habits = &shared.nature.habits;
    let mut options = ClientOptions {
        rules: PolicyRules::of(Policy::Default),
        person: Some(shared.person.clone()),
        timeouts: NEVER,
        ..ClientOptions::default()
    };
    options.capabilities = options.capabilities.auth(AuthCapabilities::new().terminal(true));
    if let Some(states) = &habits.states {
        // What is sent is what was written; this is what is served.
        options.capabilities = serde_json::from_value(states.clone()).unwrap_or_default();
    }
    let terminals = &mut options.limits.terminals;
    if let Some(limit) = habits.output_limit {
        terminals.default_output_bytes = limit;
    }
    if !shared.manners.forces_commands() {
        terminals.kill_grace = PATIENCE;
    }
    options
}
