//! The subset matcher.

use crate::mismatch::{Difference, Mismatch};
use crate::path::push_key;
use crate::template::{Fill, Template, TemplateError, Vars};
use crate::text::{Hit, Text};
use serde_json::{Map, Number, Value};

/// How much of a found value an explanation quotes.
const QUOTED: usize = 160;

/// A compiled expectation.
///
/// - an object matches an object that has every expected key; `{}` matches any object and null;
/// - a string is an unanchored regular expression over the value as text (compact JSON for objects and arrays);
/// - a number, a boolean and null match the same JSON type with the same value;
/// - an array matches an array in which every expected element is matched by some element; `[]` matches any array.
#[derive(Debug, Clone)]
pub struct Pattern {
    node: Node,
}

/// A string in the expectation that is not a regular expression we can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression {source_text:?} at {}: {reason}", if .pointer.is_empty() { "the top" } else { .pointer.as_str() })]
pub struct PatternError {
    /// JSON pointer to the string inside the expectation.
    pub pointer: String,
    /// The expression.
    pub source_text: String,
    /// What the regex compiler says.
    pub reason: String,
}

/// Why an expectation with variables could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A string is not a regular expression.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A string holds a bad or unknown `${…}`.
    #[error("{error} (at {pointer})")]
    Template {
        /// JSON pointer to the string inside the expectation.
        pointer: String,
        /// What is wrong in it.
        error: TemplateError,
    },
}

#[derive(Debug, Clone)]
enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(Text),
    Number(Number),
    Bool(bool),
    Null,
}

impl Pattern {
    /// Compiles an expectation whose strings are taken as they are.
    pub fn compile(expected: &Value) -> Result<Pattern, PatternError> {
        let mut at = String::new();
        let node = build(expected, &mut at, &mut |text, _| Ok(text.to_owned()))?;
        Ok(Pattern { node })
    }

    /// Compiles an expectation after filling its `${…}` holes. The values put in are escaped: they match themselves.
    pub fn compile_with(expected: &Value, vars: &Vars) -> Result<Pattern, CompileError> {
        let mut at = String::new();
        let node = build(expected, &mut at, &mut |text, pointer| {
            Template::parse(text)
                .and_then(|template| template.render(vars, Fill::Escaped))
                .map_err(|error| CompileError::Template { pointer: pointer.to_owned(), error })
        })?;
        Ok(Pattern { node })
    }

    /// Whether the value matches; if not, every difference.
    pub fn check(&self, actual: &Value) -> Result<(), Mismatch> {
        if self.matches(actual) {
            return Ok(());
        }
        let mut report = Report::default();
        compare(&self.node, actual, &mut String::new(), &mut report);
        Err(Mismatch { differences: report.differences, met: report.met, total: report.total })
    }

    /// Whether the value matches, without an explanation.
    pub fn matches(&self, actual: &Value) -> bool {
        holds(&self.node, actual)
    }

    /// What is expected, as short JSON-like text for messages.
    pub fn describe(&self) -> String {
        shorten(&sketch(&self.node).to_string())
    }
}

/// The value as the text that expected strings are matched against.
fn stringified(value: &Value) -> std::borrow::Cow<'_, str> {
    match value {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

fn build<E: From<PatternError>>(
    expected: &Value,
    at: &mut String,
    fill: &mut impl FnMut(&str, &str) -> Result<String, E>,
) -> Result<Node, E> {
    Ok(match expected {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) => Node::Number(number.clone()),
        Value::String(text) => {
            let source = fill(text, at)?;
            let compiled = Text::compile(&source).map_err(|error| PatternError {
                pointer: at.clone(),
                source_text: source.clone(),
                reason: error.to_string(),
            })?;
            Node::Text(compiled)
        }
        Value::Array(list) => {
            let mut nodes = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                nodes.push(below(at, &index.to_string(), |at| build(item, at, fill))?);
            }
            Node::Array(nodes)
        }
        Value::Object(map) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (key, item) in map {
                let step = key.replace('~', "~0").replace('/', "~1");
                nodes.push((key.clone(), below(at, &step, |at| build(item, at, fill))?));
            }
            Node::Object(nodes)
        }
    })
}

