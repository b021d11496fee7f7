//! Elicitation forms: one question per field, each answer checked before anything is sent.

use acp_host::Elicited;
use serde_json::{Map, Value, json};

use super::{clean, say, yes};
use crate::keys::typed_line;

/// Asks for every field, shows the answers, and asks whether to send them.
pub(super) async fn fill(schema: &Value) -> Elicited {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut content = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        match ask(name, field, required.contains(&name.as_str())).await {
            Some(Some(value)) => {
                content.insert(name.clone(), value);
            }
            Some(None) => {}
            None => return Elicited::Cancel,
        }
    }
    say("  your answers:\n");
    for (name, value) in &content {
        say(&format!("    {}: {}\n", clean(name), clean(&value.to_string())));
    }
    if yes("  send them? [y/N] ").await { Elicited::Accept(content) } else { Elicited::Decline }
}

/// `None`: the person turned away; `Some(None)`: the field stays empty.
async fn ask(name: &str, field: &Value, required: bool) -> Option<Option<Value>> {
    let title = field["title"].as_str().unwrap_or(name);
    let about = field["description"].as_str().map(|text| format!(" ({})", clean(text))).unwrap_or_default();
    let choices = choices(field);
    let default = field.get("default").filter(|value| !value.is_null());
    for (index, (_, label)) in choices.iter().enumerate() {
        say(&format!("    {}) {}\n", index + 1, clean(label)));
    }
    loop {
        let hint = match default {
            Some(value) => format!(" [{}]", clean(&value.to_string())),
            None if required => String::new(),
            None => " [leave empty to skip]".to_owned(),
        };
        say(&format!("  {}{about}{hint}: ", clean(title)));
        let line = typed_line().await?;
        let line = line.trim();
        if line.is_empty() {
            match (default, required) {
                (Some(value), _) => return Some(Some(value.clone())),
                (None, false) => return Some(None),
                (None, true) => {
                    say("    this one is needed (Ctrl-D turns the form away)\n");
                    continue;
                }
            }
        }
        match read(line, field, &choices) {
            Ok(value) => return Some(Some(value)),
            Err(why) => say(&format!("    {why}\n")),
        }
    }
}

/// The values that a field allows, with their labels.
fn choices(field: &Value) -> Vec<(String, String)> {
    let field = if field["type"] == "array" { &field["items"] } else { field };
    let plain = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let titled = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array()).into_iter().flatten();
    let titled = titled.filter_map(|option| {
        let value = option["const"].as_str()?;
        Some((value.to_owned(), option["title"].as_str().unwrap_or(value).to_owned()))
    });
    plain.map(|value| (value.to_owned(), value.to_owned())).chain(titled).collect()
}

/// Reads an answer as the field's type, within its bounds.
fn read(line: &str, field: &Value, choices: &[(String, String)]) -> Result<Value, String> {
    let choose = |word: &str| -> Result<String, String> {
        let by_number = word.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
        by_number
            .or_else(|| choices.iter().find(|(value, label)| value == word || label == word))
            .map(|(value, _)| value.clone())
            .ok_or_else(|| format!("please choose a number from 1 to {}", choices.len()))
    };
    match field["type"].as_str() {
        Some("boolean") => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(json!(true)),
            "n" | "no" | "false" => Ok(json!(false)),
            _ => Err("please answer y or n".to_owned()),
        },
        Some("integer") => {
            let number: i64 = line.parse().map_err(|_| "please type a whole number".to_owned())?;
            #[expect(clippy::cast_precision_loss, reason = "bounds are compared as JSON numbers are")]
            bounds(number as f64, field).map(|()| json!(number))
        }
        Some("number") => {
            let number: f64 = line.parse().map_err(|_| "please type a number".to_owned())?;
            bounds(number, field).map(|()| json!(number))
        }
        Some("array") => {
            let values = line.split(',').map(|word| choose(word.trim())).collect::<Result<Vec<_>, _>>()?;
            count(values.len(), field, "minItems", "maxItems", "choices").map(|()| json!(values))
        }
        _ if !choices.is_empty() => choose(line).map(Value::String),
        _ => count(line.chars().count(), field, "minLength", "maxLength", "characters").map(|()| json!(line)),
    }
}

fn bounds(number: f64, field: &Value) -> Result<(), String> {
    match (field["minimum"].as_f64(), field["maximum"].as_f64()) {
        (Some(least), _) if number < least => Err(format!("at least {least}, please")),
        (_, Some(most)) if number > most => Err(format!("at most {most}, please")),
        _ => Ok(()),
    }
}

fn count(seen: usize, field: &Value, least: &str, most: &str, what: &str) -> Result<(), String> {
    match (field[least].as_u64(), field[most].as_u64()) {
        (Some(least), _) if (seen as u64) < least => Err(format!("at least {least} {what}, please")),
        (_, Some(most)) if (seen as u64) > most => Err(format!("at most {most} {what}, please")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_field_wants_them() {
        for (field, line, expected) in [
            (json!({"type": "string"}), "hi", Ok(json!("hi"))),
            (json!({"type": "string", "maxLength": 1}), "hi", Err(())),
            (json!({"type": "string", "enum": ["a", "b"]}), "2", Ok(json!("b"))),
            (json!({"type": "string", "enum": ["a", "b"]}), "c", Err(())),
            (json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}), "Red", Ok(json!("r"))),
            (json!({"type": "boolean"}), "y", Ok(json!(true))),
            (json!({"type": "boolean"}), "perhaps", Err(())),
            (json!({"type": "integer", "minimum": 1, "maximum": 3}), "3", Ok(json!(3))),
            (json!({"type": "integer", "minimum": 1, "maximum": 3}), "4", Err(())),
            (json!({"type": "integer"}), "1.5", Err(())),
            (json!({"type": "number"}), "1.5", Ok(json!(1.5))),
            (json!({"type": "array", "items": {"enum": ["a", "b"]}}), "1, b", Ok(json!(["a", "b"]))),
            (json!({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}), "1,2", Err(())),
        ] {
            let read = read(line, &field, &choices(&field)).map_err(|_| ());
            assert_eq!(read, expected, "{field} {line}");
        }
    }
}
