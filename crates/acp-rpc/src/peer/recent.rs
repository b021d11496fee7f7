use std::collections::VecDeque;

use crate::Id;

/// What became of the last ids, at most a given number of them. Remembering is cheap and done for every request;
/// looking up goes through all of them and is only done for a frame that belongs to nothing else.
#[derive(Debug)]
pub(super) struct Recent<T>(VecDeque<(Id, T)>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Recent<T> {
    pub(super) fn remember(&mut self, id: Id, fate: T, most: usize) {
        while self.0.len() >= most.max(1) {
            self.0.pop_front();
        }
        if most > 0 {
            self.0.push_back((id, fate));
        }
    }

    /// The last fate of an id.
    pub(super) fn get(&self, id: &Id) -> Option<&T> {
        self.0.iter().rev().find(|(other, _)| other == id).map(|(_, fate)| fate)
    }
}
