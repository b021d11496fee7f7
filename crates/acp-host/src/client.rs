//! The client: a conversation with an agent from `initialize` to its end.

mod content;
mod driver;
mod error;
mod failure;
mod options;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_link::Link;
use acp_link::child::{Child, Exit};
use acp_proto::method;
use acp_rpc::{Direction, Frame, Reply, RpcError, View};
use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthenticateRequest, AuthenticateResponse, CloseSessionRequest, CloseSessionResponse,
    ContentBlock, DeleteSessionRequest, DeleteSessionResponse, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, LogoutRequest,
    LogoutResponse, McpServer, Meta, NewSessionRequest, NewSessionResponse, PromptRequest,
    ResumeSessionRequest, ResumeSessionResponse, SessionConfigOptionValue, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::jail::Roots;
use crate::offer::OfferedCapabilities;
use crate::providers::{ProviderSettings, Providers};
use driver::{Command, Driver, Failure, ReplyTo, Request, Then};
pub use error::{ClientError, Gone, LastWords};
pub use options::{ClientOptions, Timeouts};
pub use turn::{ClientEvent, Events, PromptTurn, TurnEvent, TurnUpdate};

/// A connection to an agent. Clones share it; when the last one is dropped, an agent that we started is killed.
///
/// Every method that needs a capability checks it first: an agent is never asked for what it did not offer.
#[derive(Debug, Clone)]
pub struct AcpClient {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ClientOptions,
    providers: Providers,
    initialized: OnceLock<InitializeResponse>,
    observer: RawObserver,
}

type RawObserver = broadcast::Sender<Observed>;

/// One frame as it passed, either way.
#[derive(Debug, Clone)]
pub struct Observed {
    /// When, since the connection began.
    pub at: Duration,
    /// Which way.
    pub dir: Direction,
    /// The frame.
    pub frame: Frame,
}

/// A decoded result with the response that carried it: what the types leave out is still in the frame.
#[derive(Debug, Clone)]
pub struct Typed<T> {
    /// The result.
    pub value: T,
    /// The whole response.
    pub frame: Frame,
}

impl<T> std::ops::Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Where a session works and what it is given.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// The working folder, absolute.
    pub cwd: PathBuf,
    /// Further folders; only for agents that take them.
    pub additional: Vec<PathBuf>,
    /// MCP servers for the agent to connect to.
    pub mcp_servers: Vec<McpServer>,
}

/// The params of `session/resume`. The schema leaves an empty list of servers out; the page asks clients to send it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResumeParams<'a> {
    #[serde(flatten)]
    request: ResumeSessionRequest,
    mcp_servers: &'a [McpServer],
}

impl Workspace {
    /// A folder and nothing else.
    pub fn at(cwd: impl Into<PathBuf>) -> Workspace {
        Workspace { cwd: cwd.into(), ..Workspace::default() }
    }
}

impl AcpClient {
    /// Takes over a connection; `child` is the agent's process if we started it. Must be called inside a tokio
    /// runtime.
    pub fn connect(link: Link, child: Option<Child>, options: ClientOptions) -> (AcpClient, Events) {
        let capabilities = serde_json::to_value(&options.capabilities).unwrap_or_default();
        let providers = Providers::new(ProviderSettings {
            offer: OfferedCapabilities::from_capabilities(&capabilities),
            rules: options.rules.clone(),
            limits: options.limits,
            person: options.person.clone(),
            default_roots: None,
            process_guard: options.process_guard.clone(),
        });
        let (commands, inbox) = mpsc::channel(64);
        let (out, notes) = mpsc::channel(256);
        let observer = driver::observers();
        let driver = Driver::new(child, providers.clone(), inbox, out, observer.clone());
        tokio::spawn(driver.run(link));
        let shared = Shared { options, providers, initialized: OnceLock::new(), observer };
        (AcpClient { commands, shared: Arc::new(shared) }, Events { notes })
    }

    /// Negotiates version and capabilities. When the agent insists on another version the connection is closed.
    pub async fn initialize(&self) -> Result<Typed<InitializeResponse>, ClientError> {
        let options = &self.shared.options;
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(options.capabilities.clone())
            .client_info(options.info.clone());
        let response: Typed<InitializeResponse> =
            self.call(method::INITIALIZE, &request, options.timeouts.initialize, None).await?;
        if response.protocol_version != ProtocolVersion::V1 {
            self.close(Duration::from_secs(1)).await;
            let theirs = response.protocol_version.as_u16();
            return Err(ClientError::Version { ours: ProtocolVersion::V1.as_u16(), theirs });
        }
        let _ = self.shared.initialized.set(response.value.clone());
        Ok(response)
    }

