//! Who thinks: the seam between a turn and a model.
//!
//! A turn asks a [`Provider`] with the whole conversation and the tools on offer; the answer comes in [`Piece`]s while
//! the model speaks, then as a [`Stop`]. To cancel, drop the future. The built-in provider (`scripted`) needs no model:
//! it is the table of plain wishes, and never comes here.
//!
//! Ollama is spoken to over chat completions, so that one set of wire formats serves all providers and the endpoint
//! that tests them.

mod aws;
mod chain;
mod check;
mod convert;
mod key;
mod limits;
mod listing;
mod pieces;
mod remote;
mod settings;
mod trouble;
mod vendors;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use acp_model::talk::Effort;
pub use check::{Checked, check};
pub use key::Key;
pub use limits::{Limit, LimitsError};
pub use remote::Remote;
use serde_json::Value;
pub use settings::{AUTO, ModelSettings};
use tokio::sync::mpsc;

/// The provider in the box: no key, no network.
pub const SCRIPTED: &str = "scripted";

/// A model that answers.
pub trait Provider: Send + Sync {
    /// Its name, as `--provider` takes it.
    fn name(&self) -> &str;

    /// The models that a person may choose from; the first one is the default.
    fn models(&self) -> Vec<Model>;

    /// Asks which models there are; from then on [`Provider::models`] tells them. A provider that cannot be asked keeps
    /// those it knows.
    fn discover(&self) -> Discovering<'_> {
        Box::pin(async { Ok(self.models()) })
    }

    /// Asks once. Pieces go out as they come; a receiver that is gone is no error. Dropping the future ends the
    /// connection to the model.
    fn turn(&self, request: ChatRequest, pieces: mpsc::Sender<Piece>) -> Answering<'_>;
}

/// A list of models on its way.
pub type Discovering<'a> = Pin<Box<dyn Future<Output = Result<Vec<Model>, ProviderError>> + Send + 'a>>;

/// An answer on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Stop, ProviderError>> + Send + 'a>>;

/// A model on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What the provider calls it.
    pub id: String,
    /// What a person calls it.
    pub name: String,
    /// How many tokens it can take in at once.
    pub context: u64,
    /// How many tokens its longest answer has.
    pub output: u64,
}

/// One question to a model: the whole conversation so far.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// The model's id.
    pub model: String,
    /// What it is told before everything else.
    pub system: String,
    /// The conversation, oldest first; begins with the person, and the roles alternate.
    pub messages: Vec<Message>,
    /// What it may call.
    pub tools: Vec<ToolSpec>,
    /// The longest answer, in tokens.
    pub max_tokens: u64,
    /// How much it thinks before it speaks; left to the provider when absent.
    pub effort: Option<Effort>,
}

