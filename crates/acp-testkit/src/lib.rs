//! What tests of the other crates share. Only ever a dev-dependency.
//!
//! **What it is.** A [`Clock`] that moves when a test says so; a [`World`] that plays two line-speaking sides
//! against each other while it cuts their bytes in every way a pipe could; a seeded [`Rng`] and [`Mutator`] for
//! bounded runs over damaged input; and [`golden`] folders, where a test is a folder of files and `UPDATE=1`
//! rewrites what is expected.
//!
//! **What it will never do.** Read the real clock, sleep, or pick a seed by itself: the same call gives the same
//! run everywhere. Only [`live`], which starts real processes, waits for real time.
//!
//! **Read first:** [`World`], [`WorldSide`], [`golden::check`].

mod chunking;
mod clock;
pub mod golden;
pub mod live;
mod mutate;
mod rng;
mod world;

pub use chunking::Chunking;
pub use clock::Clock;
pub use mutate::Mutator;
pub use rng::Rng;
pub use world::{Mail, World, WorldEnd, WorldOutcome, WorldSide};
