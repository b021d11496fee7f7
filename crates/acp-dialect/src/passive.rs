//! What two peers of one foreign form say to each other, in v1: for who only reads along.

use acp_proto::Side;
use acp_rpc::Frame;

use crate::dialect::Dialect;
use crate::note::NoteKind;
use crate::options::TranslationOptions;
use crate::translator::{Destination, Translated, Translator};

/// Reads along between two peers of one form and says the same in v1.
///
/// What a translator would have answered by itself was not said by anybody, and is left out.
///
/// ```
/// use acp_dialect::{Dialect, TranslationOptions, PassiveTranslator, Side};
/// use acp_rpc::Frame;
///
/// let mut overhear = PassiveTranslator::new(Dialect::DELTA, TranslationOptions::default());
/// let new = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"workDir":"/w"}}"#;
/// let said = overhear.hear(Side::Client, &Frame::parse(new));
/// assert_eq!(said[0].params(), Some(r#"{"cwd":"/w","mcpServers":[]}"#));
/// ```
#[derive(Debug)]
pub struct PassiveTranslator {
    client: Translator,
    agent: Translator,
}

impl PassiveTranslator {
    /// Between two peers that speak `dialect`.
    #[must_use]
    pub fn new(dialect: Dialect, options: TranslationOptions) -> Self {
        Self {
            client: Translator::new(dialect, Side::Client, options.clone()),
            agent: Translator::new(dialect, Side::Agent, options),
        }
    }

    /// What the peer at `from` said, in v1. Nothing, when it was an answer to something that v1 does not ask.
    pub fn hear(&mut self, from: Side, frame: &Frame) -> Vec<Frame> {
        let (near, far) = match from {
            Side::Client => (&mut self.client, &mut self.agent),
            Side::Agent => (&mut self.agent, &mut self.client),
        };
        let Translated { frames, notes } = near.to_canonical(frame);
        if notes.iter().any(|note| note.kind == NoteKind::UnknownAnswer) {
            return Vec::new();
        }
        let said: Vec<Frame> =
            frames.into_iter().filter(|out| out.to == Destination::Onward).map(|out| out.frame).collect();
        for frame in &said {
            // So that the other translator knows what is asked and answered; the words it would use are on the wire.
            far.from_canonical(frame);
        }
        said
    }
}
