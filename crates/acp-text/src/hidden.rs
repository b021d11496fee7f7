//! Characters that do something to a terminal or a reader without being seen.

/// Whether a character is not seen, or changes how others are seen: control characters, direction overrides, zero-width
/// and tag characters, variation selectors, fillers, line separators other than a newline, and what is no character at all
/// (two of these make XML unreadable).
pub(crate) const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{fdd0}'..='\u{fdef}')
        || c as u32 & 0xfffe == 0xfffe
}

/// Whether a hidden character only makes one picture out of others: the joiner between two emoji, and the selector that
/// asks for the colourful form of one.
pub(crate) fn joins_emoji(before: Option<char>, c: char, after: Option<char>) -> bool {
    match c {
        '\u{200d}' => before.is_some_and(is_pictograph) && after.is_some_and(is_pictograph),
        '\u{fe0f}' => before.is_some_and(is_pictograph),
        _ => false,
    }
}

const fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{fe0f}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}')
}
