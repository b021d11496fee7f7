use crate::Rng;

/// Damages inputs, always in the same way for the same seed.
///
/// It starts from good examples, so that most of what it makes is nearly right: that is where parsers break.
///
/// ```
/// let mut mutator = acp_testkit::Mutator::new(1, &[b"{\"a\":1}"]);
/// let mut seen = std::collections::HashSet::new();
/// for _ in 0..100 {
///     seen.insert(mutator.next_input().to_vec());
/// }
/// assert!(seen.len() > 50);
/// ```
#[derive(Debug, Clone)]
pub struct Mutator {
    rng: Rng,
    corpus: Vec<Vec<u8>>,
    current: Vec<u8>,
}

/// What JSON-RPC parsers trip over.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\ude00",
    b"\\u0000",
    b"null",
    b"true",
    b"false",
    b"-",
    b"0",
    b"1",
    b"9",
    b".",
    b"e",
    b"E+",
    b"1e999",
    b"-0",
    b"1.0",
    b"9223372036854775808",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"\0",
    b"\x1f",
    b"\x7f",
    b"\xEF\xBB\xBF",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\"id\":",
    b"\"id\":1,",
    b"\"jsonrpc\":\"2.0\",",
    b"\"jsonrpc\":\"1.0\",",
    b"\"method\":\"m\",",
    b"\"params\":[],",
    b"\"result\":{},",
    b"\"error\":{},",
    b"[[[[[[[[",
    b"{\"a\":",
];

impl Mutator {
    /// A mutator over good examples.
    #[must_use]
    pub fn new(seed: u64, corpus: &[&[u8]]) -> Self {
        let corpus = corpus.iter().map(|example| example.to_vec()).collect();
        Self { rng: Rng::new(seed), corpus, current: Vec::new() }
    }

    /// The next damaged input: one example with one to six changes, now and then pure noise.
    pub fn next_input(&mut self) -> &[u8] {
        self.current.clear();
        match self.rng.pick(&self.corpus) {
            Some(example) if !self.rng.one_in(32) => self.current.extend_from_slice(example),
            _ => self.noise(),
        }
        for _ in 0..=self.rng.below(6) {
            self.change();
        }
        &self.current
    }

    fn noise(&mut self) {
        for _ in 0..self.rng.below(64) {
            self.current.push(self.rng.next_u64().to_le_bytes()[0]);
        }
    }

    fn change(&mut self) {
        let at = self.rng.below(self.current.len() + 1);
        match self.rng.below(8) {
            0 => self.current.truncate(at),
            1 => self.insert_token(at),
            2 => self.replace_with_token(at),
            3 => self.remove(at),
            4 => self.repeat(at),
            5 => self.splice(at),
            6 => {
                if let Some(byte) = self.current.get_mut(at) {
                    *byte ^= 1 << self.rng.below(8);
                }
            }
            _ => {
                let noise = self.rng.next_u64().to_le_bytes()[0];
                if let Some(byte) = self.current.get_mut(at) {
                    *byte = noise;
                }
            }
        }
    }

    fn insert_token(&mut self, at: usize) {
        let token = self.rng.pick(TOKENS).copied().unwrap_or_default();
        self.current.splice(at..at, token.iter().copied());
    }

    fn replace_with_token(&mut self, at: usize) {
        let token = self.rng.pick(TOKENS).copied().unwrap_or_default();
        let end = (at + token.len()).min(self.current.len());
        self.current.splice(at..end, token.iter().copied());
    }

    fn remove(&mut self, at: usize) {
        let end = (at + 1 + self.rng.below(8)).min(self.current.len());
        self.current.drain(at.min(end)..end);
    }

    fn repeat(&mut self, at: usize) {
        let end = (at + 1 + self.rng.below(16)).min(self.current.len());
        let piece = self.current[at.min(end)..end].to_vec();
        self.current.splice(at..at, piece);
    }

    /// The head of this input with the tail of another.
    fn splice(&mut self, at: usize) {
        let Some(other) = self.rng.pick(&self.corpus) else { return };
        let from = self.rng.below(other.len() + 1);
        self.current.truncate(at);
        self.current.extend_from_slice(&other[from..]);
    }
}
