//! The common frame, a piece of text in the middle of a turn, read in one pass without building anything.
//!
//! What this reader accepts is exactly what the schema calls clean, which a property test shows on mutated
//! frames; on anything unusual it gives up, and the frame goes the long way.

use acp_proto::update;

use crate::said::Voice;

/// A chunk of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    pub(crate) session: &'a str,
    pub(crate) voice: Voice,
    /// As it stands in the frame, not decoded.
    pub(crate) text: &'a str,
    pub(crate) escaped: bool,
    pub(crate) message: Option<&'a str>,
}

/// Reads the params of a `session/update`; `None` for everything but a plain chunk of text.
pub(crate) fn chunk(params: &str) -> Option<Chunk<'_>> {
    let mut reader = Reader { text: params, at: 0 };
    let (mut session, mut update) = (None, None);
    reader.object(|reader, key| match key {
        b"sessionId" if session.is_none() => {
            session = Some(reader.plain()?);
            Some(())
        }
        b"update" if update.is_none() => {
            update = Some(reader.update()?);
            Some(())
        }
        _ => None,
    })?;
    let (session, (voice, (text, escaped), message)) = (session?, update?);
    (reader.at == params.len()).then_some(Chunk { session, voice, text, escaped, message })
}

/// Compact JSON only: the first white space outside of a string ends the attempt.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

type Text<'a> = (&'a str, bool);

