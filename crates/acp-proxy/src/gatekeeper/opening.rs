//! New sessions: how many there may be, and what each of them gets.

use acp_dialect::Side;
use acp_proto::method;
use acp_rpc::{Frame, Id, RpcError};

use super::{FULL, Gatekeeper, Handling, OpenRequest, counts};
use crate::journal::Decided;
use crate::splice::Splice;
use tracing::Level;

impl Gatekeeper {
    /// A request that a session comes of.
    pub(super) fn opening(&mut self, id: &Id, frame: &Frame) -> Handling {
        let Some(mut splice) = Splice::of(frame) else { return Handling::Pass };
        let session = splice.string("sessionId");
        let known = session.as_ref().is_some_and(|session| self.sessions.contains_key(session));
        if !known && !self.shared.enter() {
            return self.full(id, frame);
        }
        let reasons = self.equip(&mut splice);
        let trace = self.traced(&mut splice);
        if !known {
            let folders = self.folders(&splice);
            self.expect(id, OpenRequest::Opening { folders, session, trace });
        }
        let Some(line) = splice.done() else { return Handling::Pass };
        let passed_on = Frame::parse(line);
        if !reasons.is_empty() {
            let reason = format!("the proxy's {}", reasons.join(" and "));
            if let Err(error) = self.record(Side::Client, Decided::CHANGED, &reason, frame, &passed_on) {
                return Handling::Stop(error.to_string());
            }
        }
        Handling::Instead(passed_on.raw().clone())
    }

    /// The folders that the session will work in, as far as the request says: without a working folder none counts.
    fn folders(&self, splice: &Splice<'_>) -> Vec<String> {
        let cwd = self.shared.duties.cwd.clone().or_else(|| splice.string("cwd"));
        let more: Option<Vec<String>> =
            splice.get("additionalDirectories").and_then(|list| serde_json::from_str(list).ok());
        cwd.into_iter().flat_map(|cwd| std::iter::once(cwd).chain(more.clone().unwrap_or_default())).collect()
    }

    /// Gives a session what every session gets, and says by which flags it differs from what was asked for.
    fn equip(&self, splice: &mut Splice<'_>) -> Vec<&'static str> {
        let duties = &self.shared.duties;
        let mut reasons = Vec::new();
        if let Some(cwd) = duties.cwd.as_ref().filter(|cwd| splice.string("cwd").as_ref() != Some(cwd)) {
            splice.set("cwd", &serde_json::Value::from(cwd.as_str()).to_string());
            reasons.push("--work-dir");
        }
        let servers = splice.get("mcpServers").unwrap_or_default();
        let named = |name: &str| {
            let list: Vec<serde_json::Value> = serde_json::from_str(servers).unwrap_or_default();
            list.iter().any(|server| server["name"] == name)
        };
        let new = duties.mcp_servers.iter().filter(|(name, _)| !named(name));
        let new: Vec<String> = new.map(|(_, json)| json.clone()).collect();
        if !new.is_empty() {
            splice.append("mcpServers", &new);
            reasons.push("--mcp");
        }
        reasons
    }

    /// There are as many sessions as there may be.
    fn full(&self, id: &Id, frame: &Frame) -> Handling {
        let most = self.shared.duties.max_sessions.unwrap_or_default();
        let words = format!(
            "this proxy serves at most {most} sessions at once (--max-sessions); close one, or try again later"
        );
        let method = frame.method().unwrap_or(method::SESSION_NEW);
        self.shared.count(&counts::REFUSED, "");
        self.logs.tell(Level::WARN, self.number, &format!("refused {method}: {words}"));
        let error =
            RpcError { data: Some(serde_json::json!({ FULL: most })), ..RpcError::internal(words.clone()) };
        let answer = Frame::failure(id, &error);
        self.decided(Side::Client, "refuse", &words, frame, &answer)
    }
}
