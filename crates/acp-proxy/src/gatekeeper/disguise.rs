//! Permission requests that are no plain frames, and that some client would nevertheless take for one.

use acp_proto::method;
use acp_rpc::{Frame, View};

/// Whether a client that is not strict about frames could take a permission request out of this one.
///
/// Readers differ: some take the first of two members of one name, or ignore the case of names; some end a line at a
/// carriage return or at U+2028, read one value after another, or pass over what stands before a brace. So every frame
/// that is not plain counts if it has the method's name as a string, however that is written.
pub(super) fn hides_permission(frame: &Frame) -> bool {
    let has_two_readings =
        |name: &String| name.eq_ignore_ascii_case("method") || name.eq_ignore_ascii_case("id");
    let is_plain = match frame.view() {
        View::Batch(_) | View::Malformed(_) => false,
        View::Request { .. } | View::Notification { .. } | View::Response { .. } => {
            !frame.unknown_members().iter().any(has_two_readings)
        }
    };
    !is_plain && names_permission(&unescaped(&String::from_utf8_lossy(frame.raw())))
}

fn names_permission(text: &str) -> bool {
    text.match_indices(method::SESSION_REQUEST_PERMISSION).any(|(at, name)| {
        let is_quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        is_quote(text[..at].chars().next_back()) && is_quote(text[at + name.len()..].chars().next())
    })
}

/// The text with the escapes of JSON that can hide a letter written out.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let escaped = rest.strip_prefix('u').and_then(|hex| {
            let letter = u32::from_str_radix(hex.get(..4)?, 16).ok().and_then(char::from_u32)?;
            Some((letter, &hex[4..]))
        });
        if let Some((letter, after)) = escaped {
            plain.push(letter);
            rest = after;
        }
    }
    plain.push_str(rest);
    plain
}
