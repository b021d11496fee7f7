//! From flags to an open session.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_campaign::{Real, Room};
use acp_dialect::{Dialect, Note, Side};
use acp_host::retry::{Meaning, Remedy, Repeatability, Retry};
use acp_host::target::{AgentConnection, AgentTarget};
use acp_host::{
    AcpClient, ClientError, ClientEvent, ClientOptions, Events, Timeouts, UserQuestion, Workspace,
};
use acp_link::process_guard::ProcessGuard;
use acp_link::{Tap, token};
use acp_policy::PolicyRules;
use acp_rpc::Direction;
use agent_client_protocol_schema::v1::{
    AuthMethod, McpServer, SessionConfigOptionValue, SessionConfigValueId, SessionModeId,
};
use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::ChatError;
use crate::modes::{ModeError, Modes};

/// How long an agent may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// An open session with everything around it.
#[derive(Debug)]
pub struct Talk {
    /// The connection.
    pub client: AcpClient,
    /// What happens outside turns.
    pub events: Events,
    /// What the person is asked.
    pub questions: mpsc::Receiver<UserQuestion>,
    /// The session's id.
    pub session: String,
    /// The agent in words.
    pub agent: String,
    /// What can be set, and what is.
    pub modes: Modes,
    /// What its sessions are opened with.
    plan: Plan,
    tap: Option<Tap>,
    /// Whether a token was shown; nothing where none can be.
    shows_token: Option<bool>,
    /// What an installed agent on a scripted model lives in.
    room: Option<Room>,
}

/// Which agent to talk with, where, with what, under which rules.
#[derive(Debug)]
pub struct TalkOptions {
    /// The agent.
    pub target: AgentTarget,
    /// The dialect that it speaks, if not v1.
    pub dialect: Option<Dialect>,
    /// Start this installed agent in place of the target, in a home of its own and on a scripted model.
    pub scripted: Option<Real>,
    /// What it may do.
    pub rules: PolicyRules,
    /// The session's working folder.
    pub cwd: PathBuf,
    /// Further folders that the session may use.
    pub add_dir: Vec<PathBuf>,
    /// MCP servers for the agent.
    pub mcp_servers: Vec<McpServer>,
    /// The session to load or resume.
    pub session: Option<String>,
    /// The session's mode.
    pub mode: Option<String>,
    /// The login that comes first.
    pub auth: Option<String>,
    /// How long a turn, or a step before it, may take.
    pub timeout: Option<Duration>,
    /// How often to try to connect and to open the session.
    pub attempts: u32,
    /// Where a transcript goes.
    pub record: Option<PathBuf>,
    /// Show each step of a translation.
    pub verbose: bool,
    /// Whether a person can be asked.
    pub person: bool,
}

