//! What the params or the result of a method look like, to show beside one that the schema does not allow.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Examples by method: `params`, and `result` where it has one worth showing.
const EXAMPLES: &str = include_str!("examples.json");

#[derive(Deserialize)]
struct Example {
    params: Box<RawValue>,
    result: Option<Box<RawValue>>,
}

static SHAPES: LazyLock<BTreeMap<String, Example>> =
    LazyLock::new(|| serde_json::from_str(EXAMPLES).expect("examples.json is valid"));

/// An example for a schema finding: its message begins with the method, its pointer with `/params` or `/result`.
pub(crate) fn example(message: &str, pointer: &str) -> Option<&'static str> {
    let (method, _) = message.split_once(": ")?;
    // "the answer to …" comes before the name of some.
    let method = method.rsplit(' ').next().unwrap_or(method);
    let example = SHAPES.get(method)?;
    match pointer.split('/').nth(1)? {
        "params" => Some(example.params.get()),
        "result" => example.result.as_deref().map(RawValue::get),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use acp_proto::method;
    use agent_client_protocol_schema::v1 as acp;
    use serde::de::DeserializeOwned;

    use super::*;

    fn is_read<T: DeserializeOwned>(text: &str) -> bool {
        serde_json::from_str::<T>(text).is_ok()
    }

    #[test]
    fn the_examples_are_what_the_protocol_asks_for() {
        for (name, example) in &*SHAPES {
            let params = example.params.get();
            let result = example.result.as_deref().map_or("", RawValue::get);
            let (asked, answered) = match name.as_str() {
                method::INITIALIZE => {
                    (is_read::<acp::InitializeRequest>(params), is_read::<acp::InitializeResponse>(result))
                }
                method::SESSION_NEW => {
                    (is_read::<acp::NewSessionRequest>(params), is_read::<acp::NewSessionResponse>(result))
                }
                method::SESSION_PROMPT => {
                    (is_read::<acp::PromptRequest>(params), is_read::<acp::PromptResponse>(result))
                }
                method::SESSION_UPDATE => (is_read::<acp::SessionNotification>(params), result.is_empty()),
                method::SESSION_REQUEST_PERMISSION => (
                    is_read::<acp::RequestPermissionRequest>(params),
                    is_read::<acp::RequestPermissionResponse>(result),
                ),
                method::FS_READ_TEXT_FILE => (
                    is_read::<acp::ReadTextFileRequest>(params),
                    is_read::<acp::ReadTextFileResponse>(result),
                ),
                method::FS_WRITE_TEXT_FILE => (
                    is_read::<acp::WriteTextFileRequest>(params),
                    is_read::<acp::WriteTextFileResponse>(result),
                ),
                method::TERMINAL_CREATE => (
                    is_read::<acp::CreateTerminalRequest>(params),
                    is_read::<acp::CreateTerminalResponse>(result),
                ),
                method::TERMINAL_OUTPUT => (
                    is_read::<acp::TerminalOutputRequest>(params),
                    is_read::<acp::TerminalOutputResponse>(result),
                ),
                _ => (false, false),
            };
            assert!(asked && answered, "{name}");
        }
    }

    #[test]
    fn an_example_is_found_by_the_method_and_the_place() {
        let message = format!("{}: /outcome: it is missing", method::SESSION_REQUEST_PERMISSION);
        assert!(example(&message, "/result/outcome").is_some_and(|shape| shape.contains("selected")));
        assert!(example(&message, "/params").is_some_and(|shape| shape.contains("options")));
        assert_eq!(example("nothing: else", "/result"), None);
    }
}
