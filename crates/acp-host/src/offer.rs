use serde_json::Value;

/// What a client said it can do, as far as the providers are concerned. What is off is answered with -32601.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfferedCapabilities {
    /// `fs.readTextFile`
    pub read_text_file: bool,
    /// `fs.writeTextFile`
    pub write_text_file: bool,
    /// `terminal`
    pub terminal: bool,
    /// `elicitation.form`
    pub elicitation_form: bool,
    /// `elicitation.url`
    pub elicitation_url: bool,
}

impl OfferedCapabilities {
    /// Everything on.
    pub const ALL: OfferedCapabilities = OfferedCapabilities {
        read_text_file: true,
        write_text_file: true,
        terminal: true,
        elicitation_form: true,
        elicitation_url: true,
    };

    /// Reads the `clientCapabilities` of an initialize request: `true` and objects are on, what is missing is off.
    pub fn from_capabilities(capabilities: &Value) -> OfferedCapabilities {
        let on = |pointer: &str| match capabilities.pointer(pointer) {
            Some(Value::Bool(on)) => *on,
            Some(Value::Object(_)) => true,
            _ => false,
        };
        OfferedCapabilities {
            read_text_file: on("/fs/readTextFile"),
            write_text_file: on("/fs/writeTextFile"),
            terminal: on("/terminal"),
            elicitation_form: on("/elicitation/form"),
            elicitation_url: on("/elicitation/url"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_is_off() {
        assert_eq!(OfferedCapabilities::from_capabilities(&json!({})), OfferedCapabilities::default());
        assert_eq!(OfferedCapabilities::from_capabilities(&Value::Null), OfferedCapabilities::default());
        let offer = OfferedCapabilities::from_capabilities(
            &json!({"fs": {"readTextFile": true}, "elicitation": {"url": {}, "form": null}}),
        );
        assert_eq!(
            offer,
            OfferedCapabilities {
                read_text_file: true,
                elicitation_url: true,
                ..OfferedCapabilities::default()
            }
        );
    }
}
