//! The one place where an agent's requests to its client are answered.

mod call;
mod grants;
mod pending;
mod session;

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_link::process_guard::ProcessGuard;
use acp_policy::PolicyRules;
use acp_proto::{error_code, join, method, update};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::files::FileLimits;
use crate::jail::{Roots, RootsError};
use crate::offer::OfferedCapabilities;
use crate::question::UserQuestion;
use crate::record::DecisionRecord;
use crate::refusal;
use crate::terminal::{TerminalLimits, Terminals};
use crate::tool_call::ToolCalls;
use call::Call;
use pending::Pending;
use session::Session;

/// How the providers behave.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// What the client said it can do.
    pub offer: OfferedCapabilities,
    /// What is allowed.
    pub rules: PolicyRules,
    /// How much may be used.
    pub limits: ProviderLimits,
    /// Where questions to a person go; without it nobody is asked and the answer is no.
    pub person: Option<mpsc::Sender<UserQuestion>>,
    /// The folders for sessions that nobody opened with [`Providers::open_session`].
    pub default_roots: Option<Roots>,
    /// Who ends terminals when we cannot; without it they outlive a kill of ours.
    pub process_guard: Option<ProcessGuard>,
}

/// How much the agent may use through its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderLimits {
    /// Sizes of files.
    pub files: FileLimits,
    /// Sizes and numbers of terminals.
    pub terminals: TerminalLimits,
}

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderAnswer {
    /// The request's id.
    pub id: Id,
    /// The request's method.
    pub method: String,
    /// The result or the error.
    pub outcome: Result<Value, RpcError>,
    /// The decisions that led to it.
    pub log: Vec<DecisionRecord>,
}

impl ProviderAnswer {
    /// The response to send.
    pub fn frame(&self) -> Frame {
        match &self.outcome {
            Ok(result) => Frame::response(&self.id, result),
            Err(error) => Frame::failure(&self.id, error),
        }
    }
}

/// Answers what an agent asks of its client. Clones share one state; when the last clone is dropped, every
/// terminal ends.
///
/// Hand each request to [`answer`](Providers::answer) and each notification to [`observe`](Providers::observe),
/// in the order in which they arrive; the answers may be awaited in any order.
#[derive(Debug, Clone)]
pub struct Providers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: ProviderSettings,
    state: Mutex<State>,
    pending: Pending,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<String, Session>,
    calls: ToolCalls,
    terminals: Terminals,
}

impl Providers {
    /// Providers without sessions.
    pub fn new(settings: ProviderSettings) -> Providers {
        let shared = Shared { settings, state: Mutex::default(), pending: Pending::default() };
        Providers { shared: Arc::new(shared) }
    }

    /// The settings in force.
    pub fn settings(&self) -> &ProviderSettings {
        &self.shared.settings
    }

    /// Gives a session its folders. For a session that is loaded or resumed, do it before sending the request:
    /// the agent may use them while it loads.
    pub fn open_session(&self, session: &str, roots: Roots) {
        self.shared.state().sessions.entry(session.to_owned()).or_default().roots = Some(roots);
    }

    /// [`open_session`](Providers::open_session) with a folder's path.
    pub fn open_session_at(&self, session: &str, cwd: &Path) -> Result<(), RootsError> {
        self.open_session(session, Roots::open(cwd, &[])?);
        Ok(())
    }

    /// Says that a turn begins: what a person allowed once in the turn before is forgotten.
    pub fn turn_began(&self, session: &str) {
        self.shared.state().sessions.entry(session.to_owned()).or_default().turn_began();
    }

    /// Says that the turn has ended.
    pub fn turn_ended(&self, session: &str) {
        self.shared.state().sessions.entry(session.to_owned()).or_default().turn_ended();
    }

    /// The client cancels the session's turn: its pending permission requests are answered `cancelled`, and so
    /// are those that come before the turn has ended.
    pub fn cancel_session(&self, session: &str) {
        self.shared.state().sessions.entry(session.to_owned()).or_default().cancel();
        self.shared.pending.cancel_session(session);
    }

    /// Ends a session: its terminals are killed, what is pending is answered.
    pub fn close_session(&self, session: &str) {
        self.shared.pending.cancel_session(session);
        let mut state = self.shared.state();
        state.sessions.remove(session);
        for process in state.terminals.take_session(session) {
            process.destroy();
        }
    }

    /// Ends everything, for instance because the connection is gone.
    pub fn close(&self) {
        self.shared.pending.cancel_all();
        let mut state = self.shared.state();
        state.sessions.clear();
        for process in state.terminals.take_all() {
            process.destroy();
        }
    }

    /// Takes note of a notification: `$/cancel_request`, and tool calls, about which permission may be asked.
    /// Everything else is none of the providers' business.
    pub fn observe(&self, frame: &Frame) {
        let View::Notification { method, params: Some(params) } = frame.view() else { return };
        match method {
            method::CANCEL_REQUEST => {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Params<'a> {
                    #[serde(borrow)]
                    request_id: &'a serde_json::value::RawValue,
                }
                let id = serde_json::from_str::<Params<'_>>(params)
                    .ok()
                    .and_then(|p| Id::parse(p.request_id.get()));
                if let Some(id) = id {
                    self.shared.pending.cancel_request(&id);
                }
            }
            method::SESSION_UPDATE if params.contains(join!("\"", update::TOOL_CALL)) => {
                let Ok(params) = serde_json::from_str::<Value>(params) else { return };
                if let Some(session) = params["sessionId"].as_str() {
                    self.shared.state().calls.observe(session, &params["update"]);
                }
            }
            _ => {}
        }
    }

    /// Answers a request. The request counts as pending from this call on, so that a cancellation which arrives
    /// before the answer is first awaited is not lost. A frame that is not a request is answered as an invalid one.
    pub fn answer(&self, frame: &Frame) -> impl Future<Output = ProviderAnswer> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let id = frame.id().cloned().unwrap_or(Id::Null);
        let method = frame.method().unwrap_or_default().to_owned();
        let params = frame.params().map(str::to_owned);
        let is_request = matches!(frame.view(), View::Request { .. });
        let ticket = shared.pending.register(&id, session_of(params.as_deref()));
        async move {
            let mut log = Vec::new();
            let outcome = if is_request {
                let mut call = Call { shared: &shared, method: &method, log: &mut log, ticket };
                call.dispatch(params.as_deref()).await
            } else {
                Err(RpcError::new(error_code::INVALID_REQUEST, "this is not a request"))
            };
            ProviderAnswer { id, method, outcome, log }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roots(&self, session: &str) -> Result<Roots, RpcError> {
        let state = self.state();
        let own = state.sessions.get(session).and_then(|s| s.roots.clone());
        own.or_else(|| self.settings.default_roots.clone()).ok_or_else(|| refusal::no_session(session))
    }
}

fn session_of(params: Option<&str>) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Scope {
        session_id: String,
    }
    serde_json::from_str::<Scope>(params?).ok().map(|scope| scope.session_id)
}
