//! Diffs for people: a few lines of context, `+` and `-` in front, colour on top.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;
/// The most lines of a diff that are shown.
const MOST: usize = 200;

/// The difference between two texts, one line each, without the file's name.
pub(super) fn lines(old: &str, new: &str) -> String {
    const ADDED: Style = AnsiColor::Green.on_default();
    const REMOVED: Style = AnsiColor::Red.on_default();
    const PLACE: Style = AnsiColor::Cyan.on_default();
    let diff = TextDiff::from_lines(old, new);
    let mut text = String::new();
    let mut shown = 0;
    for group in diff.grouped_ops(CONTEXT) {
        let Some(first) = group.first() else { continue };
        let (was, is) = (first.old_range().start + 1, first.new_range().start + 1);
        let moved = if was == is { String::new() } else { format!(", now {is}") };
        let _ = writeln!(text, "{PLACE}@@ line {was}{moved} @@{PLACE:#}");
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            shown += 1;
            if shown > MOST {
                let _ = writeln!(text, "… and more");
                return text;
            }
            let (sign, style) = match change.tag() {
                ChangeTag::Insert => ('+', ADDED),
                ChangeTag::Delete => ('-', REMOVED),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            let _ = writeln!(text, "{style}{sign} {}{style:#}", acp_text::line(line));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_reads_without_colour() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\n";
        let shown = anstream::adapter::strip_str(&lines(old, new)).to_string();
        assert_eq!(shown, "@@ line 2 @@\n  b\n  c\n  d\n- e\n+ E\n  f\n  g\n  h\n");
        assert_eq!(lines("same\n", "same\n"), "");
    }

    #[test]
    fn a_new_file_is_all_added_and_a_long_one_is_cut() {
        assert!(lines("", "x\n").contains("+ x"));
        assert!(lines("", &"x\n".repeat(1000)).ends_with("… and more\n"));
    }
}
