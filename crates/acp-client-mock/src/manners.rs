//! What is wrong about a client and not seen on its wire while it happens: hooks where the mock asks how to behave.
//!
//! The defaults are those of the conforming client; only [`MockManners`] says anything else.

use std::collections::BTreeSet;

use acp_script::ClientSwitch;

use crate::launch::{AgentLaunch, AgentStdio};

/// Where the mock asks how to behave.
pub(crate) trait ClientManners: Send + Sync {
    /// An agent is about to be started.
    fn prepare(&self, launch: &mut AgentLaunch) {
        let _ = launch;
    }

    /// An agent is about to be started for a login.
    fn prepare_login(&self, launch: &mut AgentLaunch) {
        let _ = launch;
    }

    /// Whether the agent is started anew after a login.
    fn reconnects_after_login(&self) -> bool {
        true
    }

    /// Whether what was entered is checked before a form is sent.
    fn checks_forms(&self) -> bool {
        true
    }

    /// Whether a new process of the agent gets a new session.
    fn opens_anew(&self) -> bool {
        true
    }

    /// Whether a command that should end is forced to.
    fn forces_commands(&self) -> bool {
        true
    }

    /// Whether the agent is ended at all.
    fn ends_agents(&self) -> bool {
        true
    }

    /// Whether what an agent has started is ended with it.
    fn ends_descendants(&self) -> bool {
        true
    }

    /// Whether an agent that does not end is killed.
    fn kills_agents(&self) -> bool {
        true
    }
}

/// Manners by switches.
pub(crate) struct MockManners(BTreeSet<ClientSwitch>);

impl MockManners {
    pub(crate) fn new(switches: impl IntoIterator<Item = ClientSwitch>) -> Self {
        Self(switches.into_iter().collect())
    }

    fn has(&self, switch: ClientSwitch) -> bool {
        self.0.contains(&switch)
    }
}

impl ClientManners for MockManners {
    fn prepare(&self, launch: &mut AgentLaunch) {
        if self.has(ClientSwitch::AgentOnATty) {
            launch.stdio = AgentStdio::Tty;
        }
        if self.has(ClientSwitch::FramesInBinary) {
            launch.stdio = AgentStdio::BinaryMessages;
        }
        launch.reads_stderr &= !self.has(ClientSwitch::NeverReadsStderr);
        launch.ends_descendants = self.ends_descendants();
    }

    fn prepare_login(&self, launch: &mut AgentLaunch) {
        if self.has(ClientSwitch::LoginDropsArgs) {
            launch.added.clear();
        }
    }

    fn reconnects_after_login(&self) -> bool {
        !self.has(ClientSwitch::LoginWithoutReconnect)
    }

    fn checks_forms(&self) -> bool {
        !self.has(ClientSwitch::UncheckedForm)
    }

    fn opens_anew(&self) -> bool {
        !self.has(ClientSwitch::ReusesOldSession)
    }

    fn forces_commands(&self) -> bool {
        !self.has(ClientSwitch::KillAsksNicely)
    }

    fn ends_agents(&self) -> bool {
        !self.has(ClientSwitch::NeverEndsAgent)
    }

    fn ends_descendants(&self) -> bool {
        !self.has(ClientSwitch::KillsDirectChildOnly)
    }

    fn kills_agents(&self) -> bool {
        !self.has(ClientSwitch::WaitsForSigtermProofAgent)
    }
}
