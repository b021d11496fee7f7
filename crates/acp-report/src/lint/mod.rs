//! Recorded conversations, judged: what `acp lint` reads, and the forms in which it shows what it found.

mod json;
mod junit;
mod read;
mod redact;
mod sarif;
mod shape;
mod text;

pub use read::LintedTranscript;
pub use redact::{RedactionSummary, redact_transcript};

/// The forms in which findings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LintFormat {
    /// For people.
    Text,
    /// Everything, for programs.
    Json,
    /// SARIF 2.1.0, for code hosts and editors.
    Sarif,
    /// JUnit XML, with one case for each requirement that the conversation exercised.
    Junit,
}

/// What is shown besides findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct LintSections {
    /// Latencies, sizes, time to the first chunk and turn lengths.
    pub stats: bool,
    /// Which requirements the conversation exercised.
    pub coverage: bool,
}

/// Shows what was found. Nothing in the text steers a terminal.
pub fn render(
    format: LintFormat,
    files: &[LintedTranscript],
    sections: LintSections,
) -> Result<String, crate::ReportError> {
    Ok(match format {
        LintFormat::Text => {
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = text::write(&mut text, files, sections);
            acp_text::block(&text)
        }
        LintFormat::Json => acp_text::json(&json::render(files, sections)).into_owned(),
        LintFormat::Sarif => acp_text::json(&sarif::render(files)).into_owned(),
        LintFormat::Junit => acp_text::block(&junit::render(files)?),
    })
}
