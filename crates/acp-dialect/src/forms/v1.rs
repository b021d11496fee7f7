//! Canonical v1: every default of [`Form`].

use serde_json::Value;

use crate::form::Form;
use crate::json::Map;
use crate::traits::FormTraits;

/// Protocol version 1.
pub(crate) struct Canonical;

impl Form for Canonical {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits::V1
    }

    fn is_initialize(&self, params: &Map) -> bool {
        params.get("protocolVersion").is_some_and(Value::is_number)
    }

    fn is_initialized(&self, result: &Map) -> bool {
        let capabilities = result.get("agentCapabilities");
        let has = |name: &str| capabilities.is_some_and(|capabilities| capabilities.get(name).is_some());
        let prompt = capabilities.and_then(|capabilities| capabilities.get("promptCapabilities"));
        result.contains_key("authMethods")
            || ["sessionCapabilities", "mcpCapabilities", "auth"].into_iter().any(has)
            || prompt.and_then(Value::as_object).is_some_and(|flags| !flags.is_empty())
    }
}
