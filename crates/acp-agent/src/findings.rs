//! What the code engine found, for everyone who hears of it: the model, the editor that follows along, the person.

use std::fmt::Write as _;
use std::path::Path;

use acp_code::{CodeAnswer, ResultFormat, extract, list, query, render, search};
use acp_script::agent::ToolOutput;
use serde_json::{Value, json};

/// So much code is shown to a person who did not ask for all of it.
const BRIEF: usize = 1800;
/// So much to one who did.
const WHOLE: usize = 40_000;
/// So many entries of a listing are shown to a person who did not ask for all of them.
const FILES: usize = 60;
/// A longer piece is shown by its beginning.
const LINES: usize = 30;

/// The answer of a tool that looked below `folder`.
pub(crate) fn output(answer: &CodeAnswer, folder: &Path, verbose: bool) -> ToolOutput {
    let found = found(answer);
    let text = answer.text();
    let said = match answer {
        CodeAnswer::List(results) => listed(results, verbose),
        CodeAnswer::Extract(_, ResultFormat::Markdown | ResultFormat::Json) => text.clone(),
        _ => said(answer, &found, verbose),
    };
    ToolOutput {
        text,
        said: Some(said),
        failed: answer.is_failure(),
        denied: answer.is_denied(),
        raw: answer.json(),
        locations: found.iter().map(|piece| piece.location(folder)).collect(),
        write: None,
    }
}

/// A piece of code that was found.
struct Found<'a> {
    file: &'a str,
    lines: [usize; 2],
    code: &'a str,
    about: String,
    language: &'a str,
}

impl Found<'_> {
    fn location(&self, folder: &Path) -> Value {
        json!({ "path": folder.join(self.file), "line": self.lines[0] })
    }

    fn place(&self) -> String {
        let place = render::place(self.file, self.lines);
        if self.about.is_empty() { format!("`{place}`") } else { format!("`{place}` {}", self.about) }
    }

    /// The code in a fence.
    fn fenced(&self, all: bool) -> String {
        let fence = render::fence(self.code);
        let count = self.code.lines().count();
        let shown: Vec<&str> = self.code.lines().take(if all { usize::MAX } else { LINES }).collect();
        let rest = if shown.len() < count {
            format!("\n… {} more lines", count - shown.len())
        } else {
            String::new()
        };
        format!("{fence}{}\n{}{rest}\n{fence}\n", self.language.to_lowercase(), shown.join("\n"))
    }
}

fn found(answer: &CodeAnswer) -> Vec<Found<'_>> {
    match answer {
        CodeAnswer::Search(results) => results.results.iter().map(hit).collect(),
        CodeAnswer::Query(results) => results.results.iter().map(matched).collect(),
        CodeAnswer::Extract(results, _) => results.results.iter().filter_map(piece).collect(),
        CodeAnswer::List(_) => Vec::new(),
    }
}

/// Files for a person: as many as have room in an answer.
fn listed(results: &list::ListResults, verbose: bool) -> String {
    let most = if verbose { usize::MAX } else { FILES };
    let line = |entry: &list::ListEntry| match entry.files {
        Some(files) => {
            format!("- `{}/` ({files} {})\n", entry.path, if files == 1 { "file" } else { "files" })
        }
        None => format!("- `{}`\n", entry.path),
    };
    let mut said: String = results.results.iter().take(most).map(line).collect();
    let left = results.results.len().saturating_sub(most);
    let mut closing = match (left, results.files) {
        (_, 0) => "There are no such files here.".to_owned(),
        (0, 1) => "1 file.".to_owned(),
        (0, files) => format!("{files} files."),
        (left, files) => format!("… and {left} more entries; {files} files in all."),
    };
    if results.truncated {
        closing.push_str(" The time was up before every file was seen.");
    }
    for notice in &results.notices {
        let _ = write!(closing, "\nNote: {notice}");
    }
    said.push_str(&closing);
    said
}

