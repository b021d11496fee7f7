//! Changes of parts of a file, as a model asks for them: by what stands there, by lines, by the name of a declaration.
//!
//! All edits of one call are found in the file as it is, must not overlap, and are made together or not at all.

mod loose;
mod nearest;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde_json::{Value, json};

use super::config::Declarations;

/// The lines of an ambiguous text that are named.
const NAMED: usize = 8;

/// Several edits of one file.
pub(super) struct Edits {
    list: Vec<Edit>,
    /// The arguments as they came.
    given: Value,
    declarations: Declarations,
}

/// One edit: what stands at the place, or the part of it that `old` names, becomes `new`.
struct Edit {
    place: Option<Place>,
    old: Option<String>,
    new: String,
    /// Whether every place with the old text is meant.
    all: bool,
}

/// A part of a file. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Lines(usize, usize),
    After(usize),
    Symbol(String),
}

/// A stretch of the file and what stands there afterwards.
struct Change {
    range: Range<usize>,
    new: String,
    edit: usize,
}

impl Edits {
    /// Reads the arguments of a call; with them comes the file's path, which may have named a part of the file too.
    pub(super) fn parse(arguments: &Value, declarations: Declarations) -> Result<(String, Self), String> {
        let path =
            arguments.get("path").and_then(Value::as_str).ok_or("edit_file needs \"path\", a string")?;
        let (path, place) = split(path);
        let single = std::slice::from_ref(arguments);
        let list = match arguments.get("edits") {
            None | Some(Value::Null) => single,
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(_) => return Err("edit_file needs \"edits\", a list with at least one edit".to_owned()),
        };
        let list = list.iter().map(|edit| Edit::parse(edit, place.as_ref())).collect::<Result<_, _>>()?;
        Ok((path, Self { list, given: arguments.clone(), declarations }))
    }

    /// The arguments of the call, with the path as it was resolved.
    pub(super) fn input(&self, path: &str) -> Value {
        let mut input = self.given.clone();
        let place = self.given["path"].as_str().and_then(|given| split(given).1);
        input["path"] = match place {
            Some(Place::Symbol(symbol)) => json!(format!("{path}#{symbol}")),
            Some(Place::Lines(first, last)) => json!(format!("{path}:{first}-{last}")),
            _ => json!(path),
        };
        input
    }

    /// Whether an edit says where by line numbers: it is right for one text only.
    pub(super) fn are_by_line(&self) -> bool {
        self.list.iter().any(|edit| matches!(edit.place, Some(Place::Lines(..) | Place::After(_))))
    }

    /// The whole new text of the file, or why an edit cannot be made.
    pub(super) fn apply(&self, path: &str, text: &str) -> Result<String, String> {
        let mut changes: Vec<Change> = Vec::new();
        for (edit, asked) in self.list.iter().enumerate() {
            let found =
                asked.changes(path, text, &self.declarations).map_err(|why| self.numbered(edit, why))?;
            changes.extend(found.into_iter().map(|(range, new)| Change { range, new, edit }));
        }
        changes.sort_by_key(|change| (change.range.start, change.range.end, change.edit));
        if let Some(pair) = changes.windows(2).find(|pair| pair[1].range.start < pair[0].range.end) {
            let line = line_of(text, pair[1].range.start);
            let (one, other) = (pair[0].edit + 1, pair[1].edit + 1);
            return Err(format!("edits {one} and {other} overlap at line {line}; nothing was changed"));
        }
        let (mut changed, mut at) = (String::with_capacity(text.len()), 0);
        for change in &changes {
            changed.push_str(&text[at..change.range.start]);
            changed.push_str(&change.new);
            at = change.range.end;
        }
        changed.push_str(&text[at..]);
        if changed == text {
            return Err(format!("{path} would stay as it is: the new text is what stands there already"));
        }
        Ok(changed)
    }

    fn numbered(&self, edit: usize, why: String) -> String {
        match self.list.len() {
            1 => why,
            count => format!("edit {} of {count}, so nothing was changed: {why}", edit + 1),
        }
    }
}

