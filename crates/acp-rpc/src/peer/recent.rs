use std::collections::{HashMap, VecDeque};

use crate::Id;

/// What became of the last ids, at most a given number of them.
#[derive(Debug)]
pub(super) struct Recent<T> {
    fates: HashMap<Id, (T, u64)>,
    order: VecDeque<(Id, u64)>,
    serial: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { fates: HashMap::new(), order: VecDeque::new(), serial: 0 }
    }
}

impl<T> Recent<T> {
    pub(super) fn remember(&mut self, id: Id, fate: T, most: usize) {
        self.serial += 1;
        self.order.push_back((id.clone(), self.serial));
        self.fates.insert(id, (fate, self.serial));
        while self.order.len() > most {
            let Some((oldest, serial)) = self.order.pop_front() else { break };
            // The id may have been used and settled again since.
            if self.fates.get(&oldest).is_some_and(|(_, last)| *last == serial) {
                self.fates.remove(&oldest);
            }
        }
    }

    pub(super) fn get(&self, id: &Id) -> Option<&T> {
        self.fates.get(id).map(|(fate, _)| fate)
    }

    pub(super) fn forget(&mut self, id: &Id) {
        if !self.fates.is_empty() {
            self.fates.remove(id);
        }
    }
}
