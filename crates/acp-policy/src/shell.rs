//! Just enough of the shell's grammar to know when one command is really one command.

/// Why a command line is more than one plain command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPlain {
    /// `;`, `&`, `|`, a parenthesis or a redirection outside quotes.
    Operator(char),
    /// A backtick, `$(`, `${`, `$[`, `$'` or `$"`: text that the shell would run or rewrite.
    Substitution,
    /// A line break or another control character.
    Control,
    /// A quote that never ends, or a backslash at the end.
    Unfinished,
}

impl std::fmt::Display for NotPlain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotPlain::Operator(c) => write!(f, "it contains the shell operator {c:?}"),
            NotPlain::Substitution => f.write_str("it contains a substitution that the shell would run"),
            NotPlain::Control => f.write_str("it contains a line break or a control character"),
            NotPlain::Unfinished => f.write_str("it contains a quote that does not end"),
        }
    }
}

/// Checks that a shell would run `line` as one simple command without redirections or substitutions.
pub fn plain(line: &str) -> Result<(), NotPlain> {
    let mut chars = line.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        if c.is_control() && c != '\t' {
            return Err(NotPlain::Control);
        }
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '`') => return Err(NotPlain::Substitution),
            (_, '$') if matches!(chars.peek(), Some('(' | '{' | '[' | '\'')) => {
                return Err(NotPlain::Substitution);
            }
            (None, '$') if chars.peek() == Some(&'"') => return Err(NotPlain::Substitution),
            (_, '\\') => match chars.next() {
                None => return Err(NotPlain::Unfinished),
                Some(next) if next.is_control() => return Err(NotPlain::Control),
                Some(_) => {}
            },
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')') => return Err(NotPlain::Operator(c)),
            (None, _) => {}
        }
    }
    if quote.is_some() { Err(NotPlain::Unfinished) } else { Ok(()) }
}

/// A part of a line, and the places in it, counted in characters, where a command could begin.
pub(crate) struct Suspect {
    pub(crate) text: String,
    pub(crate) starts: Vec<usize>,
}

/// Every simple command that could hide in `line`, for rules that forbid. The line is split at operators, substitutions
/// and quotes alike; in each part every word may begin a command, with and without its folder, because any word before
/// it may be one that runs what follows (`if`, `sudo`, `timeout 5`, `find -exec`), and so may what follows a mark in a
/// word (`--exec=rm`, `alias.x=!rm`). It finds too much rather than too little.
pub(crate) fn suspects(line: &str) -> Vec<Suspect> {
    let joined: String = line.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let split = |text: &str, quotes: bool| -> Vec<String> {
        text.split(|c: char| {
            matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '`')
                || (c.is_control() && c != '\t')
                || (quotes && matches!(c, '\'' | '"'))
        })
        .map(str::to_owned)
        .collect()
    };
    // What follows a redirection's file may be the command itself, so there the first word says nothing.
    let redirected = line.contains(['<', '>']);
    // `{rm,x}` is `rm x`.
    let braces = line.contains('{').then(|| split(&joined.replace(',', " "), false));
    let parts = split(line, false).into_iter().chain(split(line, true)).chain(split(&joined, false));
    let parts = parts.chain(braces.into_iter().flatten());
    parts.map(|part| Suspect::new(&part, redirected)).filter(|suspect| !suspect.starts.is_empty()).collect()
}

impl Suspect {
    fn new(part: &str, redirected: bool) -> Suspect {
        /// Programs whose second word is a command of their own: `git rm` is not `rm`.
        const SUBCOMMANDS: [&str; 7] = ["cargo", "docker", "git", "hg", "npm", "podman", "svn"];
        let words = part.split([' ', '\t', '$']).filter(|word| !word.is_empty());
        let (mut text, mut starts, mut at) = (String::new(), Vec::new(), 0);
        for (index, word) in words.enumerate() {
            if index > 0 {
                text.push(' ');
                at += 1;
            }
            let own =
                index == 1 && text.trim_end().rsplit('/').next().is_some_and(|it| SUBCOMMANDS.contains(&it));
            if redirected || !own || word.starts_with('-') {
                starts.extend(beginnings(word).map(|offset| at + offset));
            }
            text.push_str(word);
            at += word.chars().count();
        }
        Suspect { text, starts }
    }
}

