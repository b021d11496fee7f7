//! Compliance runs against real agents.
//!
//! A [`Campaign`] runs programs of `acp-comply` against [`Target`]s: each test in a fresh process, home and sandbox
//! ([`cell::Cell`]), many at once, with the judge reading every frame. It holds no verdict logic (that is the
//! interpreter's and the results model's) and renders nothing.
//!
//! Read first: [`Campaign`], [`Target`], [`drive::drive`].

pub mod calibrate;
pub mod campaign;
pub mod canary;
pub mod cell;
pub mod drive;
mod evidence;
mod forms;
pub mod install;
pub mod isolate;
mod leftovers;
mod mind;
pub mod network;
pub mod pace;
pub mod proof;
pub mod real;
pub mod room;
mod round;
pub mod scenario;
pub mod select;
mod stub;
pub mod suite;
pub mod target;
mod test_run;
mod wire;

pub use campaign::{Campaign, Progress};
pub use drive::{Conditions, Driven, Probed, Watch, drive};
pub use mind::{ModelSetupError, check_rules};
pub use proof::Proof;
pub use real::{PrepareError, Real};
pub use room::Room;
pub use select::Selection;
pub use suite::SuiteError;
pub use target::{OpenError, Target, Way};

/// The requirement that a process left behind speaks to: closing the agent's input ends it.
pub(crate) const SURVIVOR_REQUIREMENT: &str = "TRN-09";
