//! Lists of models, as the vendors write them.

use serde_json::Value;

use super::Model;
use super::limits::Limits;
use super::settings::AUTO;
use super::vendors::Vendor;

/// Words in the names of models that do not chat.
const OTHER_TRADES: &[&str] = &[
    "embed",
    "whisper",
    "tts",
    "dall-e",
    "moderation",
    "image",
    "imagen",
    "veo",
    "audio",
    "realtime",
    "transcribe",
];

/// Reads a list of any vendor; nothing when it is none.
pub(super) fn read(body: &Value, vendor: &Vendor, limits: &Limits) -> Option<Vec<Model>> {
    let list = match body["data"].as_array() {
        Some(list) => list,
        None => body["models"].as_array()?,
    };
    Some(list.iter().filter_map(|entry| model(entry, vendor, limits)).collect())
}

fn model(entry: &Value, vendor: &Vendor, limits: &Limits) -> Option<Model> {
    let id = entry["id"].as_str().or_else(|| entry["name"].as_str())?;
    let id = id.strip_prefix("models/").unwrap_or(id);
    let methods = entry["supportedGenerationMethods"].as_array();
    let speaks = methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"));
    if id.is_empty() || !speaks || OTHER_TRADES.iter().any(|word| id.contains(word)) {
        return None;
    }
    let mut model = limits.model(vendor, id);
    if let Some(name) = entry["display_name"].as_str().or_else(|| entry["displayName"].as_str()) {
        model.name = name.to_owned();
    }
    let context = ["inputTokenLimit", "max_input_tokens", "context_length", "max_model_len"];
    if let Some(context) = context.iter().find_map(|name| entry[*name].as_u64()) {
        model.context = context;
    }
    let output = ["outputTokenLimit", "max_output_tokens", "max_completion_tokens"];
    if let Some(output) = output.iter().find_map(|name| entry[*name].as_u64()).filter(|output| *output > 0) {
        model.output = output;
    }
    limits.overrule(&mut model);
    Some(model)
}

/// The models known so far, the chosen one first, and behind them those that were listed besides.
pub(super) fn merge(known: &[Model], listed: Vec<Model>) -> Vec<Model> {
    let mut merged: Vec<Model> = known.iter().filter(|model| model.id != AUTO).cloned().collect();
    for model in listed {
        match merged.iter_mut().find(|known| known.id == model.id) {
            Some(known) => *known = model,
            None => merged.push(model),
        }
    }
    if merged.is_empty() { known.to_vec() } else { merged }
}
