//! The vendors' model wire formats, both ways, and a scripted model endpoint that real agents accept in place
//! of a vendor's.
//!
//! There is no ACP here. The endpoint never calls a real model and never needs a key; the wire formats never
//! touch a socket, so that a client of real models can use them too.
//!
//! Read first: [`talk::ModelRequest`] and [`talk::ModelReply`] (what every vendor says, in one shape), [`wire`] (the
//! vendors' shapes), [`ModelScript`] (what the endpoint answers), [`ModelEndpoint`] (the server).

mod action_error;
mod body;
mod exchange;
mod fill;
mod journal;
mod patch;
mod play;
mod script;
mod serve;
mod shapes;
pub mod sse;
pub mod talk;
mod tools;
mod wanted;
pub mod wire;
mod wishes;

pub use exchange::ModelExchange;
pub use journal::ModelJournal;
pub use play::{Beat, FileReader, Hints, Memory, Play, decide};
pub use script::{ModelRule, ModelScript, ModelScriptError, RuleAction, RuleCondition};
pub use serve::{EndpointSettings, ModelEndpoint};
pub use tools::{Place, Unfit, choose};
pub use wanted::WantedTool;
