//! From the wire's deltas to a turn's pieces.

use acp_model::talk::{Delta, Input, ModelStop as WireStop, ThinkingSeal, Usage};
use serde_json::Value;
use tokio::sync::mpsc;

use super::convert::write_seal;
use super::{Piece, Stop};

/// How an answer ended.
#[derive(Debug)]
pub(super) enum End {
    /// As it should.
    Stopped(Stop),
    /// The provider broke it off.
    Failed {
        /// Its word for it.
        kind: String,
        /// Its message.
        message: String,
    },
    /// A call has no name.
    Nameless,
}

/// Sends pieces on: text and thoughts at once, calls when they are whole.
pub(super) struct Speaker<'a> {
    to: &'a mpsc::Sender<Piece>,
    /// Calls and the seals behind them, in their order.
    held: Vec<Held>,
    /// Whether anything was sent: then the question cannot be asked again.
    pub(super) spoke: bool,
}

enum Held {
    Call { index: usize, id: String, name: String, text: String, free_text: bool },
    Seal(ThinkingSeal),
}

impl<'a> Speaker<'a> {
    pub(super) fn new(to: &'a mpsc::Sender<Piece>) -> Self {
        Self { to, held: Vec::new(), spoke: false }
    }

    /// Takes the next delta; tells when it was the last.
    pub(super) async fn hear(&mut self, delta: Delta) -> Option<End> {
        match delta {
            Delta::Text(text) => self.say(Piece::Text(text)).await,
            Delta::Think(text) => self.say(Piece::Thought(text)).await,
            Delta::Seal(seal) if self.held.is_empty() => self.say(Piece::Seal(write_seal(&seal))).await,
            Delta::Seal(seal) => self.held.push(Held::Seal(seal)),
            Delta::Call { index, id, name, free_text, .. } => {
                self.held.push(Held::Call { index, id, name, text: String::new(), free_text });
            }
            Delta::Args { index, text } => self.more(index, &text),
            Delta::End { stop, usage } => return Some(self.end(stop, usage).await),
            Delta::Failed { kind, message } => return Some(End::Failed { kind, message }),
        }
        None
    }

    async fn say(&mut self, piece: Piece) {
        self.spoke = true;
        // Nobody listening any more is for the listener to decide: it drops the answer.
        let _ = self.to.send(piece).await;
    }

    fn more(&mut self, of: usize, more: &str) {
        let call = self.held.iter_mut().rev().find_map(|held| match held {
            Held::Call { index, text, .. } if *index == of => Some(text),
            _ => None,
        });
        if let Some(text) = call {
            text.push_str(more);
        }
    }

    async fn end(&mut self, stop: WireStop, usage: Usage) -> End {
        let held = std::mem::take(&mut self.held);
        if held.iter().any(|held| matches!(held, Held::Call { name, .. } if name.is_empty())) {
            return End::Nameless;
        }
        let mut calls = 0;
        for held in held {
            let piece = match held {
                // What stands behind the limit is missing from the last call: it must not run, and nothing vouches for it.
                Held::Call { name, .. } if stop == WireStop::Length => Piece::Dropped(name),
                Held::Seal(_) if stop == WireStop::Length => continue,
                Held::Seal(seal) => Piece::Seal(write_seal(&seal)),
                Held::Call { id, name, text, free_text, .. } => {
                    calls += 1;
                    Piece::ToolCall { id, name, arguments: arguments(&text, free_text) }
                }
            };
            self.say(piece).await;
        }
        self.say(Piece::Usage { input: usage.input, output: usage.output }).await;
        // Some servers say "stop" although they called.
        End::Stopped(match stop {
            WireStop::Length => Stop::MaxTokens,
            WireStop::Refusal => Stop::Refusal,
            WireStop::End | WireStop::Tools if calls > 0 => Stop::ToolCalls,
            WireStop::End | WireStop::Tools => Stop::EndTurn,
        })
    }
}

/// An object, or a string where the model wrote something else.
fn arguments(text: &str, free_text: bool) -> Value {
    if free_text {
        return Value::String(text.to_owned());
    }
    match Input::read(text) {
        Input::Json(object @ Value::Object(_)) => object,
        Input::Json(_) | Input::Text(_) => Value::String(text.to_owned()),
    }
}
