//! Results as text: plain for a terminal or a model, markdown, JSON.

use std::fmt::Write as _;

use crate::ResultFormat;
use crate::extract::{self, ExtractedPiece};
use crate::list;
use crate::place::one_line;
use crate::query::{self, QueryMatch};
use crate::search::{self, Hit};

/// The hits of a page.
pub fn search(results: &search::SearchResults, format: ResultFormat) -> String {
    let mut out = String::new();
    match format {
        ResultFormat::Json => return json(results),
        ResultFormat::Markdown => {
            for hit in &results.results {
                let title = title(&hit.kind, hit.name.as_deref());
                fenced(&mut out, &place(&hit.file, hit.lines), &title, hit.language.as_deref(), &hit.code);
            }
        }
        ResultFormat::Plain if is_list(&results.results) => listed(&mut out, &results.results),
        ResultFormat::Plain => {
            for hit in &results.results {
                let title = title(&hit.kind, hit.name.as_deref());
                let _ = writeln!(out, "{}  {title}  {:.2}", place(&hit.file, hit.lines), hit.score);
                numbered(&mut out, hit.lines, &hit.code, &hit.matched);
                out.push('\n');
            }
        }
    }
    let page =
        if results.page > 1 || results.more { format!(", page {}", results.page) } else { String::new() };
    let count = counted(results.results.len(), results.total, "result");
    closing(&mut out, format, &format!("{count}{page}"), results.truncated, &results.notices);
    out
}

/// The matches of a pattern.
pub fn query(results: &query::QueryResults, format: ResultFormat) -> String {
    let mut out = String::new();
    match format {
        ResultFormat::Json => return json(results),
        ResultFormat::Markdown => {
            for hit in &results.results {
                fenced(&mut out, &place(&hit.file, hit.lines), "", Some(&hit.language), &hit.code);
            }
        }
        ResultFormat::Plain => {
            for hit in &results.results {
                let _ = writeln!(out, "{}", place(&hit.file, hit.lines));
                numbered(&mut out, hit.lines, &indented(hit), &[]);
                out.push('\n');
            }
        }
    }
    let count = counted(results.results.len(), results.total, "match");
    closing(&mut out, format, &count, results.truncated, &results.notices);
    out
}

/// The pieces of files.
pub fn extract(results: &extract::ExtractResults, format: ResultFormat) -> String {
    let mut out = String::new();
    if format == ResultFormat::Json {
        return json(results);
    }
    for piece in &results.results {
        match (&piece.code, piece.lines) {
            (Some(code), Some(lines)) => {
                let title = title(piece.kind.as_deref().unwrap_or_default(), piece.name.as_deref());
                if format == ResultFormat::Markdown {
                    fenced(&mut out, &place(&piece.file, lines), &title, piece.language.as_deref(), code);
                } else {
                    let _ = writeln!(out, "{}  {title}", place(&piece.file, lines));
                    numbered(&mut out, lines, code, &[]);
                    out.push('\n');
                }
            }
            _ => failed(&mut out, piece, format),
        }
    }
    closing(&mut out, format, "", results.truncated, &results.notices);
    out
}

