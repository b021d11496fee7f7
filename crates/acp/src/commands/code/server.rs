//! The three tools for `acp code mcp`.

use std::sync::Arc;
use std::time::Duration;

use acp_code::{Engine, StopSignal, tool};
use acp_mcp::{OfferedTool, ServedCall, Tools};
use serde_json::Value;

/// The engine behind the server; its pages last as long as the server.
pub(super) struct CodeTools {
    pub(super) engine: Arc<Engine>,
    /// How long one call may take.
    pub(super) limit: Duration,
}

impl Tools for CodeTools {
    fn name(&self) -> &'static str {
        "acp-code"
    }

    fn offers(&self) -> Vec<OfferedTool> {
        tool::schemas()
            .into_iter()
            .map(|schema| OfferedTool {
                name: schema.name,
                description: schema.description,
                input: schema.input,
            })
            .collect()
    }

    fn call(&self, tool: &str, arguments: Value) -> ServedCall {
        let stop = StopSignal::after(self.limit);
        let (engine, tool, flag) = (Arc::clone(&self.engine), tool.to_owned(), stop.clone());
        ServedCall {
            run: Box::new(move || {
                let found = engine.answer(&tool, &arguments, &stop).map_err(|error| error.to_string())?;
                Ok(acp_mcp::ServedAnswer {
                    text: found.text(),
                    data: found.json(),
                    failed: found.is_failure(),
                })
            }),
            cancel: Box::new(move || flag.cancel()),
        }
    }
}
