//! Conformance tests as data: `.jsont` files are read into programs, run in virtual time, and judged into outcomes.
//!
//! [`Program::read`] reads a file and says everything that is wrong with it, with its place. [`Run`] interprets one
//! program against one agent: events in, actions out, no clock. Its [`TestOutcome`] is plain data, decided by the
//! [`verdict`] module alone; [`Results`] collects the outcomes of a run for the reports.
//!
//! This crate never starts a process, reads a file, prints, or names a protocol method: the few names that a runner
//! needs stand in a [`Table`].
//!
//! Read first: [`Program`], [`Run`], [`TestOutcome`].
#![deny(clippy::disallowed_methods)]

mod agent_table;
mod areas;
pub mod diagnostic;
pub mod json;
mod outline;
pub mod program;
mod reach;
mod reader;
pub mod results;
pub mod run;
mod table;
pub mod verdict;
mod wish;

pub use acp_rules::{ClaimId, Side};
pub use areas::{Area, areas};
pub use diagnostic::{Diagnostic, DiagnosticLevel};
pub use program::{Defaults, Program, SandboxFile, UnmetSeverity};
pub use reach::in_order_of_needs;
pub use agent_table::driver_verbs;
pub use reader::{Reading, TestSource, did_you_mean, read_all, render_all};
pub use results::{
    AgentRun, EvidenceRef, ExitRecord, ExpectedError, ExpectedFailures, Explanation, FindingRef, Header,
    RESULTS_VERSION, ReportingTool, Results, ResultsError, StaleExpectation, StepRecord, StepState, Suite,
    TestOutcome, TranscriptLine, Verdict, VerdictCounts,
};
pub use run::{
    AgentAct, DriveOutcome, DriverCan, FileState, McpCall, OWN_IDS, Observation, Run, RunAction, RunEvent,
    RunLimits, Setup,
};
pub use table::{BrokenBy, Cancel, OwnRequest, Table, TableError};
pub use verdict::{Conformance, ConformancePolicy, RequirementResult, RequirementState, RunStanding};
pub use wish::Wordings;
