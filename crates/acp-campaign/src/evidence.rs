//! What frames do not show: files in the sandbox, processes left behind, writes outside.

use std::path::Path;

use acp_comply::{FileState, FindingRef};
use acp_rpc::{Frame, View};
use acp_rules::{Grade, Side, registry};
use serde_json::Value;

/// A finding for processes that outlived their agent.
pub(crate) fn survivor_finding(survivors: &[String]) -> FindingRef {
    FindingRef {
        rule: "process-left-behind".to_owned(),
        requirement: crate::SURVIVOR_REQUIREMENT.to_owned(),
        clause: None,
        grade: registry().get(crate::SURVIVOR_REQUIREMENT).map_or(Grade::Warn, |row| row.grade(None)),
        blame: Side::Agent,
        message: format!("processes were left behind and had to be killed: {}", survivors.join(", ")),
        hint: Some("end child processes when standard input ends".to_owned()),
        evidence: Vec::new(),
        test: None,
        absent: false,
    }
}

/// A change outside the sandbox that is worth a note: the agent's own home and temporary folder are its business,
/// and so is the stub's log.
pub(crate) fn stray(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_string_lossy().into_owned();
    let own = matches!(first.as_str(), "home" | "tmp" | "mcp.log") || first.starts_with("transcript");
    (!own).then(|| path.display().to_string())
}

/// What stands in the sandbox under this path.
pub(crate) fn look(sandbox: &Path, path: &str) -> FileState {
    match std::fs::read(sandbox.join(path)) {
        Ok(bytes) => FileState::Present(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Unreadable(error.to_string()),
    }
}

/// The session that a request of the test names.
pub(crate) fn asked_session(line: &[u8]) -> Option<String> {
    let frame = Frame::parse(bytes::Bytes::copy_from_slice(line));
    let View::Request { params: Some(params), .. } = frame.view() else { return None };
    let params: Value = serde_json::from_str(params).ok()?;
    Some(params.get("sessionId")?.as_str()?.to_owned())
}

/// The end of an agent's error output.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// A name that can stand in a path.
pub(crate) fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect()
}
