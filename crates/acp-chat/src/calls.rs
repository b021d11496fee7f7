//! The tool calls that were shown, as many as an agent can have under way: how many it announces is its own to decide.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallStatus, ToolKind};

/// Calls by their ids; the oldest are forgotten first, and then shown by their id again.
#[derive(Debug, Default)]
pub(super) struct Calls {
    hash: RandomState,
    shown: HashMap<u64, Shown>,
    order: VecDeque<u64>,
}

/// What was shown of a call.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) status: Option<ToolCallStatus>,
    /// The pieces of content that were shown, each as a number.
    content: VecDeque<u64>,
    hash: RandomState,
}

impl Calls {
    /// So many calls are remembered.
    const MOST: usize = 1024;

    /// What was shown of a call; one that is not known is called by its id.
    pub(super) fn entry(&mut self, id: &str) -> &mut Shown {
        let key = self.hash.hash_one(id);
        if !self.shown.contains_key(&key) {
            if self.order.len() >= Self::MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.shown.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.shown.entry(key).or_insert_with(|| Shown::new(id, ToolKind::Other))
    }

    /// Forgets the calls that were under way: title and kind of each, oldest first.
    pub(super) fn stop(&mut self) -> Vec<(String, ToolKind)> {
        let mut stopped = Vec::new();
        for key in &self.order {
            let Some(shown) = self.shown.get_mut(key) else { continue };
            if matches!(shown.status, Some(ToolCallStatus::Pending | ToolCallStatus::InProgress)) {
                shown.status = None;
                stopped.push((shown.title.clone(), shown.kind));
            }
        }
        stopped
    }
}

impl Shown {
    /// So many characters of a title are shown, and so many pieces of content are remembered.
    const LONGEST: usize = 1000;
    const MOST: usize = 256;

    pub(super) fn new(title: &str, kind: ToolKind) -> Shown {
        let mut shown = Shown {
            title: String::new(),
            kind,
            status: None,
            content: VecDeque::new(),
            hash: RandomState::new(),
        };
        shown.rename(title);
        shown
    }

    pub(super) fn rename(&mut self, title: &str) {
        self.title = match title.char_indices().nth(Self::LONGEST) {
            Some((end, _)) => format!("{}…", &title[..end]),
            None => title.to_owned(),
        };
    }

    /// Whether a piece of content was not shown before.
    pub(super) fn is_new(&mut self, content: &ToolCallContent) -> bool {
        let number = self.hash.hash_one(serde_json::to_string(content).unwrap_or_default());
        if self.content.contains(&number) {
            return false;
        }
        if self.content.len() >= Self::MOST {
            self.content.pop_front();
        }
        self.content.push_back(number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_calls_an_agent_makes_few_are_remembered() {
        let mut calls = Calls::default();
        for number in 0..5000 {
            calls.entry(&format!("{number}{}", "x".repeat(5000)));
        }
        assert_eq!((calls.shown.len(), calls.order.len()), (Calls::MOST, Calls::MOST));
        assert!(calls.shown.values().all(|shown| shown.title.chars().count() <= Shown::LONGEST + 1));
        calls.entry("last").rename("Last");
        assert_eq!(calls.entry("last").title, "Last");
    }
}
