//! Files and commands that the mock uses by itself, for variants that do not ask their client.

use std::future::Future;
use std::path::{Path, PathBuf};

use acp_host::{OfferedCapabilities, ProviderSettings, Providers, Roots};
use acp_link::process_guard::ProcessGuard;
use acp_policy::{Policy, PolicyRules};
use acp_rpc::Frame;
use serde_json::Value;

/// Its files and terminals. The agent itself decides what may be done with them.
pub(crate) struct LocalTools {
    providers: Providers,
}

impl LocalTools {
    pub(crate) fn new(process_guard: Option<ProcessGuard>) -> Self {
        let settings = ProviderSettings {
            offer: OfferedCapabilities::ALL,
            rules: PolicyRules::of(Policy::Yolo),
            process_guard,
            ..ProviderSettings::default()
        };
        Self { providers: Providers::new(settings) }
    }

    /// Answers a request inside of the session's folders; nothing for a notification.
    pub(crate) fn answer(
        &self,
        frame: &Frame,
        session: &str,
        folders: Option<(String, Vec<String>)>,
    ) -> Option<impl Future<Output = Frame> + Send + 'static> {
        if frame.id().is_none() {
            self.providers.observe(frame);
            return None;
        }
        if let Some((cwd, roots)) = folders {
            let roots: Vec<PathBuf> = roots.into_iter().map(PathBuf::from).collect();
            if let Ok(roots) = Roots::open(Path::new(&cwd), &roots) {
                self.providers.open_session(session, roots);
            }
        }
        let answer = self.providers.answer(frame);
        Some(async move { answer.await.frame() })
    }

    pub(crate) fn close(&self) {
        self.providers.close();
    }
}

/// The session that a request names.
pub(crate) fn session_of(frame: &Frame) -> String {
    let params: Option<Value> = frame.params().and_then(|params| serde_json::from_str(params).ok());
    let named = params.as_ref().and_then(|params| params.get("sessionId")).and_then(Value::as_str);
    named.unwrap_or_default().to_owned()
}
