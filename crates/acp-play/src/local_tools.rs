//! Files and terminals, for whoever uses them: the client for its agent, or the agent itself.

use std::time::Duration;

use acp_proto::{error_code, method};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use crate::files::{self, Files, Trouble};
use crate::terminals::{Answer, Answers, Terminals, text};

/// Does what requests about files and terminals ask for.
#[derive(Debug, Default)]
pub(crate) struct LocalTools {
    terminals: Terminals,
}

impl LocalTools {
    /// Does what is asked inside `root`: the answer, and those of requests that waited until now.
    pub(crate) fn serve(
        &mut self,
        now: Duration,
        files: &mut Files,
        root: &str,
        (id, method, params): (&Id, &str, &Value),
    ) -> (Answer, Answers) {
        let plain = |result| (Answer::Now(result), Vec::new());
        match method {
            method::FS_READ_TEXT_FILE => plain(read(files, root, params)),
            method::FS_WRITE_TEXT_FILE => plain(write(files, root, params)),
            method::TERMINAL_CREATE => plain(self.terminals.create(now, files, root, params)),
            method::TERMINAL_OUTPUT => plain(self.terminals.output(now, params)),
            method::TERMINAL_WAIT_FOR_EXIT => (self.terminals.wait(now, id, params), Vec::new()),
            method::TERMINAL_KILL => {
                let (result, waited) = self.terminals.kill(now, params);
                (Answer::Now(result), waited)
            }
            method::TERMINAL_RELEASE => {
                let (result, waited) = self.terminals.release(now, params);
                (Answer::Now(result), waited)
            }
            other => plain(Err(RpcError::method_not_found(other))),
        }
    }

    /// Answers that are due by now.
    pub(crate) fn due(&mut self, now: Duration) -> Answers {
        self.terminals.ended(now)
    }

    /// A request that waits is taken back: its answer, if it waited.
    pub(crate) fn take_back(&mut self, id: &Id) -> Option<RpcError> {
        self.terminals
            .take_back(id)
            .then(|| RpcError::new(error_code::REQUEST_CANCELLED, "terminal/wait_for_exit was cancelled"))
    }
}

fn place(root: &str, params: &Value) -> Result<String, RpcError> {
    text(params, "sessionId")?;
    let path = text(params, "path")?;
    if !path.starts_with('/') {
        return Err(RpcError::invalid_params(format!("the path {path:?} must be absolute")));
    }
    if !files::is_within(root, path) {
        let why = "the path lies outside the session's folders";
        return Err(RpcError::internal(format!("refused: {path}: {why}"))
            .with_data(json!({ "reason": "permission_denied", "detail": why, "path": path })));
    }
    Ok(path.to_owned())
}

fn read(files: &Files, root: &str, params: &Value) -> Result<Value, RpcError> {
    let path = place(root, params)?;
    let contents = files.read(&path).map_err(|trouble| explain("read", &path, trouble))?;
    let text = String::from_utf8_lossy(contents);
    let number = |key: &str| params[key].as_u64().and_then(|n| usize::try_from(n).ok());
    let (line, limit) = (number("line"), number("limit"));
    if line.is_none() && limit.is_none() {
        return Ok(json!({ "content": text }));
    }
    let lines = text.split_inclusive('\n').skip(line.unwrap_or(1).saturating_sub(1));
    let part: String = lines.take(limit.unwrap_or(usize::MAX)).collect();
    Ok(json!({ "content": part }))
}

fn write(files: &mut Files, root: &str, params: &Value) -> Result<Value, RpcError> {
    let path = place(root, params)?;
    let content = text(params, "content")?;
    let written = files.write(&path, content.as_bytes().to_vec());
    written.map(|()| json!({})).map_err(|trouble| explain("write", &path, trouble))
}

fn explain(verb: &str, path: &str, trouble: Trouble) -> RpcError {
    match trouble {
        Trouble::Missing => RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("file not found: {path}"))
            .with_data(json!({ "uri": format!("file://{path}") })),
        Trouble::Folder => RpcError::internal(format!("cannot {verb} {path}: it is a folder"))
            .with_data(json!({ "reason": "is_a_folder" })),
    }
}
