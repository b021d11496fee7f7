//! Values made from a JSON Schema: what a tool insists on and nobody gave, and answers of a wanted form.
//!
//! The first thing that applies decides: `default`, `const`, `enum`, `allOf` (merged), the first choice of `anyOf` or
//! `oneOf` that is not null, then the type with its bounds. An answer ([`whole`]) approves where its schema lets it:
//! see [`approving`].

use serde_json::{Map, Value, json};

/// How deep a schema is followed.
const DEPTH: usize = 12;

/// Below this many levels an answer leaves out what is not required, so that recursive schemas stay small.
const OPTIONAL_DEPTH: usize = 6;

/// Words for consent, and words for the least risk.
const CONSENT: &[&str] = &[
    "allow", "allowed", "approve", "approved", "accept", "accepted", "permit", "proceed", "yes", "safe",
    "pass",
];
const LEAST: &[&str] = &["none", "minimal", "low"];

/// Adds what `schema` requires and `args` lacks.
pub(crate) fn complete(args: &mut Map<String, Value>, schema: &Value) {
    Maker { root: schema, answer: false }.complete(args, schema, DEPTH);
}

/// A value of this schema with every property there is.
pub(crate) fn whole(schema: &Value) -> Value {
    Maker { root: schema, answer: true }.value(schema, "answer", DEPTH)
}

/// The properties of an object schema.
pub(crate) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// The type of a schema, in lower case; the first one that is not null.
pub(crate) fn type_of(schema: &Value) -> String {
    let name = match &schema["type"] {
        Value::String(name) => name.as_str(),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("")
        }
        _ => "",
    };
    name.to_lowercase()
}

/// The choice that lets an agent go on: a word for consent, or for the least risk where the property's name speaks of
/// risk. `None` when the list has neither; then the first choice is as good as any.
fn approving<'c>(choices: &'c [Value], name: &str) -> Option<&'c Value> {
    let find = |words: &[&str]| {
        words.iter().find_map(|word| {
            choices.iter().find(|choice| choice.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word)))
        })
    };
    let name = name.to_lowercase();
    let is_risk = ["risk", "severity", "danger", "threat"].iter().any(|word| name.contains(word));
    find(CONSENT).or_else(|| is_risk.then(|| find(LEAST)).flatten())
}

/// Makes values of one schema.
struct Maker<'s> {
    /// The whole schema, for references.
    root: &'s Value,
    /// Whether this is an answer: with optional properties, and approving.
    answer: bool,
}

