//! What is known to get away: `suites/unseen.txt` and `suites/mutants.json`. Both may only shrink.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Extent;
use crate::suite;

/// How far the survivors may fall below the allowed number before that has to be lowered: one in so many.
const SLACK: usize = 20;

/// Defects that no test catches, with the reasons (`suites/unseen.txt`), by id.
pub fn unseen() -> &'static BTreeMap<String, String> {
    static UNSEEN: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        suite::embedded_text("unseen.txt").unwrap_or_default().lines().filter_map(reason).collect()
    });
    &UNSEEN
}

/// One line of `unseen.txt`: a name, white space, the reason; `None` for a comment or an empty line.
fn reason(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((name.to_owned(), reason.trim().to_owned()))
}

/// `suites/mutants.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AllAllowed {
    sample: Allowed,
    whole: Allowed,
}

/// How many survivors are allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Agents with several variants at once that the suite complains about. The reason is that the variants' own data get in
    /// each other's way; each of them alone is clean.
    pub combined: usize,
    /// Defects that get away under a variant which does not put them out of reach.
    pub hidden: usize,
    /// Changes that make a test stricter.
    pub stricter: usize,
    /// Changes that make a test laxer.
    pub laxer: usize,
}

impl Allowed {
    /// The numbers in the binary for this extent; nothing is allowed when they cannot be read.
    pub fn embedded(extent: Extent) -> Allowed {
        let text = suite::embedded_text("mutants.json").unwrap_or_default();
        let all: AllAllowed = serde_json::from_str(text).unwrap_or_default();
        match extent {
            Extent::Sample => all.sample,
            Extent::Whole => all.whole,
        }
    }
}

/// A number that may only fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratchet {
    /// Its key in `suites/mutants.json`.
    pub of: &'static str,
    /// How many are allowed.
    pub allowed: usize,
    /// How many there are.
    pub found: usize,
}

impl Ratchet {
    /// What is wrong with the number, and what to do.
    pub fn complaint(&self) -> Option<String> {
        let Ratchet { of, allowed, found } = *self;
        if found > allowed {
            return Some(format!("{found} {of} got away, {allowed} are allowed by suites/mutants.json"));
        }
        let is_stale = allowed > found && (allowed - found) * SLACK >= allowed;
        is_stale.then(|| {
            format!(
                "only {found} {of} got away, {allowed} are allowed: lower the number in suites/mutants.json"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gets_away_is_a_defect_and_has_a_reason() {
        for (id, reason) in unseen() {
            assert!(acp_script::defects::find(id).is_some(), "{id} is no defect");
            assert!(!reason.is_empty(), "{id} has no reason");
        }
        assert_ne!(
            Allowed::embedded(Extent::Sample),
            Allowed::default(),
            "suites/mutants.json cannot be read"
        );
    }

    #[test]
    fn a_number_may_neither_grow_nor_be_left_too_high() {
        let complaint = |allowed, found| Ratchet { of: "laxer", allowed, found }.complaint();
        assert_eq!(complaint(100, 100), None);
        assert_eq!(complaint(100, 96), None);
        assert!(complaint(100, 101).is_some_and(|words| words.contains("101 laxer got away")));
        assert!(complaint(100, 95).is_some_and(|words| words.contains("lower the number")));
        assert_eq!(complaint(0, 0), None);
    }
}
