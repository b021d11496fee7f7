//! A damaged file can make the database stumble over itself; that is an error of the file, not of ours.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::Trouble;

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught now and told as an error: a panic hook then has nothing to say.
#[must_use]
pub fn panic_is_expected() -> bool {
    CAUGHT.get()
}

/// Does something with the database. One over which it panicked can still be used: what was begun is given up.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let outer = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(outer);
    done.unwrap_or_else(|_| Err(Trouble::Damaged("its pages make no sense".to_owned())))
}
