//! A client on the official Rust SDK, driven by JSON lines: verbs on stdin, events on stdout.
//!
//! ```text
//! rust-sdk-harness WORKSPACE AGENT [ARGUMENT...]
//! ```
//!
//! It uses the SDK's defaults on purpose, because they are what is examined: `AcpAgent` starts and ends the agent. Files and permissions
//! are this program's own.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, CloseSessionRequest, ContentBlock, FileSystemCapabilities,
    Implementation, InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    ReadTextFileRequest, ReadTextFileResponse, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionId, SessionNotification, TextContent,
    WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{AcpAgent, Agent, Client, Error, ErrorCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;

/// How permission questions are answered.
#[derive(Default)]
struct Habit {
    answer: Mutex<String>,
    cancelled: Notify,
}

fn tell(event: &str, mut fields: Value) {
    fields["event"] = json!(event);
    println!("{fields}");
}

fn trouble(verb: &str, error: &Error) {
    tell("error", json!({ "verb": verb, "code": i32::from(error.code), "message": error.message }));
}

fn choose(request: &RequestPermissionRequest, answer: &str) -> RequestPermissionOutcome {
    let kinds = match answer {
        "reject" => [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways],
        _ => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
    };
    let chosen = kinds.iter().find_map(|kind| request.options.iter().find(|option| option.kind == *kind));
    chosen.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
    })
}

async fn read(request: &ReadTextFileRequest) -> Result<ReadTextFileResponse, Error> {
    let text = match tokio::fs::read_to_string(&request.path).await {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::new(ErrorCode::RESOURCE_NOT_FOUND, request.path.display().to_string()));
        }
        Err(error) => return Err(Error::internal_error().data(error.to_string())),
    };
    let first = request.line.unwrap_or(1).saturating_sub(1) as usize;
    let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
    let window: String = text.split_inclusive('\n').skip(first).take(limit).collect();
    Ok(ReadTextFileResponse::new(window))
}

/// One session at a time, opened by the first verb that needs it.
struct Harness {
    connection: ConnectionTo<Agent>,
    workspace: String,
    session: Option<SessionId>,
}

impl Harness {
    async fn session(&mut self) -> Result<SessionId, Error> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        self.open().await
    }

    async fn open(&mut self) -> Result<SessionId, Error> {
        let answer =
            self.connection.send_request(NewSessionRequest::new(&self.workspace)).block_task().await?;
        tell("opened", json!({ "sessionId": answer.session_id }));
        Ok(self.session.insert(answer.session_id).clone())
    }

    async fn act(&mut self, verb: &str, line: &Value, habit: &Habit) -> Result<(), Error> {
        match verb {
            "open" => drop(self.open().await?),
            "permission" => {
                let answer = line["answer"].as_str().unwrap_or("allow").to_owned();
                *habit.answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = answer;
            }
            "prompt" => {
                let text = TextContent::new(line["text"].as_str().unwrap_or_default());
                let request = PromptRequest::new(self.session().await?, vec![ContentBlock::Text(text)]);
                let turn = self.connection.send_request(request);
                self.connection.spawn(async move {
                    match turn.block_task().await {
                        Ok(answer) => tell("end", json!({ "stopReason": answer.stop_reason })),
                        Err(error) => trouble("prompt", &error),
                    }
                    Ok(())
                })?;
            }
            "cancel" => {
                let note = CancelNotification::new(self.session().await?);
                self.connection.send_notification(note)?;
                habit.cancelled.notify_waiters();
            }
            "close" => {
                let request = CloseSessionRequest::new(self.session().await?);
                self.connection.send_request(request).block_task().await?;
            }
            _ => tell("error", json!({ "verb": verb, "message": format!("the harness has no verb {verb}") })),
        }
        Ok(())
    }
}

async fn converse(
    connection: ConnectionTo<Agent>,
    workspace: String,
    habit: Arc<Habit>,
) -> Result<(), Error> {
    let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().fs(files))
        .client_info(Implementation::new("rust-sdk-harness", "1"));
    match connection.send_request(request).block_task().await {
        Ok(answer) => tell("initialized", json!({ "version": answer.protocol_version })),
        Err(error) => {
            trouble("open", &error);
            return Ok(());
        }
    }
    let mut harness = Harness { connection, workspace, session: None };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let Ok(line) = serde_json::from_str::<Value>(&text) else { continue };
        let verb = line["verb"].as_str().unwrap_or_default();
        if verb == "quit" {
            break;
        }
        if let Err(error) = harness.act(verb, &line, &habit).await {
            trouble(verb, &error);
        }
        tell("done", json!({ "verb": verb }));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let workspace = words.next().ok_or("usage: rust-sdk-harness WORKSPACE AGENT [ARGUMENT...]")?;
    let agent = AcpAgent::from_args(words)?;
    let habit = Arc::new(Habit::default());
    let asked = Arc::clone(&habit);
    Client
        .v1()
        .name("harness")
        .on_receive_notification(
            async move |note: SessionNotification, _connection| {
                let update = serde_json::to_value(&note.update).unwrap_or_default();
                tell("update", json!({ "sessionId": note.session_id, "kind": update["sessionUpdate"] }));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, connection: ConnectionTo<Agent>| {
                tell(
                    "permission",
                    json!({ "sessionId": request.session_id, "toolCallId": request.tool_call.tool_call_id }),
                );
                let habit = Arc::clone(&asked);
                let answer = habit.answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                if answer != "leave" {
                    return responder.respond(RequestPermissionResponse::new(choose(&request, &answer)));
                }
                connection.spawn(async move {
                    habit.cancelled.notified().await;
                    responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _connection| match read(&request).await {
                Ok(answer) => responder.respond(answer),
                Err(error) => responder.respond_with_error(error),
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _connection| match tokio::fs::write(
                &request.path,
                &request.content,
            )
            .await
            {
                Ok(()) => responder.respond(WriteTextFileResponse::new()),
                Err(error) => responder.respond_with_error(Error::internal_error().data(error.to_string())),
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, |connection: ConnectionTo<Agent>| converse(connection, workspace, habit))
        .await?;
    Ok(())
}
