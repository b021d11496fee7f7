//! Values made from a JSON Schema: what a tool insists on and nobody gave.

use serde_json::{Map, Value, json};

/// How deep a schema is followed.
const DEPTH: usize = 6;

/// Adds what `schema` requires and `args` lacks.
pub(crate) fn complete(args: &mut Map<String, Value>, schema: &Value) {
    complete_at(args, schema, schema, DEPTH);
}

/// A value of this schema with every property there is.
pub(crate) fn whole(schema: &Value) -> Value {
    value(schema, schema, "answer", true, DEPTH)
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

fn complete_at(args: &mut Map<String, Value>, schema: &Value, root: &Value, depth: usize) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !args.contains_key(name) {
            let property = properties(schema).and_then(|all| all.get(name)).unwrap_or(&Value::Null);
            args.insert(name.to_owned(), value(property, root, name, false, depth));
        }
    }
}

fn value(schema: &Value, root: &Value, name: &str, all: bool, depth: usize) -> Value {
    let schema = follow(schema, root);
    for given in ["default", "const"] {
        if let Some(value) = schema.get(given).filter(|value| !value.is_null()) {
            return value.clone();
        }
    }
    if let Some(first) = schema["enum"].as_array().and_then(|list| list.iter().find(|value| !value.is_null()))
    {
        return first.clone();
    }
    for either in ["anyOf", "oneOf", "allOf"] {
        let choices = schema[either].as_array().into_iter().flatten();
        if let Some(choice) =
            choices.map(|choice| follow(choice, root)).find(|choice| type_of(choice) != "null")
        {
            return if depth == 0 { Value::Null } else { value(choice, root, name, all, depth - 1) };
        }
    }
    match type_of(schema).as_str() {
        "boolean" => false.into(),
        "integer" | "number" => number(schema, name),
        "array" => array(schema, root, name, all, depth),
        "object" => object(schema, root, all, depth),
        "null" => Value::Null,
        _ if properties(schema).is_some() => object(schema, root, all, depth),
        _ => text(schema, name),
    }
}

fn text(schema: &Value, name: &str) -> Value {
    let least = schema["minLength"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0).min(10_000);
    let mut text = format!("scripted {name}");
    while text.len() < least {
        text.push('.');
    }
    text.into()
}

fn number(schema: &Value, name: &str) -> Value {
    if name.to_lowercase().contains("timeout") {
        return schema["maximum"].as_u64().map_or(60_000, |most| most.min(60_000)).into();
    }
    let least = schema["minimum"].as_i64().unwrap_or(1);
    json!(least.max(1).min(schema["maximum"].as_i64().unwrap_or(i64::MAX)))
}

fn array(schema: &Value, root: &Value, name: &str, all: bool, depth: usize) -> Value {
    let least = schema["minItems"].as_u64().unwrap_or(u64::from(all)).min(8);
    let items =
        (0..if depth == 0 { 0 } else { least }).map(|_| value(&schema["items"], root, name, all, depth - 1));
    Value::Array(items.collect())
}

fn object(schema: &Value, root: &Value, all: bool, depth: usize) -> Value {
    let mut map = Map::new();
    if depth > 0 {
        complete_at(&mut map, schema, root, depth - 1);
        for (name, property) in properties(schema).into_iter().flatten().filter(|_| all) {
            if !map.contains_key(name) {
                map.insert(name.clone(), value(property, root, name, all, depth - 1));
            }
        }
    }
    Value::Object(map)
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
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert!(whole(&schema).is_object());
        let knot = json!({"$ref": "#/a", "a": {"$ref": "#"}});
        let _ = whole(&knot);
    }
}
