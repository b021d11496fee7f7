//! Ending the agent.

use std::time::Duration;

use acp_script::client_habits::AgentEnding;
use tokio::time::timeout;

use crate::launch::{AgentProcess, EndSignal};
use crate::state::{Connection, Shared};

/// How long an agent may take for each step of its end.
const GRACE: Duration = Duration::from_secs(2);

/// How long after the end of its input an agent lives that gets no warning.
const NO_GRACE: Duration = Duration::from_millis(100);

/// Ends the agent of the open connection, if there is one, as the client's habits are.
pub(crate) async fn end_agent(shared: &Shared) {
    let open = {
        let mut state = shared.state();
        state.session = None;
        state.connection.take()
    };
    let Some(mut open) = open else { return };
    let habit = shared.nature.habits.ending;
    if habit == AgentEnding::Term
        && let Some(process) = &mut open.process
    {
        process.signal(EndSignal::Term, shared.manners.ends_descendants());
        let _ = timeout(GRACE, process.wait()).await;
    }
    let Connection { client, process, wire, .. } = open;
    client.close(GRACE).await;
    drop(client);
    match process {
        Some(mut process) => end_process(shared, process.as_mut(), habit).await,
        // It sees the end of its input, and has a moment to end its output.
        None => {
            let _ = timeout(GRACE, wire).await;
            return;
        }
    }
    wire.abort();
}

/// Ends a process whose input has ended.
async fn end_process(shared: &Shared, process: &mut dyn AgentProcess, habit: AgentEnding) {
    let descendants = shared.manners.ends_descendants();
    let patience = match habit {
        AgentEnding::Patient => GRACE,
        AgentEnding::Kill => NO_GRACE,
        AgentEnding::Both | AgentEnding::Term => Duration::ZERO,
    };
    if !patience.is_zero() && timeout(patience, process.wait()).await.is_ok() {
        return;
    }
    if habit != AgentEnding::Kill {
        process.signal(EndSignal::Term, descendants);
        if !shared.manners.kills_agents() {
            process.wait().await;
            return;
        }
        if timeout(GRACE, process.wait()).await.is_ok() {
            return;
        }
    }
    process.signal(EndSignal::Kill, descendants);
    let _ = timeout(GRACE, process.wait()).await;
}
