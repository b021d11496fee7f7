//! Wrong or unusual about files.

use std::path::Path;

use acp_proto::{error_code, method};
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use super::{Around, WireQuirk, request, result, text, with_params};

/// Leaves the last line break of a read with a limit away.
pub(super) struct DropsLastBreak;

impl WireQuirk for DropsLastBreak {
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let is_partial = |params: &Value| params.get("limit").is_some_and(Value::is_u64);
        if let Some(asked) = around.answers(method::FS_READ_TEXT_FILE)
            && is_partial(&asked.params)
            && let Some((id, mut answer)) = result(&frame)
        {
            let content = text(&answer, "content");
            let content = content.strip_suffix('\n').unwrap_or(content);
            answer["content"] = content.strip_suffix('\r').unwrap_or(content).into();
            return Some(Frame::response(&id, &answer));
        }
        Some(frame)
    }
}

/// Says that a read beyond the end of the file is an error.
pub(super) struct ErrorBeyondTheEnd;

impl WireQuirk for ErrorBeyondTheEnd {
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some(asked) = around.answers(method::FS_READ_TEXT_FILE)
            && let Some(line) = asked.params.get("line").and_then(Value::as_u64).filter(|line| *line > 1)
            && asked.params.get("limit") != Some(&json!(0))
            && let Some((id, answer)) = result(&frame)
            && text(&answer, "content").is_empty()
        {
            let words = format!("line {line} is beyond the end of {}", text(&asked.params, "path"));
            return Some(Frame::failure(&id, &RpcError::invalid_params(words)));
        }
        Some(frame)
    }
}

/// A read or a write.
pub(super) fn file_request(frame: &Frame) -> Option<(Id, Value)> {
    request(frame, method::FS_READ_TEXT_FILE).or_else(|| request(frame, method::FS_WRITE_TEXT_FILE))
}

/// Writes only files that are there.
pub(super) struct WriteNeedsFile;

impl WireQuirk for WriteNeedsFile {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let Some((id, params)) = request(&frame, method::FS_WRITE_TEXT_FILE) else { return Some(frame) };
        let path = text(&params, "path");
        if Path::new(path).exists() {
            return Some(frame);
        }
        let error = RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("file not found: {path}"));
        around.answer(&id, Err(error));
        None
    }
}

/// Writes a newline for every carriage return and newline.
pub(super) struct WriteChangesEnds;

impl WireQuirk for WriteChangesEnds {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::FS_WRITE_TEXT_FILE) else { return Some(frame) };
        params["content"] = text(&params, "content").replace("\r\n", "\n").into();
        Some(with_params(&frame, &params))
    }
}

/// Counts lines from 0.
pub(super) struct ZeroBased;

impl WireQuirk for ZeroBased {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::FS_READ_TEXT_FILE) else { return Some(frame) };
        let Some(line) = params.get("line").and_then(Value::as_u64) else { return Some(frame) };
        params["line"] = (line + 1).into();
        Some(with_params(&frame, &params))
    }
}

/// Takes relative paths as paths in the session's folder.
pub(super) struct TakesRelative;

impl WireQuirk for TakesRelative {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = file_request(&frame) else { return Some(frame) };
        let path = around.workspace.join(text(&params, "path"));
        params["path"] = path.to_string_lossy().into();
        Some(with_params(&frame, &params))
    }
}
