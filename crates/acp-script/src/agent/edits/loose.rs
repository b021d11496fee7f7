//! Finding a text whose white space differs: other indentation, blanks at line ends, blank lines, spaces around signs.

use std::ops::Range;

/// A text without the white space that does not matter, and where each of its bytes came from.
struct Plain {
    text: String,
    from: Vec<usize>,
}

/// Every place of `text` that is `old` but for white space, from its first to its last character.
pub(super) fn find(text: &str, old: &str) -> Vec<Range<usize>> {
    let (hay, needle) = (plain(text), plain(old));
    if needle.text.is_empty() {
        return Vec::new();
    }
    let ranges = hay.text.match_indices(needle.text.as_str()).map(|(at, found)| {
        let last = at + found.char_indices().next_back().map_or(0, |(last, _)| last);
        let width = hay.text[last..].chars().next().map_or(0, char::len_utf8);
        hay.from[at]..hay.from[last] + width
    });
    ranges.collect()
}

/// One line end between lines that are not blank, one space between two words, and nothing between signs.
pub(super) fn plain_text(text: &str) -> String {
    plain(text).text
}

fn plain(text: &str) -> Plain {
    let mut plain = Plain { text: String::with_capacity(text.len()), from: Vec::with_capacity(text.len()) };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if !trimmed.is_empty() {
            if !plain.text.is_empty() {
                plain.push('\n', at);
            }
            plain.line(trimmed, at + (line.len() - line.trim_start().len()));
        }
        at += line.len();
    }
    plain
}

impl Plain {
    fn push(&mut self, letter: char, from: usize) {
        self.text.push(letter);
        self.from.resize(self.text.len(), from);
    }

    fn line(&mut self, line: &str, start: usize) {
        let mut space = None;
        for (at, letter) in line.char_indices() {
            if letter.is_whitespace() {
                space.get_or_insert(start + at);
                continue;
            }
            if let Some(from) = space.take()
                && is_word(letter)
                && self.text.ends_with(is_word)
            {
                self.push(' ', from);
            }
            self.push(letter, start + at);
        }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The white space at the beginning of a line.
pub(super) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// What to put in place of `range`, which is `old` but for its white space: `new` with the file's indentation.
pub(super) fn replacement(text: &str, range: Range<usize>, old: &str, new: &str) -> (Range<usize>, String) {
    let line_start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let begins_line = text[line_start..range.start].trim().is_empty();
    let line_end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at);
    let ends_line = text[range.end..line_end].trim().is_empty();
    if new.trim().is_empty() {
        // Lines that go away leave no empty one behind.
        let whole = begins_line && ends_line;
        let end = if whole { (line_end + 1).min(text.len()) } else { range.end };
        return (if whole { line_start } else { range.start }..end, String::new());
    }
    let steps = Steps::between(old, &text[line_start..range.end], begins_line);
    let start = if begins_line { line_start } else { range.start };
    let core = new.trim_end();
    let blank: usize =
        core.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum();
    let mut moved = String::with_capacity(core.len());
    for (number, line) in core[blank..].split_inclusive('\n').enumerate() {
        let rest = line.trim_start_matches([' ', '\t']);
        if number > 0 || begins_line {
            moved.push_str(&steps.of(indent_of(line, rest), number == 0));
        }
        moved.push_str(rest);
    }
    (start..range.end, moved)
}

fn indent_of<'l>(line: &'l str, rest: &str) -> &'l str {
    &line[..line.len() - rest.len()]
}

/// How the indentation of a model's text becomes that of the file.
struct Steps {
    /// Of the first line.
    first: (String, String),
    /// Of all lines, theirs and ours.
    pairs: Vec<(String, String)>,
}

impl Steps {
    fn between(old: &str, file: &str, begins_line: bool) -> Self {
        let lines = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.trim().is_empty()).map(|line| indent(line).to_owned()).collect()
        };
        let mut pairs: Vec<(String, String)> = lines(old).into_iter().zip(lines(file)).collect();
        let first = pairs.first().cloned().unwrap_or_default();
        // The first line is often given without its indentation, though all others have theirs.
        let others_same = pairs.len() > 1 && pairs[1..].iter().all(|(theirs, ours)| theirs == ours);
        if !pairs.is_empty() && (others_same || !begins_line) {
            pairs.remove(0);
        }
        pairs.dedup();
        Self { first, pairs }
    }

    fn of(&self, given: &str, is_first: bool) -> String {
        if is_first && given == self.first.0 {
            return self.first.1.clone();
        }
        if let Some((_, ours)) = self.pairs.iter().find(|(theirs, _)| theirs == given) {
            return ours.clone();
        }
        let inside = self.pairs.iter().filter(|(theirs, _)| given.starts_with(theirs.as_str()));
        if let Some((theirs, ours)) = inside.max_by_key(|(theirs, _)| theirs.len()) {
            return format!("{ours}{}", self.converted(&given[theirs.len()..]));
        }
        let around = self.pairs.iter().filter(|(theirs, _)| theirs.starts_with(given));
        if let Some((theirs, ours)) = around.min_by_key(|(theirs, _)| theirs.len()) {
            let more = self.converted(&theirs[given.len()..]);
            return ours.strip_suffix(more.as_str()).unwrap_or(given).to_owned();
        }
        given.to_owned()
    }

    /// Spaces as tabs or the other way round, where the file has the other ones.
    fn converted(&self, rest: &str) -> String {
        let unit = |one: &str, other: &str, letter: char, by: char| {
            let plain = |text: &str, letter: char| !text.is_empty() && text.chars().all(|c| c == letter);
            (plain(one, letter) && plain(other, by)).then_some((one.len(), other.len()))
        };
        let spaces = self.pairs.iter().find_map(|(theirs, ours)| unit(theirs, ours, ' ', '\t'));
        if let Some((spaces, tabs)) = spaces
            && rest.chars().all(|c| c == ' ')
        {
            return "\t".repeat(rest.len() * tabs / spaces);
        }
        let tabs = self.pairs.iter().find_map(|(theirs, ours)| unit(theirs, ours, '\t', ' '));
        if let Some((tabs, spaces)) = tabs
            && rest.chars().all(|c| c == '\t')
        {
            return " ".repeat(rest.len() * spaces / tabs);
        }
        rest.to_owned()
    }
}
