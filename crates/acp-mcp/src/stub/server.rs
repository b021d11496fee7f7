//! The stub's MCP side, the same for both transports.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};

use super::log::{StubEvent, StubRecord};
use super::tools::{self, Next};

/// What a stub is told at its start.
#[derive(Clone, Debug, Default)]
pub struct StubSettings {
    /// `serverInfo.name`, and `server` in the log.
    pub name: String,
    /// Variables to record besides those that begin with `ACP_`, `MCP_` or `TEST_`: names, or prefixes that
    /// end in `*`.
    pub log_env: Vec<String>,
}

/// Where records go: appended, one whole line per write, so that several stubs may share a file.
#[derive(Clone)]
pub struct LogFile {
    server: String,
    file: Option<Arc<Mutex<File>>>,
}

impl LogFile {
    /// Opens the log for appending; without a path nothing is recorded.
    pub fn open(server: &str, path: Option<&Path>) -> std::io::Result<Self> {
        let file = path
            .map(|path| OpenOptions::new().create(true).append(true).mode(0o600).open(path))
            .transpose()?;
        Ok(Self { server: server.to_owned(), file: file.map(|file| Arc::new(Mutex::new(file))) })
    }

    /// Appends one record. A full disk must not change what the server answers, so a failure only speaks.
    pub(super) fn write(&self, event: StubEvent) {
        let Some(file) = &self.file else { return };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let record = StubRecord { at, pid: std::process::id(), server: self.server.clone(), event };
        let line = record.to_json_line() + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.flush()) {
            eprintln!("mcp-stub: cannot write the log: {error}");
        }
    }

    pub(super) fn started(&self, settings: &StubSettings, transport: &str) {
        let wanted = |name: &str| {
            ["ACP_", "MCP_", "TEST_"].iter().any(|prefix| name.starts_with(prefix))
                || settings.log_env.iter().any(|given| match given.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == given,
                })
        };
        let env = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| (name, Value::String(value)));
        self.write(StubEvent::Start {
            argv: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            env: env.collect(),
            cwd: std::env::current_dir().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default(),
            transport: transport.to_owned(),
        });
    }
}

#[derive(Clone)]
pub(super) struct Stub {
    name: String,
    log: LogFile,
}

impl Stub {
    pub(super) fn new(settings: &StubSettings, log: LogFile) -> Self {
        Self { name: settings.name.clone(), log }
    }

    async fn perform(
        &self,
        tool: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Performed {
        match tools::call(tool, arguments) {
            Next::Answer(result) if result.is_error == Some(true) => Performed::Failed(result),
            Next::Answer(result) => Performed::Done(result),
            Next::Refuse(error) => Performed::Refused(error),
            Next::Wait(time) => {
                tokio::select! {
                    () = tokio::time::sleep(time) => {
                        let words = format!("waited {} ms", time.as_millis());
                        Performed::Done(CallToolResult::success(vec![ContentBlock::text(words)]))
                    }
                    () = context.ct.cancelled() => Performed::Cancelled,
                }
            }
            Next::Die(code) => {
                self.log.write(StubEvent::Exit { reason: "asked to by a tool".to_owned() });
                std::process::exit(code);
            }
        }
    }
}

enum Performed {
    Done(CallToolResult),
    Failed(CallToolResult),
    Refused(ErrorData),
    Cancelled,
}

impl ServerHandler for Stub {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION")))
            .with_instructions("A stub for tests: ping, echo, list-files, slow, fail.")
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.log.write(StubEvent::Initialize {
            protocol_version: request.protocol_version.to_string(),
            client: serde_json::to_value(&request.client_info).unwrap_or_default(),
            headers: headers(&context),
        });
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, _context: NotificationContext<RoleServer>) {
        self.log.write(StubEvent::Initialized);
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.log.write(StubEvent::Discover { headers: headers(&context) });
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info()))
    }

    async fn ping(&self, _context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.log.write(StubEvent::Ping);
        Ok(())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.log.write(StubEvent::ToolsList { headers: headers(&context) });
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.into_owned();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        self.log.write(StubEvent::ToolsCall {
            tool: tool.clone(),
            arguments: arguments.clone(),
            headers: headers(&context),
        });
        let performed = self.perform(&tool, &arguments, &context).await;
        let (outcome, answer) = match performed {
            Performed::Done(result) => ("ok", Ok(result.into())),
            Performed::Failed(result) => ("error", Ok(result.into())),
            Performed::Refused(error) => ("refused", Err(error)),
            Performed::Cancelled => ("cancelled", Err(ErrorData::internal_error("cancelled", None))),
        };
        self.log.write(StubEvent::ToolsDone { tool, outcome: outcome.to_owned() });
        answer
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.log.write(StubEvent::Other { method: request.method.clone() });
        Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

fn headers(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    let Some(parts) = context.extensions.get::<::http::request::Parts>() else { return Map::new() };
    let named = parts.headers.iter();
    named.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into())).collect()
}
