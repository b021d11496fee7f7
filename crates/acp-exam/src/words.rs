//! The words of a start: `${…}` filled in, some of them with several words.

use acp_match::{Fill, Template, Vars};

/// What stands for `${…}` in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordValues {
    /// One word, or a part of one.
    pub single: Vars,
    /// Several words in place of one.
    pub several: Vec<(&'static str, Vec<String>)>,
    /// A word that comes once for each value, with the flag before it.
    pub repeated: Vec<(&'static str, Vec<String>)>,
}

impl WordValues {
    /// Fills words in. The error says which value is missing.
    pub fn fill(&self, words: &[String]) -> Result<Vec<String>, String> {
        let mut filled: Vec<String> = Vec::new();
        for word in words {
            let hole = word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            let find = |lists: &[(&'static str, Vec<String>)]| {
                lists.iter().find(|(name, _)| Some(*name) == hole).map(|(_, words)| words.clone())
            };
            if let Some(words) = find(&self.several) {
                filled.extend(words);
            } else if let Some(values) = find(&self.repeated) {
                let flag = filled.pop();
                filled.extend(values.into_iter().flat_map(|value| flag.clone().into_iter().chain([value])));
            } else {
                filled.push(self.fill_text(word)?);
            }
        }
        Ok(filled)
    }

    /// Fills one text in.
    pub fn fill_text(&self, text: &str) -> Result<String, String> {
        Template::parse(text)
            .and_then(|template| template.render(&self.single, Fill::Raw))
            .map_err(|error| format!("{text:?} in the driver: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_stand_for_several_and_a_flag_comes_with_each_value() {
        let values = WordValues {
            single: Vars::new().with("text", "hi there").with("limit", "5"),
            several: vec![
                ("permission", vec!["--policy".to_owned(), "yolo".to_owned()]),
                ("none", Vec::new()),
            ],
            repeated: vec![("dir", vec!["/a".to_owned(), "/b".to_owned()])],
        };
        let words = ["x", "${permission}", "${none}", "--limit=${limit}s", "--add-dir", "${dir}", "${text}"];
        let filled = values.fill(&words.map(str::to_owned)).expect("all is known");
        assert_eq!(
            filled,
            ["x", "--policy", "yolo", "--limit=5s", "--add-dir", "/a", "--add-dir", "/b", "hi there"]
        );
        assert!(values.fill(&["${mode}".to_owned()]).is_err_and(|error| error.contains("mode")));
    }
}