impl Edit {
    fn parse(given: &Value, outer: Option<&Place>) -> Result<Self, String> {
        let text = |key: &str| match given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("edit_file needs {key:?} to be a string")),
        };
        let number = |key: &str| match given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                // `3.0` is the same number as `3`.
                let whole = value.as_f64().filter(|number| number.fract() == 0.0);
                let whole = whole.and_then(|number| format!("{number:.0}").parse().ok());
                whole.map(Some).ok_or_else(|| format!("edit_file needs {key:?} to be a whole number"))
            }
        };
        let (first, last, after) = (number("start_line")?, number("end_line")?, number("after_line")?);
        let place = match (first, after, text("symbol")?) {
            (Some(first), None, None) => {
                let last = last.unwrap_or(first);
                if first == 0 || last < first {
                    return Err(format!(
                        "{first}-{last} are no lines; lines count from 1, the first before the last"
                    ));
                }
                Some(Place::Lines(first, last))
            }
            (None, Some(after), None) => Some(Place::After(after)),
            (None, None, Some(symbol)) => Some(Place::Symbol(symbol.trim_start_matches('#').to_owned())),
            (None, None, None) => outer.cloned(),
            _ => return Err("an edit has one place: start_line, after_line or symbol".to_owned()),
        };
        let old = text("old")?;
        let new = text("new")?.ok_or("edit_file needs \"new\", a string")?;
        match (&place, &old) {
            (None, None) => Err(
                "edit_file needs \"old\", the text to replace, or a place: start_line, after_line or symbol"
                    .to_owned(),
            ),
            (Some(Place::After(_)), Some(_)) => Err("after_line inserts lines; leave \"old\" out".to_owned()),
            (_, Some(old)) if old.trim().is_empty() => {
                Err("the text to replace is empty; write_file makes new files, and after_line inserts lines"
                    .to_owned())
            }
            _ => Ok(Self { place, old, new, all: given.get("all") == Some(&Value::Bool(true)) }),
        }
    }

    /// Where the file changes, and to what.
    fn changes(
        &self,
        path: &str,
        text: &str,
        declarations: &Declarations,
    ) -> Result<Vec<(Range<usize>, String)>, String> {
        let new = with_line_ends(&self.new, text);
        let within = match &self.place {
            None => 0..text.len(),
            Some(Place::Lines(first, last)) => lines(path, text, *first, *last)?,
            Some(Place::After(line)) => return inserted(path, text, *line, &new).map(|change| vec![change]),
            Some(Place::Symbol(symbol)) => {
                let [first, last] = one_of(&declarations.find(path, text, symbol)?, path, symbol)?;
                lines(path, text, first, last)?
            }
        };
        let Some(old) = &self.old else {
            let as_it_was = matches!(self.place, Some(Place::Lines(..)));
            let new = if as_it_was { new } else { indented_as(&text[within.clone()], &new) };
            let new = whole_lines(new, &text[within.clone()]);
            return Ok(vec![(within, new)]);
        };
        let exact: Vec<_> =
            text[within.clone()].match_indices(old.as_str()).map(|(at, _)| within.start + at).collect();
        if !exact.is_empty() {
            self.clear(path, text, exact.iter().copied())?;
            return Ok(exact.into_iter().map(|at| (at..at + old.len(), new.clone())).collect());
        }
        let found = loose::find(&text[within.clone()], old);
        if found.is_empty() {
            return Err(nearest::missing(path, text, within, old));
        }
        let found: Vec<_> =
            found.into_iter().map(|it| within.start + it.start..within.start + it.end).collect();
        self.clear(path, text, found.iter().map(|range| range.start))?;
        Ok(found.into_iter().map(|range| loose::replacement(text, range, old, &new)).collect())
    }

    /// Refuses a text that stands in several places, unless all of them are meant.
    fn clear(
        &self,
        path: &str,
        text: &str,
        places: impl ExactSizeIterator<Item = usize>,
    ) -> Result<(), String> {
        let count = places.len();
        if count == 1 || self.all {
            return Ok(());
        }
        let lines: Vec<String> = places.take(NAMED).map(|at| line_of(text, at).to_string()).collect();
        Err(format!(
            "{path} holds that text {count} times (lines {}); give more of what stands around it, its start_line and \
             end_line, or \"all\": true",
            lines.join(", ")
        ))
    }
}