/// Files and folders, one on a line: folders end in `/`, and one that is not opened says how much is in it.
pub fn list(results: &list::ListResults) -> String {
    let mut out = String::new();
    for entry in &results.results {
        let path = one_line(&entry.path);
        let _ = match entry.files {
            Some(1) => writeln!(out, "{path}/  (1 file)"),
            Some(files) => writeln!(out, "{path}/  ({files} files)"),
            None => writeln!(out, "{path}"),
        };
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let count = match results.files {
        0 => "no files".to_owned(),
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    closing(&mut out, ResultFormat::Plain, &count, results.truncated, &results.notices);
    out
}

fn failed(out: &mut String, piece: &ExtractedPiece, format: ResultFormat) {
    let error = piece.error.as_deref().unwrap_or("there is nothing there");
    let _ = match format {
        ResultFormat::Markdown => writeln!(out, "### {}\n\n**error:** {error}\n", piece.request),
        _ => writeln!(out, "{}  error: {error}\n", piece.request),
    };
}

fn json<T: serde::Serialize>(results: &T) -> String {
    let mut text = serde_json::to_string_pretty(results).unwrap_or_default();
    text.push('\n');
    text
}

/// Where lines stand: `file:3-14`.
pub fn place(file: &str, lines: [usize; 2]) -> String {
    let file = one_line(file);
    if lines[0] == lines[1] {
        format!("{file}:{}", lines[0])
    } else {
        format!("{file}:{}-{}", lines[0], lines[1])
    }
}

fn title(kind: &str, name: Option<&str>) -> String {
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"))
}

fn counted(shown: usize, total: usize, what: &str) -> String {
    let plural = match (total, what) {
        (1, _) => what.to_owned(),
        (_, "match") => "matches".to_owned(),
        _ => format!("{what}s"),
    };
    if total == 0 {
        format!("no {plural}")
    } else if shown == total {
        format!("{total} {plural}")
    } else {
        format!("{shown} of {total} {plural}")
    }
}

/// Single lines of an exact search read best as a list under each file.
fn is_list(hits: &[Hit]) -> bool {
    !hits.is_empty() && hits.iter().all(|hit| hit.score == 1.0 && hit.lines[0] == hit.lines[1])
}

fn listed(out: &mut String, hits: &[Hit]) {
    let mut rest = hits;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|hit| hit.file == first.file).count();
        let (group, others) = rest.split_at(count);
        let width = group.iter().map(|hit| hit.lines[0].to_string().len()).max().unwrap_or(1);
        let _ = writeln!(out, "{}", one_line(&first.file));
        for hit in group {
            let _ = writeln!(out, "  {:>width$}  {}", hit.lines[0], hit.code);
        }
        out.push('\n');
        rest = others;
    }
}

/// Code with its line numbers; a mark stands where what was looked for is.
fn numbered(out: &mut String, [first, last]: [usize; 2], code: &str, marked: &[usize]) {
    let width = last.to_string().len();
    for (line, text) in (first..=last).zip(code.split('\n')) {
        let mark = if marked.binary_search(&line).is_ok() { '>' } else { ' ' };
        let _ = writeln!(out, "{}", format!("{mark} {line:>width$}  {text}").trim_end());
    }
}

/// A match begins in the middle of a line: its first line is moved to where it stood.
fn indented(hit: &QueryMatch) -> String {
    let only_one = hit.lines[0] == hit.lines[1];
    if only_one {
        hit.code.clone()
    } else {
        format!("{}{}", " ".repeat(hit.column.saturating_sub(1)), hit.code)
    }
}

/// A fence for this code: longer than any row of backticks inside.
pub fn fence(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

fn fenced(out: &mut String, place: &str, title: &str, language: Option<&str>, code: &str) {
    let tag = language.unwrap_or_default().to_lowercase();
    let fence = fence(code);
    let title = if title.is_empty() { String::new() } else { format!(" · {title}") };
    let _ = writeln!(out, "### {place}{title}\n\n{fence}{tag}\n{code}\n{fence}\n");
}

fn closing(out: &mut String, format: ResultFormat, count: &str, truncated: bool, notices: &[String]) {
    let mut lines: Vec<String> = Vec::new();
    if !count.is_empty() {
        lines.push(count.to_owned());
    }
    if truncated {
        lines.push("truncated: the time was up before every file was looked at".to_owned());
    }
    lines.extend(notices.iter().map(|notice| format!("note: {notice}")));
    for line in lines {
        let _ = match format {
            ResultFormat::Markdown => writeln!(out, "_{line}_\n"),
            _ => writeln!(out, "{line}"),
        };
    }
}