/// What one side said.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who.
    pub role: MessageRole,
    /// What, in order. Tool calls stand only in the model's messages, tool results only in the person's.
    pub blocks: Vec<Block>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageRole {
    /// The person, and what tools answered.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Plain text.
    Text(String),
    /// A picture.
    Image {
        /// For instance `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// The model called a tool.
    ToolCall {
        /// Names the call; its result has the same.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments: as in [`Piece::ToolCall`].
        arguments: Value,
    },
    /// A [`Piece::Seal`] of an earlier answer, in its place.
    Seal(String),
    /// What a tool answered.
    ToolResult {
        /// The call.
        id: String,
        /// The tool, for providers that want its name again.
        name: String,
        /// The answer.
        text: String,
        /// Whether the tool failed.
        is_error: bool,
    },
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// A part of an answer, as soon as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Some text.
    Text(String),
    /// Some thinking.
    Thought(String),
    /// A whole call of a tool.
    ToolCall {
        /// The model's own id of the call; empty when the provider gives none.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments: an object, or a string with what came where the model wrote no object. A tool that gets a
        /// string fails and tells the model so.
        arguments: Value,
    },
    /// A call of this tool that the limit of the answer's length cut off. It is not made.
    Dropped(String),
    /// Something that the provider wants back as [`Block::Seal`] in this place of the model's message, unread: it
    /// vouches for the thinking. Not for people.
    Seal(String),
    /// Why it takes longer, in words for people: the provider is busy and is asked again.
    Notice(String),
    /// What was used for this question.
    Usage {
        /// Tokens read, cached ones included.
        input: u64,
        /// Tokens written.
        output: u64,
    },
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has said everything.
    EndTurn,
    /// It waits for its tools.
    ToolCalls,
    /// The answer became too long.
    MaxTokens,
    /// It does not want to.
    Refusal,
}

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// There is no such provider.
    #[error("there is no provider {name:?}; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A setting is missing or wrong: a key, a model, an address. Never a reason to use another provider.
    #[error("cannot use the provider {provider}: {reason}")]
    Unusable {
        /// The provider.
        provider: String,
        /// What is missing and how to give it.
        reason: String,
    },
    /// Nobody was reached, or the connection broke.
    #[error("cannot reach {provider}: {reason}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
    /// The provider said no.
    #[error("{provider} refused with status {status}: {message}")]
    Refused {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// The conversation is too long for the model.
    #[error("{provider} says that the conversation is too long for the model: {message}")]
    TooLong {
        /// The provider.
        provider: String,
        /// Its message.
        message: String,
    },
    /// The answer began well and ended in the middle.
    #[error("{provider} broke off: {reason}")]
    BrokeOff {
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("the answer of {provider} cannot be understood: {reason}")]
    Nonsense {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What a person chose about the provider.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// `--provider`.
    pub provider: String,
    /// `--model`.
    pub model: Option<String>,
    /// `--base-url`: another address for the same wire format.
    pub base_url: Option<String>,
    /// `--max-tokens`: the longest answer.
    pub max_tokens: Option<u64>,
    /// `--context`: how much every model takes in.
    pub context: Option<u64>,
    /// `--limits`: what is known of models.
    pub limits: Vec<Limit>,
    /// `--header`: what every request carries besides. `${NAME}` in a value is an environment variable.
    pub headers: Vec<(String, String)>,
    /// `--fallback`: who is asked, in this order, when the provider cannot answer for now.
    pub fallback: Vec<Choice>,
}

impl Choice {
    /// Reads `PROVIDER`, `PROVIDER:MODEL`, and either with `@http://…` behind it.
    #[must_use]
    pub fn named(text: &str) -> Choice {
        let (name, base_url) = match ["@http://", "@https://"].iter().find_map(|mark| text.find(mark)) {
            Some(at) => (&text[..at], Some(text[at + 1..].to_owned())),
            None => (text, None),
        };
        let (provider, model) = match name.split_once(':') {
            Some((provider, model)) => (provider, Some(model.to_owned())),
            None => (name, None),
        };
        Choice { provider: provider.to_owned(), model, base_url, ..Choice::default() }
    }
}

impl ProviderError {
    /// Whether another provider may answer where this one did not: it is busy, broken or out of reach. A wrong key, a wrong
    /// question or a wrong setting is for the person.
    #[must_use]
    pub fn may_pass_elsewhere(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff { .. } => true,
            Self::Refused { status, .. } => matches!(status, 402 | 408 | 409 | 425 | 429 | 500..),
            Self::Unknown { .. } | Self::Unusable { .. } | Self::TooLong { .. } | Self::Nonsense { .. } => {
                false
            }
        }
    }
}

/// How often a provider is asked again where there is another one behind it.
const IMPATIENT: u32 = 2;

/// Makes a provider ready, without asking it anything yet. `env` reads environment variables, where keys are.
/// `Ok(None)` is the scripted one.
pub fn open(
    choice: &Choice,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Arc<dyn Provider>>, ProviderError> {
    let attempts = if choice.fallback.is_empty() { u32::MAX } else { IMPATIENT };
    let mut all = open_each(choice, env, attempts)?.into_iter();
    let Some(first) = all.next() else { return Ok(None) };
    let others: Vec<_> = all.collect();
    Ok(Some(if others.is_empty() { first } else { Arc::new(chain::Chain::new(first, others)) }))
}

/// Makes every provider of a choice ready; each is asked at most so many times for one answer. The scripted one is none.
fn open_each(
    choice: &Choice,
    env: &dyn Fn(&str) -> Option<String>,
    attempts: u32,
) -> Result<Vec<Arc<dyn Provider>>, ProviderError> {
    if matches!(choice.provider.as_str(), "" | SCRIPTED) {
        let fallback = choice.fallback.first().map(|next| next.provider.as_str());
        return match (&choice.model, &choice.base_url, fallback) {
            (Some(model), ..) => Err(unasked(&format!("--model {model}"))),
            (_, Some(url), _) => Err(unasked(&format!("--base-url {url}"))),
            (.., Some(next)) => Err(unasked(&format!("--fallback {next}"))),
            (None, None, None) => Ok(Vec::new()),
        };
    }
    let one = |choice: &Choice| -> Result<Arc<dyn Provider>, ProviderError> {
        let mut settings = ModelSettings::read(&choice.provider, choice, env)?;
        for retry in [&mut settings.busy, &mut settings.lost] {
            retry.attempts = retry.attempts.min(attempts);
        }
        Ok(Arc::new(Remote::new(settings)?))
    };
    std::iter::once(choice).chain(&choice.fallback).map(one).collect()
}

/// The built-in provider was given what only a real one can use.
fn unasked(flag: &str) -> ProviderError {
    let known: Vec<&str> = vendors::Vendor::names().collect();
    let reason = format!(
        "it has no models, so {flag} names nothing; say whose it is with --provider ({})",
        known.join(", ")
    );
    ProviderError::Unusable { provider: SCRIPTED.to_owned(), reason }
}
