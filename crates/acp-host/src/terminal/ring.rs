//! The last bytes of a terminal's output.

use std::collections::VecDeque;

/// Keeps at most `limit` bytes: older ones fall out at the front.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: VecDeque<u8>,
    limit: usize,
    truncated: bool,
}

impl Ring {
    pub(crate) fn new(limit: usize) -> Ring {
        Ring { bytes: VecDeque::new(), limit, truncated: false }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let chunk = match chunk.len().checked_sub(self.limit) {
            Some(excess) if excess > 0 => {
                self.truncated = true;
                &chunk[excess..]
            }
            _ => chunk,
        };
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.limit);
        if excess > 0 {
            self.truncated = true;
            self.bytes.drain(..excess);
        }
        self.bytes.extend(chunk);
    }

    /// The text so far, valid UTF-8 of at most `limit` bytes, and whether something is missing at its start.
    ///
    /// While more may come (`open`), a character that is not complete yet is held back.
    pub(crate) fn text(&self, open: bool) -> (String, bool) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let start =
            if self.truncated { bytes.iter().take_while(|b| is_continuation(**b)).count().min(3) } else { 0 };
        let bytes = &bytes[start..];
        let bytes = if open { &bytes[..complete(bytes)] } else { bytes };
        let text = String::from_utf8_lossy(bytes);
        // Broken bytes grow into replacement characters, which may exceed the limit again.
        let mut from = text.len().saturating_sub(self.limit);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        (text[from..].to_owned(), self.truncated || from > 0)
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How much of `bytes` does not end in the middle of a character.
fn complete(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            b if is_continuation(b) => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if needed > back { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limit: usize, chunks: &[&[u8]], open: bool) -> (String, bool) {
        let mut ring = Ring::new(limit);
        for chunk in chunks {
            ring.push(chunk);
        }
        ring.text(open)
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(text(5, &[b"ab", b"cde"], false), ("abcde".to_owned(), false));
    }

    #[test]
    fn the_start_falls_out() {
        assert_eq!(text(4, &[b"abc", b"def"], false), ("cdef".to_owned(), true));
        assert_eq!(text(2, &[b"abcdef"], false), ("ef".to_owned(), true));
        assert_eq!(text(0, &[b"abcdef"], false), (String::new(), true));
        assert_eq!(text(0, &[], false), (String::new(), false));
    }

    #[test]
    fn the_cut_never_splits_a_character() {
        let smile = "😀é漢".as_bytes();
        for limit in 0..=smile.len() {
            let (shown, truncated) = text(limit, &[smile], false);
            assert!(shown.len() <= limit && "😀é漢".ends_with(&shown), "{limit}: {shown:?}");
            assert_eq!(truncated, limit < smile.len());
        }
    }

    #[test]
    fn a_character_that_is_not_complete_is_held_back_while_more_may_come() {
        assert_eq!(text(9, &[b"a\xF0\x9F\x98"], true).0, "a");
        assert_eq!(text(9, &[b"a\xF0\x9F\x98"], false).0, "a\u{FFFD}");
        assert_eq!(text(9, &["a😀".as_bytes()], true).0, "a😀");
        assert_eq!(text(9, &[b"a\xFF"], true).0, "a\u{FFFD}");
    }

    #[test]
    fn broken_bytes_do_not_exceed_the_limit() {
        let (shown, truncated) = text(4, &[&[0xFF; 4]], false);
        assert!(shown.len() <= 4 && truncated, "{shown:?}");
    }
}