fn hit(hit: &search::Hit) -> Found<'_> {
    let about = if hit.kind == "lines" { String::new() } else { about(&hit.kind, hit.name.as_deref()) };
    let language = hit.language.as_deref().unwrap_or_default();
    Found { file: &hit.file, lines: hit.lines, code: &hit.code, about, language }
}

fn matched(hit: &query::QueryMatch) -> Found<'_> {
    Found {
        file: &hit.file,
        lines: hit.lines,
        code: &hit.code,
        about: String::new(),
        language: &hit.language,
    }
}

fn piece(piece: &extract::ExtractedPiece) -> Option<Found<'_>> {
    let about = about(piece.kind.as_deref().unwrap_or_default(), piece.name.as_deref());
    let language = piece.language.as_deref().unwrap_or_default();
    Some(Found { file: &piece.file, lines: piece.lines?, code: piece.code.as_deref()?, about, language })
}

fn about(kind: &str, name: Option<&str>) -> String {
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} `{name}`"))
}

/// The best pieces with their code as far as there is room, and the places of the rest.
fn said(answer: &CodeAnswer, found: &[Found<'_>], verbose: bool) -> String {
    let mut said = String::new();
    let room = if verbose { WHOLE } else { BRIEF };
    let single = found.iter().all(|piece| piece.lines[0] == piece.lines[1]);
    let mut listing = false;
    for piece in found {
        if single {
            let _ = writeln!(said, "- {} {}", piece.place(), line_of(piece.code));
            continue;
        }
        let code = piece.fenced(verbose);
        listing |= !said.is_empty() && said.len() + code.len() > room;
        let _ = match listing {
            true => writeln!(said, "- {}", piece.place()),
            false => writeln!(said, "{}\n{code}", piece.place()),
        };
    }
    let closing = closing(answer);
    let end = said.trim_end().len();
    said.truncate(end);
    if !said.is_empty() && !closing.is_empty() {
        said.push_str("\n\n");
    }
    said + &closing
}

/// A single line of code inside of a sentence.
fn line_of(code: &str) -> String {
    let code = code.trim();
    let shown: String = code.chars().take(160).collect();
    let rest = if shown.len() < code.len() { "…" } else { "" };
    if code.contains('`') { format!("`` {shown}{rest} ``") } else { format!("`{shown}{rest}`") }
}

fn closing(answer: &CodeAnswer) -> String {
    let (shown, total, truncated, notices, what) = match answer {
        CodeAnswer::Search(found) => {
            (found.results.len(), found.total, found.truncated, &found.notices, "result")
        }
        CodeAnswer::Query(found) => {
            (found.results.len(), found.total, found.truncated, &found.notices, "match")
        }
        CodeAnswer::Extract(found, _) => {
            let errors =
                found.results.iter().filter_map(|piece| Some((&piece.request, piece.error.as_ref()?)));
            let lines: Vec<String> = errors.map(|(request, error)| format!("{request}: {error}.")).collect();
            return rest(&lines, found.truncated, &found.notices);
        }
        CodeAnswer::List(_) => return String::new(),
    };
    let plural = match (total, what) {
        (1, _) => "",
        (_, "match") => "es",
        _ => "s",
    };
    let count = match (shown, total) {
        (_, 0) if what == "match" => "Nothing here has this shape.".to_owned(),
        (_, 0) => "Nothing here has these words; /search with other ones may find it.".to_owned(),
        (shown, total) if shown < total => format!("{shown} of {total} {what}{plural}."),
        (_, total) => format!("{total} {what}{plural}."),
    };
    rest(&[count], truncated, notices)
}

fn rest(lines: &[String], truncated: bool, notices: &[String]) -> String {
    let mut all = lines.to_vec();
    if truncated {
        all.push("The time was up before every file was looked at.".to_owned());
    }
    all.extend(notices.iter().map(|notice| format!("Note: {notice}")));
    all.join("\n")
}
