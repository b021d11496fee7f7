//! Carrying out verbs: connections, sessions, prompts.

mod login;
mod prompting;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acp_host::{AcpClient, ClientError, ClientEvent, Events, TurnUpdate, Typed, Workspace};
use acp_link::memory;
use acp_proto::{error_code, update};
use acp_script::faults::Faults;
use agent_client_protocol_schema::v1::McpServer;
use serde_json::{Value, json};

use crate::launch::{AgentLaunch, AgentStdio};
use crate::state::{Connection, OpenSession, Shared, result_of};
use crate::verbs::ClientVerb;
use crate::wire::Wire;
use crate::{ending, options};

/// How many lines may wait between the product's client and the wire.
const WAITING: usize = 64;

/// So many pages of a list are more than anybody has.
const MOST_PAGES: usize = 1000;

/// Carries out a verb that takes its time. An error is what a person would read.
pub(crate) async fn carry_out(shared: &Arc<Shared>, verb: ClientVerb) -> Result<(), String> {
    match verb {
        ClientVerb::Open => open(shared).await,
        ClientVerb::Prompt { text } => prompting::prompt(shared, &text).await,
        ClientVerb::Reload => reload(shared).await,
        ClientVerb::Close => close(shared).await,
        ClientVerb::List => list(shared).await,
        ClientVerb::Delete { session } => delete(shared, session).await,
        ClientVerb::Logout => {
            connected(shared).await?.logout().await.map(drop).map_err(|error| error.to_string())
        }
        ClientVerb::Login { method } => login::login(shared, method).await,
        ClientVerb::Mode { mode } => settings::mode(shared, mode).await,
        ClientVerb::Option { option, value } => settings::option(shared, option, value).await,
        at_once => Err(format!("{} is done at once", at_once.name())),
    }
}

/// The client of a connection that is initialized; starts an agent if there is none.
async fn connected(shared: &Arc<Shared>) -> Result<AcpClient, String> {
    if let Some(client) = shared.client() {
        return Ok(client);
    }
    if shared.nature.habits.looks_first && shared.state().launches == 0 {
        connect(shared).await?;
        ending::end_agent(shared).await;
    }
    let client = connect(shared).await?;
    if shared.nature.habits.authenticates_first {
        login::with_first_method(shared, &client).await?;
    }
    Ok(client)
}

/// What a launch is like, unless the manners want it otherwise.
fn launch(shared: &Shared) -> AgentLaunch {
    let number = {
        let mut state = shared.state();
        state.launches += 1;
        state.launches
    };
    let mut launch = AgentLaunch {
        number,
        added: Vec::new(),
        env: Vec::new(),
        cwd: shared.workspace.clone(),
        stdio: AgentStdio::Pipes,
        reads_stderr: true,
        ends_descendants: true,
    };
    shared.manners.prepare(&mut launch);
    launch
}

/// Starts the agent and initializes the connection to it.
async fn connect(shared: &Arc<Shared>) -> Result<AcpClient, String> {
    if shared.state().connection.is_some() {
        // What is left of one that has gone.
        ending::end_agent(shared).await;
    }
    let launch = launch(shared);
    let number = launch.number;
    let started = shared.agents.start(launch).await?;
    let (inner, ours) = memory(WAITING);
    let wire = Wire {
        faults: Faults::new(&shared.nature.faults, shared.nature.seed),
        quirks: Arc::clone(&shared.quirks),
        workspace: shared.workspace.clone(),
        launch: number,
        over: shared.ends.clone(),
    };
    let wire = tokio::spawn(wire.run(ours, started.link));
    let (client, events) = AcpClient::connect(inner, None, options::of(shared));
    let is_gone = Arc::new(AtomicBool::new(false));
    tokio::spawn(listen(Arc::clone(shared), events, Arc::clone(&is_gone)));
    shared.state().connection = Some(Connection {
        launch: number,
        client: client.clone(),
        process: started.process,
        agent: Value::Null,
        is_gone,
        wire,
    });
    match client.initialize().await {
        Ok(answer) => {
            if let Some(open) = &mut shared.state().connection {
                open.agent = result_of(&answer.frame);
            }
            shared.tell(json!({ "event": "initialized", "launch": number }));
            Ok(client)
        }
        Err(error) => {
            ending::end_agent(shared).await;
            Err(error.to_string())
        }
    }
}

/// Reads what happens outside of turns.
async fn listen(shared: Arc<Shared>, mut events: Events, is_gone: Arc<AtomicBool>) {
    while let Some(event) = events.next().await {
        match event {
            ClientEvent::Update(update) => updated(&shared, &update),
            ClientEvent::Closed(how, _) => {
                is_gone.store(true, Ordering::Relaxed);
                shared.tell(json!({ "event": "closed", "message": how.to_string() }));
            }
            ClientEvent::Decision(_) | ClientEvent::Violation(..) | ClientEvent::Notification(_) => {}
        }
    }
    is_gone.store(true, Ordering::Relaxed);
}

