//! `${wish:NAME|argument|…}`: what a prompt asks of the agent's model, in the words that this agent understands.
//!
//! A wish is replaced by its wording, in which `{1}`, `{2}`… stand for the arguments. Arguments may hold `${…}` of their
//! own, which are filled in afterwards like any other.

use std::collections::BTreeMap;
use std::ops::Range;

const OPENING: &str = "${wish:";

/// The wordings of each wish, the preferred one first.
pub type Wordings = BTreeMap<String, Vec<String>>;

/// One wish in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish<'t> {
    pub name: &'t str,
    pub arguments: Vec<&'t str>,
    /// Bytes of the whole hole.
    pub span: Range<usize>,
    /// Bytes of the arguments, the bars between them included.
    pub inner: Range<usize>,
}

/// A wish that is not closed; the byte where it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclosed(pub usize);

/// Every wish of a text, in order. `$${wish:` is plain text.
pub(crate) fn wishes(text: &str) -> Result<Vec<Wish<'_>>, Unclosed> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(OPENING) {
        let start = at + offset;
        if text[..start].ends_with('$') {
            at = start + OPENING.len();
            continue;
        }
        let wish = wish_at(text, start)?;
        at = wish.span.end;
        found.push(wish);
    }
    Ok(found)
}

fn wish_at(text: &str, start: usize) -> Result<Wish<'_>, Unclosed> {
    let body = start + OPENING.len();
    let mut depth = 0_usize;
    let mut parts = vec![body];
    for (offset, letter) in text[body..].char_indices() {
        let place = body + offset;
        match letter {
            '{' if text[..place].ends_with('$') => depth += 1,
            '}' if depth == 0 => return Ok(cut(text, start..place + 1, &parts)),
            '}' => depth -= 1,
            '|' if depth == 0 => parts.push(place + 1),
            _ => {}
        }
    }
    Err(Unclosed(start))
}

fn cut<'t>(text: &'t str, span: Range<usize>, parts: &[usize]) -> Wish<'t> {
    let end = span.end - 1;
    let ends = parts.iter().skip(1).map(|next| next - 1).chain([end]);
    let mut pieces = parts.iter().zip(ends).map(|(from, to)| &text[*from..to]);
    let name = pieces.next().unwrap_or("");
    let inner = parts.get(1).copied().unwrap_or(end)..end;
    Wish { name, arguments: pieces.collect(), span, inner }
}

/// The text with everything of its wishes blanked out except their arguments, so that every byte keeps its place.
pub(crate) fn blanked(text: &str, wishes: &[Wish<'_>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for wish in wishes {
        bytes[wish.span.start..wish.inner.start].fill(b' ');
        bytes[wish.inner.end..wish.span.end].fill(b' ');
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The text with each wish put into words; the name of the first wish that has none.
pub(crate) fn worded<'w>(text: &str, wording: impl Fn(&str) -> Option<&'w str>) -> Result<String, String> {
    let Ok(wishes) = wishes(text) else { return Ok(text.to_owned()) };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for wish in wishes {
        let Some(words) = wording(wish.name) else { return Err(wish.name.to_owned()) };
        out.push_str(&text[at..wish.span.start]);
        out.push_str(&filled(words, &wish.arguments));
        at = wish.span.end;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

fn filled(words: &str, arguments: &[&str]) -> String {
    let mut out = words.to_owned();
    for (index, argument) in arguments.iter().enumerate().rev() {
        out = out.replace(&format!("{{{}}}", index + 1), argument);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_put_into_the_words_that_were_found() {
        let words = |name: &str| (name == "read").then_some("Open {1} for {2}.");
        let text = "Please: ${wish:read|${sandbox}/a|b.txt|me} Now.";
        assert_eq!(worded(text, words).unwrap(), "Please: Open ${sandbox}/a for b.txt. Now.");
        assert_eq!(worded("${wish:sing}", words), Err("sing".to_owned()));
        assert_eq!(worded("$${wish:read|x}", words).unwrap(), "$${wish:read|x}");
    }

    #[test]
    fn what_is_blanked_keeps_every_place() {
        let text = "é ${wish:read|${sandbox}} ${x}";
        let found = wishes(text).unwrap();
        let blank = blanked(text, &found);
        assert_eq!(blank.len(), text.len());
        assert_eq!(blank.find("${x}"), text.find("${x}"));
        assert!(blank.contains("${sandbox}") && !blank.contains("wish"));
        assert_eq!(wishes("a ${wish:read|${x}"), Err(Unclosed(2)));
    }
}