    /// What the agent said in `initialize`.
    pub fn agent(&self) -> Option<&InitializeResponse> {
        self.shared.initialized.get()
    }

    /// The providers that answer this connection's agent.
    pub fn providers(&self) -> &Providers {
        &self.shared.providers
    }

    /// Logs in with one of the methods that the agent offered. A method that runs in a terminal cannot be used here.
    pub async fn authenticate(&self, method: &str) -> Result<Typed<AuthenticateResponse>, ClientError> {
        let request = AuthenticateRequest::new(method.to_owned());
        self.call(method::AUTHENTICATE, &request, self.shared.options.timeouts.authenticate, None).await
    }

    /// Logs out.
    pub async fn logout(&self) -> Result<Typed<LogoutResponse>, ClientError> {
        let offered = self.capabilities(method::LOGOUT)?.auth.logout.is_some();
        require(offered, method::LOGOUT, "agentCapabilities.auth.logout")?;
        self.call(method::LOGOUT, &LogoutRequest::new(), self.timeout(), None).await
    }

    /// Opens a session.
    pub async fn new_session(&self, workspace: &Workspace) -> Result<Typed<NewSessionResponse>, ClientError> {
        let roots = self.check(workspace, method::SESSION_NEW)?;
        let request = NewSessionRequest::new(&workspace.cwd)
            .additional_directories(workspace.additional.clone())
            .mcp_servers(workspace.mcp_servers.clone());
        let providers = self.shared.providers.clone();
        let open: Then = Box::new(move |frame| {
            if let Ok(response) = typed::<NewSessionResponse>(method::SESSION_NEW, frame.clone()) {
                providers.open_session(&response.session_id.0, roots);
            }
        });
        self.call(method::SESSION_NEW, &request, self.shared.options.timeouts.session, Some(open)).await
    }

    /// Loads a session; its history comes as [`ClientEvent::Update`]s before this returns.
    pub async fn load_session(
        &self,
        session: &str,
        workspace: &Workspace,
    ) -> Result<Typed<LoadSessionResponse>, ClientError> {
        let offered = self.capabilities(method::SESSION_LOAD)?.load_session;
        require(offered, "loading a session", "agentCapabilities.loadSession")?;
        let roots = self.check(workspace, method::SESSION_LOAD)?;
        self.shared.providers.open_session(session, roots);
        let request = LoadSessionRequest::new(session.to_owned(), &workspace.cwd)
            .additional_directories(workspace.additional.clone())
            .mcp_servers(workspace.mcp_servers.clone());
        self.call(method::SESSION_LOAD, &request, self.shared.options.timeouts.session, None).await
    }

    /// Resumes a session without its history.
    pub async fn resume_session(
        &self,
        session: &str,
        workspace: &Workspace,
    ) -> Result<Typed<ResumeSessionResponse>, ClientError> {
        let offered = self.capabilities(method::SESSION_RESUME)?.session_capabilities.resume.is_some();
        require(offered, "resuming a session", "agentCapabilities.sessionCapabilities.resume")?;
        let roots = self.check(workspace, method::SESSION_RESUME)?;
        self.shared.providers.open_session(session, roots);
        let request = ResumeSessionRequest::new(session.to_owned(), &workspace.cwd)
            .additional_directories(workspace.additional.clone());
        let request = ResumeParams { request, mcp_servers: &workspace.mcp_servers };
        self.call(method::SESSION_RESUME, &request, self.shared.options.timeouts.session, None).await
    }

