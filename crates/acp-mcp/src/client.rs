//! The client side: connect, list the tools, call one, close.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, RoleClient, ServiceError, serve_client};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::child::{Process, Tail};
use crate::{CallResult, McpError, McpOptions, ServerIdentity, ServerSpec, ServerTool};

/// How long a program that has closed its output may take to end: how it ended, and its last words, say more than that
/// it is gone.
const ENDING: Duration = Duration::from_secs(2);

/// How long a look takes at whether a program has ended.
const LOOK: Duration = Duration::from_millis(200);

/// A connection to one server. Methods take `&self` and may overlap; dropping it kills a server program
/// with its whole process group, [`McpClient::close`] asks it to end first.
pub struct McpClient {
    server: String,
    identity: ServerIdentity,
    service: RunningService<RoleClient, Greeting>,
    process: Option<Mutex<Process>>,
    stderr: Option<Tail>,
    pid: Option<u32>,
    /// Nobody listens at the address of a server that did before.
    unreachable: AtomicBool,
    options: McpOptions,
}

impl McpClient {
    /// Connects with the default [`McpOptions`].
    pub fn connect(spec: ServerSpec) -> BoxFuture<'static, Result<Self, McpError>> {
        Box::pin(async move { Self::connect_with(spec, McpOptions::default()).await })
    }

    /// Starts or reaches the server and completes the handshake.
    pub fn connect_with(spec: ServerSpec, options: McpOptions) -> BoxFuture<'static, Result<Self, McpError>> {
        Box::pin(async move {
            let server = spec.to_string();
            let greeting = Greeting { name: options.client_name.clone() };
            let (process, service) = match &spec {
                ServerSpec::Stdio { .. } => {
                    let (mut process, stdout, stdin) =
                        Process::start(&spec, options.stderr_limit, options.process_guard.as_ref())
                            .map_err(|source| McpError::Start { server: server.clone(), source })?;
                    let opening = serve_client(greeting, (stdout, stdin));
                    let opened = tokio::time::timeout(options.connect_timeout, opening).await;
                    let service = match opened {
                        Ok(Ok(service)) => service,
                        Ok(Err(error)) => {
                            let ended = process.ended_within(ENDING).await;
                            let reason = ended
                                .map_or_else(|| error.to_string(), |status| format!("it ended ({status})"));
                            return Err(McpError::Handshake {
                                server,
                                reason,
                                stderr: process.stderr().text(),
                            });
                        }
                        Err(_) => {
                            return Err(timeout(
                                server,
                                "initialize",
                                options.connect_timeout,
                                process.stderr().text(),
                            ));
                        }
                    };
                    (Some(process), service)
                }
                ServerSpec::Http { url, headers } => {
                    let transport = http_transport(&server, url, headers)?;
                    let opened =
                        tokio::time::timeout(options.connect_timeout, serve_client(greeting, transport))
                            .await;
                    let service = opened
                        .map_err(|_| {
                            timeout(server.clone(), "initialize", options.connect_timeout, String::new())
                        })?
                        .map_err(|error| McpError::Handshake {
                            server: server.clone(),
                            reason: handshake_words(&error),
                            stderr: String::new(),
                        })?;
                    (None, service)
                }
            };
            Ok(Self {
                identity: identity(&service),
                stderr: process.as_ref().map(|process| process.stderr().clone()),
                pid: process.as_ref().and_then(Process::id),
                process: process.map(Mutex::new),
                unreachable: AtomicBool::new(false),
                server,
                service,
                options,
            })
        })
    }

    /// Who answered.
    pub fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    /// The process id of a server program.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The end of a server program's standard error.
    pub fn stderr_tail(&self) -> String {
        self.stderr.as_ref().map(Tail::text).unwrap_or_default()
    }

    /// Every tool of the server, all pages.
    pub fn tools(&self) -> BoxFuture<'_, Result<Vec<ServerTool>, McpError>> {
        Box::pin(async move {
            let listed = self.bounded("tools/list", self.service.list_all_tools()).await?;
            Ok(listed.into_iter().map(tool).collect())
        })
    }

    /// Calls a tool. `args` must be a JSON object; `null` counts as an empty one.
    pub fn call<'a>(&'a self, tool: &'a str, args: Value) -> BoxFuture<'a, Result<CallResult, McpError>> {
        Box::pin(async move {
            let mut params = CallToolRequestParams::new(tool.to_owned());
            match args {
                Value::Null => {}
                Value::Object(map) => params = params.with_arguments(map),
                other => {
                    return Err(McpError::BadArguments { tool: tool.to_owned(), found: type_name(&other) });
                }
            }
            let what = format!("tools/call of {tool:?}");
            let result = self.bounded(&what, self.service.call_tool(params)).await?;
            Ok(CallResult {
                content: result
                    .content
                    .iter()
                    .map(|block| serde_json::to_value(block).unwrap_or_default())
                    .collect(),
                structured: result.structured_content,
                is_error: result.is_error.unwrap_or(false),
            })
        })
    }

    /// Whether the server is gone for good: nothing that is asked will be answered.
    pub fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.end_of_process(LOOK).await.is_some()
                || self.service.is_transport_closed()
                || self.unreachable.load(Ordering::Relaxed)
        })
    }

    /// Ends the connection: a program's input is closed, then it is waited for, then its group is killed.
    pub fn close(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _ = self.service.close_with_timeout(self.options.close_grace).await;
            if let Some(process) = self.process.take() {
                process.into_inner().finish(self.options.close_grace).await;
            }
        })
    }

    async fn bounded<T>(
        &self,
        what: &str,
        asked: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        match tokio::time::timeout(self.options.call_timeout, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ServiceError::McpError(error))) => Err(McpError::Refused {
                server: self.server.clone(),
                what: what.to_owned(),
                code: i64::from(error.code.0),
                message: error.message.into_owned(),
            }),
            Ok(Err(error)) => {
                if is_unreachable(&error) {
                    self.unreachable.store(true, Ordering::Relaxed);
                }
                let closed = matches!(error, ServiceError::TransportSend(_) | ServiceError::TransportClosed);
                let ended = self.end_of_process(if closed { ENDING } else { LOOK }).await;
                Err(McpError::Gone {
                    server: self.server.clone(),
                    what: what.to_owned(),
                    reason: ended.unwrap_or_else(|| service_words(&error)),
                    stderr: self.stderr_tail(),
                })
            }
            Err(_) => Err(timeout(self.server.clone(), what, self.options.call_timeout, self.stderr_tail())),
        }
    }

    async fn end_of_process(&self, patience: Duration) -> Option<String> {
        let mut process = self.process.as_ref()?.lock().await;
        let status = process.ended_within(patience).await?;
        Some(format!("the process ended ({status})"))
    }
}

