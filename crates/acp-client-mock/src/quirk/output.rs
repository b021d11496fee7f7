//! Wrong or unusual about a terminal's output: the client keeps more than the agent wants, and this cuts it.

use std::collections::HashMap;

use acp_proto::method;
use acp_rpc::Frame;
use serde_json::Value;

use super::{Around, WireQuirk, request, result, text, with_params};

/// How output is cut to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Its last bytes, wherever characters begin.
    Bytes,
    /// Its first bytes, in whole characters.
    Head,
    /// Its last characters, as many as there may be bytes.
    Characters,
    /// Its last bytes, in whole characters, with a carriage return before each newline: legal.
    CarriageReturns,
}

/// Cuts output in its own way.
pub(super) struct Recut {
    cut: Cut,
    /// The limits of terminals.
    limits: HashMap<String, usize>,
}

impl Recut {
    pub(super) fn new(cut: Cut) -> Self {
        Self { cut, limits: HashMap::new() }
    }
}

fn limit(params: &Value) -> Option<usize> {
    params.get("outputByteLimit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok())
}

impl WireQuirk for Recut {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((_, mut params)) = request(&frame, method::TERMINAL_CREATE) else { return Some(frame) };
        if limit(&params).is_some() {
            params["outputByteLimit"] = Value::Null;
        }
        Some(with_params(&frame, &params))
    }

    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let Some((id, mut answer)) = result(&frame) else { return Some(frame) };
        if let Some(asked) = around.answers(method::TERMINAL_CREATE)
            && let Some(limit) = limit(&asked.params)
        {
            self.limits.insert(text(&answer, "terminalId").to_owned(), limit);
        }
        let Some(asked) = around.answers(method::TERMINAL_OUTPUT) else { return Some(frame) };
        let limit = self.limits.get(text(&asked.params, "terminalId")).copied();
        let (output, is_cut) = cut(self.cut, text(&answer, "output"), limit);
        answer["output"] = output.into();
        if is_cut {
            answer["truncated"] = true.into();
        }
        Some(Frame::response(&id, &answer))
    }
}

/// The output that is shown, and whether something is missing.
fn cut(how: Cut, output: &str, limit: Option<usize>) -> (String, bool) {
    let output = match how {
        Cut::CarriageReturns => output.replace("\r\n", "\n").replace('\n', "\r\n"),
        _ => output.to_owned(),
    };
    let count = if how == Cut::Characters { output.chars().count() } else { output.len() };
    let Some(limit) = limit.filter(|limit| *limit < count) else { return (output, false) };
    let shown = match how {
        Cut::Bytes => String::from_utf8_lossy(&output.as_bytes()[count - limit..]).into_owned(),
        Cut::Head => output[..output.floor_char_boundary(limit)].to_owned(),
        Cut::Characters => output.chars().skip(count - limit).collect(),
        Cut::CarriageReturns => output[output.ceil_char_boundary(count - limit)..].to_owned(),
    };
    (shown, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_in_its_own_way() {
        let shown = |how, output, limit| cut(how, output, Some(limit)).0;
        assert_eq!(shown(Cut::Bytes, "ééé", 3), "\u{FFFD}é");
        assert_eq!(shown(Cut::Head, "ééé", 3), "é");
        assert_eq!(shown(Cut::Characters, "éééé", 3), "ééé");
        assert_eq!(shown(Cut::CarriageReturns, "a\nb\n", 4), "\nb\r\n");
        assert_eq!(cut(Cut::CarriageReturns, "a\n", None), ("a\r\n".to_owned(), false));
        assert_eq!(cut(Cut::Bytes, "abc", Some(3)), ("abc".to_owned(), false));
    }
}