/// Where in a word the name of a program could begin, counted in characters: at its start, behind its folder, and behind
/// what joins an option, a variable or an alias to a command.
fn beginnings(word: &str) -> impl Iterator<Item = usize> {
    let short_option = word.starts_with('-') && !word.starts_with("--");
    let behind = |c: char| matches!(c, '/' | '=' | '!' | ':' | '@' | '%' | '+' | ',');
    let marks = word.chars().enumerate().filter(move |(_, c)| behind(*c)).map(|(at, _)| at + 1);
    std::iter::once(0).chain(short_option.then_some(2)).chain(marks).filter({
        let length = word.chars().count();
        move |at| *at < length
    })
}

/// The words of a plain command as the program gets them; `None` when the shell would put anything else in their place:
/// variables, wildcards, folders of people, comments.
pub fn words(line: &str) -> Option<Vec<String>> {
    plain(line).ok()?;
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '$') => return None,
            (Some(_), '\\') => {
                let next = chars.next()?;
                // Between double quotes it only escapes what would mean something there.
                let text = word.get_or_insert_default();
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    text.push('\\');
                }
                text.push(next);
            }
            (None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '*' | '?' | '[' | '{' | '!') => return None,
            (None, '~' | '#') if word.is_none() => return None,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// Every text in `line` that may be a file's name, for rules that forbid: its words without quotes and operators, and
