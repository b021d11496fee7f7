//! Two translators back to back: any client form to any agent form.

use std::collections::VecDeque;

use acp_proto::Side;
use acp_rpc::Frame;

use crate::dialect::Dialect;
use crate::fast;
use crate::note::Note;
use crate::options::TranslationOptions;
use crate::translator::{Destination, Translated, Translator};

/// What came of one frame: frames for the two wires, in order, and the notes of both translations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routed {
    /// Frames and the side that gets them.
    pub frames: Vec<(Side, Frame)>,
    /// Notes, and the side whose form they are about.
    pub notes: Vec<(Side, Note)>,
}

/// Joins a client of one form to an agent of another.
///
/// ```
/// use acp_dialect::{Bridge, Dialect, TranslationOptions, Side};
/// use acp_rpc::Frame;
///
/// let mut bridge = Bridge::new(Dialect::V1, Dialect::DELTA, TranslationOptions::default());
/// let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
/// let out = bridge.receive(Side::Client, &Frame::parse(cancel));
/// assert_eq!(out.frames[0].0, Side::Agent);
/// assert!(out.frames[0].1.id().is_some(), "delta cancels with a request");
/// ```
#[derive(Debug)]
pub struct Bridge {
    client: Translator,
    agent: Translator,
    same: bool,
}

impl Bridge {
    /// A bridge from a client that speaks `client` to an agent that speaks `agent`. Equal forms are the identity on bytes.
    #[must_use]
    pub fn new(client: Dialect, agent: Dialect, options: TranslationOptions) -> Self {
        Self {
            client: Translator::new(client, Side::Client, options.clone()),
            agent: Translator::new(agent, Side::Agent, options),
            same: client == agent,
        }
    }

    /// Joins two translators that were set up apart, each with its own options.
    ///
    /// ```
    /// # use acp_dialect::{Bridge, Dialect, TranslationOptions, Side, Translator};
    /// let client = Translator::new(Dialect::PROBE, Side::Client, TranslationOptions::default());
    /// let agent = Translator::new(Dialect::V1, Side::Agent, TranslationOptions::default());
    /// assert!(!Bridge::of(client, agent).is_identity());
    /// ```
    #[must_use]
    pub fn of(client: Translator, agent: Translator) -> Self {
        debug_assert_eq!((client.foreign_side(), agent.foreign_side()), (Side::Client, Side::Agent));
        Self { same: client.dialect() == agent.dialect(), client, agent }
    }

    /// Whether frames go through as their original bytes.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.same
    }

    /// The translator at one side, for its settings and memory.
    pub fn at(&mut self, side: Side) -> &mut Translator {
        match side {
            Side::Client => &mut self.client,
            Side::Agent => &mut self.agent,
        }
    }

    /// Takes a frame that the peer at `from` sent.
    pub fn receive(&mut self, from: Side, frame: &Frame) -> Routed {
        self.receive_seen(from, frame, &mut |_, _| {})
    }

    /// Like [`receive`](Self::receive), and shows each frame of the canonical conversation in the middle, with the side
    /// that it comes from. Between two peers of the same foreign form nothing is canonical, and nothing is shown.
    pub fn receive_seen(&mut self, from: Side, frame: &Frame, seen: &mut dyn FnMut(Side, &Frame)) -> Routed {
        let mut routed = Routed::default();
        if self.same {
            if self.client.dialect().is_canonical() {
                seen(from, frame);
            }
            routed.frames.push((from.other(), frame.clone()));
            return routed;
        }
        let first = self.at(from).to_canonical(frame);
        self.settle(from, first, &mut routed, seen);
        routed
    }

    /// The short way for streamed text: a line of `from`, without its newline, that is a plain chunk in the usual
    /// spelling goes to `out` in the other side's form, with a newline. `false`: nothing was done, and the line wants
    /// [`receive`](Self::receive). Both ways lead to the same frame; this one leaves the spelling of the text as it was.
    pub fn stream(&mut self, from: Side, line: &str, out: &mut Vec<u8>) -> bool {
        if self.same {
            return false;
        }
        let (source, target) = match from {
            Side::Client => (&mut self.client, &mut self.agent),
            Side::Agent => (&mut self.agent, &mut self.client),
        };
        fast::translate(source.core(), target.core(), line, out).is_some()
    }

    /// The peer at `side` is gone: what the other one still waits for is answered in its own form.
    pub fn closed(&mut self, side: Side) -> Routed {
        let mut routed = Routed::default();
        let left = side.other();
        let out = self.at(left).canonical_closed();
        routed.notes.extend(out.notes.into_iter().map(|note| (left, note)));
        routed.frames.extend(out.frames.into_iter().map(|out| (left, out.frame)));
        routed
    }

    /// Carries frames between the two translators until all of them are on a wire. `first` came from `to_canonical` of
    /// the translator at `from`.
    fn settle(
        &mut self,
        from: Side,
        first: Translated,
        routed: &mut Routed,
        seen: &mut dyn FnMut(Side, &Frame),
    ) {
        let mut between = VecDeque::new();
        routed.notes.extend(first.notes.into_iter().map(|note| (from, note)));
        for out in first.frames {
            match out.to {
                Destination::Onward => between.push_back((from.other(), out.frame)),
                Destination::Back => routed.frames.push((from, out.frame)),
            }
        }
        while let Some((to, frame)) = between.pop_front() {
            seen(to.other(), &frame);
            let out = self.at(to).from_canonical(&frame);
            routed.notes.extend(out.notes.into_iter().map(|note| (to, note)));
            for out in out.frames {
                match out.to {
                    Destination::Onward => routed.frames.push((to, out.frame)),
                    Destination::Back => between.push_back((to.other(), out.frame)),
                }
            }
        }
    }
}
