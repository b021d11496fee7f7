//! The proof of a suite, as far as it needs no process: what a test makes of legal variants, of defects, and what is left
//! of it when it is changed.
//!
//! Everything here is a pure function of one piece of work; whoever calls it may do many pieces side by side.
//!
//! A defect counts as caught only by a test that claims the requirement that the defect breaks. Timeouts are a fifth of
//! the suite's, which are made for slow agents.

mod alarms;
mod combinations;
mod complaint;
mod hunt;
mod mutants;
mod trial;

pub use alarms::{Alarm, Examined, conditions_for, examine};
pub use combinations::{covering, random};
pub use complaint::{ComplaintWeight, Complaints, weight};
pub use hunt::{Catch, Hunted, claims, hunt, touches};
pub use mutants::{Mutant, Mutation, MutationAim, mutants};
pub use trial::{Candidate, Jury, JuryMember, Tried};
