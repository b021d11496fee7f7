//! `${name}` templates, in two phases.
//!
//! Phase one works on the text of a whole file before it is JSON and replaces a few names with JSON values, wherever
//! they stand ([`interpolate_text`]). Phase two works on one string at a time ([`Template`]). `$${` is a literal `${`
//! in both, and phase one leaves it for phase two to resolve.

use serde_json::Value;
use std::collections::BTreeMap;

/// Variables by name. A value that is not a string keeps its JSON type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vars {
    values: BTreeMap<String, Value>,
}

impl Vars {
    /// No variables.
    pub fn new() -> Vars {
        Vars::default()
    }

    /// The same variables and one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Vars {
        self.set(name, value);
        self
    }

    /// Sets a variable; a later value replaces an earlier one.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into());
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether there is such a variable.
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

/// How values go into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// As they are: for frames that are sent.
    Raw,
    /// Escaped, so that they match themselves: for expected strings, which are regular expressions.
    Escaped,
}

/// What is wrong with a template. Offsets are bytes inside the template's own text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `${` without its `}`.
    #[error("\"${{\" at character {offset} is not closed; write \"$${{\" for a literal \"${{\"")]
    Unclosed {
        /// Where the hole begins.
        offset: usize,
    },
    /// The text between the braces is not a name.
    #[error(
        "\"${{{name}}}\" at character {offset} is not a variable name; write \"$${{\" for a literal \"${{\""
    )]
    BadName {
        /// What stands there.
        name: String,
        /// Where the hole begins.
        offset: usize,
    },
    /// No such variable.
    #[error(transparent)]
    Unknown(#[from] UnknownVariable),
}

/// A variable that nobody set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown variable \"${{{name}}}\" at character {offset}")]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// Where the hole begins, in bytes.
    pub offset: usize,
}

/// A string cut into literal text and holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole { name: String, offset: usize },
}

impl Template {
    /// Cuts the text at its holes.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let dollar = at + found;
            if text[at..dollar].ends_with('$') {
                literal.push_str(&text[at..dollar]);
                literal.push('{');
                at = dollar + 2;
                continue;
            }
            literal.push_str(&text[at..dollar]);
            let Some(length) = text[dollar..].find('}') else {
                return Err(TemplateError::Unclosed { offset: dollar });
            };
            let name = &text[dollar + 2..dollar + length];
            if !is_name(name) {
                return Err(TemplateError::BadName { name: name.to_owned(), offset: dollar });
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Hole { name: name.to_owned(), offset: dollar });
            at = dollar + length + 1;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Template { pieces })
    }

    /// The names it needs, with the offset of each hole.
    pub fn holes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole { name, offset } => Some((name.as_str(), *offset)),
            Piece::Text(_) => None,
        })
    }

    /// Fills the holes.
    pub fn render(&self, vars: &Vars, fill: Fill) -> Result<String, TemplateError> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Hole { name, offset } => {
                    let value = value_of(vars, name, *offset)?;
                    let text = match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    match fill {
                        Fill::Raw => out.push_str(&text),
                        Fill::Escaped => out.push_str(&fancy_regex::escape(&text)),
                    }
                }
            }
        }
        Ok(out)
    }

    /// Fills the holes of a string leaf that goes on the wire. A leaf that is one hole and nothing else takes the
    /// variable's value with its JSON type, so that a captured number stays a number.
    pub fn render_leaf(&self, vars: &Vars) -> Result<Value, TemplateError> {
        match self.pieces.as_slice() {
            [Piece::Hole { name, offset }] => Ok(value_of(vars, name, *offset)?.clone()),
            _ => self.render(vars, Fill::Raw).map(Value::String),
        }
    }

    /// Fills every string leaf of a value, in place. Keys stay as they are. The error comes with the JSON pointer of
    /// the leaf.
    pub fn render_value(value: &mut Value, vars: &Vars) -> Result<(), (String, TemplateError)> {
        fn walk(value: &mut Value, vars: &Vars, at: &str) -> Result<(), (String, TemplateError)> {
            match value {
                Value::String(text) if text.contains("${") => {
                    let filled = Template::parse(text).and_then(|template| template.render_leaf(vars));
                    *value = filled.map_err(|error| (at.to_owned(), error))?;
                }
                Value::Array(list) => {
                    for (index, item) in list.iter_mut().enumerate() {
                        walk(item, vars, &format!("{at}/{index}"))?;
                    }
                }
                Value::Object(map) => {
                    for (key, item) in map.iter_mut() {
                        let step = key.replace('~', "~0").replace('/', "~1");
                        walk(item, vars, &format!("{at}/{step}"))?;
                    }
                }
                _ => {}
            }
            Ok(())
        }
        walk(value, vars, "")
    }
}

