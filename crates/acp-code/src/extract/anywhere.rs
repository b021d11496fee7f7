//! `#Symbol`: every declaration of a name, in whatever file it stands.

use std::borrow::Cow;
use std::path::PathBuf;

use memchr::memmem::Finder;

use super::cuts::{Cut, symbols};
use super::spec::parts_of;
use super::{ExtractRequest, ExtractedPiece};
use crate::blocks::Outline;
use crate::read::{Buffer, Content, is_binary};
use crate::walk::{self, Scope};
use crate::{StopSignal, lang, testcode};

/// More declarations of one name than this are not shown.
const MOST: usize = 20;

/// The declarations that were found.
pub(super) struct Found {
    pub(super) pieces: Vec<ExtractedPiece>,
    pub(super) notices: Vec<String>,
    /// The time was up before every file was looked at.
    pub(super) late: bool,
}

/// A declaration, and whether it is test code.
struct Declared {
    piece: ExtractedPiece,
    test: bool,
}

/// Every declaration of the name below the scope's root, those in tests last.
pub(super) fn pieces(
    symbol: &str,
    request: &ExtractRequest,
    scope: &Scope,
    stop: &StopSignal,
) -> Result<Found, String> {
    let symbol = symbol.trim();
    let parts = parts_of(symbol);
    let Some(last) = parts.last().filter(|last| !last.is_empty()) else {
        return Err("no name follows the `#`; write #Symbol or #Type.method".to_owned());
    };
    let finder = Finder::new(last.as_bytes());
    let visit = |(buffer, found): &mut (Buffer, Vec<Declared>), path: PathBuf| {
        let shown = scope.place.shown(&path);
        let Some(language) = lang::of(&path) else { return };
        if !matches!(buffer.load(&path), Ok(content) if !matches!(content, Content::Larger(_))) {
            return;
        }
        let bytes = buffer.bytes();
        if is_binary(bytes) || finder.find(bytes).is_none() {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let Some(outline) = Outline::parse_names(Cow::Borrowed(&*text), Some(language), stop) else { return };
        let test_file = testcode::is_test_path(&shown);
        for cut in symbols(&outline, &parts, &shown).unwrap_or_default() {
            let test = cut.test || test_file;
            let piece = piece(symbol, &shown, cut, &outline, &language.to_string(), request.context_lines);
            found.push(Declared { piece, test });
        }
    };
    let new = || (Buffer::default(), Vec::new());
    let (states, report) = walk::files(scope, stop, new, visit).map_err(|error| error.to_string())?;
    let mut found: Vec<Declared> = states.into_iter().flat_map(|(_, found)| found).collect();
    found.retain(|declared| request.allow_tests || !declared.test);
    if found.is_empty() && !report.truncated {
        return Err(format!("nothing here declares {symbol:?}; search finds it by words"));
    }
    found.sort_by(|one, other| {
        let key = |it: &Declared| (it.test, it.piece.file.clone(), it.piece.lines);
        key(one).cmp(&key(other))
    });
    let mut notices = report.notices;
    if found.len() > MOST {
        notices.push(format!(
            "{} more declarations of {symbol} are not shown; name the file",
            found.len() - MOST
        ));
        found.truncate(MOST);
    }
    Ok(Found {
        pieces: found.into_iter().map(|declared| declared.piece).collect(),
        notices,
        late: report.truncated,
    })
}

fn piece(
    symbol: &str,
    file: &str,
    cut: Cut,
    outline: &Outline<'_>,
    language: &str,
    context: usize,
) -> ExtractedPiece {
    let first = cut.lines[0].saturating_sub(context);
    let last = cut.lines[1].saturating_add(context).min(outline.count().saturating_sub(1));
    ExtractedPiece {
        request: format!("#{symbol}"),
        file: file.to_owned(),
        lines: Some([first + 1, last + 1]),
        code: Some(outline.slice(first, last).to_owned()),
        kind: Some(cut.kind.to_owned()),
        name: cut.name,
        language: Some(language.to_owned()),
        error: None,
    }
}
