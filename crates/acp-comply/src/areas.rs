//! The compliance areas that every report names first, in this order, as data.

use std::sync::LazyLock;

use serde::Deserialize;

/// A compliance area: a row of the table report.
#[derive(Debug, Clone, Deserialize)]
pub struct Area {
    /// Its name.
    pub area: String,
    /// Tests without an `area` of their own that belong to it: their ids without the word for the severity.
    pub ids: Vec<String>,
    /// What was observed when its tests pass, in a few words.
    pub observed: String,
}

/// The areas in their order. Tests may name others, which come after these.
pub fn areas() -> &'static [Area] {
    static AREAS: LazyLock<Vec<Area>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("../data/areas.json"))
            .unwrap_or_else(|error| unreachable!("the list of areas is checked by a test: {error}"))
    });
    &AREAS
}

/// The area of a test that names none, by its id.
pub(crate) fn area_of(id: &str) -> String {
    let bare =
        ["required.", "optional.", "advice."].iter().find_map(|word| id.strip_prefix(word)).unwrap_or(id);
    let known = areas().iter().find(|area| area.ids.iter().any(|known| known == bare));
    known.map_or_else(|| titled(bare), |area| area.area.clone())
}

/// `prompt.turn` is "Prompt Turn".
fn titled(id: &str) -> String {
    let words = id.split(['.', '-', '_']).filter(|word| !word.is_empty());
    let titled = words.map(|word| match word {
        "fs" | "mcp" | "json" | "rpc" | "id" | "url" | "utf8" => word.to_uppercase(),
        word => {
            let mut letters = word.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
    });
    titled.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_tests_stand_in_the_documented_rows() {
        for (id, area) in [
            ("required.initialize", "Initialize"),
            ("required.prompt.cancel", "Prompt Cancel"),
            ("required.error.method-not-found", "Unknown Method Error"),
            ("required.capabilities.respect-fs-disabled", "Capability Respect (FS disabled)"),
            ("optional.fs.read", "FS Read"),
            ("own.utf8-names", "Own UTF8 Names"),
        ] {
            assert_eq!(area_of(id), area);
        }
    }
}
