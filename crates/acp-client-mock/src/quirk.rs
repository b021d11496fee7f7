//! Behaviour on the wire that no single change of a frame can imitate: defects and habits alike.
//!
//! Unlike a [`acp_script::faults::Fault`], a [`WireQuirk`] remembers, computes, and asks the client for things.

mod elicitation;
mod files;
mod jail;
mod notes;
mod opening;
mod output;
mod terminals;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use acp_rpc::{Frame, Id, RpcError, View};
use acp_script::ClientSwitch;
use acp_script::client_habits::{BeyondTheEnd, ClientHabits};
use serde_json::Value;

use crate::wire::WireEnd;

/// Stands between the client and its agent. The defaults change nothing.
pub(crate) trait WireQuirk: Send {
    /// A frame from the agent; what is given back reaches the client.
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let _ = around;
        Some(frame)
    }

    /// A frame from the client; what is given back reaches the agent.
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let _ = around;
        Some(frame)
    }

    /// Another process of the agent begins.
    fn launched(&mut self) {}

    /// Whether the client notices that its agent has ended.
    fn notices_end(&self) -> bool {
        true
    }
}

/// A request that was made.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// What a quirk can use.
pub(crate) struct Around<'a> {
    /// The request that the frame answers.
    pub(crate) request: Option<Arc<Asked>>,
    /// The folder that the client works in.
    pub(crate) workspace: &'a Path,
    /// What the client hears before anything else.
    pub(crate) to_client: Vec<Frame>,
    /// What the agent hears before anything else.
    pub(crate) to_agent: Vec<Frame>,
    /// Set to end the connection, or the client.
    pub(crate) ended: Option<WireEnd>,
}

/// How the ids of a quirk's own requests to the client begin.
const OWN: &str = "client-mock-";

impl<'a> Around<'a> {
    pub(crate) fn new(workspace: &'a Path) -> Self {
        Self { request: None, workspace, to_client: Vec::new(), to_agent: Vec::new(), ended: None }
    }

    /// Whether this answers a request of a quirk, which the agent never made.
    pub(crate) fn is_own(frame: &Frame) -> bool {
        frame.method().is_none() && matches!(frame.id(), Some(Id::Text(id)) if id.starts_with(OWN))
    }

    /// The request that the frame answers, if it is for this method.
    fn answers(&self, method: &str) -> Option<&Asked> {
        self.request.as_deref().filter(|asked| asked.method == method)
    }

    /// Asks the client in the agent's name. The answer comes through [`WireQuirk::says`] and goes no further.
    fn ask_client(&mut self, method: &str, params: &Value) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = Id::Text(format!("{OWN}{}", NEXT.fetch_add(1, Ordering::Relaxed)).into());
        self.to_client.push(Frame::request(&id, method, params));
        id
    }

    /// Answers a request of the agent in the client's place.
    fn answer(&mut self, id: &Id, outcome: Result<Value, RpcError>) {
        self.to_agent.push(match outcome {
            Ok(result) => Frame::response(id, &result),
            Err(error) => Frame::failure(id, &error),
        });
    }

    /// The client breaks down.
    fn crash(&mut self) {
        self.ended = Some(WireEnd::Crash(134));
    }
}

/// The quirks that make these defects and habits.
pub(crate) fn all(switches: &[ClientSwitch], habits: &ClientHabits) -> Vec<Box<dyn WireQuirk>> {
    let mut quirks: Vec<Box<dyn WireQuirk>> = switches.iter().copied().filter_map(named).collect();
    if habits.partial_reads_drop_last_break {
        quirks.push(Box::new(files::DropsLastBreak));
    }
    if habits.beyond_the_end == BeyondTheEnd::Error {
        quirks.push(Box::new(files::ErrorBeyondTheEnd));
    }
    if habits.tty {
        quirks.push(Box::new(output::Recut::new(output::Cut::CarriageReturns)));
    }
    if let Some(states) = &habits.states {
        quirks.push(Box::new(opening::States(states.clone())));
    }
    quirks
}

