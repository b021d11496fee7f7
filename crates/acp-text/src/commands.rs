//! Logs of build services: a line such as `::error::…` in them is a command to the service, whoever wrote it.

/// Keeps text that goes to a log from being a command: `::` at the beginning of a line, `##[` and `##vso[` anywhere get a
/// space in between. Remembers where the last piece ended, so that a command cannot come in pieces.
#[derive(Clone, Debug)]
pub struct CommandGuard {
    at_start: bool,
    before: char,
}

impl Default for CommandGuard {
    fn default() -> Self {
        CommandGuard { at_start: true, before: '\n' }
    }
}

impl CommandGuard {
    /// The next piece of the text, harmless.
    pub fn pass(&mut self, text: &str) -> String {
        let mut safe = String::with_capacity(text.len());
        for c in text.chars() {
            if self.before == '#' && matches!(c, '[' | 'v') {
                safe.push(' ');
            }
            safe.push(c);
            if self.at_start && c == ':' {
                safe.push(' ');
            }
            self.at_start = c == '\n' || self.at_start && c.is_whitespace();
            self.before = c;
        }
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_also_in_pieces() {
        let guarded = |pieces: &[&str]| {
            let mut guard = CommandGuard::default();
            pieces.iter().map(|piece| guard.pass(piece)).collect::<String>()
        };
        assert_eq!(guarded(&["::error::x"]), ": :error::x");
        assert_eq!(guarded(&["a\n  ", ":", ":set-env::"]), "a\n  : :set-env::");
        assert_eq!(guarded(&["see ##", "[group]x and ##vso[task]"]), "see ## [group]x and ## vso[task]");
        assert_eq!(guarded(&["std::io and # heading, #5"]), "std::io and # heading, #5");
    }
}
