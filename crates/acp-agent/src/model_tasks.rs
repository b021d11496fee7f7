//! The model at work: one task per question, whose answer comes back piece by piece.

use std::collections::HashMap;
use std::sync::Arc;

use acp_script::agent::{ModelQuestion, QuestionKind, Thought, ThoughtEnd, Token};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::chat;
use crate::context;
use crate::instructions::Reader;
use crate::offer::Abilities;
use crate::prompt;
use crate::provider::{ChatRequest, Model, Piece, Provider, ProviderError, Stop};

/// How many pieces may wait for a slow client.
const QUEUE: usize = 64;
/// An answer that may be shorter than this is none.
const LEAST_ANSWER: u64 = 256;

/// Asks the provider.
pub(crate) struct ModelTasks {
    provider: Option<Arc<dyn Provider>>,
    abilities: Abilities,
    reader: Reader,
    /// The longest answer that the person allows.
    max_tokens: Option<u64>,
    thoughts: mpsc::Sender<(Token, Thought)>,
    running: HashMap<Token, AbortHandle>,
}

impl ModelTasks {
    /// No tasks yet, and where the pieces of answers arrive.
    pub(crate) fn new(
        provider: Option<Arc<dyn Provider>>,
        abilities: Abilities,
        reader: Reader,
        max_tokens: Option<u64>,
    ) -> (Self, mpsc::Receiver<(Token, Thought)>) {
        let (thoughts, arriving) = mpsc::channel(QUEUE);
        (Self { provider, abilities, reader, max_tokens, thoughts, running: HashMap::new() }, arriving)
    }

    pub(crate) fn think(&mut self, token: Token, question: &ModelQuestion) {
        self.running.retain(|_, task| !task.is_finished());
        let thoughts = self.thoughts.clone();
        let Some(provider) = self.provider.clone() else { return };
        let model = model(&*provider, &question.model);
        let asked = self.request(question, &model);
        let task = tokio::spawn(async move {
            let _ = thoughts.send((token, Thought::Context(model.context))).await;
            let request = match asked {
                Ok(request) => request,
                Err(overflow) => {
                    let _ = thoughts.send((token, Thought::End(overflow))).await;
                    return;
                }
            };
            let (pieces, mut arriving) = mpsc::channel(QUEUE);
            let forward = async {
                while let Some(piece) = arriving.recv().await {
                    if thoughts.send((token, thought(piece))).await.is_err() {
                        break;
                    }
                }
            };
            let (stop, ()) = tokio::join!(provider.turn(request, pieces), forward);
            let end = match stop {
                Ok(Stop::EndTurn | Stop::ToolCalls) => ThoughtEnd::Done,
                Ok(Stop::MaxTokens) => ThoughtEnd::MaxTokens,
                Ok(Stop::Refusal) => ThoughtEnd::Refusal,
                Err(error @ ProviderError::TooLong { .. }) => ThoughtEnd::Overflow(error.to_string()),
                Err(error @ ProviderError::Refused { status: 400 | 422, .. }) => {
                    ThoughtEnd::Rejected(error.to_string())
                }
                Err(error) => ThoughtEnd::Failed(error.to_string()),
            };
            let _ = thoughts.send((token, Thought::End(end))).await;
        });
        self.running.insert(token, task.abort_handle());
    }

    /// What to ask the model, unless it would not fit.
    fn request(&self, question: &ModelQuestion, model: &Model) -> Result<ChatRequest, ThoughtEnd> {
        if question.wanted == QuestionKind::Summary {
            return Ok(context::summary(question, model));
        }
        let answer = context::answer_limit(model, self.max_tokens, question.cuts);
        let mut request = chat::request(question, self.abilities, answer);
        prompt::add_project(&mut request, question, &self.reader);
        let most = context::question_limit(model, answer);
        let mut tokens = context::tokens(question, &request);
        if question.wanted == QuestionKind::Anyway {
            let less = most.checked_shr(question.overflows.saturating_sub(1)).unwrap_or(0);
            context::fit(&mut request, less);
            tokens = tokens.min(less);
        } else if tokens > most {
            let context = model.context;
            let words = format!("it takes about {tokens} of {context} tokens, and an answer needs room too");
            return Err(ThoughtEnd::Overflow(words));
        }
        // Some servers refuse a limit that goes beyond what they have left.
        request.max_tokens = answer.min(model.context.saturating_sub(tokens)).max(LEAST_ANSWER.min(answer));
        Ok(request)
    }

    /// The answer is no longer wanted: the connection to the model ends.
    pub(crate) fn abandon(&mut self, token: Token) {
        if let Some(task) = self.running.remove(&token) {
            task.abort();
        }
    }
}

impl Drop for ModelTasks {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}

/// The model of this name, with its limits.
fn model(provider: &dyn Provider, id: &str) -> Model {
    let models = provider.models();
    let found = models.iter().find(|model| model.id == id).or(models.first()).cloned();
    found.unwrap_or_else(|| Model { id: id.to_owned(), name: id.to_owned(), context: 200_000, output: 8192 })
}

fn thought(piece: Piece) -> Thought {
    match piece {
        Piece::Text(text) => Thought::Text(text),
        Piece::Thought(text) => Thought::Thinking(text),
        Piece::ToolCall { name, arguments, .. } => Thought::Call { name, arguments },
        Piece::Dropped(name) => Thought::Dropped(name),
        Piece::Seal(seal) => Thought::Seal(seal),
        Piece::Notice(text) => Thought::Notice(text),
        Piece::Usage { input, output } => Thought::Usage { input, output },
    }
}