/// what follows a `=` in them.
pub(crate) fn mentions(line: &str) -> Vec<String> {
    let joined: String = line.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let mut found = Vec::new();
    for text in [line.to_owned(), with_folders(&joined)] {
        let words =
            text.split(|c: char| c.is_whitespace() || c.is_control() || "'\"`;&|<>(){}$\\,".contains(c));
        for word in words {
            let value = word.split_once('=').map(|(_, value)| value);
            // `-f/a/b` and `@/a/b` name `/a/b` too, and `-C~/a` `~/a`.
            let path = word.find('/').map(|at| &word[at..]);
            let at_home = word.find("~/").map(|at| &word[at..]);
            found.extend(
                [Some(word), value, path, at_home]
                    .into_iter()
                    .flatten()
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned),
            );
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A text with the folders that a shell knows by variables in a form that patterns know: `$HOME/x` is `~/x`, `$PWD/x` is
/// `./x`.
pub(crate) fn with_folders(text: &str) -> String {
    [("${HOME}", "~"), ("$HOME", "~"), ("${PWD}", "."), ("$PWD", ".")]
        .iter()
        .fold(text.to_owned(), |text, (variable, folder)| text.replace(variable, folder))
}

/// Runs of spaces and tabs become one space, the ends are trimmed.
pub fn normalised(line: &str) -> String {
    line.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A program with its arguments as one line, each word quoted where a shell would need it.
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,^~*?[]#!".contains(c) || !c.is_ascii();
    let word = |word: &str| {
        if !word.is_empty() && word.chars().all(bare) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The same for the line of a command, whose first word a shell would take for a variable if it had a bare `=`.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words = words.into_iter();
    let Some(program) = words.next() else { return String::new() };
    let quoted_program = quoted([program]);
    let program = if quoted_program.contains('=') && quoted_program == program {
        format!("'{program}'")
    } else {
        quoted_program
    };
    let arguments = quoted(words);
    if arguments.is_empty() { program } else { format!("{program} {arguments}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_commands_are_plain() {
        for line in [
            "git status",
            "git commit -m 'a; b && c | d'",
            r#"git commit -m "a; b""#,
            r"grep a\;b file",
            "echo $HOME",
            "cargo test -- --nocapture",
            "ls *.rs",
            "echo 'a $(b) `c`'",
            "",
        ] {
            assert_eq!(plain(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn nothing_slips_a_second_command_past() {
        for line in [
            "git status; rm -rf x",
            "git status;rm x",
            "git status && rm x",
            "git status & rm x",
            "git status | sh",
            "git status || rm x",
            "git `rm x`",
            "git $(rm x)",
            "git \"$(rm x)\"",
            "git \"`rm x`\"",
            "git status\nrm x",
            "git status\r\nrm x",
            "git status\\\nrm x",
            "git 'a\nb'",
            "git log > /etc/passwd",
            "git log >> x",
            "git log <(rm x)",
            "git ${x:-$(rm x)}",
            "git $'\\'; rm x #'",
            "git $\"a\"",
            "git $[1+1]",
            "(git status)",
            "git 'unfinished",
            "git \"unfinished",
            "git \\",
            "git \u{0}rm",
            "git 'a' ; rm 'b'",
            "git 'a'\\'';rm x",
            "git status |& sh",
        ] {
            assert!(plain(line).is_err(), "{line:?} passed as one plain command");
        }
    }

    #[test]
    fn hidden_commands_are_found() {
        for line in [
            "rm x",
            "ls && rm x",
            "ls;rm x",
            "echo $(rm x)",
            "echo `rm x`",
            "sh -c 'rm x'",
            "sh -c \"rm x\"",
            "/bin/rm x",
            "sudo rm x",
            "sudo -n rm x",
            "A=1 B=2 rm x",
            "env -i A=1 /usr/bin/rm x",
            "'rm' x",
            "r\\m x",
            "r''m x",
            "ls\nrm x",
            "if true; then rm x; fi",
            "if rm x; then ls; fi",
            "while rm x; do ls; done",
            "nice -n 5 rm x",
            "timeout 5 rm x",
            "env -u A rm x",
            "find . -exec rm x",
            "sudo -u git rm x",
            ">git rm x",
            "a-runner-nobody-knows é /opt/bin/rm x",
            "{rm,x}",
            "a {/bin/rm,x}",
            "git -c alias.y='!rm x' y",
            "git --upload-pack=rm x",
            "tar --to-command='/bin/rm x'",
            "A=rm x",
            "env -Srm\\ x",
            "parallel ::: a,rm x",
        ] {
            assert!(begins(line).iter().any(|c| c == "rm x"), "{line:?} gave {:?}", begins(line));
        }
        assert_eq!(begins("git rm x")[..2], ["git rm x", "x"]);
    }

    fn begins(line: &str) -> Vec<String> {
        let command = |suspect: &Suspect, start: usize| suspect.text.chars().skip(start).collect::<String>();
        let suspects = suspects(line);
        let mut commands: Vec<String> =
            suspects.iter().flat_map(|it| it.starts.iter().map(|start| command(it, *start))).collect();
        commands.dedup();
        commands
    }

    #[test]
    fn words_are_those_that_the_program_gets() {
        for (line, expected) in [
            ("git log -1", Some(vec!["git", "log", "-1"])),
            ("git 'a b' \"c d\" e\\ f", Some(vec!["git", "a b", "c d", "e f"])),
            ("a'b'\"c\" ''", Some(vec!["abc", ""])),
            (r#"a "b\nc\"d""#, Some(vec!["a", "b\\nc\"d"])),
            ("a HEAD~1 b#c", Some(vec!["a", "HEAD~1", "b#c"])),
            ("", Some(vec![])),
            ("a $b", None),
            ("a \"$b\"", None),
            ("a *", None),
            ("a ~/b", None),
            ("a #b", None),
            ("a; b", None),
        ] {
            let found = words(line);
            let found = found.as_ref().map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn quoting_keeps_words_apart() {
        assert_eq!(quoted(["git", "commit", "-m", "a b; c"]), "git commit -m 'a b; c'");
        assert_eq!(quoted(["it's", ""]), r"'it'\''s' ''");
        assert_eq!(command_line(["A=b", "c=d"]), "'A=b' c=d");
        assert_eq!(command_line(["make", "A=b c"]), "make 'A=b c'");
        assert_eq!(command_line(["A=b c"]), "'A=b c'");
    }
}
