//! The form of the protocol that a client speaks.

use acp_dialect::{Dialect, Options, Side, Translator, Way, detect};
use acp_rpc::Frame;

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
pub(crate) enum Tongue {
    Unknown(Box<Options>),
    Canonical,
    Foreign(Box<Translator>),
}

/// Where a frame goes after its translation.
pub(crate) enum Heading {
    ToAgent(Frame),
    ToClient(Frame),
}

impl Tongue {
    pub(crate) fn new(speak: Speak, options: Options) -> Self {
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

    /// Whether frames pass as they are.
    pub(crate) fn is_canonical(&self) -> bool {
        matches!(self, Self::Canonical)
    }

    /// Whether the client takes one read for one message, as the `probe` form's own client does.
    pub(crate) fn is_one_by_one(&self) -> bool {
        matches!(self, Self::Foreign(translator) if translator.dialect() == Dialect::Probe)
    }

    /// A frame of the client, in canonical form; some are answered here.
    pub(crate) fn client_says(&mut self, frame: &Frame, clock: impl FnOnce() -> String) -> Vec<Heading> {
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
    pub(crate) fn agent_says(&mut self, frame: Frame) -> Vec<Heading> {
        let Self::Foreign(translator) = self else { return vec![Heading::ToClient(frame)] };
        let out = translator.from_canonical(&frame).frames.into_iter();
        out.map(|out| match out.way {
            Way::Onward => Heading::ToClient(out.frame),
            Way::Back => Heading::ToAgent(out.frame),
        })
        .collect()
    }

    /// Session ids that differ on the two sides.
    pub(crate) fn session_ids(&self) -> Vec<(String, String)> {
        match self {
            Self::Foreign(translator) => translator.session_ids(),
            _ => Vec::new(),
        }
    }
}