    /// One page of the sessions that the agent knows; `cursor` as the page before gave it.
    pub async fn list_sessions(
        &self,
        cwd: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<Typed<ListSessionsResponse>, ClientError> {
        let offered = self.capabilities(method::SESSION_LIST)?.session_capabilities.list.is_some();
        require(offered, "listing sessions", "agentCapabilities.sessionCapabilities.list")?;
        let request =
            ListSessionsRequest::new().cwd(cwd.map(Path::to_path_buf)).cursor(cursor.map(str::to_owned));
        self.call(method::SESSION_LIST, &request, self.timeout(), None).await
    }

    /// Closes a session: its terminals end.
    pub async fn close_session(&self, session: &str) -> Result<Typed<CloseSessionResponse>, ClientError> {
        let offered = self.capabilities(method::SESSION_CLOSE)?.session_capabilities.close.is_some();
        require(offered, "closing a session", "agentCapabilities.sessionCapabilities.close")?;
        let request = CloseSessionRequest::new(session.to_owned());
        let closed = self.call(method::SESSION_CLOSE, &request, self.timeout(), None).await;
        self.shared.providers.close_session(session);
        closed
    }

    /// Deletes a session.
    pub async fn delete_session(&self, session: &str) -> Result<Typed<DeleteSessionResponse>, ClientError> {
        let offered = self.capabilities(method::SESSION_DELETE)?.session_capabilities.delete.is_some();
        require(offered, "deleting a session", "agentCapabilities.sessionCapabilities.delete")?;
        let request = DeleteSessionRequest::new(session.to_owned());
        self.call(method::SESSION_DELETE, &request, self.timeout(), None).await
    }

    /// Sends a prompt. The content is checked against what the agent takes.
    pub async fn prompt(&self, session: &str, prompt: Vec<ContentBlock>) -> Result<PromptTurn, ClientError> {
        self.prompt_traced(session, prompt, None).await
    }

    /// [`prompt`](AcpClient::prompt) that belongs to a trace: a W3C `traceparent`, which the agent gets in `_meta`.
    pub async fn prompt_traced(
        &self,
        session: &str,
        prompt: Vec<ContentBlock>,
        trace: Option<&str>,
    ) -> Result<PromptTurn, ClientError> {
        self.check_prompt(&prompt)?;
        let (notes, turn) = mpsc::channel(256);
        let meta = trace.map(|trace| Meta::from_iter([("traceparent".to_owned(), trace.into())]));
        let request = PromptRequest::new(session.to_owned(), prompt).meta(meta);
        let reply = ReplyTo::Turn(session.to_owned(), notes);
        let params = serialized(method::SESSION_PROMPT, &request)?;
        self.send_request(method::SESSION_PROMPT, params, self.shared.options.timeouts.prompt, None, reply)
            .await?;
        Ok(PromptTurn { notes: turn, over: false })
    }

    /// Whether the agent takes such a prompt, by what it has offered. [`prompt`](AcpClient::prompt) sends no other.
    pub fn check_prompt(&self, prompt: &[ContentBlock]) -> Result<(), ClientError> {
        content::check(&self.capabilities(method::SESSION_PROMPT)?.prompt_capabilities, prompt)
    }

    /// [`prompt`](AcpClient::prompt) with plain text.
    pub async fn prompt_text(
        &self,
        session: &str,
        text: impl Into<String>,
    ) -> Result<PromptTurn, ClientError> {
        self.prompt(session, vec![ContentBlock::from(text.into())]).await
    }

    /// Cancels the session's turn. The turn still ends by itself, with the stop reason `cancelled` if the agent
    /// plays by the rules; pending permission requests are answered `cancelled`.
    pub async fn cancel(&self, session: &str) {
        let _ = self.commands.send(Command::Cancel(session.to_owned())).await;
    }

    /// Sets the session's mode.
    pub async fn set_mode(
        &self,
        session: &str,
        mode: &str,
    ) -> Result<Typed<SetSessionModeResponse>, ClientError> {
        let request = SetSessionModeRequest::new(session.to_owned(), mode.to_owned());
        self.call(method::SESSION_SET_MODE, &request, self.timeout(), None).await
    }

    /// Sets a config option.
    pub async fn set_config_option(
        &self,
        session: &str,
        option: &str,
        value: SessionConfigOptionValue,
    ) -> Result<Typed<SetSessionConfigOptionResponse>, ClientError> {
        let request = SetSessionConfigOptionRequest::new(session.to_owned(), option.to_owned(), value);
        self.call(method::SESSION_SET_CONFIG_OPTION, &request, self.timeout(), None).await
    }

    /// Sends any request and returns the response as it came, an error response included.
    pub async fn request_raw(
        &self,
        method: &str,
        params: &impl Serialize,
        timeout: Option<Duration>,
    ) -> Result<Frame, ClientError> {
        self.exchange(method, serialized(method, params)?, timeout, None).await
    }

    /// Sends a line as it is. An answer to it is seen by [`observe`](AcpClient::observe) alone.
    pub async fn send_line(&self, line: impl Into<Bytes>) {
        let _ = self.commands.send(Command::Line(line.into())).await;
    }

    /// Sends bytes as they are, without a line end.
    pub async fn send_bytes(&self, bytes: impl Into<Bytes>) {
        let _ = self.commands.send(Command::Raw(bytes.into())).await;
    }

    /// Every frame from now on, both ways. Who reads too slowly misses some and is told so.
    pub fn observe(&self) -> broadcast::Receiver<Observed> {
        self.shared.observer.subscribe()
    }

    /// Ends the connection. An agent that we started gets `grace` to end by itself, is told to terminate, and is
    /// killed after as long again. Returns how it ended.
    pub fn close(&self, grace: Duration) -> BoxFuture<'_, Option<Exit>> {
        Box::pin(async move {
            let (done, ended) = oneshot::channel();
            self.commands.send(Command::Close { grace, done }).await.ok()?;
            ended.await.ok().flatten()
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.shared.options.timeouts.request
    }

    fn capabilities(&self, what: &'static str) -> Result<&AgentCapabilities, ClientError> {
        self.agent().map(|agent| &agent.agent_capabilities).ok_or(ClientError::NotInitialized(what))
    }

    /// Opens the workspace's folders and checks that the agent takes what it is given.
    fn check(&self, workspace: &Workspace, method: &'static str) -> Result<Roots, ClientError> {
        let capabilities = self.capabilities(method)?;
        let extra = workspace.additional.is_empty()
            || capabilities.session_capabilities.additional_directories.is_some();
        let capability = "agentCapabilities.sessionCapabilities.additionalDirectories";
        require(extra, "additional folders", capability)?;
        for server in &workspace.mcp_servers {
            match server {
                McpServer::Http(server) => {
                    let what = format!("MCP servers over http ({})", server.name);
                    require(
                        capabilities.mcp_capabilities.http,
                        what,
                        "agentCapabilities.mcpCapabilities.http",
                    )?;
                }
                McpServer::Sse(server) => {
                    let what = format!("MCP servers over sse ({})", server.name);
                    require(
                        capabilities.mcp_capabilities.sse,
                        what,
                        "agentCapabilities.mcpCapabilities.sse",
                    )?;
                }
                _ => {}
            }
        }
        Ok(Roots::open(&workspace.cwd, &workspace.additional)?)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        timeout: Option<Duration>,
        then: Option<Then>,
    ) -> Result<Typed<T>, ClientError> {
        typed(method, self.exchange(method, serialized(method, params)?, timeout, then).await?)
    }

    /// Sends a request and waits for its response. Boxed, so that it is compiled once.
    fn exchange<'a>(
        &'a self,
        method: &'a str,
        params: Box<RawValue>,
        timeout: Option<Duration>,
        then: Option<Then>,
    ) -> BoxFuture<'a, Result<Frame, ClientError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send_request(method, params, timeout, then, ReplyTo::Caller(reply)).await?;
            answer.await.unwrap_or_else(|_| Err(Failure::closed())).map_err(|failure| failure.explain(method))
        })
    }

    async fn send_request(
        &self,
        method: &str,
        params: Box<RawValue>,
        timeout: Option<Duration>,
        then: Option<Then>,
        reply: ReplyTo,
    ) -> Result<(), ClientError> {
        let request = Request { method: method.to_owned(), params, timeout, then, reply };
        let sent = self.commands.send(Command::Request(request)).await;
        sent.map_err(|_| Failure::closed().explain(method))
    }
}

