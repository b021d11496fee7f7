//! What a form of the protocol has no words for: tests of it do not apply to an agent of that form.
//!
//! Two sources say so. What the runner cannot say, the translation refuses by name while the test runs ([`Refused`]).
//! What the agent cannot say would only fail to come, so that stands as data beside the tests, in `forms.json`:
//! for each form, what it lacks and which tests are about that.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use acp_comply::Program;
use acp_dialect::{Dialect, NoteKind, Side};
use acp_relay::Observers;
use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::suite;

/// The suites that have such a list.
const SUITES: [&str; 2] = ["v1", "scenarios"];

/// Something that a form lacks.
#[derive(Debug, Clone, Deserialize)]
struct Lack {
    /// In words.
    lacks: String,
    /// The ids of the tests that need it; `*` allowed.
    tests: Vec<String>,
}

struct Entry {
    dialect: Dialect,
    lacks: String,
    tests: Vec<GlobMatcher>,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let lists = SUITES.iter().filter_map(|suite| suite::embedded_text(&format!("{suite}/forms.json")));
    // What is in the box is read by a test; a list that cannot be read lists nothing.
    lists.filter_map(|text| read(text).ok()).flatten().collect()
});

/// Why this test does not apply to agents of that form, if it is one that the form cannot carry.
pub(crate) fn lacks(dialect: Dialect, program: &Program) -> Option<String> {
    let canonical = program.dialect.as_deref().is_none_or(|dialect| dialect == "v1");
    if dialect.is_canonical() || !canonical {
        return None;
    }
    let fits = |entry: &&Entry| {
        entry.dialect == dialect && entry.tests.iter().any(|glob| glob.is_match(&program.id))
    };
    ENTRIES.iter().find(fits).map(|entry| format!("{dialect} cannot carry this: {}", entry.lacks))
}

fn read(text: &str) -> Result<Vec<Entry>, String> {
    let lists: BTreeMap<String, Vec<Lack>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for (name, lacks) in lists {
        let dialect: Dialect =
            name.parse().map_err(|error: acp_dialect::UnknownDialect| error.to_string())?;
        for Lack { lacks, tests } in lacks {
            let globs: Result<_, _> =
                tests.iter().map(|test| Glob::new(test).map(|glob| glob.compile_matcher())).collect();
            entries.push(Entry { dialect, lacks, tests: globs.map_err(|error| error.to_string())? });
        }
    }
    Ok(entries)
}

/// What a translation refused to carry to the agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<String>>>);

impl Refused {
    /// Notes the first refusal of a translation between a runner that speaks v1 and an agent of that form.
    pub fn observers(&self, dialect: Dialect) -> Observers {
        let refused = self.clone();
        Observers::of_notes(move |side, note| {
            if side == Side::Agent && note.kind == NoteKind::Refused {
                let mut first = refused.0.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| format!("{dialect} cannot carry this: {}", note.message));
            }
        })
    }

    /// The refusal, if there was one that was not taken yet.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_in_the_box_can_be_read_and_names_tests_that_exist() {
        for suite in SUITES {
            let text = suite::embedded_text(&format!("{suite}/forms.json")).expect("a list");
            let entries = read(text).unwrap_or_else(|error| panic!("{suite}: {error}"));
            let files = suite::embedded(suite).expect("a suite");
            let ids: Vec<&str> = files
                .iter()
                .filter_map(|file| file.name.rsplit('/').next()?.strip_suffix(".jsont"))
                .collect();
            for glob in entries.iter().flat_map(|entry| &entry.tests) {
                let known = ids.iter().any(|id| glob.is_match(id));
                assert!(known, "{suite}: no test is called {:?}", glob.glob().glob());
            }
        }
    }
}
