//! The last line of a terminal's screen, as far as it takes to see a prompt.

/// What stands in the line of the cursor.
#[derive(Debug, Default)]
pub(crate) struct ScreenLine {
    line: Vec<char>,
    column: usize,
    state: State,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC [` and its parameters.
    Control(String),
    /// `ESC ]` up to BEL or `ESC \`.
    Title,
}

impl ScreenLine {
    /// Takes in what was written.
    pub fn show(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.partial.len(),
        };
        let text = String::from_utf8_lossy(&self.partial[..whole]).into_owned();
        self.partial.drain(..whole);
        text.chars().for_each(|c| self.put(c));
    }

    /// The text of the line.
    pub fn text(&self) -> String {
        self.line.iter().collect()
    }

    fn put(&mut self, c: char) {
        match &mut self.state {
            State::Escape => {
                self.state = match c {
                    '[' => State::Control(String::new()),
                    ']' => State::Title,
                    _ => State::Text,
                };
            }
            State::Control(parameters) if !('\u{40}'..='\u{7e}').contains(&c) => parameters.push(c),
            State::Control(parameters) => {
                let number = parameters.parse().unwrap_or(0);
                self.state = State::Text;
                self.control(c, number);
            }
            State::Title if c == '\u{7}' => self.state = State::Text,
            State::Title if c == '\u{1b}' => self.state = State::Escape,
            State::Title => {}
            State::Text => self.text_character(c),
        }
    }

    fn text_character(&mut self, c: char) {
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\n' => {
                self.line.clear();
                self.column = 0;
            }
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            c if c.is_control() => {}
            c => {
                while self.line.len() <= self.column {
                    self.line.push(' ');
                }
                self.line[self.column] = c;
                self.column += 1;
            }
        }
    }

    fn control(&mut self, letter: char, number: usize) {
        let steps = number.max(1);
        match letter {
            'C' => self.column = (self.column + steps).min(1000),
            'D' => self.column = self.column.saturating_sub(steps),
            'G' => self.column = steps.min(1000) - 1,
            'A' | 'B' | 'E' | 'F' | 'H' | 'f' => {
                self.line.clear();
                self.column = if letter == 'A' || letter == 'B' { self.column } else { 0 };
            }
            'K' | 'J' => match number {
                1 | 2 => self.line.iter_mut().for_each(|c| *c = ' '),
                _ => self.line.truncate(self.column),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut screen = ScreenLine::default();
        text.as_bytes().chunks(3).for_each(|piece| screen.show(piece));
        screen.text()
    }

    #[test]
    fn colours_and_redrawing_leave_the_prompt() {
        assert_eq!(shown("hello\r\n\u{1b}[1m> \u{1b}[0m"), "> ");
        assert_eq!(shown("> abc\r\u{1b}[K> \u{1b}[2C"), "> ");
        assert_eq!(shown("\u{1b}]0;title\u{7}żółć? "), "żółć? ");
        assert_eq!(shown("abc\u{8}\u{8}X"), "aXc");
    }
}
