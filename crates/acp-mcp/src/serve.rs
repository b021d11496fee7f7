//! A server of plain tools on standard input and output.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::stub::{LAST_WORDS, converse};

/// A tool as it is listed. None of them changes anything.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the model.
    pub description: &'static str,
    /// JSON Schema of the arguments, an object.
    pub input: Value,
}

/// What a server offers.
pub trait Tools: Send + Sync + 'static {
    /// The name in the handshake.
    fn name(&self) -> &'static str;
    /// All tools, always in the same order.
    fn offers(&self) -> Vec<OfferedTool>;
    /// Prepares a call of one of the offers.
    fn call(&self, tool: &str, arguments: Value) -> ServedCall;
}

/// A call that is about to run.
pub struct ServedCall {
    /// Runs to the end on a thread of its own: the answer, or why it failed.
    pub run: Box<dyn FnOnce() -> Result<ServedAnswer, String> + Send>,
    /// Asks the run to end early.
    pub cancel: Box<dyn FnOnce() + Send>,
}

/// What a tool answers.
pub struct ServedAnswer {
    /// For the model.
    pub text: String,
    /// The same as data, an object, for programs.
    pub data: Value,
    /// Whether it is about a failure.
    pub failed: bool,
}

/// Serves until the input ends or SIGTERM comes; returns why it ended.
pub fn serve_tools(tools: Arc<dyn Tools>) -> LocalBoxFuture<'static, std::io::Result<String>> {
    Box::pin(async move {
        let mut terminated = signal(SignalKind::terminate())?;
        let ended = CancellationToken::new();
        let overdue = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        Ok(tokio::select! {
            reason = converse(Server { tools }.into_dyn(), ended.clone()) => reason,
            () = overdue => "end of input".to_owned(),
            _ = terminated.recv() => "SIGTERM".to_owned(),
        })
    })
}

#[derive(Clone)]
struct Server {
    tools: Arc<dyn Tools>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.tools.name(), env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = Vec::new();
        for offer in self.tools.offers() {
            let Value::Object(schema) = offer.input else { continue };
            let mut hints = ToolAnnotations::new();
            hints.read_only_hint = Some(true);
            let schema: JsonObject = schema;
            listed.push(Tool::new(offer.name, offer.description, Arc::new(schema)).with_annotations(hints));
        }
        Ok(ListToolsResult::with_all_items(listed))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.into_owned();
        if !self.tools.offers().iter().any(|offer| offer.name == tool) {
            return Err(ErrorData::invalid_params(format!("there is no tool {tool:?}"), None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let ServedCall { run, cancel } = self.tools.call(&tool, arguments);
        let mut running = tokio::task::spawn_blocking(run);
        let called = tokio::select! {
            called = &mut running => called,
            () = context.ct.cancelled() => {
                cancel();
                running.await
            }
        };
        match called {
            Ok(Ok(ServedAnswer { text, data, failed })) => {
                let content = vec![ContentBlock::text(text)];
                let mut result =
                    if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
                result.structured_content = Some(data);
                Ok(result.into())
            }
            Ok(Err(text)) => Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into()),
            Err(error) => Err(ErrorData::internal_error(format!("the tool broke: {error}"), None)),
        }
    }
}
