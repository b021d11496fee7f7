//! The judge reads along and speaks at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use acp_dialect::Side;
use acp_rpc::Frame;
use acp_rules::{Ending, Finding, Judge, JudgeConfig, Severity};

use crate::talk::{Level, Talk};

/// The judge of one conversation.
#[derive(Clone)]
pub(crate) struct Lint {
    judge: Arc<Mutex<Judge>>,
    began: Instant,
    talk: Talk,
    number: u64,
}

impl Lint {
    pub(crate) fn new(talk: Talk, number: u64) -> Lint {
        let judge = Arc::new(Mutex::new(Judge::new(JudgeConfig::default())));
        Lint { judge, began: Instant::now(), talk, number }
    }

    pub(crate) fn seen(&self, from: Side, at: Instant, frame: &Frame) {
        let dir = from.sends();
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        judge.observe(at.saturating_duration_since(self.began), dir, frame);
        judge.news().iter().for_each(|finding| self.tell(finding));
    }

    pub(crate) fn close(&self, ending: Ending) {
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        judge.set_ending(ending);
        judge.close(self.began.elapsed());
        judge.news().iter().for_each(|finding| self.tell(finding));
    }

    fn tell(&self, finding: &Finding) {
        let (severity, rule) = (finding.severity.as_str(), finding.rule);
        let words =
            format!("{severity} {} {rule}: {}: {}", finding.requirement, finding.blame, finding.message);
        let level = match finding.severity {
            Severity::Warning => Level::Warn,
            Severity::Error => Level::Error,
        };
        self.talk.tell(level, self.number, &words, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_matters_as_much_as_the_judge_says() {
        let levels = Arc::new(Mutex::new(Vec::new()));
        let kept = levels.clone();
        let talk = Talk::new(Arc::new(move |saying| kept.lock().expect("whole").push(saying.level)));
        let lint = Lint::new(talk, 1);
        for severity in [Severity::Warning, Severity::Error] {
            lint.tell(&Finding {
                rule: "rule",
                requirement: "REQ-01",
                blame: acp_rules::Side::Agent,
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
            });
        }
        assert_eq!(*levels.lock().expect("whole"), [Level::Warn, Level::Error]);
    }
}
