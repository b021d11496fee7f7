//! The judge of ACP conversations.
//!
//! **What it is.** Every frame of a conversation, in both directions, is held against the protocol: its envelope,
//! its JSON Schema by method and direction, and the history of the connection (turns, tool calls, permissions,
//! terminals…). What is broken becomes a [`Finding`] that names the requirement, who is to blame, and the frames
//! that show it. [`Coverage`] says which requirements the conversation put to the test at all.
//!
//! **What it will never do.** Run anything, read a clock or a file, trust typed messages of an SDK, blame a side
//! for what the other sent, or grow without bound.
//!
//! **Read first:** [`Judge`], [`Rule`] and its table, [`Registry`].

#![deny(clippy::disallowed_methods)]

mod caps;
mod claim;
mod coverage;
mod cx;
mod excerpt;
mod fast;
mod finding;
mod grade;
mod hash;
mod history;
mod json;
mod judge;
mod registry;
mod rule;
mod rules;
mod said;
mod schema;
mod session;
mod state;
mod stats;

pub use acp_proto::Side;
pub use claim::{ClaimError, ClaimId};
pub use coverage::{Coverage, CoverageRow, RequirementStanding};
pub use excerpt::{Excerpt, excerpt, locate};
pub use finding::{Finding, FindingEvidence, Severity};
pub use grade::{Clause, Clauses, Condition, Facts, Grade, Paths};
pub use history::SessionHistory;
pub use judge::{ConversationEnd, Judge, JudgeConfig};
pub use registry::{Registry, Requirement, RequirementLevel, SeenBy, registry};
pub use rule::{Rule, RuleInfo, RuleWeight, is_passive, rules};
pub use schema::SCHEMA_VERSION;
pub use stats::{Spread, Stats, Volume};