impl Maker<'_> {
    fn complete(&self, args: &mut Map<String, Value>, schema: &Value, depth: usize) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !args.contains_key(name) {
                let property = properties(schema).and_then(|all| all.get(name)).unwrap_or(&Value::Null);
                args.insert(name.to_owned(), self.value(property, name, depth));
            }
        }
    }

    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let schema = follow(schema, self.root);
        if let Some(given) = self.given(schema, name) {
            return given;
        }
        if depth == 0 {
            return Value::Null;
        }
        if let Some(parts) = schema["allOf"].as_array().filter(|parts| !parts.is_empty()) {
            return self.value(&self.merged(schema, parts), name, depth - 1);
        }
        for either in ["anyOf", "oneOf"] {
            let choices = schema[either].as_array().into_iter().flatten();
            let mut choices = choices.map(|choice| follow(choice, self.root));
            if let Some(choice) = choices.find(|choice| type_of(choice) != "null") {
                return self.value(choice, name, depth - 1);
            }
        }
        match type_of(schema).as_str() {
            "boolean" => self.yes_or_no(name).into(),
            "integer" | "number" => number(schema, name),
            "array" => self.array(schema, name, depth),
            "object" => self.object(schema, depth),
            "null" => Value::Null,
            _ if properties(schema).is_some() => self.object(schema, depth),
            _ => text(schema, name),
        }
    }

    /// What the schema itself names: a default, the only value, or one of a list.
    fn given(&self, schema: &Value, name: &str) -> Option<Value> {
        for given in ["default", "const"] {
            if let Some(value) = schema.get(given).filter(|value| !value.is_null()) {
                return Some(value.clone());
            }
        }
        let choices = schema["enum"].as_array()?;
        let first = || choices.iter().find(|value| !value.is_null());
        let chosen = if self.answer { approving(choices, name).or_else(first) } else { first() };
        chosen.cloned()
    }

    /// One schema of a schema and the parts that all hold.
    fn merged(&self, schema: &Value, parts: &[Value]) -> Value {
        let mut all = schema.as_object().cloned().unwrap_or_default();
        all.remove("allOf");
        for part in parts.iter().filter_map(|part| follow(part, self.root).as_object()) {
            for (key, value) in part {
                match (all.get_mut(key), value) {
                    (Some(Value::Object(mine)), Value::Object(more)) => mine.extend(more.clone()),
                    (Some(Value::Array(mine)), Value::Array(more)) if key == "required" => {
                        mine.extend(more.iter().cloned());
                    }
                    _ => {
                        all.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        all.into()
    }

    /// An answer says yes where the property's name asks whether something is allowed.
    fn yes_or_no(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.answer
            && ["approv", "allow", "accept", "permit", "is_safe", "issafe"]
                .iter()
                .any(|word| name.contains(word))
    }

    fn array(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let most = schema["maxItems"].as_u64().unwrap_or(8).min(8);
        let wanted = u64::from(self.answer && depth > OPTIONAL_DEPTH);
        let count = schema["minItems"].as_u64().unwrap_or(wanted).min(most);
        let tuple = schema["prefixItems"].as_array();
        let items = (0..count).map(|n| {
            let item = usize::try_from(n).ok().and_then(|n| tuple?.get(n)).unwrap_or(&schema["items"]);
            self.value(item, name, depth - 1)
        });
        Value::Array(items.collect())
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let mut map = Map::new();
        self.complete(&mut map, schema, depth - 1);
        let optional = properties(schema).into_iter().flatten();
        for (name, property) in optional.filter(|_| self.answer && depth > OPTIONAL_DEPTH) {
            if !map.contains_key(name) {
                map.insert(name.clone(), self.value(property, name, depth - 1));
            }
        }
        Value::Object(map)
    }
}

fn text(schema: &Value, name: &str) -> Value {
    let bound = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    let formed = match schema["format"].as_str() {
        Some("date-time") => Some("2026-01-01T00:00:00Z"),
        Some("date") => Some("2026-01-01"),
        Some("time") => Some("00:00:00Z"),
        Some("uri" | "url") => Some("https://example.invalid/"),
        Some("email") => Some("nobody@example.invalid"),
        Some("uuid") => Some("00000000-0000-4000-8000-000000000000"),
        _ => None,
    };
    if let Some(formed) = formed {
        return formed.into();
    }
    let mut text = format!("scripted {name}");
    while text.len() < bound("minLength").unwrap_or(0).min(10_000) {
        text.push('.');
    }
    match bound("maxLength") {
        Some(most) => text.chars().take(most).collect::<String>().into(),
        None => text.into(),
    }
}

fn number(schema: &Value, name: &str) -> Value {
    if name.to_lowercase().contains("timeout") {
        return schema["maximum"].as_u64().map_or(60_000, |most| most.min(60_000)).into();
    }
    let bound = |key: &str| schema[key].as_f64();
    let above = bound("exclusiveMinimum").map(|least| least.floor() + 1.0);
    let below = bound("exclusiveMaximum").map(|most| most.ceil() - 1.0);
    let least = bound("minimum").map(f64::ceil).or(above).unwrap_or(1.0);
    let most = bound("maximum").map(f64::floor).or(below).unwrap_or(f64::MAX);
    let whole = least.max(1.0).min(most);
    if whole >= least {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number; a cast of a larger one saturates"
        )]
        return json!(whole as i64);
    }
    // No whole number lies between the bounds: half the way does.
    let (low, high) =
        (bound("minimum").or(bound("exclusiveMinimum")), bound("maximum").or(bound("exclusiveMaximum")));
    json!(f64::midpoint(low.unwrap_or(0.0), high.unwrap_or(0.0)))
}

/// Follows local references, a few at most.
fn follow<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..DEPTH {
        let target = schema["$ref"].as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_filled_from_the_schema_and_the_rest_left_out() {
        let schema = json!({
            "type": "OBJECT", "required": ["a", "risk", "timeout_ms", "todo", "n", "flag", "kept"],
            "properties": {
                "a": {"type": "string"}, "risk": {"enum": ["low", "high"]}, "timeout_ms": {"type": "integer"},
                "todo": {"$ref": "#/$defs/todo"}, "n": {"type": ["null", "integer"], "minimum": 3},
                "flag": {"type": "boolean", "default": true}, "kept": {"type": "string"}, "optional": {"type": "string"},
            },
            "$defs": {"todo": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "x": {}}}},
        });
        let mut args = Map::from_iter([("kept".to_owned(), json!("mine"))]);
        complete(&mut args, &schema);
        let expected = json!({"kept": "mine", "a": "scripted a", "risk": "low", "timeout_ms": 60_000, "todo": {"id": "scripted id"}, "n": 3, "flag": true});
        assert_eq!(Value::Object(args), expected);
    }

    #[test]
    fn an_answer_approves_where_its_schema_lets_it() {
        let schema = json!({
            "type": "object", "required": ["outcome"], "additionalProperties": false,
            "properties": {
                "outcome": {"type": "string", "enum": ["deny", "allow"]},
                "risk_level": {"type": "string", "enum": ["critical", "high", "low"]},
                "user_authorization": {"enum": ["unknown", "low", "high"]},
                "approved": {"type": "boolean"}, "blocked": {"type": "boolean"},
                "rationale": {"type": "string", "maxLength": 4},
            },
        });
        let expected = json!({
            "outcome": "allow", "risk_level": "low", "user_authorization": "unknown", "approved": true,
            "blocked": false, "rationale": "scri",
        });
        assert_eq!(whole(&schema), expected);
        let mut args = Map::new();
        complete(&mut args, &schema);
        assert_eq!(Value::Object(args), json!({"outcome": "deny"}), "a tool is not given an opinion");
    }

    #[test]
    fn an_answer_keeps_the_bounds_of_its_schema() {
        let schema = json!({
            "allOf": [
                {"$ref": "#/$defs/base"},
                {"properties": {
                    "score": {"type": "number", "minimum": 0.2, "maximum": 0.8},
                    "rank": {"type": "integer", "exclusiveMinimum": 4},
                    "none": {"type": "array", "maxItems": 0, "items": {"type": "string"}},
                    "pair": {"type": "array", "minItems": 2, "prefixItems": [{"const": "a"}], "items": {"const": "b"}},
                    "at": {"type": "string", "format": "date-time"},
                }, "required": ["score"]},
            ],
            "$defs": {"base": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
        });
        let expected = json!({
            "id": "scripted id", "score": 0.5, "rank": 5, "none": [], "pair": ["a", "b"], "at": "2026-01-01T00:00:00Z",
        });
        assert_eq!(whole(&schema), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert!(whole(&schema).is_object());
        let knot = json!({"$ref": "#/a", "a": {"$ref": "#"}});
        let _ = whole(&knot);
    }
}
