//! The form of the protocol that an agent's client speaks.

use acp_rpc::Frame;

use crate::{Dialect, Options, Side, Translator, Way, detect};

/// Which form of the protocol to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speak {
    /// That of the client's first frame.
    Auto,
    /// Canonical version 1.
    #[default]
    V1,
    /// This one.
    Only(Dialect),
}

/// The client's form of the protocol, once it is known.
#[derive(Debug)]
pub enum Tongue {
    /// Nothing has told yet.
    Unknown(Box<Options>),
    /// Version 1: frames pass as they are.
    Canonical,
    /// Another form.
    Foreign(Box<Translator>),
}

/// Where a frame goes after its translation.
#[derive(Clone, Debug)]
pub enum Heading {
    /// On to the agent, in canonical form.
    ToAgent(Frame),
    /// To the client, in its form.
    ToClient(Frame),
}

impl Tongue {
    /// Speaks as wished, or finds out.
    pub fn new(speak: Speak, options: Options) -> Self {
        match speak {
            Speak::Auto => Self::Unknown(Box::new(options)),
            Speak::V1 => Self::Canonical,
            Speak::Only(dialect) => Self::of(dialect, options),
        }
    }

    fn of(dialect: Dialect, options: Options) -> Self {
        match dialect {
            Dialect::V1 => Self::Canonical,
            other => Self::Foreign(Box::new(Translator::new(other, Side::Client, options))),
        }
    }

    /// The form, once it is known.
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

    /// Whether the client takes one read for one message, as the `probe` form's own client does.
    pub fn is_one_by_one(&self) -> bool {
        self.dialect() == Some(Dialect::Probe)
    }

    /// A frame of the client, in canonical form; some are answered here.
    pub fn client_says(&mut self, frame: &Frame, clock: impl FnOnce() -> String) -> Vec<Heading> {
        if let Self::Unknown(options) = self {
            // A frame that says nothing about its form (a broken one, say) leaves the question open.
            let Some(dialect) = detect([frame]).best() else { return vec![Heading::ToAgent(frame.clone())] };
            *self = Self::of(dialect, std::mem::take(options));
        }
        let Self::Foreign(translator) = self else { return vec![Heading::ToAgent(frame.clone())] };
        translator.set_wall_clock(clock());
        let out = translator.to_canonical(frame).frames.into_iter();
        out.map(|out| match out.way {
            Way::Onward => Heading::ToAgent(out.frame),
            Way::Back => Heading::ToClient(out.frame),
        })
        .collect()
    }

    /// A frame of the agent, in the client's form.
    pub fn agent_says(&mut self, frame: Frame) -> Vec<Heading> {
        let Self::Foreign(translator) = self else { return vec![Heading::ToClient(frame)] };
        let out = translator.from_canonical(&frame).frames.into_iter();
        out.map(|out| match out.way {
            Way::Onward => Heading::ToClient(out.frame),
            Way::Back => Heading::ToAgent(out.frame),
        })
        .collect()
    }

    /// Session ids that differ on the two sides.
    pub fn session_ids(&self) -> Vec<(String, String)> {
        match self {
            Self::Foreign(translator) => translator.session_ids(),
            _ => Vec::new(),
        }
    }
}
