//! Forms of an elicitation: filling them in, and checking what was entered.

use regex::Regex;
use serde_json::{Map, Value, json};

/// The values entered, and for every other required field one that the form allows.
pub(crate) fn filled(schema: &Value, mut entered: Map<String, Value>) -> Map<String, Value> {
    for (name, field) in properties(schema) {
        let is_required = required(schema).any(|required| required == name);
        if !entered.contains_key(name) && (is_required || field.get("default").is_some()) {
            entered.insert(name.clone(), field.get("default").cloned().unwrap_or_else(|| allowed(field)));
        }
    }
    entered
}

/// Whether the form allows these values.
pub(crate) fn fits(schema: &Value, values: &Map<String, Value>) -> bool {
    required(schema).all(|name| values.contains_key(name))
        && values.iter().all(|(name, value)| {
            properties(schema).any(|(known, field)| known == name && field_allows(field, value))
        })
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The values that a field lists, if it does.
fn choices(field: &Value) -> Option<Vec<&Value>> {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        return Some(values.iter().collect());
    }
    let titled = field.get("oneOf").or_else(|| field.get("anyOf"))?.as_array()?;
    Some(titled.iter().filter_map(|choice| choice.get("const")).collect())
}

fn number(field: &Value, key: &str) -> Option<f64> {
    field.get(key).and_then(Value::as_f64)
}

fn count(field: &Value, key: &str) -> Option<usize> {
    field.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())
}

/// A value that the field allows.
fn allowed(field: &Value) -> Value {
    if let Some(first) = choices(field).and_then(|choices| choices.first().copied()) {
        return first.clone();
    }
    match kind(field) {
        "boolean" => json!(true),
        "integer" => json!(
            number(field, "minimum")
                .unwrap_or_else(|| number(field, "maximum").unwrap_or(1.0).min(1.0))
                .ceil() as i64
        ),
        "number" => json!(
            number(field, "minimum").unwrap_or_else(|| number(field, "maximum").unwrap_or(1.0).min(1.0))
        ),
        "array" => {
            let items = field.get("items").unwrap_or(&Value::Null);
            let wanted = count(field, "minItems").unwrap_or(1).max(1);
            match choices(items) {
                Some(choices) => choices.into_iter().take(wanted).cloned().collect(),
                None => std::iter::repeat_n(allowed(items), wanted).collect(),
            }
        }
        _ => json!(words(field)),
    }
}

/// A text of the form and the length that the field asks for.
fn words(field: &Value) -> String {
    match field.get("format").and_then(Value::as_str) {
        Some("email") => "person@example.org".to_owned(),
        Some("uri") => "https://example.org/".to_owned(),
        Some("date") => "2020-01-02".to_owned(),
        Some("date-time") => "2020-01-02T03:04:05Z".to_owned(),
        _ => {
            let (least, most) =
                (count(field, "minLength").unwrap_or(0), count(field, "maxLength").unwrap_or(usize::MAX));
            "text".chars().cycle().take(least.max(4).min(most)).collect()
        }
    }
}

fn kind(field: &Value) -> &str {
    field.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn field_allows(field: &Value, value: &Value) -> bool {
    if let Some(choices) = choices(field)
        && kind(field) != "array"
    {
        return choices.contains(&value);
    }
    let in_range = |value: f64| {
        number(field, "minimum").is_none_or(|least| value >= least)
            && number(field, "maximum").is_none_or(|most| value <= most)
    };
    let in_length = |length: usize, least: &str, most: &str| {
        count(field, least).is_none_or(|least| length >= least)
            && count(field, most).is_none_or(|most| length <= most)
    };
    match (kind(field), value) {
        ("boolean", Value::Bool(_)) => true,
        ("integer", Value::Number(number)) => {
            (number.is_i64() || number.is_u64()) && number.as_f64().is_some_and(in_range)
        }
        ("number", Value::Number(number)) => number.as_f64().is_some_and(in_range),
        ("string", Value::String(text)) => {
            let pattern = field.get("pattern").and_then(Value::as_str);
            in_length(text.chars().count(), "minLength", "maxLength")
                && pattern
                    .is_none_or(|pattern| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text)))
        }
        ("array", Value::Array(items)) => {
            let of = field.get("items").unwrap_or(&Value::Null);
            in_length(items.len(), "minItems", "maxItems")
                && items.iter().all(|item| match choices(of) {
                    Some(choices) => choices.contains(&item),
                    None => field_allows(of, item),
                })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_fits() {
        let schema = json!({ "type": "object", "required": ["n", "s", "e", "m", "b", "i", "mail"], "properties": {
            "n": { "type": "number", "maximum": -2 }, "i": { "type": "integer", "minimum": 3, "maximum": 5 },
            "s": { "type": "string", "minLength": 6 }, "b": { "type": "boolean" }, "e": { "type": "string", "enum": ["x", "y"] },
            "m": { "type": "array", "minItems": 2, "items": { "type": "string", "enum": ["p", "q", "r"] } },
            "mail": { "type": "string", "format": "email" }, "o": { "type": "string" },
            "d": { "type": "string", "oneOf": [{ "const": "k", "title": "K" }], "default": "k" } } });
        let values = filled(&schema, Map::new());
        assert!(fits(&schema, &values), "{values:?}");
        assert_eq!((values.get("o"), &values["d"], &values["m"]), (None, &json!("k"), &json!(["p", "q"])));
    }

    #[test]
    fn what_a_form_does_not_allow_does_not_fit() {
        let schema = json!({ "type": "object", "properties": { "i": { "type": "integer", "minimum": 3, "maximum": 5 },
            "s": { "type": "string", "pattern": "^a+$", "maxLength": 2 }, "e": { "enum": ["x"], "type": "string" } } });
        let fits = |values: Value| fits(&schema, values.as_object().unwrap());
        assert!(fits(json!({ "i": 4, "s": "aa", "e": "x" })) && fits(json!({})));
        for wrong in [
            json!({ "i": 9 }),
            json!({ "i": 3.5 }),
            json!({ "i": "4" }),
            json!({ "s": "aaa" }),
            json!({ "s": "b" }),
            json!({ "e": "z" }),
            json!({ "strange": 1 }),
        ] {
            assert!(!fits(wrong.clone()), "{wrong}");
        }
    }
}
