//! The exam in the chat: an agent that examines the client it runs in.
//!
//! The interpreter of `acp-comply` plays the same tests as for a client with a driver, but on a connection that already
//! exists: what the client said when it opened the session is handed in again for each test, and a verb of the driver is a
//! sentence to the person.
//!
//! Read first: [`ChatExam`], `Talk` (the connection), `trial` (one test on it).

mod answers;
mod asking;
mod commands;
mod exam;
mod fit;
mod paper;
mod plan;
mod questions;
mod scratch;
pub mod settings;
mod talk;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_comply::{Program, TestSource};
use acp_link::{Link, LinkSettings, Listener};
use futures_util::future::BoxFuture;

pub use paper::kept_results;

/// How the exam is held.
#[derive(Clone, Debug)]
pub struct ChatExamSettings {
    /// The tests.
    pub programs: Vec<Arc<Program>>,
    /// Their files.
    pub sources: Vec<TestSource>,
    /// Where results are kept.
    pub state: PathBuf,
    /// How long the person has for one thing.
    pub patience: Duration,
    /// Multiplies every other time.
    pub timeout_factor: f64,
}

/// Examines every client that connects.
#[derive(Debug)]
pub struct ChatExam {
    settings: ChatExamSettings,
    fits: Vec<fit::Fit>,
}

impl ChatExam {
    /// Looks at what the tests need.
    pub fn new(settings: ChatExamSettings) -> ChatExam {
        let source = |program: &Program| {
            let file = settings.sources.iter().find(|source| source.name == program.file);
            file.map_or("", |source| source.text.as_str())
        };
        let fits = settings.programs.iter().map(|program| fit::fit(program, source(program))).collect();
        ChatExam { settings, fits }
    }

    /// Examines one client, until it goes away.
    pub fn serve(&self, link: Link) -> BoxFuture<'_, ()> {
        Box::pin(exam::ExamChat::new(self, link).run())
    }

    /// Examines the client at our own standard input and output.
    pub async fn serve_stdio(&self) -> std::io::Result<()> {
        self.serve(acp_link::stdio::own(&LinkSettings::default())?).await;
        Ok(())
    }

    /// Examines every client of a listener.
    pub async fn serve_clients(self: Arc<Self>, listener: Listener) {
        let serve = |link, _| {
            let exam = Arc::clone(&self);
            async move { exam.serve(link).await }
        };
        let failed = |error: &std::io::Error| eprintln!("acp exam: cannot accept a connection: {error}");
        listener.serve(std::future::pending(), serve, failed).await;
    }
}