/// The quirk of this name; none for what the manners of the mock do.
fn named(switch: ClientSwitch) -> Option<Box<dyn WireQuirk>> {
    Some(match switch {
        ClientSwitch::ChokesOnNullCapability => Box::new(opening::ChokesOnNull),
        ClientSwitch::DecodesCursor => Box::new(opening::DecodesCursor),
        ClientSwitch::KeepsCursor => Box::new(opening::KeepsCursor::default()),
        ClientSwitch::CategoryCrash => Box::new(opening::OptionCrash::Category),
        ClientSwitch::SliderCrash => Box::new(opening::OptionCrash::Kind),
        ClientSwitch::KillsOnCancel => Box::new(notes::KillsOnCancel),
        ClientSwitch::DiesOnNote => Box::new(notes::DiesOnNote),
        ClientSwitch::DiesOnUnknownUpdate => Box::new(notes::DiesOnUnknownUpdate),
        ClientSwitch::LocksAfterUnknownUpdate => Box::new(notes::LocksAfterUnknownUpdate::default()),
        ClientSwitch::DropsEarlyUpdates => Box::new(notes::DropsEarlyUpdates::default()),
        ClientSwitch::DiesOnForeignSession => Box::new(notes::DiesOnForeignSession::default()),
        ClientSwitch::SpinsAfterAgentDeath => Box::new(notes::IgnoresTheEnd),
        ClientSwitch::GrantsForever => Box::new(elicitation::GrantsForever),
        ClientSwitch::CompleteCrash => Box::new(elicitation::CompleteCrash::default()),
        ClientSwitch::Prefetches => Box::new(elicitation::Prefetches),
        ClientSwitch::WriteNeedsFile => Box::new(files::WriteNeedsFile),
        ClientSwitch::WriteChangesEnds => Box::new(files::WriteChangesEnds),
        ClientSwitch::ZeroBased => Box::new(files::ZeroBased),
        ClientSwitch::TakesRelative => Box::new(files::TakesRelative),
        ClientSwitch::NoJail => Box::new(jail::Jail::None),
        ClientSwitch::LexicalJail => Box::new(jail::Jail::Lexical),
        ClientSwitch::PrefixJail => Box::new(jail::Jail::Prefix),
        ClientSwitch::CreateWaits => Box::new(terminals::CreateWaits::default()),
        ClientSwitch::OneWaitOnly => Box::new(terminals::OneWaitOnly::default()),
        ClientSwitch::KillAsksNicely => Box::new(terminals::KillAsksNicely::default()),
        ClientSwitch::KillReleases => Box::new(terminals::KillReleases),
        ClientSwitch::ReleaseLetsRun => Box::new(terminals::ReleaseLetsRun::default()),
        ClientSwitch::IdOutlivesRelease => Box::new(terminals::IdOutlivesRelease),
        ClientSwitch::CutsCharacters => Box::new(output::Recut::new(output::Cut::Bytes)),
        ClientSwitch::KeepsTheHead => Box::new(output::Recut::new(output::Cut::Head)),
        ClientSwitch::CountsCharacters => Box::new(output::Recut::new(output::Cut::Characters)),
        ClientSwitch::UncheckedForm
        | ClientSwitch::AgentOnATty
        | ClientSwitch::NeverReadsStderr
        | ClientSwitch::FramesInBinary
        | ClientSwitch::LoginDropsArgs
        | ClientSwitch::LoginWithoutReconnect
        | ClientSwitch::KillsDirectChildOnly
        | ClientSwitch::NeverEndsAgent
        | ClientSwitch::WaitsForSigtermProofAgent
        | ClientSwitch::ReusesOldSession => return None,
    })
}

/// The id and the parameters of a request for this method.
fn request(frame: &Frame, wanted: &str) -> Option<(Id, Value)> {
    match frame.view() {
        View::Request { id, method, params } if method == wanted => Some((id.clone(), read(params))),
        _ => None,
    }
}

/// The parameters of a notification of this method.
fn notification(frame: &Frame, wanted: &str) -> Option<Value> {
    match frame.view() {
        View::Notification { method, params } if method == wanted => Some(read(params)),
        _ => None,
    }
}

/// The id and the result of a successful response.
fn result(frame: &Frame) -> Option<(Id, Value)> {
    match frame.view() {
        View::Response { id, .. } => Some((id.clone(), serde_json::from_str(frame.result()?).ok()?)),
        _ => None,
    }
}

/// The same request with other parameters.
fn with_params(frame: &Frame, params: &Value) -> Frame {
    match frame.view() {
        View::Request { id, method, .. } => Frame::request(id, method, params),
        View::Notification { method, .. } => Frame::notification(method, params),
        _ => frame.clone(),
    }
}

fn read(json: Option<&str>) -> Value {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

/// A text in a value.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
