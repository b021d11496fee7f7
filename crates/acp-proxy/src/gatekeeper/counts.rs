//! What desks count. Every number is there from the beginning: one that is missing cannot be told from one that is zero.

use crate::metrics::Metrics;
use acp_proto::stop_reason;

/// A number, or one for each value of a label.
pub(super) struct Count {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    /// Anything else is counted as the last of them.
    values: &'static [&'static str],
}

pub(super) const OPENED: Count =
    Count { name: "acp_proxy_sessions_total", help: "Sessions that were opened.", label: "", values: &[] };
pub(super) const REFUSED: Count = Count {
    name: "acp_proxy_sessions_refused_total",
    help: "Sessions that were refused because there were too many.",
    label: "",
    values: &[],
};
pub(super) const TURNS: Count = Count {
    name: "acp_proxy_turns_total",
    help: "Turns that have ended, by their stop reason.",
    label: "stop_reason",
    values: &[
        stop_reason::END_TURN,
        stop_reason::CANCELLED,
        stop_reason::MAX_TOKENS,
        stop_reason::MAX_TURN_REQUESTS,
        stop_reason::REFUSAL,
        stop_reason::ERROR,
        "interrupted",
        "other",
    ],
};
pub(super) const PERMISSIONS: Count = Count {
    name: "acp_proxy_permissions_total",
    help: "Permission requests, by what the policy said: ask means that the client was asked.",
    label: "verdict",
    values: &["allow", "deny", "ask"],
};

/// Begins to count everything.
pub(super) fn begin(metrics: &Metrics) {
    for count in [OPENED, REFUSED, TURNS, PERMISSIONS] {
        for value in count.values.iter().chain(count.values.is_empty().then_some(&"")) {
            count.add(metrics, value, 0);
        }
    }
}

impl Count {
    /// One more, of this value where there is a label.
    pub(super) fn up(&self, metrics: &Metrics, value: &str) {
        self.add(metrics, value, 1);
    }

    fn add(&self, metrics: &Metrics, value: &str, more: u64) {
        let known = self.values.iter().find(|known| **known == value).or(self.values.last());
        let label = known.map(|known| (self.label, *known));
        metrics.counter(self.name, self.help, label.as_slice()).add(more);
    }
}
