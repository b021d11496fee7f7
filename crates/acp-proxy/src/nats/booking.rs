//! Tasks that want a session: how many there are, and the place that they share among the tasks that are done at once.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::seat::Seat;
use super::work::Workshop;

/// A place among the tasks that are done at once.
pub(super) type Place = OwnedSemaphorePermit;

/// The tasks that want a session, or have it.
#[derive(Default)]
pub(super) struct Bookings(Mutex<Booked>);

#[derive(Default)]
struct Booked {
    count: usize,
    /// A session needs one place, however many wait for it. It is handed on with the turn: whoever waits never needs
    /// another one, which somebody might have who waits for him.
    place: Option<Place>,
}

impl Bookings {
    /// Whether some task wants the session, or has it.
    pub(super) fn any(&self) -> bool {
        self.booked().count > 0
    }

    fn booked(&self) -> MutexGuard<'_, Booked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While a task holds this, its session is in use.
pub(super) struct Booking {
    shop: Arc<Workshop>,
    pub(super) seat: Arc<Seat>,
}

impl Booking {
    pub(super) fn of(shop: &Arc<Workshop>, seat: &Arc<Seat>) -> Booking {
        seat.bookings.booked().count += 1;
        Booking { shop: shop.clone(), seat: seat.clone() }
    }

    /// Waits for the task's turn. Its place becomes the session's if that has none, and else somebody else's: one session
    /// that is busy must not keep tasks of others from being taken.
    pub(super) async fn turn(
        &self,
        place: &mut Option<Place>,
        room: &Semaphore,
    ) -> tokio::sync::MutexGuard<'_, ()> {
        self.share(place);
        let turn = aside(place, room, self.seat.turn.lock()).await;
        self.share(place);
        // The session has one.
        *place = None;
        turn
    }

    /// Makes a task's place the session's, if that has none.
    fn share(&self, place: &mut Option<Place>) {
        let mut booked = self.seat.bookings.booked();
        if booked.place.is_none() {
            booked.place = place.take();
        }
    }

    /// Takes the place of a session that is over.
    pub(super) fn take_place(&self) -> Option<Place> {
        self.seat.bookings.booked().place.take()
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        let mut booked = self.seat.bookings.booked();
        booked.count -= 1;
        if booked.count == 0 {
            booked.place = None;
            drop(booked);
            self.shop.freed.notify_one();
        }
    }
}

/// Waits for something. The place is somebody else's meanwhile, as soon as there is room for one more that waits without.
pub(super) async fn aside<T>(
    place: &mut Option<Place>,
    room: &Semaphore,
    waits: impl Future<Output = T>,
) -> T {
    let mut waits = pin!(waits);
    let mut _waiting = None;
    if place.is_some() {
        tokio::select! {
            biased;
            done = &mut waits => return done,
            Ok(waiting) = room.acquire() => _waiting = Some(waiting),
        }
        *place = None;
    }
    waits.await
}
