//! How a proxy works.

use std::path::PathBuf;
use std::time::Duration;

use acp_dialect::{Dialect, TranslationOptions};
use acp_link::process_guard::ProcessGuard;

use crate::gatekeeper::Duties;
use crate::greet::ClientForm;
use crate::journal::Journal;
use crate::metrics::Metrics;

/// How a proxy works.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// The form that clients speak.
    pub client: ClientForm,
    /// The form that the agent speaks.
    pub agent: Dialect,
    /// What translations must be told.
    pub options: TranslationOptions,
    /// Transcripts: the first client's goes here, the others' have their number in the name; where the agent speaks
    /// another form, its own wire has a file with `agent` in the name.
    pub record: Option<PathBuf>,
    /// Whether the judge reads along and says what it finds.
    pub lint: bool,
    /// Whether differences between the two forms are told. What a peer does wrong always is.
    pub notes: bool,
    /// How long an agent may take to end by itself, and again after it was told to.
    pub grace: Duration,
    /// The rest after each frame to a client that takes one read for one message.
    pub pace: Duration,
    /// How long running turns may go on when we are told to stop, before they are cancelled.
    pub drain: Duration,
    /// What is done besides passing lines on.
    pub duties: Duties,
    /// Where conversations are kept.
    pub journal: Option<Journal>,
    /// What the agent is called in the journal.
    pub agent_name: String,
    /// Where things are counted.
    pub metrics: Metrics,
    /// What clients must say first, on wires that cannot ask them at the access.
    pub token: Option<String>,
    /// Who ends the commands that we run for tasks' agents when we cannot.
    pub process_guard: Option<ProcessGuard>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        ProxySettings {
            client: ClientForm::Auto,
            agent: Dialect::V1,
            options: TranslationOptions::default(),
            record: None,
            lint: false,
            notes: true,
            grace: Duration::from_secs(2),
            pace: Duration::from_millis(5),
            drain: Duration::from_secs(5),
            duties: Duties::default(),
            journal: None,
            agent_name: "agent".to_owned(),
            metrics: Metrics::default(),
            token: None,
            process_guard: None,
        }
    }
}
