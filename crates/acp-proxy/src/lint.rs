//! The judge of a conversation that passes.

use std::time::Instant;

use acp_dialect::Side;
use acp_relay::{Interest, Observer, RelayEnd};
use acp_rpc::Frame;
use acp_rules::{ConversationEnd, Finding, Judge, JudgeConfig, Severity};

use crate::log::ConversationLog;
use tracing::Level;

/// Judges one conversation, and logs each finding at once.
pub(crate) struct LintObserver {
    judge: Judge,
    began: Instant,
    logs: ConversationLog,
    number: u64,
}

impl LintObserver {
    pub(crate) fn new(logs: ConversationLog, number: u64) -> LintObserver {
        LintObserver { judge: Judge::new(JudgeConfig::default()), began: Instant::now(), logs, number }
    }

    fn tell_news(&mut self) {
        let (logs, number) = (&self.logs, self.number);
        self.judge.news().iter().for_each(|finding| tell(logs, number, finding));
    }
}

impl Observer for LintObserver {
    fn interest(&self) -> Interest {
        Interest { lines: false, frames: true }
    }

    fn frame(&mut self, from: Side, at: Instant, frame: &Frame) {
        let dir = from.sends();
        self.judge.observe(at.saturating_duration_since(self.began), dir, frame);
        self.tell_news();
    }

    fn over(&mut self, ended: Option<&RelayEnd>) {
        let agent_went = matches!(ended, Some(RelayEnd::AgentGone));
        self.judge.set_ending(if agent_went {
            ConversationEnd::AgentExited
        } else {
            ConversationEnd::ClientClosed
        });
        self.judge.close(self.began.elapsed());
        self.tell_news();
    }
}

fn tell(logs: &ConversationLog, number: u64, finding: &Finding) {
    let (severity, rule) = (finding.severity.as_str(), finding.rule);
    let words = format!("{severity} {} {rule}: {}: {}", finding.requirement, finding.blame, finding.message);
    let level = match finding.severity {
        Severity::Warning => Level::WARN,
        Severity::Error => Level::ERROR,
    };
    logs.tell(level, number, &words);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_finding_matters_as_much_as_the_judge_says() {
        let levels = Arc::new(Mutex::new(Vec::new()));
        let kept = levels.clone();
        let logs = ConversationLog::new(crate::log::ProxyLog::lines(move |line| {
            kept.lock().expect("whole").push(line.level);
        }));
        for severity in [Severity::Warning, Severity::Error] {
            let finding = Finding {
                rule: "rule",
                requirement: "REQ-01",
                blame: Side::Agent,
                clause: None,
                also: &[],
                grade: match severity {
                    Severity::Error => acp_rules::Grade::Fail,
                    Severity::Warning => acp_rules::Grade::Warn,
                },
                severity,
                message: "it is wrong".to_owned(),
                hint: "",
                absent: false,
                evidence: Vec::new(),
            };
            tell(&logs, 1, &finding);
        }
        assert_eq!(*levels.lock().expect("whole"), [Level::WARN, Level::ERROR]);
    }
}
