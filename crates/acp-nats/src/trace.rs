//! Random names, and W3C trace context.

use std::hash::{BuildHasher as _, RandomState};

/// The header that carries a trace.
pub const TRACEPARENT: &str = "traceparent";

/// A name that nobody else has: 32 hexadecimal digits.
#[must_use]
pub fn random_id() -> String {
    format!("{:016x}{:016x}", random(), random())
}

fn random() -> u64 {
    // Every state has keys of its own, which the system's randomness has seeded.
    RandomState::new().hash_one(std::time::Instant::now()).max(1)
}

/// The trace context of work that is done because of `parent`: the same trace, another span. Without a parent that can
/// be read a new trace begins.
#[must_use]
pub fn child(parent: Option<&str>) -> String {
    match parent.and_then(parse) {
        Some((trace, _, flags)) => format!("00-{trace}-{:016x}-{flags}", random()),
        None => format!("00-{}-{:016x}-01", random_id(), random()),
    }
}

/// A trace context as far as it can be read, and nothing else that came with it: it is put into headers.
pub(super) fn readable(context: &str) -> Option<String> {
    let (trace, span, flags) = parse(context)?;
    Some(format!("00-{trace}-{span}-{flags}"))
}

/// Trace id, span id and flags.
fn parse(parent: &str) -> Option<(&str, &str, &str)> {
    let mut parts = parent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zeros = |text: &str| text.bytes().all(|byte| byte == b'0');
    let fits = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (fits && !zeros(trace) && !zeros(span)).then_some((trace, span, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_stays_in_its_trace_and_nonsense_begins_a_new_one() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let own = child(Some(parent));
        assert!(own.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && own.ends_with("-01"), "{own}");
        assert_ne!(own, parent);
        for nonsense in ["", "00-00-00-00", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "x"] {
            let own = child(Some(nonsense));
            assert!(parse(&own).is_some() && !own.contains("4bf92f35"), "{own}");
        }
        assert_ne!(child(None), child(None));
    }

    #[test]
    fn of_a_context_only_what_is_one_is_kept() {
        let whole = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for dirty in [whole, &format!("{whole}\r\n"), &format!("{whole}-\r\nX: y")] {
            assert_eq!(readable(dirty).as_deref(), Some(whole));
        }
        assert_eq!(readable("00\r\nX: y"), None);
    }
}
