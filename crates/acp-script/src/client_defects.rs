//! The catalogue of defective clients: known ways in which a client is wrong, each with the requirements that it breaks.
//!
//! Every file under `client-defects/` is one defect of the conforming client, as those under `defects/` are of the agent.
//! [`catalogue`] has them all; [`ClientDefect::parse`] reads one more.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use crate::client_switch::ClientSwitch;
use crate::faults::{Fault, FaultAction};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../client-defects");

/// One thing wrong with a client.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClientDefect {
    /// Its name, that of its file.
    pub id: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// The requirements that it breaks. None for advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// The first wrong frame or effect, as the agent sees it.
    pub effect: String,
    /// Whether no page of the protocol forbids it. It is found by tests of that severity.
    #[serde(default, skip_serializing_if = "is_false")]
    pub advice: bool,
    /// The tests that find it, for advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// The verbs that bring it out, beyond opening a session, prompting and answering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Whether only a client with a real agent process shows it, not one in memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub process: bool,
    /// The faults that make it.
    #[serde(default, skip_serializing)]
    pub faults: Vec<Fault>,
    /// The wrong behaviour that makes it.
    #[serde(default, skip_serializing)]
    pub switch: Option<ClientSwitch>,
}

/// A file of `client-defects/` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("client defect {name}: {problem}")]
pub struct ClientDefectError {
    name: String,
    problem: String,
}

impl ClientDefect {
    /// Reads a defect file; `name` is its file name without the ending.
    pub fn parse(name: &str, text: &str) -> Result<Self, ClientDefectError> {
        let fail = |problem: String| ClientDefectError { name: name.to_owned(), problem };
        let defect: Self = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if defect.id != name {
            return Err(fail(format!("its id is {:?}; an id is the name of its file", defect.id)));
        }
        match (defect.requirements.is_empty(), defect.advice) {
            (true, false) => {
                return Err(fail("it names no requirement that it breaks; is it \"advice\"?".to_owned()));
            }
            (false, true) => {
                return Err(fail(
                    "it is advice and names requirements; it can be only one of both".to_owned(),
                ));
            }
            _ => {}
        }
        if let Some(stranger) = defect.requirements.iter().find(|id| !id.starts_with("C-")) {
            return Err(fail(format!("{stranger} is no requirement of clients; their ids begin with C-")));
        }
        check_verbs(&defect.verbs).map_err(fail)?;
        if defect.faults.is_empty() && defect.switch.is_none() {
            return Err(fail("it has neither faults nor a switch, so nothing would be wrong".to_owned()));
        }
        check_faults(&defect.faults).map_err(fail)?;
        Ok(defect)
    }
}

/// Verbs that nobody has are misspelt.
pub(crate) fn check_verbs(verbs: &[String]) -> Result<(), String> {
    let known = crate::client_habits::CLIENT_VERBS;
    match verbs.iter().find(|verb| !known.contains(&verb.as_str())) {
        Some(verb) => Err(format!("{verb:?} is no verb; they are {}", known.join(", "))),
        None => Ok(()),
    }
}

/// Some actions are for agents only.
pub(crate) fn check_faults(faults: &[Fault]) -> Result<(), String> {
    let is_for_agents = |action: &FaultAction| {
        matches!(
            action,
            FaultAction::Child | FaultAction::Grandchild(_) | FaultAction::Stderr | FaultAction::Log(_)
        )
    };
    match faults.iter().flat_map(|fault| &fault.r#do).find(|action| is_for_agents(action)) {
        Some(action) => Err(format!("the fault {action:?} is for agents; a client cannot have it")),
        None => Ok(()),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Every defect in the box, by id. Files that cannot be read are left out here and fail the tests.
pub fn catalogue() -> &'static [ClientDefect] {
    static CATALOGUE: LazyLock<Vec<ClientDefect>> = LazyLock::new(|| {
        let mut defects: Vec<ClientDefect> =
            files().filter_map(|(name, text)| ClientDefect::parse(name, text).ok()).collect();
        defects.sort_by(|a, b| a.id.cmp(&b.id));
        defects
    });
    &CATALOGUE
}

/// The defect of that name.
pub fn find(id: &str) -> Option<&'static ClientDefect> {
    catalogue().iter().find(|defect| defect.id == id)
}

/// Names and texts of the files in the box.
fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?.strip_suffix(".json")?;
        Some((name, file.contents_utf8()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_defect() {
        let bad: Vec<String> = files()
            .filter_map(|(name, text)| Some(ClientDefect::parse(name, text).err()?.to_string()))
            .collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        assert!(catalogue().len() >= 109, "only {} defects", catalogue().len());
    }

    #[test]
    fn every_switch_has_a_defect_and_no_two_share_one() {
        let mut used: Vec<ClientSwitch> = catalogue().iter().filter_map(|defect| defect.switch).collect();
        used.sort();
        assert_eq!(used, ClientSwitch::ALL, "switches by their defects, and all of them");
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why() {
        let with = |rest: &str| format!(r#"{{"id": "d", "title": "t", "effect": "e", {rest}}}"#);
        let faults = r#""faults": [{"do": ["drop"]}]"#;
        for (rest, words) in [
            (faults.to_owned(), "names no requirement"),
            (format!(r#""requirements": ["RPC-01"], {faults}"#), "no requirement of clients"),
            (r#""requirements": ["C-RPC-01"]"#.to_owned(), "neither faults nor a switch"),
            (r#""requirements": ["C-RPC-01"], "switch": "sleeps""#.to_owned(), "unknown variant"),
            (format!(r#""requirements": ["C-RPC-01"], "verbs": ["dance"], {faults}"#), "no verb"),
            (format!(r#""requirements": ["C-RPC-01"], "advice": true, {faults}"#), "only one of both"),
            (r#""requirements": ["C-RPC-01"], "faults": [{"do": ["child"]}]"#.to_owned(), "for agents"),
        ] {
            let error = ClientDefect::parse("d", &with(&rest)).expect_err(&rest).to_string();
            assert!(error.contains(words) && error.starts_with("client defect d: "), "{error}");
        }
        assert!(ClientDefect::parse("other", &with(faults)).is_err());
    }
}
