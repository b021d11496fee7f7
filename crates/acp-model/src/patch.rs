//! Changes of files as patches, in the form that `apply_patch` tools read.

use crate::wanted::WantedTool;

/// The change as a patch. `present` is the file's text as it is now: patches name whole lines, and those must match.
pub(crate) fn patch(wanted: &WantedTool, present: Option<&str>) -> String {
    match wanted {
        WantedTool::Write { path, text } => match present.filter(|present| !present.is_empty()) {
            Some(present) => update(path, present, text),
            None => format!("*** Begin Patch\n*** Add File: {path}\n{}*** End Patch", signed('+', text)),
        },
        WantedTool::Edit { path, old, new } => {
            let (old, new) = present
                .and_then(|present| whole_lines(present, old, new))
                .unwrap_or_else(|| (old.clone(), new.clone()));
            update(path, &old, &new)
        }
        _ => String::new(),
    }
}

fn update(path: &str, old: &str, new: &str) -> String {
    let (old, new) = (signed('-', old), signed('+', new));
    format!("*** Begin Patch\n*** Update File: {path}\n@@\n{old}{new}*** End Patch")
}

fn signed(sign: char, text: &str) -> String {
    text.lines().map(|line| format!("{sign}{line}\n")).collect()
}

/// The whole lines that hold the first `old`, and the same lines with `new` in its place.
fn whole_lines(present: &str, old: &str, new: &str) -> Option<(String, String)> {
    if old.is_empty() {
        return None;
    }
    let at = present.find(old)?;
    let end = at + old.len();
    let start = present[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let stop = if old.ends_with('\n') {
        end
    } else {
        present[end..].find('\n').map_or(present.len(), |newline| end + newline)
    };
    let lines = &present[start..stop];
    Some((lines.to_owned(), format!("{}{new}{}", &present[start..at], &present[end..stop])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str) -> WantedTool {
        WantedTool::Edit { path: "a.txt".to_owned(), old: old.to_owned(), new: new.to_owned() }
    }

    #[test]
    fn an_edit_names_the_lines_as_they_are() {
        let head = "*** Begin Patch\n*** Update File: a.txt\n@@\n";
        let cases = [
            ("rosemary and thyme", "thyme", "basil", "-rosemary and thyme\n+rosemary and basil\n"),
            ("a\nb thyme c\nd\n", "thyme", "basil", "-b thyme c\n+b basil c\n"),
            ("a one\ntwo b\nc", "one\ntwo", "1", "-a one\n-two b\n+a 1 b\n"),
            ("a\nb\n", "a\n", "x\n", "-a\n+x\n"),
            ("nothing of it", "thyme", "basil", "-thyme\n+basil\n"),
        ];
        for (present, old, new, hunk) in cases {
            let expected = format!("{head}{hunk}*** End Patch");
            assert_eq!(patch(&edit(old, new), Some(present)), expected, "{present:?}");
        }
        assert_eq!(patch(&edit("a", "b"), None), format!("{head}-a\n+b\n*** End Patch"));
    }

    #[test]
    fn a_file_that_is_there_is_updated_and_a_new_one_added() {
        let write = WantedTool::Write { path: "a.txt".to_owned(), text: "new".to_owned() };
        let updated = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n-lines\n+new\n*** End Patch";
        assert_eq!(patch(&write, Some("old\nlines\n")), updated);
        let added = "*** Begin Patch\n*** Add File: a.txt\n+new\n*** End Patch";
        assert_eq!(patch(&write, None), added);
        assert_eq!(patch(&write, Some("")), added);
    }
}
