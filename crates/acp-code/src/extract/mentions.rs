//! The pieces of files that a text mentions: what a compiler, a test run or a diff prints.

/// Every piece that the text mentions and whose file exists, in the order in which they come, each once: `src/a.rs:10:5`,
/// `src/a.rs:10-20`, `src/a.rs#Symbol`, `File "a.py", line 3`, and the new lines of a diff. A path that is only a name
/// is taken too when it has a folder in it or an extension.
pub fn mentioned(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut diff: Option<String> = None;
    for line in text.lines() {
        let pieces = match line.strip_prefix("+++ ") {
            Some(file) => {
                let file = file.split('\t').next().unwrap_or(file).trim();
                diff = [file.strip_prefix("b/").unwrap_or(file), file]
                    .into_iter()
                    .find(|file| exists(file))
                    .map(str::to_owned);
                Vec::new()
            }
            None => match (hunk(line), &diff) {
                (Some(lines), Some(file)) => vec![format!("{file}:{lines}")],
                // What a diff quotes is no mention.
                _ if diff.is_some() && line.starts_with(['+', '-', ' ']) => Vec::new(),
                _ => mentions(line, &exists),
            },
        };
        for piece in pieces {
            if !found.contains(&piece) {
                found.push(piece);
            }
        }
    }
    // Lines of a file say more than its name.
    let is_named_closer = |file: &String| {
        found.iter().any(|other| other.len() > file.len() && other.starts_with(file) && !exists(other))
    };
    found.iter().filter(|piece| !is_named_closer(piece)).cloned().collect()
}

/// The lines after the change of `@@ -1,4 +10,6 @@`.
fn hunk(line: &str) -> Option<String> {
    let new = line.strip_prefix("@@ ")?.split_whitespace().find_map(|part| part.strip_prefix('+'))?;
    let (first, count) = new.split_once(',').unwrap_or((new, "1"));
    let (first, count): (usize, usize) = (first.parse().ok()?, count.parse().ok()?);
    let first = first.max(1);
    Some(format!("{first}-{}", first + count.max(1) - 1))
}

/// The pieces in a line of text.
fn mentions(line: &str, exists: &impl Fn(&str) -> bool) -> Vec<String> {
    if let Some(piece) = python(line, exists) {
        return vec![piece];
    }
    line.split(|c: char| c.is_whitespace() || "\"'`()<>[]{},;|".contains(c))
        .map(|word| word.trim_end_matches(['.', ':', '!', '?']).trim_start_matches("file://"))
        .filter_map(|word| piece(word, exists))
        .collect()
}

/// `File "a.py", line 3, in main`
fn python(line: &str, exists: &impl Fn(&str) -> bool) -> Option<String> {
    let rest = line.trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once('"')?;
    let number: String = rest.strip_prefix(", line ")?.chars().take_while(char::is_ascii_digit).collect();
    (exists(file) && !number.is_empty()).then(|| format!("{file}:{number}"))
}

/// `src/a.rs:10:5` as `src/a.rs:10`; nothing when there is no such file.
fn piece(word: &str, exists: &impl Fn(&str) -> bool) -> Option<String> {
    let is_path = |file: &str| (file.contains('/') || file.contains('.')) && exists(file);
    if is_path(word) {
        return Some(word.to_owned());
    }
    if let Some((file, symbol)) = word.split_once('#')
        && is_path(file)
        && !symbol.is_empty()
    {
        return Some(word.to_owned());
    }
    let (file, rest) = word.split_once(':')?;
    let lines: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    let lines = lines.trim_end_matches('-');
    (is_path(file) && lines.starts_with(|c: char| c.is_ascii_digit())).then(|| format!("{file}:{lines}"))
}

#[cfg(test)]
mod tests {
    use super::mentioned;

    fn found(text: &str) -> Vec<String> {
        mentioned(text, |file| ["src/a.rs", "b.py", "src/lib.rs"].contains(&file))
    }

    #[test]
    fn what_compilers_tests_and_people_write_is_found() {
        assert_eq!(
            found("error[E0308]: mismatched types\n  --> src/a.rs:10:5\n   |\n10 | x"),
            ["src/a.rs:10"]
        );
        assert_eq!(found("  File \"b.py\", line 3, in main\n    raise X"), ["b.py:3"]);
        assert_eq!(found("thread 'x' panicked at src/lib.rs:7:9:\nboom"), ["src/lib.rs:7"]);
        assert_eq!(
            found("see src/a.rs#Walk.next, and (src/lib.rs:2-4)."),
            ["src/a.rs#Walk.next", "src/lib.rs:2-4"]
        );
        assert_eq!(found("src/gone.rs:1 and http://x.invalid:80/a"), [""; 0]);
    }

    #[test]
    fn each_piece_is_taken_once_and_a_file_only_without_its_lines() {
        assert_eq!(found("src/a.rs:1\nsrc/a.rs:1\nb.py"), ["src/a.rs:1", "b.py"]);
        assert_eq!(found("in src/a.rs: src/a.rs:9 fails"), ["src/a.rs:9"]);
    }

    #[test]
    fn a_diff_is_its_new_lines() {
        let diff = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +3,4 @@ fn x\n context b.py:1\n+new\n";
        assert_eq!(found(diff), ["src/a.rs:3-6"]);
    }
}
