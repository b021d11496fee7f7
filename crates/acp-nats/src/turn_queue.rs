//! The tasks that wait for a turn in one session, and the slot that they share among the tasks that run at once.
//!
//! A session needs one slot, however many tasks wait for it: the slot is the session's and goes on with the turn. A
//! waiting task never needs a slot that a task behind it may hold.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::task_runner::TaskRunner;
use super::task_session::TaskSession;

/// One of the tasks that may run at once.
pub(super) type TaskSlot = OwnedSemaphorePermit;

/// The tasks that wait for a turn in a session, and the one that has it.
#[derive(Default)]
pub(super) struct TurnQueue(Mutex<TurnQueueState>);

#[derive(Default)]
struct TurnQueueState {
    count: usize,
    /// A session needs one slot, however many tasks wait for it. It passes on with the turn: a task that waits never needs
    /// another slot, which a task behind it might hold.
    slot: Option<TaskSlot>,
}

impl TurnQueue {
    /// Whether a task waits for the session, or has it.
    pub(super) fn any(&self) -> bool {
        self.state().count > 0
    }

    fn state(&self) -> MutexGuard<'_, TurnQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's place in the queue. While there is one, the session is in use.
pub(super) struct QueuedTurn {
    runner: Arc<TaskRunner>,
    pub(super) task_session: Arc<TaskSession>,
}

impl QueuedTurn {
    pub(super) fn of(runner: &Arc<TaskRunner>, task_session: &Arc<TaskSession>) -> QueuedTurn {
        task_session.turns.state().count += 1;
        QueuedTurn { runner: runner.clone(), task_session: task_session.clone() }
    }

    /// Waits for the task's turn. Its slot becomes the session's if that has none, and is given back otherwise: one busy
    /// session must not keep tasks of other sessions from running.
    pub(super) async fn turn(
        &self,
        slot: &mut Option<TaskSlot>,
        room: &Semaphore,
    ) -> tokio::sync::MutexGuard<'_, ()> {
        self.share(slot);
        let turn = wait_without_slot(slot, room, self.task_session.turn.lock()).await;
        self.share(slot);
        // The session has a slot.
        *slot = None;
        turn
    }

    /// Makes a task's slot the session's, if that has none.
    fn share(&self, slot: &mut Option<TaskSlot>) {
        let mut state = self.task_session.turns.state();
        if state.slot.is_none() {
            state.slot = slot.take();
        }
    }

    /// Takes the slot of a session that is over.
    pub(super) fn take_slot(&self) -> Option<TaskSlot> {
        self.task_session.turns.state().slot.take()
    }
}

impl Drop for QueuedTurn {
    fn drop(&mut self) {
        let mut state = self.task_session.turns.state();
        state.count -= 1;
        if state.count == 0 {
            state.slot = None;
            drop(state);
            self.runner.freed.notify_one();
        }
    }
}

/// Waits for something. The slot is given back meanwhile, as soon as one more task may wait without one.
pub(super) async fn wait_without_slot<T>(
    slot: &mut Option<TaskSlot>,
    room: &Semaphore,
    waits: impl Future<Output = T>,
) -> T {
    let mut waits = pin!(waits);
    let mut _waiting = None;
    if slot.is_some() {
        tokio::select! {
            biased;
            done = &mut waits => return done,
            Ok(waiting) = room.acquire() => _waiting = Some(waiting),
        }
        *slot = None;
    }
    waits.await
}
