//! What was said in a session, in order, to compare a replay with what was live.

/// The most text kept of a session.
const TEXT: usize = 64 * 1024;
/// The most parts kept of a session.
const PARTS: usize = 4_096;

/// The kinds of messages that chunks build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    User,
    Agent,
    Thought,
}

/// One piece of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    User(String),
    Agent(String),
    /// A tool call's id.
    Tool(Box<str>),
}

/// A piece and the turn that it belongs to, 0 in a replay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) turn: u64,
    pub(crate) what: What,
}

/// Messages and tool calls in order, as far as they are kept. Thoughts are not.
#[derive(Debug, Default)]
pub(crate) struct Said {
    parts: Vec<Part>,
    bytes: usize,
    /// There was more than is kept.
    pub(crate) cut: bool,
}

impl Said {
    /// A piece of a message: it goes on with the message before it, if that is of the same voice and turn.
    #[inline]
    pub(crate) fn add(&mut self, voice: Voice, turn: u64, text: &str) {
        if self.cut || voice == Voice::Thought {
            return;
        }
        self.bytes += text.len();
        if self.bytes > TEXT {
            self.cut = true;
            return;
        }
        match (self.parts.last_mut(), voice) {
            (Some(Part { turn: last, what: What::Agent(before) }), Voice::Agent) if *last == turn => {
                before.push_str(text);
            }
            (Some(Part { turn: last, what: What::User(before) }), Voice::User) if *last == turn => {
                before.push_str(text);
            }
            (_, Voice::User) => self.push(turn, What::User(text.to_owned())),
            (_, _) => self.push(turn, What::Agent(text.to_owned())),
        }
    }

    /// A tool call that is reported for the first time.
    pub(crate) fn tool(&mut self, turn: u64, id: &str) {
        if !self.cut {
            self.push(turn, What::Tool(id.into()));
        }
    }

    fn push(&mut self, turn: u64, what: What) {
        if self.parts.len() >= PARTS {
            self.cut = true;
        } else {
            self.parts.push(Part { turn, what });
        }
    }

    /// A turn is over: what the user said stands before what came of it.
    pub(crate) fn prompted(&mut self, turn: u64, blocks: Vec<String>) {
        self.bytes += blocks.iter().map(String::len).sum::<usize>();
        self.cut |= self.bytes > TEXT || self.parts.len() + blocks.len() > PARTS;
        if self.cut {
            return;
        }
        let place = self.parts.iter().position(|part| part.turn >= turn).unwrap_or(self.parts.len());
        let parts = blocks.into_iter().map(|text| Part { turn, what: What::User(text) });
        self.parts.splice(place..place, parts);
    }

    /// A turn that a replay need not have.
    pub(crate) fn drop_turn(&mut self, turn: u64) {
        self.parts.retain(|part| part.turn != turn);
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Everything that the user or the agent said, without white space: chunks may be joined and split anew.
    pub(crate) fn joined(&self, voice: Voice) -> String {
        let texts = self.parts.iter().filter_map(|part| match (&part.what, voice) {
            (What::User(text), Voice::User) | (What::Agent(text), Voice::Agent) => Some(text.as_str()),
            _ => None,
        });
        texts.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
    }

    pub(crate) fn tools(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part.what, What::Tool(_))).count()
    }
}

/// Text without white space.
pub(crate) fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_and_the_users_words_come_first() {
        let mut said = Said::default();
        said.add(Voice::Agent, 1, "Hel");
        said.add(Voice::Thought, 1, "hm");
        said.add(Voice::Agent, 1, "lo ");
        said.tool(1, "t");
        said.add(Voice::Agent, 1, "there");
        said.prompted(1, vec!["Hi".to_owned()]);
        said.add(Voice::Agent, 2, "Bye");
        said.prompted(2, vec!["Go".to_owned()]);
        let words: Vec<String> =
            said.parts().iter().map(|part| format!("{} {:?}", part.turn, part.what)).collect();
        let expected = ["1 User(\"Hi\")", "1 Agent(\"Hello \")", "1 Tool(\"t\")", "1 Agent(\"there\")"];
        assert_eq!(words[..4], expected);
        assert_eq!(words[4..], ["2 User(\"Go\")", "2 Agent(\"Bye\")"]);
        assert_eq!((said.joined(Voice::Agent).as_str(), said.tools()), ("HellothereBye", 1));
        said.drop_turn(1);
        assert_eq!(said.parts().len(), 2);
    }

    #[test]
    fn too_much_is_cut() {
        let mut said = Said::default();
        said.add(Voice::Agent, 1, &"x".repeat(TEXT));
        assert!(!said.cut);
        said.add(Voice::Agent, 1, "x");
        assert!(said.cut);
    }
}
