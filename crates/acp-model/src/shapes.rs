//! Values in the shape that a tool's schema wants: lists of texts, plans, questions.

use serde_json::{Map, Value, json};

use crate::fill::{complete, properties, type_of};
use crate::tools::{COMMANDS, PATHS};

/// A text in the form that a property wants: itself, in a list, or in a list of objects.
pub(crate) fn shaped(name: &str, schema: &Value, text: &str) -> Value {
    if type_of(schema) != "array" {
        return text.into();
    }
    if COMMANDS.contains(&name) && name != "commands" {
        return json!(["bash", "-lc", text]);
    }
    let items = &schema["items"];
    if type_of(items) == "object" {
        let inner = properties(items)
            .and_then(|all| PATHS.iter().chain(COMMANDS).find(|name| all.contains_key(**name)));
        let mut item = Map::from_iter([(inner.unwrap_or(&"path").to_string(), Value::from(text))]);
        complete(&mut item, items);
        return json!([item]);
    }
    json!([text])
}

/// A plan in the form that a property wants: a list of objects with a text and a state, or a checklist.
pub(crate) fn plan(steps: &[String], schema: &Value) -> Value {
    if type_of(schema) == "string" {
        return steps.iter().map(|step| format!("- [ ] {step}")).collect::<Vec<_>>().join("\n").into();
    }
    let items = &schema["items"];
    let Some(all) = properties(items) else { return json!(steps) };
    let texts = ["content", "step", "description", "title", "task", "text", "name"];
    let text = texts.iter().find(|name| all.contains_key(**name)).copied().unwrap_or("content");
    let entries = steps.iter().enumerate().map(|(n, step)| {
        let mut entry = Map::from_iter([(text.to_owned(), Value::from(step.as_str()))]);
        if let Some(status) = all.get("status") {
            let wanted = if n == 0 { "in_progress" } else { "pending" };
            let words = status["enum"].as_array();
            let known = words.is_none_or(|words| words.iter().any(|word| word == wanted));
            entry.extend(known.then(|| ("status".to_owned(), wanted.into())));
        }
        let more =
            [("id", (n + 1).to_string()), ("activeForm", step.clone()), ("priority", "medium".to_owned())];
        for (name, value) in more {
            let words = all.get(name).filter(|schema| type_of(schema) != "integer");
            if words.is_some_and(|schema| schema.get("enum").is_none()) {
                entry.insert(name.to_owned(), value.into());
            }
        }
        complete(&mut entry, items);
        Value::Object(entry)
    });
    Value::Array(entries.collect())
}

/// A question in the form that a property wants: a text, or a list with one object that holds the question and, where
/// the schema has them, a short title, an id, and two options to choose from.
pub(crate) fn question(words: &str, topic: &str, schema: &Value) -> Value {
    if type_of(schema) != "array" {
        return words.into();
    }
    let items = &schema["items"];
    let Some(all) = properties(items) else { return json!([words]) };
    let mut entry = Map::new();
    for (name, text) in [("question", words), ("prompt", words), ("header", "Question"), ("id", topic)] {
        if all.contains_key(name) {
            entry.insert(name.to_owned(), text.into());
        }
    }
    if let Some(options) = all.get("options") {
        entry.insert("options".to_owned(), choices(&options["items"]));
    }
    complete(&mut entry, items);
    json!([entry])
}

fn choices(schema: &Value) -> Value {
    let choice = |label: &str| {
        if type_of(schema) == "string" {
            return label.into();
        }
        let mut choice = Map::from_iter([("label".to_owned(), Value::from(label))]);
        complete(&mut choice, schema);
        Value::Object(choice)
    };
    json!([choice("This one"), choice("Another one")])
}
