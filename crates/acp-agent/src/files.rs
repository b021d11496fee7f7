//! Files of the agent that its client may read and write, in the dialects that have requests for it.

use std::path::{Path, PathBuf};

use acp_dialect::AgentFiles;
use acp_host::{Roots, real_path};
use acp_policy::{PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolKind, ToolPatterns, ToolStage};
use acp_proto::method;
use acp_rpc::{Frame, Id, RpcError, View};
use acp_script::agent::Fence;
use serde_json::{Value, json};

use crate::identity::unasked;
use crate::server::AgentServerSettings;

/// A client's request for a file of ours.
pub(crate) struct FileRequest {
    id: Id,
    files: AgentFiles,
    path: String,
    content: Option<String>,
}

impl FileRequest {
    /// The request in a frame of the client, if it is one; an error if its params are unusable.
    pub(crate) fn read(frame: &Frame, files: AgentFiles) -> Option<Result<Self, Frame>> {
        let View::Request { id, method, params } = frame.view() else { return None };
        let writes = method == files.write;
        if !writes && method != files.read {
            return None;
        }
        let params: Value = params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
        let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        let missing = |key: &str| {
            let error = RpcError::invalid_params(format!("params.{key} must be a string"));
            Some(Err(Frame::failure(id, &error)))
        };
        let Some(path) = text("path") else { return missing("path") };
        let content = text("content");
        if writes && content.is_none() {
            return missing("content");
        }
        Some(Ok(Self { id: id.clone(), files, path, content: content.filter(|_| writes) }))
    }

    /// Whether it would change a file.
    pub(crate) fn writes(&self) -> bool {
        self.content.is_some()
    }

    /// Why the agent was not started to do this for a client, by the rules that hold for its own tools.
    pub(crate) fn forbidden(&self, root: &Path, settings: &AgentServerSettings) -> Option<String> {
        if self.writes() && !settings.allow_edit {
            return Some(
                "this agent runs without leave to edit files; start it with --allow-edit".to_owned(),
            );
        }
        let (kind, tool) = match self.writes() {
            false => (ToolKind::Read, "read_file"),
            true => (ToolKind::Edit, "write_file"),
        };
        let (path, root) = (root.join(&self.path), root.to_string_lossy());
        let rules =
            PolicyRules { policy: settings.policy, allow: unasked(settings), deny: settings.deny.clone() };
        let decision = rules.decide(&PolicyRequest {
            stage: ToolStage::Access,
            kind,
            tools: &[tool],
            action: ToolAction::Path(&path.to_string_lossy()),
            root: Some(&root),
        });
        (decision.verdict != PolicyVerdict::Allow).then_some(decision.reason)
    }

    /// No, for this reason.
    pub(crate) fn refused(&self, reason: &str) -> Frame {
        Frame::failure(&self.id, &RpcError::new(self.files.denied, format!("{}: {reason}", self.path)))
    }

    /// Carries it out inside of `root`, unless it is denied.
    pub(crate) async fn grant(self, root: PathBuf, deny: ToolPatterns) -> Frame {
        let path = root.join(&self.path);
        let mut local_tools = crate::local_tools::LocalTools::new(Fence::default(), deny, None);
        let session = "files";
        let (method, params) = match &self.content {
            None => (method::FS_READ_TEXT_FILE, json!({ "sessionId": session, "path": path })),
            Some(content) => (
                method::FS_WRITE_TEXT_FILE,
                json!({ "sessionId": session, "path": path, "content": content }),
            ),
        };
        if Roots::open(&root, &[]).is_err() {
            return self.refused("the working folder is gone");
        }
        let ask = Frame::request(&self.id, method, &params);
        let folder = root.to_string_lossy().into_owned();
        let answer = local_tools.answer(&ask, session, Some((&folder, &[]))).await;
        match (answer.result(), answer.error().and_then(|error| RpcError::parse(error).ok())) {
            (Some(_), _) if self.content.is_some() => Frame::response(&self.id, &json!({ "success": true })),
            (Some(_), _) => answer,
            (None, error) => {
                let error = error.unwrap_or_else(|| RpcError::internal("no answer"));
                let reason = error.data.as_ref().and_then(|data| data["reason"].as_str());
                let denied = reason == Some("permission_denied") || escapes(&root, &path);
                let code = if denied { self.files.denied } else { self.files.failed };
                Frame::failure(&self.id, &RpcError::new(code, error.message))
            }
        }
    }
}

fn escapes(root: &Path, path: &Path) -> bool {
    !real_path(path).starts_with(real_path(root))
}