fn value_of<'v>(vars: &'v Vars, name: &str, offset: usize) -> Result<&'v Value, UnknownVariable> {
    vars.get(name).ok_or_else(|| UnknownVariable { name: name.to_owned(), offset })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// The result of phase one: the new text, and the way back to places in the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpolated {
    /// The text after replacement.
    pub text: String,
    /// For each replacement: (start in the new text, length there, start in the old text, length there).
    replaced: Vec<(usize, usize, usize, usize)>,
}

impl Interpolated {
    /// The byte offset in the original text that a byte offset of the new text came from. A place inside a replaced
    /// value maps to the beginning of its `${…}`.
    pub fn original_offset(&self, offset: usize) -> usize {
        let last = self.replaced.iter().take_while(|(start, ..)| *start <= offset).last();
        match last {
            None => offset,
            Some((start, length, old, _)) if offset < start + length => *old,
            Some((start, length, old, old_length)) => offset - (start + length) + old + old_length,
        }
    }
}

/// Phase one: replaces each `${name}` whose name is in `vars` by its value as JSON; leaves everything else alone.
pub fn interpolate_text(text: &str, vars: &Vars) -> Interpolated {
    let mut out = Interpolated { text: String::with_capacity(text.len()), replaced: Vec::new() };
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let dollar = at + found;
        let escaped = text[at..dollar].ends_with('$');
        let hole = text[dollar..].find('}').map(|length| &text[dollar + 2..dollar + length]);
        let value = hole.filter(|_| !escaped).and_then(|name| Some((name, vars.get(name)?)));
        let Some((name, value)) = value else {
            out.text.push_str(&text[at..dollar + 2]);
            at = dollar + 2;
            continue;
        };
        out.text.push_str(&text[at..dollar]);
        let json = value.to_string();
        let old_length = name.len() + 3;
        out.replaced.push((out.text.len(), json.len(), dollar, old_length));
        out.text.push_str(&json);
        at = dollar + old_length;
    }
    out.text.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(text: &str, vars: &Vars) -> Result<String, TemplateError> {
        Template::parse(text)?.render(vars, Fill::Raw)
    }

    #[test]
    fn holes_are_filled_and_a_doubled_dollar_is_literal() {
        let vars = Vars::new().with("a", "1").with("b", json!(2));
        assert_eq!(render("${a}-${b}", &vars).unwrap(), "1-2");
        assert_eq!(render("$${a} $a $ {a} ${a}", &vars).unwrap(), "${a} $a $ {a} 1");
        assert_eq!(render("é${a}é", &vars).unwrap(), "é1é");
    }

    #[test]
    fn an_unknown_variable_names_itself_and_its_place() {
        let error = render("ab ${nope}", &Vars::new()).unwrap_err();
        assert_eq!(error, TemplateError::Unknown(UnknownVariable { name: "nope".into(), offset: 3 }));
        assert!(matches!(render("x ${a", &Vars::new()), Err(TemplateError::Unclosed { offset: 2 })));
        assert!(matches!(render("${a b}", &Vars::new()), Err(TemplateError::BadName { offset: 0, .. })));
    }

    #[test]
    fn a_leaf_that_is_one_hole_keeps_the_type_of_its_value() {
        let vars = Vars::new().with("n", json!(7));
        let mut value = json!({"a": "${n}", "b": ["n=${n}"], "${n}": true});
        Template::render_value(&mut value, &vars).unwrap();
        assert_eq!(value, json!({"a": 7, "b": ["n=7"], "${n}": true}));
    }

    #[test]
    fn an_error_in_a_value_comes_with_its_pointer() {
        let (pointer, _) =
            Template::render_value(&mut json!({"a/b": ["x", "${no}"]}), &Vars::new()).unwrap_err();
        assert_eq!(pointer, "/a~1b/1");
    }

    #[test]
    fn phase_one_puts_json_into_the_text_and_remembers_the_places() {
        let vars = Vars::new().with("v", json!({"long": true}));
        let text = "{\"a\": ${v}, \"b\": \"${other} $${v}\"} ${v";
        let done = interpolate_text(text, &vars);
        assert_eq!(done.text, "{\"a\": {\"long\":true}, \"b\": \"${other} $${v}\"} ${v");
        let new = done.text.find("\"b\"").unwrap();
        assert_eq!(done.original_offset(new), text.find("\"b\"").unwrap());
        assert_eq!(done.original_offset(8), 6);
        assert_eq!(done.original_offset(0), 0);
    }
}
