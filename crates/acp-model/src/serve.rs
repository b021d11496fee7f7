//! The HTTP server.

mod perform;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::body::{LIMIT, unpack};
use crate::journal::ModelJournal;
use crate::play::{Beat, Hints, Memory, decide};
use crate::script::ModelScript;
use crate::talk::{ModelRequest, ModelTurn};
use crate::wire::{self, StreamWriter, WireFormat};
use perform::{Framing, stream, whole};

/// How an endpoint behaves.
#[derive(Debug)]
pub struct EndpointSettings {
    /// The loopback port; 0 takes any free one.
    pub port: u16,
    /// What it answers.
    pub script: ModelScript,
    /// What is known about the agent.
    pub hints: Hints,
    /// Where the journal is appended.
    pub journal: Option<PathBuf>,
    /// The pause between words.
    pub pace: Duration,
    /// How long a stream may be silent before it is kept alive.
    pub keep_alive: Duration,
    /// The longest stall.
    pub stall_limit: Duration,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            port: 0,
            script: ModelScript::default(),
            hints: Hints::default(),
            journal: None,
            pace: Duration::from_millis(5),
            keep_alive: Duration::from_secs(10),
            stall_limit: Duration::from_secs(600),
        }
    }
}

/// A running endpoint. It ends when dropped.
pub struct ModelEndpoint {
    address: SocketAddr,
    inner: Arc<Inner>,
    stop: CancellationToken,
}

struct Inner {
    script: Mutex<(Arc<ModelScript>, Memory)>,
    hints: Hints,
    journal: ModelJournal,
    pace: Duration,
    keep_alive: Duration,
    stall_limit: Duration,
    number: AtomicU64,
}

impl ModelEndpoint {
    /// Binds the port and serves in the background.
    pub fn start(settings: EndpointSettings) -> BoxFuture<'static, std::io::Result<Self>> {
        Box::pin(async move {
            let journal = ModelJournal::open(settings.journal.as_deref())?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port)).await?;
            let address = listener.local_addr()?;
            let inner = Arc::new(Inner {
                script: Mutex::new((Arc::new(settings.script), Memory::default())),
                hints: Hints { files: Some(read_text), ..settings.hints },
                journal,
                pace: settings.pace,
                keep_alive: settings.keep_alive,
                stall_limit: settings.stall_limit,
                number: AtomicU64::new(0),
            });
            let stop = CancellationToken::new();
            let app = axum::Router::new().fallback(answer).with_state(inner.clone());
            let stopped = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    _ = axum::serve(listener, app).into_future() => {}
                    () = stopped.cancelled() => {}
                }
            });
            Ok(Self { address, inner, stop })
        })
    }

    /// The base address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What happened so far.
    pub fn journal(&self) -> &ModelJournal {
        &self.inner.journal
    }

    /// Plays another script from now on.
    pub fn set_script(&self, script: ModelScript) {
        let mut held = self.inner.script.lock().unwrap_or_else(PoisonError::into_inner);
        *held = (Arc::new(script), Memory::default());
    }
}

