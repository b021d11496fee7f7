//! How much models take in and give out: a table, and what the person says instead.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Model;
use super::vendors::Vendor;

/// What is known of the models whose names begin so.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The beginning of the name, behind whatever a gateway puts before it (`anthropic/`, `us.anthropic.`).
    pub id: String,
    /// How many tokens it takes in at once.
    #[serde(default)]
    pub context: Option<u64>,
    /// How many tokens its longest answer has.
    #[serde(default)]
    pub output: Option<u64>,
}

/// A list of limits that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "not a list of limits: {0}; write [{{\"id\": \"my-model\", \"context\": 32768, \"output\": 8192}}], with numbers above 0"
)]
pub struct LimitsError(String);

impl Limit {
    /// Reads a JSON list of limits.
    pub fn read(text: &str) -> Result<Vec<Limit>, LimitsError> {
        let limits: Vec<Limit> =
            serde_json::from_str(text).map_err(|error| LimitsError(error.to_string()))?;
        let wrong =
            |limit: &&Limit| limit.id.is_empty() || limit.context == Some(0) || limit.output == Some(0);
        match limits.iter().find(wrong) {
            Some(limit) => Err(LimitsError(format!("{limit:?} limits nothing"))),
            None => Ok(limits),
        }
    }
}

static KNOWN: LazyLock<Vec<Limit>> =
    LazyLock::new(|| serde_json::from_str(include_str!("limits.json")).expect("limits.json is tested"));

/// The limits that hold for one provider.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// What every model takes in, when the person said so.
    pub(super) context: Option<u64>,
    /// What the person said about some models.
    pub(super) given: Vec<Limit>,
}

impl Limits {
    /// A model of this vendor with its limits.
    pub(super) fn model(&self, vendor: &Vendor, id: &str) -> Model {
        let mut model = Model {
            id: id.to_owned(),
            name: vendor.name_of(id).unwrap_or(id).to_owned(),
            context: vendor.context,
            output: vendor.output,
        };
        if let Some(known) = best(&KNOWN, id) {
            // A server of one's own has the room that it was started with, whatever the model could take.
            if !vendor.keyless {
                model.context = known.context.unwrap_or(model.context);
            }
            model.output = known.output.unwrap_or(model.output);
        }
        self.overrule(&mut model);
        model
    }

    /// What the person said holds, whatever others say.
    pub(super) fn overrule(&self, model: &mut Model) {
        if let Some(given) = best(&self.given, &model.id) {
            model.context = given.context.unwrap_or(model.context);
            model.output = given.output.unwrap_or(model.output);
        }
        model.context = self.context.unwrap_or(model.context);
        model.output = model.output.min(model.context);
    }
}

/// The entry that says the most of a name.
fn best<'l>(limits: &'l [Limit], id: &str) -> Option<&'l Limit> {
    let id = id.to_ascii_lowercase();
    let begins = |limit: &&Limit| {
        let places = id.match_indices(&limit.id.to_ascii_lowercase()).map(|(at, _)| at).collect::<Vec<_>>();
        places.into_iter().any(|at| at == 0 || matches!(id.as_bytes()[at - 1], b'/' | b'.' | b':' | b'@'))
    };
    limits.iter().filter(begins).max_by_key(|limit| limit.id.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(id: &str) -> Option<(Option<u64>, Option<u64>)> {
        best(&KNOWN, id).map(|limit| (limit.context, limit.output))
    }

    #[test]
    fn a_dated_name_and_that_of_a_gateway_are_the_same_model() {
        let sonnet = Some((Some(1_000_000), Some(64_000)));
        for name in [
            "claude-sonnet-5",
            "claude-sonnet-5-20260901",
            "anthropic/claude-sonnet-5",
            "us.anthropic.claude-sonnet-5-v1:0",
            "Claude-Sonnet-5",
        ] {
            assert_eq!(limits(name), sonnet, "{name}");
        }
        assert_eq!(limits("claude-opus-4-5-20260101"), Some((Some(200_000), Some(64_000))));
        assert_eq!(limits("claude-opus-4-1"), Some((Some(200_000), Some(32_000))));
        // Inside of a word it is another model.
        assert_eq!(limits("foo1"), None);
        assert_eq!(limits("my-gpt-5"), None);
    }

    #[test]
    fn the_table_has_no_model_twice_and_no_answer_longer_than_the_room() {
        let mut ids = std::collections::BTreeSet::new();
        for limit in KNOWN.iter() {
            assert!(ids.insert(&limit.id), "{} is there twice", limit.id);
            let (context, output) = (limit.context.expect("a context"), limit.output.expect("an output"));
            assert!(output <= context && output > 0, "{}", limit.id);
        }
    }

    #[test]
    fn the_persons_word_comes_before_the_table() {
        let vendor = Vendor::find("anthropic").expect("a vendor");
        let given =
            Limit::read(r#"[{"id": "claude-sonnet", "context": 5000}, {"id": "mine", "output": 10}]"#);
        let mut limits = Limits { context: None, given: given.expect("a list") };
        let model = limits.model(vendor, "claude-sonnet-5");
        assert_eq!((model.context, model.output), (5000, 5000));
        let mine = limits.model(vendor, "mine");
        assert_eq!((mine.context, mine.output), (vendor.context, 10));
        limits.context = Some(700);
        assert_eq!(limits.model(vendor, "mine").context, 700);
        for wrong in ["{}", "[{}]", r#"[{"id": "x", "context": 0}]"#, r#"[{"id": "x", "max": 5}]"#] {
            assert!(Limit::read(wrong).is_err(), "{wrong}");
        }
    }
}
