use std::collections::HashMap;
use std::collections::hash_map::Entry;

use acp_proto::Direction;

use crate::Id;

/// How many requests a table holds unless it is told otherwise.
const DEFAULT_LIMIT: usize = 65_536;

/// The open requests of one side, each with what is remembered about it until it is answered.
///
/// This is the table for those who follow a conversation of others: a relay, a translator, a reader of recordings. One
/// who takes part in a conversation has a [`Peer`](crate::Peer). Which ids are used, and how many, is for the other
/// side to decide, so the table has a limit.
#[derive(Debug, Clone)]
pub struct Pending<T> {
    open: HashMap<Id, T>,
    limit: usize,
}

/// Why a request was not added to a table; what was to be remembered is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdded<T> {
    /// A request with this id is open already.
    InUse(T),
    /// The table is full.
    Full(T),
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl<T> Pending<T> {
    /// A table for at most this many open requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { open: HashMap::new(), limit }
    }

    /// Adds a request whose id must be free.
    ///
    /// # Errors
    /// When the id is in use or the table is full.
    pub fn add(&mut self, id: &Id, value: T) -> Result<(), NotAdded<T>> {
        let is_full = self.is_full();
        match self.open.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotAdded::InUse(value)),
            Entry::Vacant(_) if is_full => Err(NotAdded::Full(value)),
            Entry::Vacant(slot) => {
                slot.insert(value);
                Ok(())
            }
        }
    }

    /// Adds a request. If its id is in use, the earlier request is given up and returned: there will be one answer.
    ///
    /// # Errors
    /// When the table is full: the value is given back.
    pub fn replace(&mut self, id: &Id, value: T) -> Result<Option<T>, T> {
        let is_full = self.is_full();
        match self.open.entry(id.clone()) {
            Entry::Occupied(mut slot) => Ok(Some(slot.insert(value))),
            Entry::Vacant(_) if is_full => Err(value),
            Entry::Vacant(slot) => {
                slot.insert(value);
                Ok(None)
            }
        }
    }

    /// The request was answered: what was remembered about it.
    pub fn remove(&mut self, id: &Id) -> Option<T> {
        self.open.remove(id)
    }

    /// The same, with the id.
    pub fn remove_entry(&mut self, id: &Id) -> Option<(Id, T)> {
        self.open.remove_entry(id)
    }

    /// What is remembered about an open request.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<&T> {
        self.open.get(id)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: &Id) -> Option<&mut T> {
        self.open.get_mut(id)
    }

    /// Whether a request with this id is open.
    #[must_use]
    pub fn contains(&self, id: &Id) -> bool {
        self.open.contains_key(id)
    }

    /// How many requests are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether no more can be added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.open.len() >= self.limit
    }

    /// The open requests, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &T)> {
        self.open.iter()
    }

    /// What is remembered about the open requests, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.open.values()
    }

    /// Takes all open requests out, in the order of their ids.
    pub fn drain(&mut self) -> Vec<(Id, T)> {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        open
    }

    /// Takes out the open requests for which this holds, in the order of their ids.
    pub fn drain_if(&mut self, mut which: impl FnMut(&Id, &T) -> bool) -> Vec<(Id, T)> {
        let mut open: Vec<_> = self.open.extract_if(|id, value| which(id, value)).collect();
        open.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        open
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// The open requests of both sides of a conversation that is followed. The sides use their ids independently.
///
/// ```
/// use acp_rpc::{Direction, Exchange, Id};
/// let mut open = Exchange::default();
/// open.asked(Direction::ClientToAgent, &Id::from(1), "session/prompt").unwrap();
/// assert_eq!(open.answered(Direction::ClientToAgent, &Id::from(1)), None, "a side does not answer itself");
/// assert_eq!(open.answered(Direction::AgentToClient, &Id::from(1)), Some("session/prompt"));
/// ```
#[derive(Debug, Clone)]
pub struct Exchange<T> {
    by_client: Pending<T>,
    by_agent: Pending<T>,
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl<T> Exchange<T> {
    /// Tables for at most this many open requests of each side.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { by_client: Pending::new(limit), by_agent: Pending::new(limit) }
    }

    /// A request travelled this way. See [`Pending::replace`].
    ///
    /// # Errors
    /// When too many requests of this side are open: the value is given back.
    pub fn asked(&mut self, dir: Direction, id: &Id, value: T) -> Result<Option<T>, T> {
        self.by_mut(dir).replace(id, value)
    }

    /// A response travelled this way: what was remembered about the request, which travelled the other way.
    pub fn answered(&mut self, dir: Direction, id: &Id) -> Option<T> {
        self.by_mut(dir.flip()).remove(id)
    }

    /// The open requests that travelled this way.
    #[must_use]
    pub fn by(&self, dir: Direction) -> &Pending<T> {
        match dir {
            Direction::ClientToAgent => &self.by_client,
            Direction::AgentToClient => &self.by_agent,
        }
    }

    /// The same, to be changed.
    pub fn by_mut(&mut self, dir: Direction) -> &mut Pending<T> {
        match dir {
            Direction::ClientToAgent => &mut self.by_client,
            Direction::AgentToClient => &mut self.by_agent,
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.by_client.clear();
        self.by_agent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_added_once_and_replaced_as_often_as_asked() {
        let (mut open, id) = (Pending::new(2), Id::from(1));
        assert_eq!(open.add(&id, "a"), Ok(()));
        assert_eq!(open.add(&id, "b"), Err(NotAdded::InUse("b")));
        assert_eq!(open.replace(&id, "c"), Ok(Some("a")));
        assert_eq!(open.remove(&id), Some("c"));
        assert_eq!(open.remove(&id), None);
    }

    #[test]
    fn a_full_table_takes_no_more_but_still_replaces() {
        let mut open = Pending::new(1);
        assert_eq!(open.replace(&Id::from(1), 'a'), Ok(None));
        assert_eq!(open.add(&Id::from(2), 'b'), Err(NotAdded::Full('b')));
        assert_eq!(open.replace(&Id::from(2), 'b'), Err('b'));
        assert_eq!(open.replace(&Id::from(1), 'c'), Ok(Some('a')));
        assert_eq!(open.drain(), [(Id::from(1), 'c')]);
    }

    #[test]
    fn what_is_drained_comes_in_the_order_of_the_ids() {
        let mut open = Pending::default();
        for number in [3, 1, 2, 5, 4] {
            open.add(&Id::from(number), number).unwrap();
        }
        let odd: Vec<i64> = open.drain_if(|_, number| number % 2 == 1).into_iter().map(|(_, n)| n).collect();
        let even: Vec<i64> = open.drain().into_iter().map(|(_, n)| n).collect();
        assert_eq!((odd, even), (vec![1, 3, 5], vec![2, 4]));
    }
}
