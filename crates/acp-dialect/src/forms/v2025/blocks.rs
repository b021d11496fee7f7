//! Content blocks: `format` for a MIME type, flat resources.

use serde_json::{Value, json};

use crate::core::Core;
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Lossy, Passed, WrongShape};
use crate::shared::basename;

/// A block in the other form, whichever way the current frame goes.
pub(super) fn recast(core: &mut Core, method: &'static str, block: Value) -> Value {
    let Value::Object(block) = block else {
        core.note(WrongShape, method, "content", "a content block is not an object; passed unchanged");
        return block;
    };
    let kind = text(&block, "type").unwrap_or_default().to_owned();
    let decoding = core.is_decoding();
    let mut re = ObjectMapper::new(core, method, "content", block);
    re.keep(&["type"]);
    match (kind.as_str(), decoding) {
        ("text", _) => re.keep(&["text"]),
        ("image" | "audio", true) => decode_media(&mut re, &kind),
        ("image" | "audio", false) => encode_media(&mut re, &kind),
        ("resource", true) => decode_resource(&mut re),
        ("resource", false) => encode_resource(&mut re),
        ("resource_link", true) => decode_link(&mut re),
        ("resource_link", false) => encode_link(&mut re),
        _ => {
            let message = format!("no such content type is known: {kind:?}");
            re.note(Passed, "type", message);
        }
    }
    Value::Object(re.finish())
}

fn decode_media(re: &mut ObjectMapper<'_>, kind: &str) {
    if let Some(format) = re.take_text("format") {
        let mime = if format.contains('/') { format } else { format!("{kind}/{format}") };
        re.set("mimeType", mime);
    }
    re.keep(&["data"]);
}

fn encode_media(re: &mut ObjectMapper<'_>, kind: &str) {
    if let Some(mime) = re.take_text("mimeType") {
        let format = match mime.split_once('/') {
            Some((family, format)) if family == kind => format.to_owned(),
            _ => mime,
        };
        re.set("format", format);
    }
    re.keep(&["data"]);
}

fn decode_resource(re: &mut ObjectMapper<'_>) {
    let mut resource = Map::new();
    for (from, to) in [("uri", "uri"), ("mime_type", "mimeType"), ("content", "text")] {
        if let Some(value) = re.take(from) {
            resource.insert(to.to_owned(), value);
        }
    }
    if let Some(blob) = re.take_restored("blob") {
        resource.shift_remove("text");
        resource.insert("blob".to_owned(), blob);
    }
    re.set("resource", resource);
}

fn encode_resource(re: &mut ObjectMapper<'_>) {
    let Some(mut resource) = re.take_map("resource") else { return };
    for (from, to) in [("uri", "uri"), ("mimeType", "mime_type"), ("text", "content")] {
        if let Some(value) = resource.shift_remove(from) {
            re.set(to, value);
        }
    }
    if let Some(blob) = resource.shift_remove("blob") {
        re.carry("blob", blob, Lossy, "2025.1 embeds text only; the bytes are kept in _meta");
        re.set("content", "");
    }
    for (name, value) in resource {
        re.carry(&name, value, Carried, "2025.1 has no field for it; kept in _meta");
    }
}

fn decode_link(re: &mut ObjectMapper<'_>) {
    re.keep(&["uri"]);
    let name = re.uri_name();
    re.rename("mime_type", "mimeType");
    let message = "v1 needs a name; the last part of the URI was taken";
    re.invent("name", name.map_or(json!("link"), Value::from), message);
}

fn encode_link(re: &mut ObjectMapper<'_>) {
    re.keep(&["uri"]);
    re.rename("mimeType", "mime_type");
    let known = re.uri_name();
    if re.peek("name").and_then(Value::as_str) == known.as_deref() {
        re.take("name");
    }
}

impl ObjectMapper<'_> {
    /// The last part of the URI that was already moved.
    fn uri_name(&self) -> Option<String> {
        self.placed("uri").and_then(Value::as_str).map(|uri| basename(uri).to_owned())
    }
}
