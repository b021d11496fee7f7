//! Drives a protocol machine that does no input and output of its own.
//!
//! **What it is.** A [`Machine`] takes lines and says what to write, when to wake it and when it is done. [`drive`] is the
//! one loop that connects such a machine to a [`Link`](acp_link::Link): it never waits for one thing only, so neither side
//! can block the other, and it solves once what every connection needs: pending writes hold back further output but not
//! input, a machine with much to say gives way after a burst, deadlines, and the end of the input.
//!
//! **What it will never do.** Understand a line, or keep more than one unwritten output.
//!
//! **Read first:** [`Machine`], [`Output`], [`drive`].

mod drive;
mod machine;
mod writer;

pub use drive::drive;
pub use machine::{Machine, Output};
