//! What is said to a model and by a model, in one shape for all vendors.

use acp_profile::WireFormat;
use serde_json::Value;

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The model's name.
    pub model: String,
    /// Whether the answer shall be streamed.
    pub stream: bool,
    /// Chat completions: whether usage shall come in a chunk of its own.
    pub usage_chunk: bool,
    /// Everything said as system or developer.
    pub system: String,
    /// The conversation, oldest first.
    pub turns: Vec<ModelTurn>,
    /// The tools offered.
    pub tools: Vec<ModelTool>,
    /// The form that the answer must have.
    pub answer: AnswerForm,
    /// The limit of tokens in the answer.
    pub max_tokens: Option<u64>,
    /// How much the model shall think; left to the vendor when absent.
    pub effort: Option<Effort>,
}

/// How much a model shall think before it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
}

impl Effort {
    /// The word that people and most vendors use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// About as many tokens, for wires that want a number.
    pub(crate) fn tokens(self) -> u64 {
        match self {
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 24_576,
        }
    }
}

/// A word that names no known effort.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is none of low, medium, high")]
pub struct UnknownEffort(String);

impl std::str::FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(text: &str) -> Result<Self, UnknownEffort> {
        let all = [Self::Low, Self::Medium, Self::High];
        let found = all.into_iter().find(|effort| effort.as_str() == text);
        found.ok_or_else(|| UnknownEffort(text.to_owned()))
    }
}

/// The form that an answer must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AnswerForm {
    /// Any text.
    #[default]
    Free,
    /// JSON, of a schema when there is one.
    Json(Option<Value>),
}

impl AnswerForm {
    /// The schema that the answer must fit, when there is one that says anything.
    pub fn schema(&self) -> Option<&Value> {
        match self {
            Self::Json(Some(schema)) => Some(schema).filter(|schema| schema.is_object()),
            _ => None,
        }
    }
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelTurn {
    /// The person (or what the agent says in the person's name).
    User(Vec<UserPart>),
    /// The model.
    Assistant(Vec<ModelPart>),
    /// What a tool gave back.
    Result(ToolResult),
}

/// A piece of a user's turn.
#[derive(Clone, Debug, PartialEq)]
pub enum UserPart {
    /// Text.
    Text(String),
    /// An image, as base64, or by its address.
    Image {
        /// Its media type.
        mime: String,
        /// Base64 data, or an address.
        data: String,
    },
    /// Something else, by its kind.
    Other(String),
}

/// What a tool gave back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub id: String,
    /// The tool's name, where the wire tells.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

/// A tool offered to the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTool {
    /// Its name.
    pub name: String,
    /// The group it stands in (responses only).
    pub namespace: Option<String>,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it takes free text instead of JSON arguments.
    pub free_text: bool,
}

/// A piece of the model's turn.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelPart {
    /// Reasoning.
    Think(String),
    /// Text for the person.
    Text(String),
    /// A call of a tool.
    Call(ModelCall),
    /// What the vendor wants back with the next request.
    Seal(ThinkingSeal),
}

/// What a vendor gives with its thinking and wants back in the same place, unread: a signature, encrypted reasoning.
/// Only the wire it came over writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ThinkingSeal {
    /// The wire it came over.
    pub wire: WireFormat,
    /// Its content in the form of that wire.
    pub data: Value,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The group it stands in (responses only).
    pub namespace: Option<String>,
    /// What it is given.
    pub input: Input,
}

/// What a tool is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// JSON arguments.
    Json(Value),
    /// Free text, or arguments that are not JSON.
    Text(String),
}