impl Talk {
    /// Connects, negotiates, logs in, opens or loads the session and sets its mode. What happens meanwhile (the history
    /// of a loaded session, for one) goes to `seen`.
    pub async fn open(options: &TalkOptions, seen: &mut dyn FnMut(ClientEvent)) -> Result<Talk, ChatError> {
        let plan = Plan::new(options)?;
        let retry = retries(options.attempts);
        let mut begin = if options.session.is_some() { Begin::Load } else { Begin::New };
        for attempt in 1.. {
            let error = match Talk::try_open(options, &plan, begin, seen).await {
                Ok(talk) => return Ok(talk),
                Err(error) => error,
            };
            let meaning = match &error {
                ChatError::Client(error) | ChatError::LoginWanted { error, .. } => Meaning::of_failure(error),
                _ if matches!(options.target, AgentTarget::Listening(..)) => Meaning::ConnectionClosed,
                _ => Meaning::Other,
            };
            let Some((pause, remedy)) = retry.next(attempt, meaning, Repeatability::Repeatable, chance())
            else {
                return Err(error);
            };
            if remedy == Remedy::NewSession {
                begin = Begin::New;
            }
            eprintln!("acp: {error}; trying again in {:.1} s", pause.as_secs_f64());
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop above ends by returning")
    }

    async fn try_open(
        options: &TalkOptions,
        plan: &Plan,
        begin: Begin,
        seen: &mut dyn FnMut(ClientEvent),
    ) -> Result<Talk, ChatError> {
        let tap = options.record.as_ref().map(Tap::create).transpose()?;
        let (ask, questions) = mpsc::channel(16);
        let client_options = ClientOptions {
            rules: options.rules.clone(),
            person: options.person.then_some(ask),
            timeouts: timeouts(options.timeout),
            process_guard: ProcessGuard::by_this_program(),
            ..ClientOptions::default()
        };
        let (connection, room) = match &options.scripted {
            Some(real) => {
                let (room, link, child) =
                    Room::open(real, &plan.workspace.cwd, std::env::current_exe().ok()).await?;
                let link = match &tap {
                    Some(tap) => link.tapped(tap, Direction::AgentToClient),
                    None => link,
                };
                (AgentConnection { link, child: Some(child) }, Some(room))
            }
            None => (options.target.open(&plan.workspace.cwd, tap.as_ref()).await?, None),
        };
        let AgentConnection { link, child } =
            connection.translated(options.dialect, &plan.workspace, notes(options.verbose));
        let (client, events) = AcpClient::connect(link, child, client_options);
        let talk = Talk {
            client,
            events,
            questions,
            session: String::new(),
            agent: options.target.describe(),
            modes: Modes::default(),
            plan: plan.clone(),
            tap,
            shows_token: options.target.shows_token(),
            room,
        };
        talk.set_up(options, begin, seen).await
    }

    async fn set_up(
        mut self,
        options: &TalkOptions,
        begin: Begin,
        seen: &mut dyn FnMut(ClientEvent),
    ) -> Result<Talk, ChatError> {
        let outcome = self.steps(options, begin, seen).await;
        match outcome {
            Ok(()) => Ok(self),
            Err(error) => {
                self.close().await;
                Err(error)
            }
        }
    }

    async fn steps(
        &mut self,
        options: &TalkOptions,
        begin: Begin,
        seen: &mut dyn FnMut(ClientEvent),
    ) -> Result<(), ChatError> {
        let agent = match self.client.initialize().await {
            Ok(agent) => agent,
            Err(error) => return Err(self.unheard(error)),
        };
        if let Some(info) = &agent.agent_info {
            self.agent = info.title.clone().unwrap_or_else(|| info.name.clone());
        }
        if let Some(method) = &options.auth {
            self.log_in(method).await?;
        }
        match (&options.session, begin) {
            (Some(id), Begin::Load) => {
                let opened = self.reopen(id, seen).await;
                opened.map_err(|error| self.explain(error))?;
                self.make_ready().await
            }
            _ => self.begin().await,
        }
    }

    /// Sets an open session up as the person and the agent's profile want it.
    async fn make_ready(&mut self) -> Result<(), ChatError> {
        self.set_room_up().await?;
        match self.plan.mode.clone() {
            Some(mode) => self.set_mode(&mode).await.map(drop),
            None => Ok(()),
        }
    }

    /// The agent refused a prompt, for the time of this number: if that was because its session has expired and there are
    /// tries left, opens a new one after a pause and says so. Otherwise the error stands.
    pub async fn renewed(&mut self, tries: u32, error: &ClientError) -> Result<bool, ChatError> {
        let meaning = Meaning::of_failure(error);
        let next = retries(self.plan.attempts).next(tries, meaning, Repeatability::Once, chance());
        let Some((pause, Remedy::NewSession)) = next else { return Ok(false) };
        eprintln!("acp: {error}; trying again in a new session in {:.1} s", pause.as_secs_f64());
        tokio::time::sleep(pause).await;
        self.begin().await?;
        Ok(true)
    }

    /// An agent that does not answer may be none, or wait for something else: what it said instead tells.
    fn unheard(&mut self, error: ClientError) -> ChatError {
        if !matches!(error, ClientError::Timeout { .. }) {
            return error.into();
        }
        let said = std::iter::from_fn(|| self.events.next().now_or_never().flatten());
        let noise = said.into_iter().find_map(|event| match event {
            ClientEvent::Violation(_, frame) => Some(frame.to_string()),
            _ => None,
        });
        let hint = match noise {
            Some(line) => {
                let line: String = line.chars().take(120).collect();
                format!("it wrote {line:?}; is a flag such as --acp missing?")
            }
            None => format!("it said nothing; {}", acp_campaign::campaign::SILENT),
        };
        ChatError::Silent { error, hint }
    }

    /// Sends what the profile of an installed agent wants after a session was opened.
    async fn set_room_up(&self) -> Result<(), ChatError> {
        let Some(room) = &self.room else { return Ok(()) };
        for request in room.setup(&self.session)? {
            let method = request["method"].as_str().unwrap_or_default();
            let answer = self.client.request_raw(method, &request["params"], None).await?;
            if let Some(error) = answer.error() {
                eprintln!("acp: the session could not be set up as the profile wants: {method}: {error}");
            }
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), ChatError> {
        let opened = self.client.new_session(&self.plan.workspace).await;
        let opened = opened.map_err(|error| self.explain(error))?;
        self.session = opened.session_id.0.to_string();
        self.modes =
            Modes { state: opened.modes.clone(), options: opened.config_options.clone().unwrap_or_default() };
        self.make_ready().await
    }

    /// Loads a session with its history, or resumes it without when the agent offers only that.
    async fn reopen(&mut self, id: &str, seen: &mut dyn FnMut(ClientEvent)) -> Result<(), ClientError> {
        let capabilities = self.client.agent().map(|agent| &agent.agent_capabilities);
        let loads = capabilities.is_some_and(|c| c.load_session);
        let resumes = capabilities.is_some_and(|c| c.session_capabilities.resume.is_some());
        self.session = id.to_owned();
        let (client, workspace) = (self.client.clone(), self.plan.workspace.clone());
        let opening = async {
            if loads || !resumes {
                let opened = client.load_session(id, &workspace).await?;
                Ok::<_, ClientError>((opened.modes.clone(), opened.config_options.clone()))
            } else {
                let opened = client.resume_session(id, &workspace).await?;
                Ok((opened.modes.clone(), opened.config_options.clone()))
            }
        };
        tokio::pin!(opening);
        let (state, options) = loop {
            tokio::select! {
                biased;
                Some(event) = self.events.next() => seen(event),
                opened = &mut opening => break opened?,
            }
        };
        self.modes = Modes { state, options: options.unwrap_or_default() };
        Ok(())
    }

    async fn log_in(&self, method: &str) -> Result<(), ChatError> {
        let offered = self.auth_methods();
        match offered.iter().find(|(id, _, _)| id == method) {
            Some((_, _, false)) => {}
            Some((id, _, true)) => {
                return Err(ChatError::Login(format!(
                    "the login {id:?} happens in a terminal: start the agent's own login"
                )));
            }
            None => {
                let names: Vec<&str> = offered.iter().map(|(id, _, _)| id.as_str()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(ChatError::Login(format!(
                    "the agent has no login {method:?}; it offers {names}"
                )));
            }
        }
        self.client.authenticate(method).await?;
        Ok(())
    }

    /// The agent's logins: id, name, whether it needs a terminal.
    fn auth_methods(&self) -> Vec<(String, String, bool)> {
        let methods = self.client.agent().map(|agent| agent.auth_methods.as_slice()).unwrap_or_default();
        let method = |method: &AuthMethod| match method {
            AuthMethod::Terminal(it) => Some((it.id.0.to_string(), it.name.clone(), true)),
            AuthMethod::Agent(it) => Some((it.id.0.to_string(), it.name.clone(), false)),
            _ => None,
        };
        methods.iter().filter_map(method).collect()
    }

    fn explain(&self, error: ClientError) -> ChatError {
        if error.refusal().is_some_and(|refusal| Meaning::of(refusal) == Meaning::AuthRequired) {
            let methods: Vec<String> = self
                .auth_methods()
                .iter()
                .map(|(id, name, terminal)| {
                    format!("{id} ({name}{})", if *terminal { ", in a terminal" } else { "" })
                })
                .collect();
            if methods.iter().any(|method| method.starts_with("token ")) && self.shows_token == Some(false) {
                let hint = format!("the agent wants a token: {}", token::HINT);
                return ChatError::LoginWanted { hint, error };
            }
            let hint = format!("log in first with --auth METHOD; the agent offers {}", methods.join(", "));
            return ChatError::LoginWanted { hint, error };
        }
        error.into()
    }

    /// Sets the session's mode by the agent's config option for it, or by its list of modes. Returns the mode's id.
    pub async fn set_mode(&mut self, word: &str) -> Result<String, ChatError> {
        let menu = self.modes.menu();
        let Some(mode) = menu.pick(word).map(str::to_owned) else {
            let names: Vec<&str> = menu.choices.iter().map(|(id, _)| id.as_str()).collect();
            return Err(ModeError::NoSuchMode { word: word.to_owned(), known: names.join(", ") }.into());
        };
        match self.modes.option_id() {
            Some(option) => self.set_value(&option, SessionConfigValueId::new(mode.as_str()).into()).await?,
            None => {
                self.client.set_mode(&self.session, &mode).await?;
                if let Some(state) = &mut self.modes.state {
                    state.current_mode_id = SessionModeId::new(mode.as_str());
                }
            }
        }
        Ok(mode)
    }

    /// Sets a config option to the value that the person means.
    pub async fn set_option(&mut self, option: &str, word: &str) -> Result<(), ChatError> {
        let value = self.modes.value_for(option, word)?;
        self.set_value(option, value).await
    }

    async fn set_value(&mut self, option: &str, value: SessionConfigOptionValue) -> Result<(), ChatError> {
        let set = self.client.set_config_option(&self.session, option, value).await;
        self.modes.options = set?.value.config_options;
        Ok(())
    }

    /// Whether the agent can open this session again.
    pub fn can_reopen(&self) -> bool {
        let capabilities = self.client.agent().map(|agent| &agent.agent_capabilities);
        capabilities.is_some_and(|it| it.load_session || it.session_capabilities.resume.is_some())
    }

    /// Ends the session, the agent and the transcript.
    pub async fn close(self) {
        let closes =
            self.client.agent().is_some_and(|a| a.agent_capabilities.session_capabilities.close.is_some());
        if closes && !self.session.is_empty() {
            let _ = tokio::time::timeout(GRACE, self.client.close_session(&self.session)).await;
        }
        self.client.close(GRACE).await;
        if let Some(Err(error)) = self.tap.map(|tap| tap.finish()) {
            eprintln!("acp: {error}");
        }
    }
}

/// How a session begins.
#[derive(Clone, Copy, Debug)]
enum Begin {
    /// As one that there was before.
    Load,
    New,
}

/// What to ask the agent for.
#[derive(Clone, Debug)]
struct Plan {
    workspace: Workspace,
    mode: Option<String>,
    attempts: u32,
}

impl Plan {
    fn new(options: &TalkOptions) -> Result<Plan, ChatError> {
        let additional = options.add_dir.iter().map(|path| real_folder(path)).collect::<Result<_, _>>()?;
        let workspace = Workspace {
            cwd: real_folder(&options.cwd)?,
            additional,
            mcp_servers: options.mcp_servers.clone(),
        };
        Ok(Plan { workspace, mode: options.mode.clone(), attempts: options.attempts })
    }
}

fn retries(attempts: u32) -> Retry {
    Retry { attempts, ..Retry::default() }
}

/// A part of a pause that differs between processes.
fn chance() -> f64 {
    f64::from(std::process::id() % 1000) / 1000.0
}

/// A turn may take as long as the person says, and so may each of the steps before it, which have limits of their own.
fn timeouts(turn: Option<Duration>) -> Timeouts {
    let usual = Timeouts::default();
    let within = |limit: Option<Duration>| [limit, turn].into_iter().flatten().min();
    Timeouts { initialize: within(usual.initialize), session: within(usual.session), prompt: turn, ..usual }
}

/// At most this many different steps of a translation are shown: an agent can bring about any number.
const MOST_NOTES: usize = 1000;

/// Tells each sort of step of a translation once, to those who want to know.
fn notes(verbose: bool) -> impl FnMut(Side, &Note) {
    let mut told = HashSet::new();
    move |side, note| {
        if verbose && told.len() < MOST_NOTES && told.insert(note.to_string()) {
            eprintln!("acp: {side}: {note}");
        }
    }
}

/// The real path of a folder that exists.
pub fn real_folder(path: &Path) -> Result<PathBuf, ChatError> {
    let unusable = |error| ChatError::Folder { path: path.to_owned(), error };
    let real = path.canonicalize().map_err(unusable)?;
    if real.is_dir() { Ok(real) } else { Err(unusable(std::io::ErrorKind::NotADirectory.into())) }
}
