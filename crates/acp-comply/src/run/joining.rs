//! Text that an agent sends in pieces, put together again: an expectation of a word must not depend on where the agent cuts.

use crate::program::MessageKind;
use crate::table::{Pieces, find};
use acp_match::{Path, Pattern};
use serde_json::Value;
use std::collections::BTreeMap;

use super::inbox::Message;

/// The longest text that is put together; what goes on beyond that is matched piece by piece only.
const LONGEST: usize = 16 * 1024;

/// The texts in progress, by what belongs together.
#[derive(Debug, Default)]
pub(super) struct Joining {
    texts: BTreeMap<Vec<String>, Text>,
}

#[derive(Debug)]
struct Text {
    whole: String,
    /// The message with the latest piece.
    last: usize,
}

/// A message that brought a piece: the whole text so far stands in `value` in its place.
pub(super) struct Joined {
    pub value: Value,
    /// The message that held the whole text before.
    pub before: Option<usize>,
}

impl Joining {
    /// A new turn: earlier pieces belong to what was said before.
    pub fn forget(&mut self) {
        self.texts.clear();
    }

    /// Takes in the message that will be kept at `index`; something comes back when it goes on with a text.
    pub fn add(
        &mut self,
        pieces: &Pieces,
        method: Option<&str>,
        value: &Value,
        index: usize,
    ) -> Option<Joined> {
        if method != Some(pieces.method.as_str()) {
            return None;
        }
        let piece = find(value, &pieces.text)?.as_str()?;
        let key: Option<Vec<String>> = pieces
            .of
            .iter()
            .map(|path| find(value, path).and_then(Value::as_str).map(str::to_owned))
            .collect();
        let text = self.texts.entry(key?).or_insert(Text { whole: String::new(), last: index });
        text.whole.push_str(piece);
        let before = (text.last != index).then_some(text.last);
        text.last = index;
        if before.is_none() || text.whole.len() > LONGEST {
            return None;
        }
        let mut value = value.clone();
        let path = Path::parse(&pieces.text).ok()?;
        *path.find_mut(&mut value)? = Value::String(text.whole.clone());
        Some(Joined { value, before })
    }
}

impl Message {
    /// Whether the message, or the text that it completes, is what the pattern describes.
    pub fn is(&self, kind: MessageKind, pattern: &Pattern) -> bool {
        let joined = || self.joined.as_deref().is_some_and(|joined| pattern.matches(joined));
        kind == self.kind && (pattern.matches(&self.value) || joined())
    }
}
