//! What to say about a text that is not there: the place that comes nearest to it.

use std::fmt::Write as _;
use std::ops::Range;

use super::line_of;
use super::loose::plain_text;

/// So many lines of the wanted text are compared.
const COMPARED: usize = 12;
/// So many lines of the file are looked at.
const LOOKED_AT: usize = 20_000;
/// A line counts by its first characters.
const WIDTH: usize = 160;
/// Less alike than this is not worth showing.
const ALIKE: f64 = 0.45;

/// The reason that `old` cannot be replaced, with the lines of the file that come nearest.
pub(super) fn missing(path: &str, text: &str, within: Range<usize>, old: &str) -> String {
    let first = line_of(text, within.start);
    let lines: Vec<&str> = text[within].lines().take(LOOKED_AT).collect();
    let wanted: Vec<&str> = old.lines().filter(|line| !line.trim().is_empty()).take(COMPARED).collect();
    let shown = wanted.first().map(|line| cut(line.trim())).unwrap_or_default();
    let Some((at, count)) = nearest(&lines, &wanted) else {
        return format!(
            "{path} does not hold {shown:?}, and nothing that comes near; read_file shows what is there"
        );
    };
    let last = (at + count - 1).min(lines.len() - 1);
    let mut reason = match count {
        1 => format!("{path} does not hold {shown:?}. The nearest is line {}:", first + at),
        _ => format!(
            "{path} does not hold the text that begins with {shown:?}. The nearest is at lines {}-{}:",
            first + at,
            first + last
        ),
    };
    for (number, line) in lines[at..=last].iter().enumerate() {
        let _ = write!(reason, "\n{}\t{}", first + at + number, cut(line));
    }
    reason
}

/// Where the lines that are most like the wanted ones begin, and how many they are.
fn nearest(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    let pairs_of = |line: &&str| pairs(line);
    let wanted: Vec<Vec<[char; 2]>> = wanted.iter().map(pairs_of).collect();
    if wanted.is_empty() || lines.is_empty() {
        return None;
    }
    let lines: Vec<Vec<[char; 2]>> = lines.iter().map(pairs_of).collect();
    let count = wanted.len();
    let score = |at: usize| {
        let alike = wanted.iter().zip(&lines[at..]).map(|(wanted, line)| likeness(wanted, line));
        alike.sum::<f64>() / count as f64
    };
    let scored = (0..lines.len()).map(|at| (at, score(at)));
    // Of equals the first.
    let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.filter(|(_, alike)| *alike >= ALIKE).map(|(at, _)| (at, count))
}

/// The pairs of neighbouring characters, in order.
fn pairs(line: &str) -> Vec<[char; 2]> {
    let letters: Vec<char> = plain_text(line).chars().take(WIDTH).collect();
    let mut pairs: Vec<[char; 2]> = letters.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.sort_unstable();
    pairs
}

/// From 0 to 1: how many of the pairs two lines share.
fn likeness(one: &[[char; 2]], other: &[[char; 2]]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return f64::from(u8::from(one.len() == other.len())) / 2.0;
    }
    let (mut at, mut to, mut shared) = (0, 0, 0_usize);
    while at < one.len() && to < other.len() {
        match one[at].cmp(&other[to]) {
            std::cmp::Ordering::Less => at += 1,
            std::cmp::Ordering::Greater => to += 1,
            std::cmp::Ordering::Equal => (at, to, shared) = (at + 1, to + 1, shared + 1),
        }
    }
    2.0 * shared as f64 / (one.len() + other.len()) as f64
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
