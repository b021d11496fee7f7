//! A connection for requests that are written by hand: `acp info` and `acp call`.

use std::path::PathBuf;
use std::time::Duration;

use acp_dialect::Dialect;
use acp_host::target::{AgentConnection, AgentTarget};
use acp_host::{AcpClient, ClientError, ClientEvent, ClientOptions, Events, Observed, Timeouts, Workspace};
use acp_link::Tap;
use acp_link::process_guard::ProcessGuard;
use acp_policy::PolicyRules;
use acp_proto::method;
use acp_rpc::{Direction, Frame};
use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::InitializeRequest;
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::ChatError;
use crate::session::real_folder;

/// The first request of every conversation.
pub const INITIALIZE: &str = method::INITIALIZE;
/// How long an agent may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// An agent that was started or connected to, and nothing more.
pub struct Raw {
    /// The client, whose providers answer the agent's requests.
    pub client: AcpClient,
    /// Where sessions work.
    pub workspace: Workspace,
    /// The agent in words.
    pub agent: String,
    events: Events,
    frames: Receiver<Observed>,
    tap: Option<Tap>,
}

/// How to open one.
#[derive(Debug)]
pub struct RawOptions {
    /// The dialect that the agent speaks, if not v1.
    pub dialect: Option<Dialect>,
    /// The folder for sessions.
    pub cwd: PathBuf,
    /// What the agent may do.
    pub rules: PolicyRules,
    /// How long each answer may take.
    pub timeout: Duration,
    /// Where a transcript goes.
    pub record: Option<PathBuf>,
}

impl Raw {
    /// Starts or connects to the agent.
    pub async fn open(target: &AgentTarget, options: RawOptions) -> Result<Raw, ChatError> {
        let workspace = Workspace::at(real_folder(&options.cwd)?);
        let tap = options.record.as_deref().map(Tap::create).transpose()?;
        let opened = target.open(&workspace.cwd, tap.as_ref()).await?;
        let AgentConnection { link, child } = opened.translated(options.dialect, &workspace, |_, _| {});
        let limit = Some(options.timeout);
        let timeouts = Timeouts {
            initialize: limit,
            authenticate: limit,
            session: limit,
            prompt: limit,
            request: limit,
        };
        let (client, events) = AcpClient::connect(
            link,
            child,
            ClientOptions {
                rules: options.rules,
                timeouts,
                process_guard: ProcessGuard::by_this_program(),
                ..ClientOptions::default()
            },
        );
        let frames = client.observe();
        Ok(Raw { client, workspace, agent: target.describe(), events, frames, tap })
    }

    /// Waits for something that the client does; `seen` gets every frame meanwhile, in both directions.
    pub async fn during<T>(
        &mut self,
        doing: impl Future<Output = T>,
        seen: &mut dyn FnMut(Direction, &Frame),
    ) -> T {
        tokio::pin!(doing);
        let done = loop {
            tokio::select! {
                biased;
                frame = self.frames.recv() => match frame {
                    Ok(frame) => seen(frame.dir, &frame.frame),
                    Err(RecvError::Lagged(missed)) => eprintln!("acp: {missed} frames came too fast to be shown"),
                    Err(RecvError::Closed) => break doing.await,
                },
                Some(event) = self.events.next() => drop(event),
                done = &mut doing => break done,
            }
        };
        // What came just before the end is on its way here.
        while let Ok(frame) = self.frames.try_recv() {
            seen(frame.dir, &frame.frame);
        }
        done
    }

    /// Sends any request and waits for its response.
    pub async fn request(
        &mut self,
        method: &str,
        params: &impl Serialize,
        timeout: Duration,
        seen: &mut dyn FnMut(Direction, &Frame),
    ) -> Result<Frame, ClientError> {
        let client = self.client.clone();
        self.during(client.request_raw(method, params, Some(timeout)), seen).await
    }

    /// Waits for what the agent says by itself; ends early when it has gone.
    pub async fn listen(&mut self, time: Duration, seen: &mut dyn FnMut(Direction, &Frame)) {
        let until = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                frame = self.frames.recv() => match frame {
                    Ok(frame) => seen(frame.dir, &frame.frame),
                    Err(RecvError::Lagged(missed)) => eprintln!("acp: {missed} frames came too fast to be shown"),
                    Err(RecvError::Closed) => return,
                },
                event = self.events.next() => if matches!(event, None | Some(ClientEvent::Closed(..))) { return },
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Ends the agent and the transcript.
    pub async fn close(self) {
        self.client.close(GRACE).await;
        if let Some(Err(error)) = self.tap.map(|tap| tap.finish()) {
            eprintln!("acp: {error}");
        }
    }
}

/// An agent that does not answer may hold its answers back, or may not be in the mode that speaks the protocol.
pub fn unheard(error: ClientError) -> ChatError {
    match error {
        ClientError::Timeout { .. } => {
            ChatError::Silent { error, hint: acp_campaign::campaign::SILENT.to_owned() }
        }
        error => error.into(),
    }
}

/// What this client says of itself.
pub fn initialize_request() -> InitializeRequest {
    let options = ClientOptions::default();
    InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(options.capabilities)
        .client_info(options.info)
}
