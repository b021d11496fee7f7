//! Files and commands of the agent itself, inside of the session's folders, where the client does not offer them.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;

use acp_host::{OfferedCapabilities, ProviderSettings, Providers, Roots};
use acp_link::process_guard::ProcessGuard;
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use acp_rpc::{Frame, Id, RpcError};
use acp_script::agent::Fence;
use serde_json::{Value, json};

/// Does what a client would do, for the agent itself. What may be done was decided before.
pub(crate) struct LocalTools {
    providers: Providers,
    fence: Fence,
    opened: HashMap<String, (String, Vec<String>)>,
}

impl LocalTools {
    /// LocalTools that stay inside of the fence, and never use what is denied, by whatever name.
    pub(crate) fn new(fence: Fence, deny: ToolPatterns, process_guard: Option<ProcessGuard>) -> Self {
        let rules = PolicyRules { deny, ..PolicyRules::of(Policy::Yolo) };
        let settings = ProviderSettings {
            offer: OfferedCapabilities::ALL,
            rules,
            process_guard,
            ..ProviderSettings::default()
        };
        Self { providers: Providers::new(settings), fence, opened: HashMap::new() }
    }

    /// A notification about a request: that it is no longer wanted.
    pub(crate) fn observe(&self, frame: &Frame) {
        self.providers.observe(frame);
    }

    /// The answer to a request of the session that works in these folders.
    pub(crate) fn answer(
        &mut self,
        frame: &Frame,
        session: &str,
        folders: Option<(&str, &[String])>,
    ) -> impl Future<Output = Frame> + Send + 'static {
        let opened = self.open(session, folders);
        let id = frame.id().cloned().unwrap_or(Id::Null);
        let answer = self.providers.answer(frame);
        async move {
            match opened {
                Ok(()) => answer.await.frame(),
                Err(error) => Frame::failure(&id, &error),
            }
        }
    }

    fn open(&mut self, session: &str, folders: Option<(&str, &[String])>) -> Result<(), RpcError> {
        let Some((cwd, roots)) = folders else { return Err(RpcError::internal("the session is gone")) };
        let known = self.opened.get(session);
        if known.is_some_and(|(known, more)| known == cwd && more == roots) {
            return Ok(());
        }
        let more: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        let open = Roots::open(cwd, &more).map_err(|error| RpcError::internal(error.to_string()))?;
        // What was no folder when the session began may be a link by now.
        for root in std::iter::once(cwd).chain(roots.iter().map(String::as_str)) {
            let denied = json!({ "reason": "permission_denied", "path": root });
            within(&self.fence, root).map_err(|words| RpcError::internal(words).with_data(denied))?;
        }
        self.providers.open_session(session, open);
        self.opened.insert(session.to_owned(), (cwd.to_owned(), roots.to_vec()));
        Ok(())
    }

    /// Lets go of a session's folders and ends its commands.
    pub(crate) fn close_session(&mut self, session: &str) {
        self.providers.close_session(session);
        self.opened.remove(session);
    }

    /// Ends every command that still runs.
    pub(crate) fn close(&self) {
        self.providers.close();
    }
}

/// Refuses a folder that leads out of where this agent works, as it is now.
pub(crate) fn within(fence: &Fence, folder: &str) -> Result<(), String> {
    if fence.holds(folder) {
        return Ok(());
    }
    Err(format!("permission denied: {folder} leads out of the folder that this agent works in"))
}

/// The session that a request is about.
pub(crate) fn session_of(frame: &Frame) -> String {
    param(frame, "sessionId").unwrap_or_default()
}

fn param(frame: &Frame, key: &str) -> Option<String> {
    let params: Value = serde_json::from_str(frame.params()?).ok()?;
    params[key].as_str().map(str::to_owned)
}
