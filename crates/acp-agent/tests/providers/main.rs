//! The providers end to end, over real sockets and without leaving the machine: against the scripted model endpoint,
//! and against servers that misbehave.

mod asked;
mod bedrock;
mod chain;
mod chosen;
mod endpoint;
mod raw;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use acp_agent::provider::{
    Block, ChatRequest, Choice, Message, MessageRole, ModelSettings, Piece, Provider, ProviderError, Remote,
    Stop, ToolSpec,
};
use acp_host::retry::Retry;
use serde_json::json;
use tokio::sync::mpsc;

/// Every provider, and the path that its questions take.
const PROVIDERS: [(&str, &str); 6] = [
    ("anthropic", "/v1/messages"),
    ("openai", "/v1/chat/completions"),
    ("openai-chat", "/v1/chat/completions"),
    ("openai-responses", "/v1/responses"),
    ("google", "/v1beta/models/m:streamGenerateContent"),
    ("ollama", "/v1/chat/completions"),
];

const KEY: &str = "sk-very-secret-0815";

/// Every variable that could hold a key has this one.
fn with_key(name: &str) -> Option<String> {
    name.ends_with("_API_KEY").then(|| KEY.to_owned())
}

fn choice(name: &str, base: &str) -> Choice {
    Choice {
        provider: name.to_owned(),
        model: Some("m".to_owned()),
        base_url: Some(base.to_owned()),
        ..Choice::default()
    }
}

fn settings(name: &str, base: &str) -> ModelSettings {
    let mut settings = ModelSettings::read(name, &choice(name, base), &with_key).expect("settings");
    let quick = Retry { attempts: 3, first: Duration::from_millis(1), jitter: 0.0 };
    (settings.busy, settings.lost) = (quick, quick);
    settings
}

fn provider(name: &str, base: &str) -> Arc<dyn Provider> {
    Arc::new(Remote::new(settings(name, base)).expect("a provider"))
}

fn words(text: &str) -> ChatRequest {
    let blocks = vec![Block::Text(text.to_owned())];
    ChatRequest {
        model: "m".to_owned(),
        system: "Working directory: /w".to_owned(),
        messages: vec![Message { role: MessageRole::User, blocks }],
        tools: vec![tool("read_file", "path"), tool("run_command", "command")],
        max_tokens: 4000,
        effort: None,
    }
}

fn tool(name: &str, field: &str) -> ToolSpec {
    let schema = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    ToolSpec { name: name.to_owned(), description: format!("takes a {field}"), schema }
}

/// Asks and collects everything.
async fn ask(provider: &dyn Provider, request: ChatRequest) -> (Result<Stop, ProviderError>, Vec<Piece>) {
    let (to, mut from) = mpsc::channel(4);
    let collecting = async {
        let mut pieces = Vec::new();
        while let Some(piece) = from.recv().await {
            pieces.push(piece);
        }
        pieces
    };
    tokio::join!(provider.turn(request, to), collecting)
}

async fn fails(provider: &dyn Provider, text: &str) -> (ProviderError, Vec<Piece>) {
    let (outcome, pieces) = ask(provider, words(text)).await;
    (outcome.expect_err("an error"), pieces)
}

fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn notices(pieces: &[Piece]) -> Vec<&str> {
    let notices = pieces.iter().filter_map(|piece| match piece {
        Piece::Notice(text) => Some(text.as_str()),
        _ => None,
    });
    notices.collect()
}
