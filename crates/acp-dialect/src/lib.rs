//! Translators between foreign forms of the Agent Client Protocol and canonical v1.
//!
//! **What it is.** A [`Translator`] stands at one wire whose far end speaks a foreign [`Dialect`]; it turns that peer's
//! frames into v1 and v1 frames into the peer's form, remembering what the forms need remembered (who asked what,
//! session ids chosen by the client, a working directory given too early, a history given in one piece). Two of them
//! back to back are a [`Bridge`], so any client form reaches any agent form. What a form cannot say travels in `_meta`,
//! is refused by name, or is answered by the translator itself; each such step is a [`Note`]. [`detect()`] names the form
//! of a peer from its first frame.
//!
//! **What it will never do.** Read or write anything, read a clock, decide a permission by more than the answer it was
//! given in [`TranslationOptions`], or drop something without a note. v1 to v1 is the identity on bytes.
//!
//! **Read first:** [`Translator`], [`Bridge`], [`Note`].

#![deny(clippy::disallowed_methods)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "the parts of a frame are used up by its translation, not shared"
)]

mod bridge;
mod chunk;
mod client;
mod codes;
mod core;
pub mod detect;
mod dialect;
mod fast;
mod form;
mod forms;
mod json;
mod mapper;
mod note;
mod options;
mod passive;
mod session;
mod shared;
mod traits;
mod translator;

pub use acp_proto::Side;
pub use bridge::{Bridge, Routed};
pub use client::{ClientDialect, DialectChoice, RoutedFrame};
pub use detect::{Detection, detect};
pub use dialect::{Dialect, UnknownDialect};
pub use note::{Note, NoteKind};
pub use options::{Credentials, START_KEY, TranslationOptions, Unasked, UnknownAnswer};
pub use passive::PassiveTranslator;
pub use traits::{AgentCard, AgentFiles, FormTraits};
pub use translator::{Destination, OutFrame, Translated, Translator};
