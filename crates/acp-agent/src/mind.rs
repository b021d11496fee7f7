//! The model at work: one task per question, whose answer comes back piece by piece.

use std::collections::HashMap;
use std::sync::Arc;

use acp_script::agent::{Question, Thought, ThoughtEnd, Token};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::chat;
use crate::instructions::Reader;
use crate::offer::Abilities;
use crate::prompt;
use crate::provider::{Piece, Provider, ProviderError, Stop};

/// How many pieces may wait for a slow client.
const QUEUE: usize = 64;

/// Asks the provider.
pub(crate) struct Mind {
    provider: Option<Arc<dyn Provider>>,
    abilities: Abilities,
    reader: Reader,
    thoughts: mpsc::Sender<(Token, Thought)>,
    running: HashMap<Token, AbortHandle>,
}

impl Mind {
    /// A mind, and where its thoughts arrive.
    pub(crate) fn new(
        provider: Option<Arc<dyn Provider>>,
        abilities: Abilities,
        reader: Reader,
    ) -> (Self, mpsc::Receiver<(Token, Thought)>) {
        let (thoughts, arriving) = mpsc::channel(QUEUE);
        (Self { provider, abilities, reader, thoughts, running: HashMap::new() }, arriving)
    }

    pub(crate) fn think(&mut self, token: Token, question: &Question) {
        self.running.retain(|_, task| !task.is_finished());
        let thoughts = self.thoughts.clone();
        let Some(provider) = self.provider.clone() else { return };
        let model = provider.models().into_iter().find(|model| model.id == question.model);
        let context = model.map_or(200_000, |model| model.context);
        let mut request = chat::request(question, self.abilities, context);
        prompt::add_project(&mut request, question, &self.reader);
        let task = tokio::spawn(async move {
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
                Err(error @ ProviderError::Refused { status: 400 | 413 | 422, .. }) => {
                    ThoughtEnd::Rejected(error.to_string())
                }
                Err(error) => ThoughtEnd::Failed(error.to_string()),
            };
            let _ = thoughts.send((token, Thought::End(end))).await;
        });
        self.running.insert(token, task.abort_handle());
    }

    /// The answer is no longer wanted: the connection to the model ends.
    pub(crate) fn abandon(&mut self, token: Token) {
        if let Some(task) = self.running.remove(&token) {
            task.abort();
        }
    }
}

impl Drop for Mind {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}

fn thought(piece: Piece) -> Thought {
    match piece {
        Piece::Text(text) => Thought::Text(text),
        Piece::Thought(text) => Thought::Thinking(text),
        Piece::ToolCall { name, arguments, .. } => Thought::Call { name, arguments },
        Piece::Seal(seal) => Thought::Seal(seal),
        Piece::Notice(text) => Thought::Notice(text),
        Piece::Usage { input, output } => Thought::Usage { input, output },
    }
}