/// The file of a path that names a part of it: `src/a.rs#Walk.next`, `src/a.rs:10-20`.
fn split(path: &str) -> (String, Option<Place>) {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_.:$@!?<>=".contains(c))
    };
    if let Some((file, symbol)) = path.rsplit_once('#')
        && !file.is_empty()
        && is_name(symbol)
    {
        return (file.to_owned(), Some(Place::Symbol(symbol.to_owned())));
    }
    if let Some((file, numbers)) = path.rsplit_once(':')
        && !file.is_empty()
    {
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        if let (Ok(first @ 1..), Ok(last)) = (first.parse(), last.parse::<usize>())
            && last >= first
        {
            return (file.to_owned(), Some(Place::Lines(first, last)));
        }
    }
    (path.to_owned(), None)
}

fn one_of(found: &[[usize; 2]], path: &str, symbol: &str) -> Result<[usize; 2], String> {
    match found {
        [one] => Ok(*one),
        [] => Err(format!("{path} declares no {symbol:?}")),
        several => {
            let places: Vec<String> = several.iter().map(|[first, last]| format!("{first}-{last}")).collect();
            Err(format!(
                "{path} declares {symbol:?} {} times (lines {}); give start_line and end_line instead",
                several.len(),
                places.join(", ")
            ))
        }
    }
}

/// Where each line begins; a line end at the end of the text begins no further line.
fn starts(text: &str) -> Vec<usize> {
    let after = text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < text.len());
    std::iter::once(0).filter(|_| !text.is_empty()).chain(after).collect()
}

/// The number of the line that holds this byte.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The bytes of these lines, line ends included.
fn lines(path: &str, text: &str, first: usize, last: usize) -> Result<Range<usize>, String> {
    let starts = starts(text);
    if last > starts.len() {
        return Err(format!("{path} has only {} lines", starts.len()));
    }
    Ok(starts[first - 1]..starts.get(last).copied().unwrap_or(text.len()))
}

fn inserted(path: &str, text: &str, line: usize, new: &str) -> Result<(Range<usize>, String), String> {
    let starts = starts(text);
    if line > starts.len() {
        return Err(format!("{path} has only {} lines", starts.len()));
    }
    let at = starts.get(line).copied().unwrap_or(text.len());
    let end = line_end(text);
    let before = if at > 0 && !text[..at].ends_with('\n') { end } else { "" };
    let after = if new.ends_with('\n') || new.is_empty() { "" } else { end };
    Ok((at..at, format!("{before}{new}{after}")))
}

/// The new text of whole lines ends as they did.
fn whole_lines(new: String, old: &str) -> String {
    if new.is_empty() || new.ends_with('\n') || !old.ends_with('\n') {
        return new;
    }
    new + line_end(old)
}

/// A declaration that is given from the left margin moves to where the old one stood.
fn indented_as(old: &str, new: &str) -> String {
    let indent = loose::indent(old.lines().next().unwrap_or_default());
    let is_outdented = new.lines().next().is_some_and(|first| loose::indent(first).is_empty());
    if indent.is_empty() || !is_outdented {
        return new.to_owned();
    }
    let moved = |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("{indent}{line}") };
    new.split_inclusive('\n').map(moved).collect()
}

fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The text with the line ends of the file that it is for.
fn with_line_ends(new: &str, file: &str) -> String {
    let plain = new.replace("\r\n", "\n");
    if line_end(file) == "\r\n" { plain.replace('\n', "\r\n") } else { new.to_owned() }
}
