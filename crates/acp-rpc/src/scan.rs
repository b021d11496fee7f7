//! A strict, iterative JSON scanner: it checks the grammar and finds where values begin and end, and builds
//! nothing. Nesting is kept in one machine word, so no input can grow the stack or the heap.
//!
//! We scan by hand instead of using `serde_json`'s raw values because the judge needs a bounded depth, the exact byte
//! of a fault, and no copies. A test holds a million damaged lines against `serde_json`'s grammar.

/// How deep arrays and objects may nest in one line. What is within it, `serde_json` can read too.
pub const MAX_DEPTH: usize = 127;

/// Why and where a scan stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Not JSON: what was expected, at which byte.
    Syntax { at: usize, expected: &'static str },
    /// More than [`MAX_DEPTH`] levels.
    TooDeep { at: usize },
}

/// Where a string's content lies (without its quotes), and whether it has escapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) escaped: bool,
}

pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The byte of the first `\u` escape that is half a surrogate pair. Grammatical, but no character.
    pub(crate) lone_surrogate: Option<usize>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, lone_surrogate: None }
    }

    #[inline]
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether only white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at >= self.text.len()
    }

    /// The fault that something else stands here.
    pub(crate) fn unexpected(&self, expected: &'static str) -> Stop {
        Stop::Syntax { at: self.at, expected }
    }

    /// Goes on behind `count` bytes that were looked at already.
    pub(crate) fn pass(&mut self, count: usize) {
        self.at += count;
    }

    #[inline]
    fn stop<T>(&self, expected: &'static str) -> Result<T, Stop> {
        Err(self.unexpected(expected))
    }

    #[inline]
    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Stop> {
        if self.peek() != Some(byte) {
            return self.stop(expected);
        }
        self.at += 1;
        Ok(())
    }

    /// Walks the members of the object that begins here. `member` is called behind each `:` and must take the
    /// value, usually with [`Scanner::value`].
    #[inline]
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Quoted) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'{', "'{'")?;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.skip_space();
            member(self, key)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.stop("',' or '}'"),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Walks the elements of the array that begins here; the same contract as [`Scanner::object`].
    pub(crate) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'[', "'['")?;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            element(self)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.stop("',' or ']'"),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Passes one value of any kind that begins here; its span.
    pub(crate) fn value(&mut self) -> Result<(usize, usize), Stop> {
        self.value_within(MAX_DEPTH)
    }

    /// The same with fewer levels left.
    #[inline]
    pub(crate) fn value_within(&mut self, levels: usize) -> Result<(usize, usize), Stop> {
        let start = self.at;
        match self.peek() {
            Some(b'{' | b'[') => self.nested(levels.min(MAX_DEPTH))?,
            _ => self.scalar()?,
        }
        Ok((start, self.at))
    }

    /// An array or object with everything in it. Bit `n` of `objects` says whether level `n` is an object.
    fn nested(&mut self, levels: usize) -> Result<(), Stop> {
        let mut objects: u128 = 0;
        let mut depth = 0_usize;
        loop {
            self.skip_space();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth == levels {
                        return Err(Stop::TooDeep { at: self.at });
                    }
                    let object = open == b'{';
                    objects = (objects << 1) | u128::from(object);
                    depth += 1;
                    self.at += 1;
                    self.skip_space();
                    let close = if object { b'}' } else { b']' };
                    if self.peek() != Some(close) {
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has ended: close what closes here, and go on behind the next comma.
            loop {
                self.skip_space();
                let object = objects & 1 == 1;
                match (self.peek(), object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        objects >>= 1;
                        depth -= 1;
                        if depth == 0 {
                            return Ok(());
                        }
                    }
                    (_, true) => return self.stop("',' or '}'"),
                    (_, false) => return self.stop("',' or ']'"),
                }
            }
        }
    }

    /// A key and its colon.
    #[inline]
    fn key(&mut self) -> Result<Quoted, Stop> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return self.stop("a member name in quotes");
        }
        let key = self.string()?;
        self.skip_space();
        self.expect(b':', "':'")?;
        Ok(key)
    }

    #[inline]
    fn scalar(&mut self) -> Result<(), Stop> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.stop("a value"),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Stop> {
        if !self.text[self.at..].starts_with(word) {
            return self.stop("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stop> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.stop("a digit"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), Stop> {
        let before = self.at;
        self.digits();
        if self.at == before { self.stop("a digit") } else { Ok(()) }
    }

    /// The string whose opening quote is here.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Quoted, Stop> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_prefix(&self.text[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    let end = self.at;
                    self.at += 1;
                    return Ok(Quoted { start, end, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.stop("an escape instead of a bare control character"),
                None => return self.stop("a closing quote"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Stop> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let unit = self.unit()?;
                let paired = (0xD800..0xDC00).contains(&unit) && self.low_half_follows();
                if (0xD800..0xE000).contains(&unit) && !paired {
                    self.lone_surrogate.get_or_insert(start);
                }
            }
            _ => return self.stop("an escape: one of \" \\ / b f n r t u"),
        }
        Ok(())
    }

    /// `uXXXX`, beginning at the `u`.
    fn unit(&mut self) -> Result<u32, Stop> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return self.stop("four hexadecimal digits");
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Takes `\uDC00`…`\uDFFF` when it is next.
    fn low_half_follows(&mut self) -> bool {
        let [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', x, y, ..] = &self.text[self.at..] else {
            return false;
        };
        let low = x.is_ascii_hexdigit() && y.is_ascii_hexdigit();
        if low {
            self.at += 6;
        }
        low
    }
}

/// How many bytes from the start stand for themselves inside a JSON string: no quote, no backslash, no control
/// character. Eight at a time.
#[inline]
fn plain_prefix(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text.get(at..at + 8) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let special = special_bytes(u64::from_le_bytes(word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = text.get(at) {
        if matches!(byte, b'"' | b'\\' | 0..0x20) {
            break;
        }
        at += 1;
    }
    at
}

/// The high bit of each byte that is a quote, a backslash or a control character; exact up to the lowest one.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_slash = slash.wrapping_sub(ONES) & !slash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_slash | is_control) & HIGHS
}

/// A JSON string with its quotes, decoded. `None` for half a surrogate pair, which no `str` can hold.
pub(crate) fn decode(quoted: &str) -> Option<String> {
    let inner = quoted.get(1..quoted.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(inner.to_owned());
    }
    serde_json::from_str(quoted).ok()
}

/// JSON text in which `\ufffd` stands for each half of a surrogate pair.
pub(crate) fn whole_characters(text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    let mut scanner = Scanner::new(text);
    // Outside of strings there are no backslashes.
    while let Some(found) = memchr::memchr(b'\\', &text[scanner.at..]) {
        scanner.at += found;
        let start = scanner.at;
        if scanner.escape().is_err() {
            break;
        }
        if scanner.lone_surrogate.take().is_some() {
            out[start..start + 6].copy_from_slice(br"\ufffd");
        }
    }
    out
}

/// `text` as a JSON string, quotes included.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = behind;
    }
    out.push(b'"');
}

/// An integer in decimal.
pub(crate) fn write_i64(n: i64, out: &mut Vec<u8>) {
    if n < 0 {
        out.push(b'-');
    }
    write_u64(n.unsigned_abs(), 1, out);
}

/// A natural number in decimal, with leading zeros up to `width` digits (at most 20).
pub(crate) fn write_u64(mut n: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while n > 0 {
        at -= 1;
        digits[at] += (n % 10) as u8;
        n /= 10;
    }
    let from = at.min(digits.len() - width.min(digits.len()));
    out.extend_from_slice(&digits[from..]);
}
