//! The check of a driver before a run: if a client cannot be opened, asked and ended, no test says anything about it.

use std::sync::Arc;
use std::time::Duration;

use acp_campaign::Driven;
use acp_comply::{Defaults, Header, Program, Verdict};
use serde_json::Value;

use crate::client::ClientUnderTest;
use crate::exam::{ExamConditions, Known, examine};

const TEST: &str = include_str!("../data/self-check.jsont");

/// A start that takes longer than this makes all limits longer.
const USUAL_START: Duration = Duration::from_secs(1);
/// The longest that limits become.
const MOST: f64 = 5.0;

/// What the check of a driver found.
#[derive(Debug)]
pub(crate) struct CheckedDriver {
    /// What the client says of itself.
    pub introduction: Option<Value>,
    /// How much longer everything may take with this client.
    pub factor: f64,
    /// Why no test can be run.
    pub fault: Option<String>,
}

pub(crate) async fn check(
    client: &ClientUnderTest,
    conditions: &ExamConditions,
) -> Result<CheckedDriver, String> {
    let reading = Program::read("self-check.jsont", TEST, &Defaults::default());
    let program = Arc::new(reading.program.ok_or("the driver's self-check cannot be read")?);
    let driven = examine(&program, client, conditions, &Known::default(), None).await;
    let Driven { outcome, introduction, first_answer, .. } = driven;
    let fault = match outcome.verdict {
        Verdict::Pass => None,
        _ => {
            let words: Vec<String> = outcome.reason.into_iter().chain(outcome.notes).collect();
            Some(format!("the driver's self-check (open, prompt, quit) failed: {}", words.join("; ")))
        }
    };
    let start = first_answer.unwrap_or_default().as_secs_f64() / USUAL_START.as_secs_f64();
    Ok(CheckedDriver { introduction, factor: start.clamp(1.0, MOST), fault })
}

/// The report's header for a client.
pub(crate) fn header(introduction: &Value) -> Header {
    let member = |name: &str| introduction.get(name).cloned();
    Header {
        protocol_version: member("protocolVersion"),
        agent_info: member("clientInfo"),
        client_capabilities: member("clientCapabilities").unwrap_or_default(),
        introduction: introduction.clone(),
        ..Header::default()
    }
}
