//! Lines from the person: a line editor at a terminal, plain lines otherwise.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use acp_host::ClientEvent;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{History as _, MemHistory};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, ExternalPrinter, Helper};
use tokio::sync::mpsc;

use crate::earlier::Earlier;
use crate::render::Renderer;
use crate::turn::Commands;

/// What the person did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// A line that is no text: its number and what can be read of it.
    Unreadable(usize, String),
    Interrupted,
    End,
}

/// Reads lines on a thread of its own, one whenever asked, so that the terminal is in its usual mode during a turn.
pub(super) struct Editor {
    interactive: bool,
    commands: Arc<Mutex<Commands>>,
    asks: std::sync::mpsc::Sender<()>,
    typed: mpsc::Receiver<Typed>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Editor {
    /// Reads the terminal, with the lines of earlier conversations from this file.
    pub(super) fn new(history: Option<PathBuf>) -> Editor {
        let commands = Arc::<Mutex<Commands>>::default();
        let (asks, asked) = std::sync::mpsc::channel();
        let (tell, typed) = mpsc::channel(1);
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let made = terminal.then(|| line_editor(Arc::clone(&commands))).flatten();
        let interactive = made.is_some();
        let mut printer: Option<Box<dyn ExternalPrinter + Send>> = None;
        match made {
            Some(mut editor) => {
                if let Ok(made) = editor.create_external_printer() {
                    printer = Some(Box::new(made));
                }
                let mut earlier = Earlier::read(history);
                for line in earlier.lines() {
                    let _ = editor.history_mut().add(line);
                }
                std::thread::spawn(move || {
                    while asked.recv().is_ok()
                        && tell.blocking_send(edited(&mut editor, &mut earlier)).is_ok()
                    {}
                });
            }
            None => {
                std::thread::spawn(move || {
                    for number in 1.. {
                        if asked.recv().is_err() || tell.blocking_send(plain(number)).is_err() {
                            return;
                        }
                    }
                });
            }
        }
        Editor { interactive, commands, asks, typed, printer }
    }

    /// Whether a person edits the lines.
    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Begins to read a line.
    pub(super) fn ask(&self) {
        let _ = self.asks.send(());
    }

    /// The line that was asked for.
    pub(super) async fn typed(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or(Typed::End)
    }

    /// Sets what Tab completes.
    pub(super) fn complete(&self, commands: Commands) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = commands;
    }

    /// Shows a line above the one being typed.
    pub(super) fn show(&mut self, text: &str) {
        if let Some(printer) = &mut self.printer {
            let _ = printer.print(format!("{}\n", acp_text::block(text)));
        }
    }

    /// Shows what happens outside a turn above the line being typed.
    pub(super) fn show_event(&mut self, event: &ClientEvent) {
        let mut text = Vec::new();
        let mut renderer = Renderer::new(&mut text, false);
        let shown = match event {
            ClientEvent::Update(update) => renderer.update(update),
            ClientEvent::Decision(record) => renderer.decision(record),
            _ => Ok(()),
        };
        if shown.and_then(|()| renderer.fresh()).is_ok() && !text.is_empty() {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.show(anstream::adapter::strip_str(&text).to_string().trim_end());
        }
    }
}

type LineEditor = rustyline::Editor<Slash, MemHistory>;

fn line_editor(commands: Arc<Mutex<Commands>>) -> Option<LineEditor> {
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor = LineEditor::with_history(config, MemHistory::new()).ok()?;
    editor.set_helper(Some(Slash(commands)));
    Some(editor)
}

fn edited(editor: &mut LineEditor, earlier: &mut Earlier) -> Typed {
    match editor.readline("> ") {
        Ok(line) => {
            earlier.add(&line);
            Typed::Line(joined(&line))
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupted,
        Err(_) => Typed::End,
    }
}

fn plain(number: usize) -> Typed {
    let mut line = Vec::new();
    match std::io::stdin().lock().read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => Typed::End,
        Ok(_) => match String::from_utf8(line) {
            Ok(line) => Typed::Line(line),
            Err(error) => {
                let line = String::from_utf8_lossy(error.as_bytes()).trim_end().chars().take(80).collect();
                Typed::Unreadable(number, line)
            }
        },
    }
}

/// The commands of the chat itself.
const OWN: [&str; 11] =
    [":audio", ":embed", ":exit", ":file", ":help", ":image", ":mode", ":modes", ":q", ":quit", ":set"];

/// Completes the agent's slash commands and the chat's own at the start of a line.
struct Slash(Arc<Mutex<Commands>>);

impl Completer for Slash {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let begun = &line[..at];
        if begun.starts_with(':') && !begun.contains(' ') {
            let fits = OWN.iter().filter(|name| name.starts_with(begun));
            let pair = |name: &&str| Pair { display: (*name).to_owned(), replacement: (*name).to_owned() };
            return Ok((0, fits.map(pair).collect()));
        }
        if !begun.starts_with('/') || begun.contains(' ') {
            return Ok((at, Vec::new()));
        }
        let commands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = commands.iter().filter(|(name, _)| name.starts_with(begun));
        let pair = |(name, about): &(String, String)| Pair {
            display: format!("{name}  {about}"),
            replacement: format!("{name} "),
        };
        Ok((0, fits.map(pair).collect()))
    }
}

impl Hinter for Slash {
    type Hint = String;
}
impl Highlighter for Slash {}
impl Validator for Slash {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}
impl Helper for Slash {}

/// What stands around text of several lines.
const FENCE: &str = "\"\"\"";

/// Whether Enter ends the input, or begins another line of it.
fn is_whole(input: &str) -> bool {
    match input.trim_start().strip_prefix(FENCE) {
        Some(rest) => rest.trim_end().ends_with(FENCE),
        None => !input.ends_with('\\') || input.starts_with(':'),
    }
}

/// The input without the marks of its line ends.
fn joined(input: &str) -> String {
    match input.trim().strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE)) {
        Some(text) => text.trim_matches('\n').to_owned(),
        None if input.starts_with(':') => input.to_owned(),
        None => input.replace("\\\n", "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_on_after_a_backslash_and_between_fences() {
        assert!(is_whole("one line") && !is_whole("one \\") && is_whole("one \\\ntwo"));
        assert!(is_whole(":file C:\\"), "a command of the chat is one line");
        assert!(!is_whole("\"\"\"") && !is_whole("\"\"\"\na\n") && is_whole("\"\"\"\na\n\"\"\""));
        assert_eq!(joined("one \\\ntwo"), "one \ntwo");
        assert_eq!(joined("\"\"\"\na\n\nb\n\"\"\""), "a\n\nb");
    }
}
