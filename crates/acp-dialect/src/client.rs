//! The dialect of an agent's client.

use acp_rpc::Frame;

use crate::{Destination, Dialect, Side, TranslationOptions, Translator, detect};

/// Which dialect to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DialectChoice {
    /// That of the client's first frame.
    Auto,
    /// Canonical version 1.
    #[default]
    V1,
    /// This one.
    Only(Dialect),
}

/// The client's dialect, once it is known.
#[derive(Debug)]
pub enum ClientDialect {
    /// No frame has shown it yet.
    Unknown(Box<TranslationOptions>),
    /// Version 1: frames pass as they are.
    Canonical,
    /// Another one.
    Foreign(Box<Translator>),
}

/// A translated frame and where it goes.
#[derive(Clone, Debug)]
pub enum RoutedFrame {
    /// On to the agent, in canonical form.
    ToAgent(Frame),
    /// To the client, in its dialect.
    ToClient(Frame),
}

impl ClientDialect {
    /// Speaks the chosen dialect, or waits for the first frame.
    pub fn new(choice: DialectChoice, options: TranslationOptions) -> Self {
        match choice {
            DialectChoice::Auto => Self::Unknown(Box::new(options)),
            DialectChoice::V1 => Self::Canonical,
            DialectChoice::Only(dialect) => Self::of(dialect, options),
        }
    }

    fn of(dialect: Dialect, options: TranslationOptions) -> Self {
        if dialect.is_canonical() {
            return Self::Canonical;
        }
        Self::Foreign(Box::new(Translator::new(dialect, Side::Client, options)))
    }

    /// The dialect, once it is known.
    pub fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Unknown(_) => None,
            Self::Canonical => Some(Dialect::V1),
            Self::Foreign(translator) => Some(translator.dialect()),
        }
    }

    /// Whether frames pass as they are.
    pub fn is_canonical(&self) -> bool {
        matches!(self, Self::Canonical)
    }

    /// Whether there must be a pause after each frame for the client.
    pub fn needs_pauses(&self) -> bool {
        self.dialect().is_some_and(|dialect| dialect.traits().needs_pauses)
    }

    /// Translates a frame of the client. The translator answers some of them itself.
    pub fn client_says(&mut self, frame: &Frame, clock: impl FnOnce() -> String) -> Vec<RoutedFrame> {
        if let Self::Unknown(options) = self {
            // A frame that says nothing about its dialect (a broken one, say) leaves the question open.
            let Some(dialect) = detect([frame]).best() else {
                return vec![RoutedFrame::ToAgent(frame.clone())];
            };
            *self = Self::of(dialect, std::mem::take(options));
        }
        let Self::Foreign(translator) = self else { return vec![RoutedFrame::ToAgent(frame.clone())] };
        translator.set_wall_clock(clock());
        let out = translator.to_canonical(frame).frames.into_iter();
        out.map(|out| match out.to {
            Destination::Onward => RoutedFrame::ToAgent(out.frame),
            Destination::Back => RoutedFrame::ToClient(out.frame),
        })
        .collect()
    }

    /// Translates a frame of the agent.
    pub fn agent_says(&mut self, frame: Frame) -> Vec<RoutedFrame> {
        let Self::Foreign(translator) = self else { return vec![RoutedFrame::ToClient(frame)] };
        let out = translator.from_canonical(&frame).frames.into_iter();
        out.map(|out| match out.to {
            Destination::Onward => RoutedFrame::ToClient(out.frame),
            Destination::Back => RoutedFrame::ToAgent(out.frame),
        })
        .collect()
    }

    /// A translated frame with the details that the dialect has beyond v1, for agents that know them. `None` leaves the
    /// frame out.
    pub fn complete(&mut self, frame: Frame, unix_millis: u64) -> Option<Frame> {
        match self {
            Self::Foreign(translator) => translator.complete(frame, unix_millis),
            _ => Some(frame),
        }
    }

    /// Session ids that differ on the two sides.
    pub fn session_ids(&self) -> Vec<(String, String)> {
        match self {
            Self::Foreign(translator) => translator.session_ids(),
            _ => Vec::new(),
        }
    }
}
