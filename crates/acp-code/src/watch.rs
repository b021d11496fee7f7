//! What a grammar's scanner holds, followed from token to token while a text is parsed.
//!
//! The state of a scanner is a part of each of its tokens, and what a token adds to it or takes from it is known. A parser
//! that logs says where each token begins, how long it is and what it is called. So there is a bound for every place of
//! the text: what was held before a token, and what the token changes; of several ways to one place the largest counts.
//! It holds for all branches of the parser, also for those that make up for errors. When the bound passes what is allowed,
//! the text ends for the parser, a few bytes behind that place and long before the scanner is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ast_grep_language::SupportLang;
use tree_sitter::LogType;

/// How much text a watched parser is given at once; so much it may still read when the text has ended.
pub(crate) const PIECE: usize = 16;
/// A here-document's word may have 255 bytes. One of this length goes on for a piece at most.
pub(crate) const LONGEST_WORD: usize = 200;

/// What the tokens of a scanner are called, and what they change.
struct Tokens {
    /// Bytes for each thing that is open.
    each: usize,
    begin: &'static [&'static str],
    end: &'static str,
    /// Here-documents have their word in the state, and so many bytes.
    here: usize,
    /// So many bytes may be held. With a word, and all that a piece can open, it is still less than 1 KB.
    most: usize,
}

/// `end` is called after the bracket of `%w( )`, and only the scanner makes a token of that name without the lexer.
const RUBY: Tokens =
    Tokens { each: 5, begin: &["\"", ":\"", "`", "/", "%w(", "%i("], end: ")", here: 4, most: 600 };
const KOTLIN: Tokens = Tokens { each: 2, begin: &["_string_start"], end: "_string_end", here: 0, most: 900 };

/// What a parser logs to.
pub(crate) type Logger = Box<dyn FnMut(LogType, &str) + Send>;

/// Tells whether a scanner holds too much.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
}

impl Watch {
    /// A watch, and what the parser has to log to.
    pub(crate) fn new(text: &str, language: SupportLang) -> (Self, Logger) {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut log = Log {
            tokens: if language == SupportLang::Ruby { &RUBY } else { &KOTLIN },
            starts: std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
                .collect(),
            held: vec![0; text.len() + 1],
            begin: None,
            is_external: false,
            taken: Taken::default(),
            is_over: Arc::clone(&is_over),
        };
        (Self { is_over }, Box::new(move |kind, message| log.read(&kind, message)))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

struct Log {
    tokens: &'static Tokens,
    starts: Vec<usize>,
    /// For each place of the text how many bytes a scanner may hold there.
    held: Vec<u16>,
    /// Where the next token begins, the space before it included.
    begin: Option<usize>,
    /// It is the scanner that looks for it, not the lexer.
    is_external: bool,
    taken: Taken,
    is_over: Arc<AtomicBool>,
}

/// What the scanner took for a token, up to now.
#[derive(Default)]
struct Taken {
    count: usize,
    first: [u8; 4],
}

impl Taken {
    /// How long the word is if this is the beginning of a here-document.
    fn word(&self) -> usize {
        let signs = match self.first {
            [b'<', b'<', b'-' | b'~', b'"' | b'\'' | b'`'] => 5,
            [b'<', b'<', b'-' | b'~', _] => 3,
            [b'<', b'<', b'"' | b'\'' | b'`', _] => 4,
            [b'<', b'<', ..] => 2,
            _ => return 0,
        };
        self.count.saturating_sub(signs)
    }
}

impl Log {
    fn read(&mut self, kind: &LogType, message: &str) {
        if *kind == LogType::Lex {
            if let Some(character) = message.strip_prefix("consume character:") {
                self.take(character);
            }
        } else if let Some(place) = message.strip_prefix("lex_external") {
            (self.is_external, self.taken) = (true, Taken::default());
            self.begin = self.begin.or_else(|| self.place(place));
        } else if let Some(place) = message.strip_prefix("lex_internal") {
            self.is_external = false;
            self.begin = self.begin.or_else(|| self.place(place));
        } else if let Some(token) = message.strip_prefix("lexed_lookahead sym:") {
            self.token(token);
        }
    }

    fn take(&mut self, character: &str) {
        if let Some(place) = self.taken.first.get_mut(self.taken.count) {
            // In quotes, or as a number.
            *place =
                character.as_bytes().get(1).copied().filter(|_| character.starts_with('\'')).unwrap_or(0);
        }
        self.taken.count += 1;
        if self.is_external && self.taken.word() > LONGEST_WORD {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn token(&mut self, token: &str) {
        let found = token.rsplit_once(", size:").and_then(|(name, size)| Some((name, size.parse().ok()?)));
        let (Some((name, size)), Some(begin)) = (found, self.begin.take()) else {
            return self.is_over.store(true, Ordering::Relaxed);
        };
        let held = usize::from(self.held.get(begin).copied().unwrap_or(u16::MAX));
        let held = match name {
            _ if !self.is_external => held,
            "heredoc_beginning" => held + self.tokens.here + self.taken.word(),
            "heredoc_end" => held.saturating_sub(self.tokens.here + size),
            name if name == self.tokens.end => held.saturating_sub(self.tokens.each),
            name if self.tokens.begin.contains(&name) => held + self.tokens.each,
            _ => held,
        };
        if held > self.tokens.most {
            self.is_over.store(true, Ordering::Relaxed);
        }
        if let Some(place) = self.held.get_mut(begin.saturating_add(size)) {
            *place = (*place).max(u16::try_from(held).unwrap_or(u16::MAX));
        }
    }

    /// The place that ends a message: `…, row:3, column:7`.
    fn place(&self, message: &str) -> Option<usize> {
        let (front, column) = message.rsplit_once(", column:")?;
        let (_, row) = front.rsplit_once(", row:")?;
        let line = self.starts.get(row.parse::<usize>().ok()?)?;
        Some((line + column.parse::<usize>().ok()?).min(self.held.len() - 1))
    }
}
