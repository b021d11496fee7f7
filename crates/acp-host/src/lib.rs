//! The client side of a conversation with an agent.
//!
//! [`AcpClient`] holds a connection: it negotiates, opens sessions, sends prompts and streams what comes back.
//! [`Providers`] answer what an agent asks of its client: files inside the session's folders, terminals,
//! permissions, elicitations. They work on raw frames, so that anything which holds a connection can hand
//! requests to them. This crate is the only one that touches the user's files, processes and decisions on an
//! agent's behalf. It knows nothing of test files, and it never prints.
//!
//! Read first: [`AcpClient`], [`Providers`], [`UserQuestion`].
//!
//! Driving an agent takes twenty lines:
//!
//! ```
//! use acp_host::{AcpClient, ClientOptions, TurnEvent, Workspace};
//! use acp_link::child;
//! use acp_policy::{Policy, PolicyRules};
//! use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate, StopReason};
//!
//! # const AGENT: &str = r#"read a; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
//! #     read b; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
//! #     read c; echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"four"}}}}'
//! #     echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat >/dev/null"#;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (link, child) = child::spawn(&child::SpawnOptions::new("sh").args(["-c", AGENT]))?;
//! let options = ClientOptions { rules: PolicyRules::of(Policy::Read), ..ClientOptions::default() };
//! let (client, _events) = AcpClient::connect(link, Some(child), options);
//! client.initialize().await?;
//! let session = client.new_session(&Workspace::at(std::env::current_dir()?)).await?;
//! let mut turn = client.prompt_text(&session.session_id.0, "What is two and two?").await?;
//! let mut text = String::new();
//! while let Some(event) = turn.next().await {
//!     match event {
//!         TurnEvent::Update(update) => {
//!             if let Some(SessionUpdate::AgentMessageChunk(chunk)) = update.update.as_deref()
//!                 && let ContentBlock::Text(piece) = &chunk.content
//!             {
//!                 text += &piece.text;
//!             }
//!         }
//!         TurnEvent::Decision(record) => eprintln!("{record}"),
//!         TurnEvent::Ended(response) => assert_eq!(response.stop_reason, StopReason::EndTurn),
//!         TurnEvent::Failed(error) => return Err(error.into()),
//!     }
//! }
//! assert_eq!(text, "four");
//! client.close(std::time::Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

mod client;
mod command_rules;
mod elicitation;
mod files;
mod folders;
mod jail;
mod offer;
mod permission;
mod providers;
mod question;
mod real;
mod record;
mod refusal;
mod repository;
pub mod retry;
pub mod target;
mod terminal;
mod tool_call;

pub use client::{
    AcpClient, ClientError, ClientEvent, ClientOptions, Events, Gone, LastWords, Observed, PromptTurn,
    Timeouts, TurnEvent, TurnUpdate, Typed, Workspace,
};
pub use elicitation::Elicited;
pub use files::FileLimits;
pub use jail::{Roots, RootsError};
pub use offer::OfferedCapabilities;
pub use permission::{PermissionPolicy, Ruling};
pub use providers::{ProviderAnswer, ProviderLimits, ProviderSettings, Providers};
pub use question::{Ask, PermissionChoice, UserAnswer, UserQuestion};
pub use real::{real_path, with_real_names};
pub use record::DecisionRecord;
pub use terminal::TerminalLimits;