#[derive(Debug)]
struct FewTimes;

impl SseRetryPolicy for FewTimes {
    fn retry(&self, current_times: usize) -> Option<Duration> {
        (current_times < 3).then_some(Duration::from_millis(200))
    }
}

struct Greeting {
    name: String,
}

impl ClientHandler for Greeting {
    fn get_info(&self) -> ClientConfig {
        // The newest revision has no `initialize`, which classic servers wait for.
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

fn http_transport(
    server: &str,
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, McpError> {
    let bad = |reason: String| McpError::BadAddress { server: server.to_owned(), reason };
    let parsed = reqwest::Url::parse(url).map_err(|error| bad(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(bad(format!("the scheme must be http or https, not {:?}", parsed.scheme())));
    }
    let mut named = HashMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(format!("{name:?} is not a header name")))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| bad(format!("the value of header {name:?} is not text")))?;
        named.insert(key, value);
    }
    // The TLS library is built without a default provider, so that no cmake is needed. Someone else in the
    // process may have set one: that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder =
        reqwest::Client::builder().pool_max_idle_per_host(0).redirect(reqwest::redirect::Policy::none());
    if parsed.scheme() == "http" {
        // Without TLS no certificates are needed, and a small container has none.
        builder = builder.tls_certs_only([]);
    }
    let client = builder.build().map_err(|error| bad(words(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(named);
    // A server may close a stream and expect us back, but one that is gone must fail the call soon, not
    // after minutes of reconnecting.
    config.retry_config = Arc::new(FewTimes);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn identity(service: &RunningService<RoleClient, Greeting>) -> ServerIdentity {
    let Some(info) = service.peer().peer_info() else { return ServerIdentity::default() };
    let info = Arc::unwrap_or_clone(info);
    let (name, version) = info.server_info.map(|server| (server.name, server.version)).unwrap_or_default();
    ServerIdentity {
        name,
        version,
        protocol_version: info.protocol_version.to_string(),
        instructions: info.instructions,
    }
}

fn tool(tool: rmcp::model::Tool) -> ServerTool {
    ServerTool {
        name: tool.name.into_owned(),
        title: tool.title,
        description: tool.description.map(std::borrow::Cow::into_owned),
        input_schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
    }
}

fn timeout(server: String, what: &str, after: Duration, stderr: String) -> McpError {
    McpError::Timeout { server, what: what.to_owned(), after, stderr }
}

/// `rmcp` puts the transport's type name first; what it wraps says more.
fn handshake_words(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport_words(error),
        other => words(other),
    }
}

fn service_words(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => transport_words(error),
        other => words(other),
    }
}

/// Whether no connection to an HTTP server came about, so that it has not even heard what was asked.
fn is_unreachable(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(http, Some(StreamableHttpError::Client(inner)) if inner.is_connect())
}

fn transport_words(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(inner)) => words(inner),
        _ => words(&*error.error),
    }
}

/// An error with its causes: the outermost layer of a transport error rarely says what happened.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