fn below<T>(pointer: &mut String, step: &str, work: impl FnOnce(&mut String) -> T) -> T {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(step);
    let out = work(pointer);
    pointer.truncate(length);
    out
}

fn holds(node: &Node, actual: &Value) -> bool {
    match (node, actual) {
        (Node::Object(keys), Value::Null) => keys.is_empty(),
        (Node::Object(keys), Value::Object(map)) => {
            keys.iter().all(|(key, node)| map.get(key).is_some_and(|value| holds(node, value)))
        }
        (Node::Array(nodes), Value::Array(list)) => {
            nodes.iter().all(|node| list.iter().any(|value| holds(node, value)))
        }
        (Node::Text(text), value) => text.check(&stringified(value)) == Hit::Yes,
        (Node::Number(expected), Value::Number(found)) => same_number(expected, found),
        (Node::Bool(expected), Value::Bool(found)) => expected == found,
        (Node::Null, Value::Null) => true,
        _ => false,
    }
}

/// Equal as numbers: integers exactly, anything else by its double.
fn same_number(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[derive(Default)]
struct Report {
    differences: Vec<Difference>,
    met: usize,
    total: usize,
}

impl Report {
    fn tally(&mut self, holds: bool, path: &str, expected: impl FnOnce() -> String, found: Option<&Value>) {
        self.total += 1;
        if holds {
            self.met += 1;
        } else {
            let found = found.map(|value| shorten(&value.to_string()));
            self.differences.push(Difference { path: path.to_owned(), expected: expected(), found });
        }
    }
}

fn compare(node: &Node, actual: &Value, path: &mut String, report: &mut Report) {
    match (node, actual) {
        (Node::Object(keys), Value::Object(map)) if !keys.is_empty() => {
            for (key, node) in keys {
                let length = path.len();
                push_key(path, key);
                match map.get(key) {
                    Some(value) => compare(node, value, path, report),
                    None => report.tally(false, path, || words(node), None),
                }
                path.truncate(length);
            }
        }
        (Node::Array(nodes), Value::Array(list)) if !nodes.is_empty() => {
            for node in nodes {
                compare_element(node, list, path, report);
            }
        }
        _ => {
            let gave_up = matches!(node, Node::Text(text) if text.check(&stringified(actual)) == Hit::GaveUp);
            let expected = || {
                let words = words(node);
                if gave_up { format!("{words} (the expression needed too many steps)") } else { words }
            };
            report.tally(holds(node, actual), path, expected, Some(actual));
        }
    }
}

/// No single element matches: explain against the one that comes nearest.
fn compare_element(node: &Node, list: &[Value], path: &mut String, report: &mut Report) {
    if list.iter().any(|value| holds(node, value)) {
        report.total += 1;
        report.met += 1;
        return;
    }
    let mut nearest: Option<Report> = None;
    for (index, value) in list.iter().enumerate() {
        let mut trial = Report::default();
        let length = path.len();
        path.push_str(&format!("[{index}]"));
        compare(node, value, path, &mut trial);
        path.truncate(length);
        if nearest.as_ref().is_none_or(|best| trial.met > best.met) {
            nearest = Some(trial);
        }
    }
    match nearest {
        Some(best) if best.met > 0 || list.len() == 1 => {
            report.total += best.total;
            report.met += best.met;
            report.differences.extend(best.differences);
        }
        _ => {
            let all = Value::Array(list.to_vec());
            report.tally(false, path, || format!("an element that is {}", words(node)), Some(&all));
        }
    }
}

fn words(node: &Node) -> String {
    match node {
        Node::Object(keys) if keys.is_empty() => "an object or null".to_owned(),
        Node::Object(_) => format!("an object with {}", shorten(&sketch(node).to_string())),
        Node::Array(nodes) if nodes.is_empty() => "an array".to_owned(),
        Node::Array(_) => format!("an array with {}", shorten(&sketch(node).to_string())),
        Node::Text(text) => format!("to match {}", text.source()),
        Node::Number(number) => format!("the number {number}"),
        Node::Bool(value) => format!("the boolean {value}"),
        Node::Null => "null".to_owned(),
    }
}

fn sketch(node: &Node) -> Value {
    match node {
        Node::Object(keys) => {
            Value::Object(keys.iter().map(|(key, node)| (key.clone(), sketch(node))).collect::<Map<_, _>>())
        }
        Node::Array(nodes) => Value::Array(nodes.iter().map(sketch).collect()),
        Node::Text(text) => Value::from(text.source()),
        Node::Number(number) => Value::Number(number.clone()),
        Node::Bool(value) => Value::Bool(*value),
        Node::Null => Value::Null,
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= QUOTED {
        return text.to_owned();
    }
    let kept: String = text.chars().take(QUOTED).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(expected: &Value, actual: &Value) -> bool {
        Pattern::compile(expected).unwrap().check(actual).is_ok()
    }

    #[test]
    fn an_object_is_a_subset_and_a_missing_key_fails() {
        assert!(matches(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!matches(&json!({"a": 1}), &json!({"b": 2})));
        assert!(!matches(&json!({"a": {}}), &json!({})));
    }

    #[test]
    fn the_empty_object_matches_any_object_or_null() {
        assert!(matches(&json!({"r": {}}), &json!({"r": null})));
        assert!(matches(&json!({"r": {}}), &json!({"r": {"x": 1}})));
        assert!(!matches(&json!({"r": {}}), &json!({"r": []})));
        assert!(!matches(&json!({"r": {"x": "."}}), &json!({"r": null})));
    }

    #[test]
    fn a_number_matches_by_type_and_value() {
        assert!(matches(&json!(2), &json!(2)));
        assert!(matches(&json!(2), &json!(2.0)));
        assert!(!matches(&json!(2), &json!(12)));
        assert!(!matches(&json!(2), &json!("2")));
        assert!(!matches(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992_i64)));
        assert!(!matches(&json!(true), &json!("true")));
        assert!(!matches(&json!(null), &json!("null")));
    }

    #[test]
    fn a_string_is_an_unanchored_regex_over_the_stringified_value() {
        assert!(matches(&json!("^\\d+$"), &json!(12)));
        assert!(matches(&json!("2"), &json!(12)));
        assert!(matches(&json!("^(true|false)$"), &json!(false)));
        assert!(matches(&json!("\"a\":\\[1,2\\]"), &json!({"a": [1, 2]})));
        assert!(matches(&json!("^null$"), &json!(null)));
        assert!(!matches(&json!("^end_turn$"), &json!("end_turn ")));
    }

    #[test]
    fn an_array_contains_each_expected_element_in_any_order() {
        assert!(matches(&json!([]), &json!([1])));
        assert!(matches(&json!([2, 1]), &json!([1, 2, 3])));
        assert!(!matches(&json!([4]), &json!([1, 2, 3])));
        assert!(matches(&json!(["a", "a"]), &json!(["a"])));
        assert!(!matches(&json!([]), &json!(null)));
    }

    #[test]
    fn an_invalid_expression_names_its_place() {
        let error = Pattern::compile(&json!({"a/b": ["ok", "(unclosed"]})).unwrap_err();
        assert_eq!(error.pointer, "/a~1b/1");
        assert_eq!(error.source_text, "(unclosed");
    }

    #[test]
    fn values_filled_in_match_themselves_only() {
        let vars = Vars::new().with("p", "/tmp/a.b");
        let pattern = Pattern::compile_with(&json!({"path": "^${p}/x\\.txt$"}), &vars).unwrap();
        assert!(pattern.matches(&json!({"path": "/tmp/a.b/x.txt"})));
        assert!(!pattern.matches(&json!({"path": "/tmp/aXb/x.txt"})));
    }

    #[test]
    fn a_mismatch_is_told_path_by_path() {
        let pattern = Pattern::compile(&json!({
            "method": "^session/update$",
            "params": {"update": {"kind": "^plan$", "entries": [{"status": "^done$", "text": "x"}]}, "gone": 1}
        }))
        .unwrap();
        let mismatch = pattern
            .check(&json!({"method": "session/update", "params": {"update": {"kind": "tool", "entries": [
                {"status": "open", "text": "y"}, {"status": "open", "text": "x"}]}}}))
            .unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "params.update.kind: expected to match ^plan$, found \"tool\"\n\
             params.update.entries[1].status: expected to match ^done$, found \"open\"\n\
             params.gone: expected the number 1, but it is missing"
        );
        assert_eq!((mismatch.met, mismatch.total), (2, 5));
    }
}
