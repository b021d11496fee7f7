//! Why a value did not match, in words.

use std::cmp::Reverse;
use std::fmt;

/// How many differences a printed explanation shows before it only counts the rest.
const SHOWN: usize = 8;

/// A value that did not match: every difference found, and how near it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The differences in the order of the expectation. Never empty.
    pub differences: Vec<Difference>,
    /// Expected leaves and keys that were met.
    pub met: usize,
    /// All expected leaves and keys.
    pub total: usize,
}

/// One place where expectation and value part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, as `result.modes[0].id`; empty for the whole value.
    pub path: String,
    /// What was expected there, in words.
    pub expected: String,
    /// What was there as compact JSON, shortened; `None` when there was nothing.
    pub found: Option<String>,
}

impl Mismatch {
    /// Whether this value came nearer to the expectation than the other: more of it met, fewer differences, and
    /// rather a wrong value than none.
    pub fn is_closer_than(&self, other: &Mismatch) -> bool {
        let key = |mismatch: &Mismatch| {
            let missing = mismatch.differences.iter().filter(|difference| difference.found.is_none()).count();
            (mismatch.met, Reverse(mismatch.differences.len()), Reverse(missing))
        };
        key(self) > key(other)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, difference) in self.differences.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{difference}")?;
        }
        match self.differences.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(whole value)" } else { &self.path };
        match &self.found {
            Some(found) => write!(f, "{path}: expected {}, found {found}", self.expected),
            None => write!(f, "{path}: expected {}, but it is missing", self.expected),
        }
    }
}