fn serialized(method: &str, params: &impl Serialize) -> Result<Box<RawValue>, ClientError> {
    serde_json::value::to_raw_value(params)
        .map_err(|error| ClientError::Params { method: method.to_owned(), error })
}

fn require(offered: bool, what: impl Into<String>, capability: &'static str) -> Result<(), ClientError> {
    if offered { Ok(()) } else { Err(ClientError::NotOffered { what: what.into(), capability }) }
}

/// Decodes a response.
fn typed<T: DeserializeOwned>(method: &str, frame: Frame) -> Result<Typed<T>, ClientError> {
    let unreadable = |why: String| ClientError::Unreadable {
        method: method.to_owned(),
        why,
        frame: Box::new(frame.clone()),
    };
    let View::Response { reply, .. } = frame.view() else {
        return Err(unreadable("it is no response".to_owned()));
    };
    match reply {
        Reply::Error(error) => match RpcError::parse(error) {
            Ok(error) => Err(ClientError::Refused { method: method.to_owned(), error: Box::new(error) }),
            Err(why) => Err(unreadable(why.to_string())),
        },
        Reply::Result(result) => match serde_json::from_str(result) {
            Ok(value) => Ok(Typed { value, frame }),
            Err(why) => Err(unreadable(why.to_string())),
        },
    }
}