/// The agent tells something of a session.
fn updated(shared: &Shared, update: &TurnUpdate) {
    let params: Value =
        update.frame.params().and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
    let told = &params["update"];
    if told["sessionUpdate"] == update::CONFIG_OPTION_UPDATE
        && let Some(options) = told["configOptions"].as_array()
        && let Some(session) = shared.state().session.as_mut().filter(|open| open.id == update.session)
    {
        session.options.clone_from(options);
    }
    shared.tell(json!({ "event": "update", "sessionId": update.session, "kind": told["sessionUpdate"] }));
}

/// Opens the sessions that the client wants, if none is open.
async fn open(shared: &Arc<Shared>) -> Result<(), String> {
    let client = connected(shared).await?;
    if shared.open().is_some() {
        return Ok(());
    }
    let workspace = workspace(shared, &client);
    for _ in 0..shared.nature.habits.opens {
        match client.new_session(&workspace).await {
            Ok(answer) => opened(shared, &answer.session_id.0, &answer),
            Err(error) => {
                let is_login =
                    error.refusal().is_some_and(|refusal| refusal.code == error_code::AUTH_REQUIRED);
                shared.state().wants_login |= is_login;
                return Err(error.to_string());
            }
        }
    }
    Ok(())
}

fn opened<T>(shared: &Shared, id: &str, answer: &Typed<T>) {
    let session = OpenSession::new(id, &result_of(&answer.frame));
    let launch = {
        let mut state = shared.state();
        (state.last_session, state.session) = (Some(id.to_owned()), Some(session));
        state.wants_login = false;
        state.connection.as_ref().map_or(0, |open| open.launch)
    };
    shared.tell(json!({ "event": "opened", "sessionId": id, "launch": launch }));
}

/// Where a session works: what the agent does not take is left out, and the person is told.
fn workspace(shared: &Shared, client: &AcpClient) -> Workspace {
    let Some(agent) = client.agent().map(|agent| agent.agent_capabilities.clone()) else {
        return Workspace::at(&shared.workspace);
    };
    let (servers, folders) = {
        let state = shared.state();
        (state.servers.clone(), state.folders.clone())
    };
    let mut workspace = Workspace::at(&shared.workspace);
    for server in servers {
        match serde_json::from_value::<McpServer>(server) {
            Ok(McpServer::Http(server)) if !agent.mcp_capabilities.http => {
                shared.complain(Some("mcp"), &format!("the agent takes no http servers: {}", server.name));
            }
            Ok(McpServer::Sse(server)) if !agent.mcp_capabilities.sse => {
                shared.complain(Some("mcp"), &format!("the agent takes no sse servers: {}", server.name));
            }
            Ok(McpServer::Stdio(mut server)) => {
                server.command = program(&server.command);
                workspace.mcp_servers.push(McpServer::Stdio(server));
            }
            Ok(server) => workspace.mcp_servers.push(server),
            Err(error) => shared.complain(Some("mcp"), &format!("this is no MCP server: {error}")),
        }
    }
    if agent.session_capabilities.additional_directories.is_some() {
        workspace.additional = folders.iter().map(|folder| shared.workspace.join(folder)).collect();
    } else if !folders.is_empty() {
        shared.complain(Some("dirs"), "the agent takes no further folders");
    }
    workspace
}

/// The program by its whole path.
fn program(command: &Path) -> PathBuf {
    if command.is_absolute() {
        return command.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| file.is_file());
    found.unwrap_or_else(|| command.to_owned())
}

/// Starts the agent anew and comes back to the session.
async fn reload(shared: &Arc<Shared>) -> Result<(), String> {
    ending::end_agent(shared).await;
    let client = connected(shared).await?;
    let Some(last) = shared.state().last_session.clone() else { return open(shared).await };
    let Some(agent) = client.agent().map(|agent| agent.agent_capabilities.clone()) else {
        return Err("the agent is not initialized".to_owned());
    };
    let workspace = workspace(shared, &client);
    let say = |error: ClientError| error.to_string();
    if agent.load_session {
        let answer = client.load_session(&last, &workspace).await.map_err(say)?;
        opened(shared, &last, &answer);
    } else if agent.session_capabilities.resume.is_some() {
        let answer = client.resume_session(&last, &workspace).await.map_err(say)?;
        opened(shared, &last, &answer);
    } else {
        return open(shared).await;
    }
    Ok(())
}

async fn close(shared: &Arc<Shared>) -> Result<(), String> {
    let Some((client, session)) = shared.open() else { return Err("no session is open".to_owned()) };
    shared.state().session = None;
    client.close_session(&session.id).await.map(drop).map_err(|error| error.to_string())
}

/// Reads all pages.
async fn list(shared: &Arc<Shared>) -> Result<(), String> {
    let client = connected(shared).await?;
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let page = client.list_sessions(None, cursor.as_deref()).await.map_err(|error| error.to_string())?;
        match page.value.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
    Err(format!("the list of sessions has more than {MOST_PAGES} pages"))
}

async fn delete(shared: &Arc<Shared>, session: Option<String>) -> Result<(), String> {
    let client = connected(shared).await?;
    let wanted = session.or_else(|| shared.state().last_session.clone());
    let session = wanted.ok_or("no session was opened, and none was named")?;
    client.delete_session(&session).await.map(drop).map_err(|error| error.to_string())
}
