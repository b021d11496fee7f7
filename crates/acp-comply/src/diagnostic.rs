//! Errors and warnings about test files, with the place they are about.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// Something to say about a test file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file can still be used.
    pub grade: DiagnosticLevel,
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Bytes of the file it is about.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagnosticLevel {
    /// The file is used, but something in it is not what it seems.
    Warning,
    /// The file cannot be used.
    Error,
}

impl Diagnostic {
    /// A diagnostic about some bytes of a file.
    pub fn new(
        grade: DiagnosticLevel,
        file: &str,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Diagnostic {
        let span = clamp(text, span);
        let (line, column) = place(text, span.start);
        Diagnostic { grade, file: file.to_owned(), line, column, span, message: message.into(), hint: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.grade == DiagnosticLevel::Error
    }

    /// The message with the source line and a caret, for people. `text` is the text of the file.
    pub fn render(&self, text: &str, colour: bool) -> String {
        let level = match self.grade {
            DiagnosticLevel::Error => Level::ERROR,
            DiagnosticLevel::Warning => Level::WARNING,
        };
        // A suite may come from anywhere.
        let (source, file) = (acp_text::same_places(text), acp_text::line(&self.file));
        let snippet = Snippet::source(source)
            .line_start(1)
            .path(file)
            .annotation(AnnotationKind::Primary.span(first_line(text, self.span.clone())));
        let mut group = level.primary_title(acp_text::block(&self.message)).element(snippet);
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(acp_text::block(hint)));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grade = match self.grade {
            DiagnosticLevel::Error => "error",
            DiagnosticLevel::Warning => "warning",
        };
        write!(f, "{}:{}:{}: {grade}: {}", self.file, self.line, self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Line and column of a byte, both from 1, the column in characters.
pub fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |found| found + 1);
    (line, before[start..].chars().count() + 1)
}

fn clamp(text: &str, span: Range<usize>) -> Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// A caret under one line says more than a bracket around forty.
fn first_line(text: &str, span: Range<usize>) -> Range<usize> {
    let end = text[span.clone()].find('\n').map_or(span.end, |found| span.start + found);
    span.start..end
}
