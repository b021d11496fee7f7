//! Letters in any case, beyond ASCII: `Straße` is `STRASSE`, `ΟΔΟΣ` is `οδος`.

/// A text in which case is gone, and where its bytes stood.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) bytes: Vec<u8>,
    /// From the first byte on, the second is where it stood; between two entries both count alike.
    places: Vec<(usize, usize)>,
}

impl Folded {
    /// What is no UTF-8 stays as it is.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut folded = Self { bytes: Vec::with_capacity(bytes.len()), places: Vec::new() };
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                let before = folded.bytes.len();
                folded.push(c);
                at += c.len_utf8();
                if folded.bytes.len() - before != c.len_utf8() {
                    folded.places.push((folded.bytes.len(), at));
                }
            }
            folded.bytes.extend_from_slice(chunk.invalid());
            at += chunk.invalid().len();
        }
        folded
    }

    fn push(&mut self, c: char) {
        if c.is_ascii() {
            self.bytes.extend(u8::try_from(c).map(|byte| byte.to_ascii_lowercase()));
            return;
        }
        // Small, capital and small again: some letters meet only in capitals, and a capital ẞ only in small ones.
        for c in c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase) {
            self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    /// Where a byte of the folded text stood.
    pub(super) fn place(&self, at: usize) -> usize {
        let next = self.places.partition_point(|(from, _)| *from <= at);
        let (from, stood) = next.checked_sub(1).map_or((0, 0), |last| self.places[last]);
        stood + (at - from)
    }
}

/// Whether a text has letters beyond ASCII that have another case.
pub(super) fn is_cased(text: &str) -> bool {
    let is_other = |c: char| !c.to_uppercase().eq([c]) || !c.to_lowercase().eq([c]);
    text.chars().any(|c| !c.is_ascii() && is_other(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_gone_and_places_are_kept() {
        let text = "Ein ẞ, eine STRAßE, İ, \u{212A}, ΟΔΟΣ οδος".as_bytes();
        let folded = Folded::new(text);
        let wanted = "ein ss, eine strasse, i\u{307}, k, οδοσ οδοσ";
        assert_eq!(String::from_utf8_lossy(&folded.bytes), wanted);
        let find = |text: &[u8], word: &str| memchr::memmem::find(text, word.as_bytes());
        for (word, written) in
            [("ein", "Ein"), (",", ","), ("eine", "eine"), ("strasse", "STRA"), ("οδοσ", "ΟΔΟΣ")]
        {
            let at = find(&folded.bytes, word).map(|at| folded.place(at));
            assert_eq!(at, find(text, written), "{word}");
        }
        assert_eq!(Folded::new(b"A\xffB").bytes, b"a\xffb");
    }

    #[test]
    fn letters_without_case_need_no_folding() {
        assert!(is_cased("ärger") && is_cased("straße") && is_cased("οδος"));
        assert!(!is_cased("plain ASCII") && !is_cased("日本語 → ✓"));
    }
}
