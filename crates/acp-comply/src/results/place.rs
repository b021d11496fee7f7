//! Where an agent ran, and whose time its tests took.

use serde::{Deserialize, Serialize};

/// What an agent was kept apart from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// What was the agent's own: home, temporary folder, process group.
    pub own: Vec<String>,
    /// Whether the network had a loopback interface and nothing else.
    pub loopback_only: bool,
    /// The user that the agent ran as, when it was not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What tried to reach outside; known only where the network was the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
}

/// Attempts to reach outside, as the kernel counted them in the run's own network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    /// Packets and connections for which there was no route.
    pub no_route: u64,
    /// Datagrams to loopback ports where nobody listens, such as a name server's.
    pub no_port: u64,
}

impl Outside {
    /// What was counted since an earlier look.
    #[must_use]
    pub fn since(self, before: Outside) -> Outside {
        Outside {
            no_route: self.no_route.saturating_sub(before.no_route),
            no_port: self.no_port.saturating_sub(before.no_port),
        }
    }
}

impl Isolation {
    /// In a sentence.
    pub fn words(&self) -> String {
        let mut words = format!("own {}", self.own.join(", own "));
        if let Some(user) = &self.user {
            words.push_str(&format!(", as user {user}"));
        }
        words.push_str(if self.loopback_only {
            "; own network with loopback only"
        } else {
            "; the machine's network"
        });
        match self.outside {
            Some(Outside { no_route: 0, no_port: 0 }) => words.push_str("; nothing tried to reach outside"),
            Some(Outside { no_route, no_port }) => words.push_str(&format!(
                "; tried to reach outside: {no_route} packets without a route, {no_port} to closed loopback ports"
            )),
            None => {}
        }
        words
    }
}

/// Whose time the tests of an agent took, summed up over all tests.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Waiting for the agent: its start, its answers, its end.
    pub agent_ms: f64,
    /// Waiting because the test says so: delays, watches, and time-outs that ran out.
    pub waits_ms: f64,
    /// The runner's own work: sandboxes, starting processes and the model, reading, judging.
    pub runner_ms: f64,
}

impl Cost {
    /// The runner's part as a share of the agent's time, in percent; `None` when the agent took none.
    pub fn share(&self) -> Option<f64> {
        (self.agent_ms > 0.0).then(|| 100.0 * self.runner_ms / self.agent_ms)
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.agent_ms += other.agent_ms;
        self.waits_ms += other.waits_ms;
        self.runner_ms += other.runner_ms;
    }
}
