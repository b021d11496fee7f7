//! Setting and removing values at JSON pointers.

use serde_json::{Map, Value};

/// Puts `value` at the pointer. Missing objects on the way are made; `-` appends to an array; `*` means every
/// element. A way through something that is neither object nor array changes nothing.
pub(super) fn set(target: &mut Value, pointer: &str, value: &Value) {
    let parts = parts(pointer);
    put(target, &parts, value);
}

/// Takes away what is at the pointer.
pub(super) fn remove(target: &mut Value, pointer: &str) {
    let parts = parts(pointer);
    take(target, &parts);
}

/// Turns the order of the members of every object around.
pub(super) fn reverse(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(reverse),
        Value::Object(map) => {
            let members: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
            for (key, mut value) in members.into_iter().rev() {
                reverse(&mut value);
                map.insert(key, value);
            }
        }
        _ => {}
    }
}

fn parts(pointer: &str) -> Vec<String> {
    pointer
        .strip_prefix('/')
        .map(|rest| rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
        .unwrap_or_default()
}

fn put(target: &mut Value, parts: &[String], value: &Value) {
    let Some((first, rest)) = parts.split_first() else {
        *target = value.clone();
        return;
    };
    match target {
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| put(item, rest, value)),
        Value::Array(items) if first == "-" => {
            items.push(Value::Null);
            if let Some(last) = items.last_mut() {
                put(last, rest, value);
            }
        }
        Value::Array(items) => {
            if let Some(item) = first.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                put(item, rest, value);
            }
        }
        Value::Object(map) => put(map.entry(first.clone()).or_insert(Value::Null), rest, value),
        Value::Null => {
            let mut map = Map::new();
            put(map.entry(first.clone()).or_insert(Value::Null), rest, value);
            *target = Value::Object(map);
        }
        _ => {}
    }
}

fn take(target: &mut Value, parts: &[String]) {
    let Some((first, rest)) = parts.split_first() else { return };
    match target {
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| take(item, rest)),
        Value::Array(items) => {
            let Some(at) = first.parse().ok().filter(|at: &usize| *at < items.len()) else { return };
            if rest.is_empty() {
                items.remove(at);
            } else {
                take(&mut items[at], rest);
            }
        }
        Value::Object(map) if rest.is_empty() => drop(map.shift_remove(first)),
        Value::Object(map) => {
            if let Some(next) = map.get_mut(first) {
                take(next, rest);
            }
        }
        _ => {}
    }
}