impl Input {
    /// The text that goes over the wire.
    pub fn text(&self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// Reads arguments that came as text; what is not JSON stays text.
    pub fn read(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Json(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(text).map_or_else(|_| Self::Text(text.to_owned()), Self::Json)
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelReply {
    /// The answer's id.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// What it says.
    pub parts: Vec<ModelPart>,
    /// Why it stopped.
    pub stop: ModelStop,
    /// What it cost.
    pub usage: Usage,
}

impl ModelReply {
    /// The same answer as if it had been streamed.
    pub fn into_deltas(self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut calls = 0;
        for part in self.parts {
            match part {
                ModelPart::Think(text) => deltas.push(Delta::Think(text)),
                ModelPart::Text(text) => deltas.push(Delta::Text(text)),
                ModelPart::Seal(seal) => deltas.push(Delta::Seal(seal)),
                ModelPart::Call(ModelCall { id, name, namespace, input }) => {
                    let (index, free_text) = (calls, matches!(input, Input::Text(_)));
                    calls += 1;
                    deltas.push(Delta::Call { index, id, name, namespace, free_text });
                    deltas.push(Delta::Args { index, text: input.text() });
                }
            }
        }
        deltas.push(Delta::End { stop: self.stop, usage: self.usage });
        deltas
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelStop {
    /// It was done.
    #[default]
    End,
    /// It waits for its tools.
    Tools,
    /// The token limit.
    Length,
    /// It would not answer.
    Refusal,
}

/// What an answer cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the request.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
    /// Of the request, taken from a cache.
    pub cached: u64,
    /// Of the answer, spent on reasoning.
    pub reasoning: u64,
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More reasoning.
    Think(String),
    /// More text.
    Text(String),
    /// A call begins.
    Call {
        /// Its place among the calls of this answer, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// The group it stands in (responses only).
        namespace: Option<String>,
        /// Whether free text follows instead of JSON.
        free_text: bool,
    },
    /// More of a call's arguments.
    Args {
        /// Which call.
        index: usize,
        /// A piece of their text.
        text: String,
    },
    /// The vendor seals what it thought.
    Seal(ThinkingSeal),
    /// The answer ends.
    End {
        /// Why.
        stop: ModelStop,
        /// At what cost.
        usage: Usage,
    },
    /// The answer broke off with an error.
    Failed {
        /// The vendor's word for it.
        kind: String,
        /// The message.
        message: String,
    },
}

/// Puts the pieces of a streamed answer together.
#[derive(Debug, Default)]
pub struct Collector {
    parts: Vec<ModelPart>,
    calls: Vec<(usize, usize, String, bool)>,
    /// Why it stopped, once it did.
    pub stop: Option<ModelStop>,
    /// What it cost.
    pub usage: Usage,
    /// The error it broke off with.
    pub failed: Option<(String, String)>,
}

impl Collector {
    /// Takes the next piece.
    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Think(more) => match self.parts.last_mut() {
                Some(ModelPart::Think(text)) => text.push_str(&more),
                _ => self.parts.push(ModelPart::Think(more)),
            },
            Delta::Text(more) => match self.parts.last_mut() {
                Some(ModelPart::Text(text)) => text.push_str(&more),
                _ => self.parts.push(ModelPart::Text(more)),
            },
            Delta::Call { index, id, name, namespace, free_text } => {
                self.calls.push((index, self.parts.len(), String::new(), free_text));
                self.parts.push(ModelPart::Call(ModelCall {
                    id,
                    name,
                    namespace,
                    input: Input::Text(String::new()),
                }));
            }
            Delta::Args { index, text } => {
                if let Some((_, _, whole, _)) = self.calls.iter_mut().rev().find(|(of, ..)| *of == index) {
                    whole.push_str(&text);
                }
            }
            Delta::Seal(seal) => self.parts.push(ModelPart::Seal(seal)),
            Delta::End { stop, usage } => {
                self.stop = Some(stop);
                self.usage = usage;
            }
            Delta::Failed { kind, message } => self.failed = Some((kind, message)),
        }
    }

    /// The parts, with the calls' arguments read.
    pub fn finish(mut self) -> Vec<ModelPart> {
        for (_, place, text, free_text) in std::mem::take(&mut self.calls) {
            if let Some(ModelPart::Call(call)) = self.parts.get_mut(place) {
                call.input = if free_text { Input::Text(text) } else { Input::read(&text) };
            }
        }
        self.parts
    }
}

impl ModelRequest {
    /// The texts of the person's turns, joined per turn.
    pub fn user_texts(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.turns.iter().enumerate().filter_map(|(index, turn)| match turn {
            ModelTurn::User(parts) => Some((index, user_text(parts))),
            _ => None,
        })
    }

    /// How many images the person's turns hold.
    pub fn images(&self) -> usize {
        let parts = self.turns.iter().filter_map(|turn| match turn {
            ModelTurn::User(parts) => Some(parts),
            _ => None,
        });
        parts.flatten().filter(|part| matches!(part, UserPart::Image { .. })).count()
    }
}

/// The text of a user's turn.
pub fn user_text(parts: &[UserPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        UserPart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