impl<'a> Reader<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        byte
    }

    #[inline]
    fn object(&mut self, mut field: impl FnMut(&mut Self, &[u8]) -> Option<()>) -> Option<()> {
        if self.byte()? != b'{' {
            return None;
        }
        loop {
            let key = self.plain()?;
            if self.byte()? != b':' {
                return None;
            }
            field(self, key.as_bytes())?;
            match self.byte()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// A string without escapes.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        let (text, escaped) = self.string()?;
        (!escaped).then_some(text)
    }

    #[inline]
    fn string(&mut self) -> Option<Text<'a>> {
        if self.byte()? != b'"' {
            return None;
        }
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', bytes.get(self.at..)?)?;
            if bytes[self.at] == b'"' {
                break;
            }
            escaped = true;
            self.at += 2;
        }
        let text = self.text.get(start..self.at)?;
        self.at += 1;
        Some((text, escaped))
    }

    #[inline]
    fn update(&mut self) -> Option<(Voice, Text<'a>, Option<&'a str>)> {
        let (mut voice, mut content, mut message) = (None, None, None);
        self.object(|reader, key| match key {
            b"sessionUpdate" if voice.is_none() => {
                voice = Some(match reader.plain()? {
                    update::AGENT_MESSAGE_CHUNK => Voice::Agent,
                    update::AGENT_THOUGHT_CHUNK => Voice::Thought,
                    update::USER_MESSAGE_CHUNK => Voice::User,
                    _ => return None,
                });
                Some(())
            }
            b"content" if content.is_none() => {
                content = Some(reader.content()?);
                Some(())
            }
            b"messageId" if message.is_none() => {
                message = Some(reader.plain()?);
                Some(())
            }
            _ => None,
        })?;
        Some((voice?, content?, message))
    }

    #[inline]
    fn content(&mut self) -> Option<Text<'a>> {
        let (mut is_text, mut text) = (false, None);
        self.object(|reader, key| match key {
            b"type" if !is_text => {
                is_text = reader.plain()? == "text";
                is_text.then_some(())
            }
            b"text" if text.is_none() => {
                text = Some(reader.string()?);
                Some(())
            }
            _ => None,
        })?;
        text.filter(|_| is_text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use acp_rpc::{Direction, Frame};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::json::Tape;
    use crate::schema::{Edition, is_clean};
    use crate::{Judge, JudgeConfig};

    const SEEDS: &[&str] = &[
        r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}"#,
        r#"{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"a\"b\\ é"},"messageId":"m"}}"#,
        r#"{"update":{"content":{"text":"","type":"text"},"sessionUpdate":"user_message_chunk"},"sessionId":"s"}"#,
        r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":null,"content":{"type":"text","text":"x","annotations":null}}}"#,
        r#"{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}}"#,
    ];

    /// Pieces that stand in frames, to put where they do not belong.
    const PIECES: &[&str] = &[
        "\"",
        "\\\"",
        "{",
        "}",
        ",",
        ":",
        "null",
        "1",
        "text",
        "\"text\"",
        "\"_meta\":{}",
        ",\"extra\":1",
        "agent_message_chunk",
        " ",
        "\\u0074",
        "\"messageId\":5",
        ",\"messageId\":\"m\"",
        "user_message_chunk",
        "image",
        "sessionId",
        "[]",
    ];

    fn mutated(seed: usize, cuts: &[(usize, usize, usize)]) -> String {
        let mut text = SEEDS[seed % SEEDS.len()].to_owned();
        for (at, length, piece) in cuts {
            let mut from = at % (text.len() + 1);
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            let mut to = (from + length % 20).min(text.len());
            while !text.is_char_boundary(to) {
                to += 1;
            }
            let piece = if piece % 3 == 0 { "" } else { PIECES[piece % PIECES.len()] };
            text.replace_range(from..to, piece);
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_it_accepts_the_schema_calls_clean_and_reads_alike(
            seed in 0usize..8,
            cuts in prop::collection::vec((0usize..200, 0usize..40, 0usize..100), 0..3),
        ) {
            let text = mutated(seed, &cuts);
            // only what is JSON ever gets here
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() && let Some(chunk) = chunk(&text) {
                let schema = Edition::V1.schema();
                let method = schema.method(Direction::AgentToClient, "session/update").expect("a method");
                let mut tape = Tape::default();
                let json = tape.read(&text).expect("JSON");
                prop_assert!(is_clean(&schema.shapes, method.params, json), "{}", text);
                prop_assert!(json.get("sessionId").expect("there").is(chunk.session));
                prop_assert_eq!(json.path(&["update", "content", "text"]).expect("there").inner(), chunk.text);
                let message = json.path(&["update", "messageId"]).and_then(crate::json::Json::str);
                prop_assert_eq!(message.as_deref(), chunk.message);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_judge_on_the_short_way_finds_what_one_on_the_long_way_finds(
            frames in prop::collection::vec((0usize..8, prop::collection::vec((0usize..200, 0usize..40, 0usize..100), 0..2), 0u8..12), 1..30),
        ) {
            let judges = [true, false].map(|fast| {
                let mut judge = Judge::new(JudgeConfig::default());
                judge.set_fast(fast);
                let mut at = 0;
                let mut see = |judge: &mut Judge, dir, text: String| {
                    at += 1;
                    judge.observe(Duration::from_millis(at), dir, &Frame::parse(text));
                };
                for (dir, text) in [
                    (Direction::ClientToAgent, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#),
                    (Direction::AgentToClient, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#),
                    (Direction::ClientToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#),
                    (Direction::AgentToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#),
                ] {
                    see(&mut judge, dir, text.to_owned());
                }
                for (seed, cuts, what) in &frames {
                    match what {
                        0 => see(&mut judge, Direction::ClientToAgent, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#.into()),
                        1 => see(&mut judge, Direction::AgentToClient, r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#.into()),
                        2 => see(&mut judge, Direction::ClientToAgent, r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#.into()),
                        _ => {
                            let params = mutated(*seed, cuts);
                            see(&mut judge, Direction::AgentToClient, format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#));
                        }
                    }
                }
                judge.close(Duration::from_secs(60));
                judge
            });
            let [a, b] = &judges;
            prop_assert_eq!(serde_json::to_string(a.findings()).expect("JSON"), serde_json::to_string(b.findings()).expect("JSON"));
            prop_assert_eq!(serde_json::to_string(&a.coverage()).expect("JSON"), serde_json::to_string(&b.coverage()).expect("JSON"));
        }
    }
}
