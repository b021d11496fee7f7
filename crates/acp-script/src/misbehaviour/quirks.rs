//! Wrong inside of the agent.

use std::collections::BTreeSet;

use crate::agent::Quirks;
use crate::switch::Switch;

/// The wrong behaviour of a mock agent that needs its inside.
pub(crate) struct MockQuirks {
    switches: BTreeSet<Switch>,
    /// The word that every session knows.
    word: Option<String>,
    /// The cancelled turns that began a command.
    worked_on: BTreeSet<u64>,
}

impl MockQuirks {
    pub(crate) fn new(switches: impl IntoIterator<Item = Switch>) -> Self {
        Self { switches: switches.into_iter().collect(), word: None, worked_on: BTreeSet::new() }
    }

    fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }
}

impl Quirks for MockQuirks {
    fn session_id(&self, number: &mut dyn FnMut() -> u64) -> Option<String> {
        if self.has(Switch::SameSessionId) {
            return Some("session".to_owned());
        }
        self.has(Switch::CountsSessionsAnew).then(|| format!("session-{}", number()))
    }

    fn shares(&mut self, word: &str) -> bool {
        let shares = self.has(Switch::SharedMemory);
        if shares {
            self.word = Some(word.to_owned());
        }
        shares
    }

    fn shared_word(&self) -> Option<&str> {
        self.word.as_deref()
    }

    fn resolve(&self, path: &str, roots: &[String]) -> Option<String> {
        let root = roots.first().filter(|_| self.has(Switch::RelativeToRoots) && !path.starts_with('/'))?;
        Some(format!("{root}/{path}"))
    }

    fn admits(&self, path: &str, cwd: &str, is_inside: (bool, bool)) -> Option<bool> {
        if self.has(Switch::NoBoundary) || (self.has(Switch::ComparesBeginnings) && path.starts_with(cwd)) {
            return Some(true);
        }
        self.has(Switch::RefusesCwd).then_some(is_inside.1)
    }

    fn needs_no_permission(&self, turn: u64, path: Option<&str>, cwd: &str, is_inside: bool) -> bool {
        let begins_alike = path.is_some_and(|path| path.starts_with(cwd)) && !is_inside;
        self.has(Switch::NoBoundary)
            || (self.has(Switch::ComparesBeginnings) && begins_alike)
            || self.worked_on.contains(&turn)
    }

    fn last_command(&mut self, turn: u64) -> Option<&'static str> {
        (self.has(Switch::KeepsWorking) && self.worked_on.insert(turn)).then_some("true")
    }

    fn asks_for_secrets(&self) -> bool {
        self.has(Switch::SecretsInForms)
    }
}
