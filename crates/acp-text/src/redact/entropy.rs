//! Random strings, as secrets are.

/// The shortest string that is taken for a random one.
const SHORTEST: usize = 16;
/// Bits for each character of one.
const BITS: f64 = 3.2;

/// Whether a word looks like a key: one word of letters and digits, without a pattern. Words of a language, paths, dates
/// and numbers do not.
pub(super) fn is_random(word: &str) -> bool {
    let part_of_key =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-' | '.' | ':' | '~');
    word.len() >= SHORTEST
        && word.chars().all(part_of_key)
        && !word.contains("://")
        && !word.starts_with(['/', '.', '-'])
        && word.contains(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_alphabetic())
        && !is_words(word)
        && bits(word) >= BITS
}

/// Whether it is made of words and numbers: each piece is letters of one case, or digits.
fn is_words(word: &str) -> bool {
    word.split(|c: char| !c.is_ascii_alphanumeric()).all(|piece| {
        let letters = piece.trim_end_matches(|c: char| c.is_ascii_digit());
        let tail = letters.get(1..).unwrap_or_default();
        piece.len() - letters.len() <= 4
            && tail.chars().all(|c| c.is_ascii_lowercase())
            && letters.len() <= 14
            || piece.chars().all(|c| c.is_ascii_digit())
    })
}

/// Shannon's entropy of a word, for each character.
fn bits(word: &str) -> f64 {
    let mut counts = [0_u32; 256];
    word.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = f64::from(u32::try_from(word.len()).unwrap_or(u32::MAX));
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_random_and_words_are_not() {
        for key in [
            "q8Zr4TnV1sXw7LbD2mKp9YcF",
            "9f86d081884c7d659a2feaa0c55ad015",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ] {
            assert!(is_random(key), "{key}");
        }
        for words in [
            "a-plain-sentence-in-kebab-case-2",
            "crates/acp-text/src/lib.rs",
            "2026-11-16T07:00:00",
            "src/main2.rs:120",
            "AAAAAAAAAAAAAAAAAAAA1",
            "short1A",
            "https://example.com/a1b2c3d4e5f6a7b8",
        ] {
            assert!(!is_random(words), "{words}");
        }
    }
}