/// The text of a file that a patch may be made for.
fn read_text(path: &Path) -> Option<String> {
    const LARGEST: u64 = 1 << 20;
    let is_small = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
    is_small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

impl Drop for ModelEndpoint {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What a path asks for.
enum Route {
    Generate(WireFormat, Option<String>, bool),
    Count(WireFormat),
    Models(Option<String>),
    Unknown,
}

fn route(method: &Method, path: &str) -> Route {
    let path = path.trim_end_matches('/');
    let model =
        || path.rsplit_once("/models/").map(|(_, rest)| rest.split(':').next().unwrap_or(rest).to_owned());
    if method == Method::POST {
        return match path {
            path if path.ends_with("/chat/completions") => Route::Generate(WireFormat::Chat, None, false),
            path if path.ends_with("/responses") => Route::Generate(WireFormat::Responses, None, false),
            path if path.ends_with("/messages") => Route::Generate(WireFormat::Messages, None, false),
            path if path.ends_with("/count_tokens") => Route::Count(WireFormat::Messages),
            path if path.ends_with(":streamGenerateContent") => {
                Route::Generate(WireFormat::Gemini, model(), true)
            }
            path if path.ends_with(":generateContent") => Route::Generate(WireFormat::Gemini, model(), false),
            path if path.ends_with(":countTokens") => Route::Count(WireFormat::Gemini),
            _ => Route::Unknown,
        };
    }
    if method == Method::GET && path.ends_with("/models") {
        return Route::Models(None);
    }
    if method == Method::GET && path.contains("/models/") {
        return Route::Models(model());
    }
    Route::Unknown
}

async fn answer(
    axum::extract::State(inner): axum::extract::State<Arc<Inner>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let number = inner.number.fetch_add(1, Ordering::Relaxed) + 1;
    let about = json!({"method": method.as_str(), "path": uri.path(), "query": uri.query(), "agent": text(&headers, "user-agent")});
    if headers.contains_key(header::UPGRADE) {
        inner.journal.write(number, "upgrade refused", about);
        return json_response(
            426,
            &json!({"error": {"message": "there are no websockets here", "type": "upgrade_required"}}),
        );
    }
    let raw = match axum::body::to_bytes(body, LIMIT).await {
        Ok(raw) => raw,
        Err(error) => {
            inner.journal.write(number, "unreadable", with(about, json!({"reason": error.to_string()})));
            return json_response(
                413,
                &json!({"error": {"message": "the body cannot be read", "type": "request_too_large"}}),
            );
        }
    };
    match route(&method, uri.path()) {
        Route::Models(name) => {
            inner.journal.write(number, "models", about);
            json_response(200, &models(uri.path(), &headers, name.as_deref()))
        }
        Route::Unknown => {
            let head = String::from_utf8_lossy(&raw[..raw.len().min(500)]).into_owned();
            inner.journal.write(number, "unknown", with(about, json!({"body": head})));
            json_response(200, &json!({}))
        }
        Route::Count(wire) => {
            inner.journal.write(number, "count", about);
            let tokens = (raw.len() as u64).div_ceil(4).max(1);
            json_response(
                200,
                &if wire == WireFormat::Gemini {
                    json!({"totalTokens": tokens})
                } else {
                    json!({"input_tokens": tokens})
                },
            )
        }
        Route::Generate(wire, model, stream) => {
            let read = unpack(text(&headers, "content-encoding"), &raw)
                .and_then(|body| Ok(serde_json::from_slice::<Value>(&body)?))
                .map_err(|error| error.to_string())
                .and_then(|body| {
                    wire::read_request(wire, &body, model.as_deref()).map_err(|error| error.to_string())
                });
            match read {
                Ok(mut request) => {
                    request.stream |= stream;
                    let framing = if wire == WireFormat::Gemini
                        && !uri.query().unwrap_or_default().contains("alt=sse")
                    {
                        Framing::Array
                    } else {
                        Framing::Events
                    };
                    generate(inner, number, wire, request, framing, about).await
                }
                Err(reason) => {
                    inner.journal.write(number, "unreadable", with(about, json!({"reason": reason})));
                    json_response(400, &wire::write_error(wire, 400, None, &reason))
                }
            }
        }
    }
}

async fn generate(
    inner: Arc<Inner>,
    number: u64,
    wire: WireFormat,
    request: ModelRequest,
    framing: Framing,
    about: Value,
) -> Response {
    let play = {
        let mut held = inner.script.lock().unwrap_or_else(PoisonError::into_inner);
        let (script, memory) = &mut *held;
        decide(&request, script, &inner.hints, memory, number, inner.pace)
    };
    inner.journal.write(
        number,
        "request",
        with(with(about, describe(wire, &request)), json!({"decision": play.decision})),
    );
    let id = match wire {
        WireFormat::Chat => format!("chatcmpl-scripted{number}"),
        WireFormat::Responses => format!("resp_scripted{number}"),
        WireFormat::Messages => format!("msg_scripted{number}"),
        WireFormat::Gemini => format!("scripted{number}"),
    };
    let opening: Duration = play
        .beats
        .iter()
        .map_while(|beat| if let Beat::Wait(time) = beat { Some(*time) } else { None })
        .sum();
    if let Some(Beat::Fail { status, kind, message, retry_after }) =
        play.beats.iter().find(|beat| !matches!(beat, Beat::Wait(_)))
    {
        tokio::time::sleep(opening).await;
        inner.journal.write(number, "end", json!({"how": "error", "status": status}));
        let mut response =
            json_response(*status, &wire::write_error(wire, *status, kind.as_deref(), message));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
        }
        return response;
    }
    if request.stream {
        let writer = StreamWriter::new(wire, &id, &request);
        stream(inner, number, writer, play, framing)
    } else {
        whole(&inner, number, wire, id, &request, play).await
    }
}

/// What the journal says about a request.
fn describe(wire: WireFormat, request: &ModelRequest) -> Value {
    let head = |text: &str| text.chars().take(2000).collect::<String>();
    let last_user = request.user_texts().last().map(|(_, text)| head(&text));
    let last_result = request.turns.iter().rev().find_map(|turn| match turn {
        ModelTurn::Result(result) => Some(head(&result.text)),
        _ => None,
    });
    let turns = request.turns.iter().map(|turn| match turn {
        ModelTurn::User(_) => "user",
        ModelTurn::Assistant(_) => "assistant",
        ModelTurn::Result(_) => "result",
    });
    json!({
        "wire": wire.as_str(), "model": request.model, "stream": request.stream,
        "tools": request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        "mcpTools": request.tools.iter().filter(|tool| crate::tools::is_mcp(tool)).map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        "images": request.images(), "turns": turns.collect::<Vec<_>>(), "user": last_user, "lastResult": last_result,
        "systemChars": request.system.len(),
    })
}

/// The model list, or one model, in the shape that the asker reads.
fn models(path: &str, headers: &HeaderMap, name: Option<&str>) -> Value {
    const NAMES: &[&str] = &["stub-model", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"];
    let gemini = |name: &str| {
        json!({
            "name": format!("models/{name}"), "baseModelId": name, "version": "001", "displayName": name,
            "description": "scripted", "inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    let other = |name: &str| {
        json!({
            "id": name, "object": "model", "type": "model", "display_name": name, "created": 1_700_000_000,
            "created_at": "2023-11-14T22:13:20Z", "owned_by": "scripted",
        })
    };
    let of_gemini = path.contains("/v1beta/") || headers.contains_key("x-goog-api-key");
    match (name, of_gemini) {
        (Some(name), true) => gemini(name),
        (Some(name), false) => other(name),
        (None, true) => json!({"models": NAMES.iter().map(|name| gemini(name)).collect::<Vec<_>>()}),
        (None, false) => json!({
            "object": "list", "data": NAMES.iter().map(|name| other(name)).collect::<Vec<_>>(), "models": [],
            "has_more": false, "first_id": NAMES[0], "last_id": NAMES[NAMES.len() - 1],
        }),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn with(mut value: Value, more: Value) -> Value {
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

fn json_response(status: u16, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
