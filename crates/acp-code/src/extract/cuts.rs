//! Which lines of a file are meant.

use std::borrow::Cow;
use std::path::Path;

use super::spec::{Wanted, parts_of};
use crate::blocks::{Block, Kind, Outline};
use crate::{StopSignal, lang};

/// A function in a function is no block of its own unless the outer one is longer than this.
const LONG: usize = 150;
/// Names that are offered when one is not found.
const OFFERED: usize = 5;

/// A piece of lines, from 0.
pub(super) struct Cut {
    pub(super) lines: [usize; 2],
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    pub(super) test: bool,
}

/// The lines, from 1, of every declaration with this name (`Symbol` or `Type.method`) in a text that stands in a file of
/// this name; otherwise the reason, with names that come near.
pub fn locate(file: &str, text: &str, symbol: &str, stop: &StopSignal) -> Result<Vec<[usize; 2]>, String> {
    let Some(language) = lang::of(Path::new(file)) else {
        return Err(format!("the declarations of {file:?} are not known: its language is not built in"));
    };
    let Some(outline) = Outline::parse_names(Cow::Borrowed(text), Some(language), stop) else {
        return Err(format!("the time was up before the declarations of {file:?} were found"));
    };
    let cuts = cuts(&outline, &Wanted::Symbol(parts_of(symbol.trim())), file)?;
    Ok(cuts.into_iter().map(|cut| [cut.lines[0] + 1, cut.lines[1] + 1]).collect())
}

pub(super) fn cuts(outline: &Outline<'_>, wanted: &Wanted, shown: &str) -> Result<Vec<Cut>, String> {
    let last = outline.count().saturating_sub(1);
    match wanted {
        Wanted::All => Ok(vec![Cut { lines: [0, last], kind: "file", name: None, test: false }]),
        Wanted::Lines(from, to) => {
            if *from > outline.count() {
                return Err(format!("{shown:?} has only {} lines", outline.count()));
            }
            Ok(vec![grown(outline, from - 1, (to - 1).min(last))])
        }
        Wanted::Symbol(_) if outline.is_too_deep => Err(format!(
            "{shown:?} was not parsed: it nests too deep for its language's parser; ask for lines of it: {shown}:1-20"
        )),
        Wanted::Symbol(parts) => symbols(outline, parts, shown),
    }
}

/// The lines grown to the whole blocks that they touch.
fn grown(outline: &Outline<'_>, from: usize, to: usize) -> Cut {
    let (first, last) = (block_at(outline, from), block_at(outline, to));
    let begin = first.map_or_else(|| paragraph(outline, from)[0], |block| block.lines[0]);
    let end = last.map_or_else(|| paragraph(outline, to)[1], |block| block.lines[1]);
    let single = first.filter(|block| block.lines[0] <= begin && block.lines[1] >= end);
    Cut {
        lines: [begin.min(from), end.max(to)],
        kind: single.map_or(Kind::Lines, |block| block.kind).word(),
        name: single.and_then(|block| block.name.clone()),
        test: first.is_some_and(|block| block.test) || last.is_some_and(|block| block.test),
    }
}

/// The block that a reader would point at: a function in a function is part of the outer one.
fn block_at<'o>(outline: &'o Outline<'_>, line: usize) -> Option<&'o Block> {
    let mut block = outline.around(line)?;
    while let Some(parent) = block.parent.map(|parent| &outline.blocks[parent])
        && parent.kind == Kind::Function
        && parent.lines[1] - parent.lines[0] < LONG
    {
        block = parent;
    }
    Some(block)
}

/// The lines around a line that stands in no block, up to the next empty ones.
fn paragraph(outline: &Outline<'_>, line: usize) -> [usize; 2] {
    let is_blank = |line: usize| outline.slice(line, line).trim().is_empty();
    // Where the block before the line ends and the one after it begins.
    let (mut from, mut to) = (0, outline.count());
    for block in &outline.blocks {
        if block.lines[1] < line {
            from = from.max(block.lines[1] + 1);
        } else {
            to = to.min(block.lines[0]);
        }
    }
    let (mut first, mut last) = (line, line);
    while first > from && !is_blank(first - 1) {
        first -= 1;
    }
    while last + 1 < to && !is_blank(last + 1) {
        last += 1;
    }
    [first, last]
}

pub(super) fn symbols(outline: &Outline<'_>, parts: &[String], shown: &str) -> Result<Vec<Cut>, String> {
    let mut found: Vec<&Block> =
        outline.blocks.iter().filter(|block| answers(outline, block, parts)).collect();
    // A type is its declaration; its `impl` blocks are asked for through their methods.
    if found.iter().any(|block| block.kind != Kind::Impl) {
        found.retain(|block| block.kind != Kind::Impl);
    }
    // What is defined here is shown, and not that it was announced before.
    if found.iter().any(|block| !block.forward) {
        found.retain(|block| !block.forward);
    }
    if found.is_empty() {
        return Err(not_found(outline, parts, shown));
    }
    Ok(found
        .into_iter()
        .map(|block| Cut {
            lines: block.lines,
            kind: block.kind.word(),
            name: block.name.clone(),
            test: block.test,
        })
        .collect())
}

/// Whether the block has this name, inside blocks with the names before it.
fn answers(outline: &Outline<'_>, block: &Block, parts: &[String]) -> bool {
    let Some((last, outer)) = parts.split_last() else { return false };
    if !block.name.as_deref().is_some_and(|name| is_called(name, last)) {
        return false;
    }
    let owner = block.owner.as_deref().map(without_arguments).unwrap_or_default();
    let mut around: Vec<&str> = fronts(block.name.as_deref().unwrap_or_default()).collect();
    around.extend(owner.rsplit("::"));
    let mut at = block.parent;
    while let Some(parent) = at {
        let name = outline.blocks[parent].name.as_deref().unwrap_or_default();
        around.push(name);
        around.extend(fronts(name));
        at = outline.blocks[parent].parent;
    }
    // Innermost first, and every part must be met on the way out.
    let mut chain = around.into_iter();
    outer.iter().rev().all(|part| chain.any(|name| is_called(name, part)))
}

/// What stands before the last part of a name: `b` and `a` of `a::b::c`.
fn fronts(name: &str) -> impl Iterator<Item = &str> {
    name.rsplit("::").flat_map(|part| part.rsplit('.')).skip(1).filter(|part| !part.is_empty())
}

/// `Walk<'a, T>` is called Walk, `ns::Walk` and `Outer<T>::Walk` too, and `$size` is called size.
fn is_called(name: &str, wanted: &str) -> bool {
    let plain = without_arguments(name);
    let bare = plain.split(['(', '[']).next().unwrap_or(&plain).trim();
    bare == wanted
        || name == wanted
        || bare.rsplit("::").next() == Some(wanted)
        || bare.rsplit('.').next() == Some(wanted)
        || bare.strip_prefix("r#").unwrap_or(bare).trim_start_matches(['$', '@']) == wanted
        || operator(wanted).is_some_and(|sign| operator(name).unwrap_or(name) == sign)
}

/// What follows the word in `operator +`.
fn operator(name: &str) -> Option<&str> {
    let sign = name.strip_prefix("operator")?;
    (!sign.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')).then(|| sign.trim())
}

/// The name without what stands between `<` and `>`.
fn without_arguments(name: &str) -> Cow<'_, str> {
    // An operator of C++ may be called `<`.
    let (arguments, rest) = name.split_at(name.find("operator").unwrap_or(name.len()));
    if !arguments.contains('<') {
        return Cow::Borrowed(name);
    }
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(name.len());
    for letter in arguments.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    Cow::Owned(plain + rest)
}

fn not_found(outline: &Outline<'_>, parts: &[String], shown: &str) -> String {
    let wanted = parts.join(".");
    let last = parts.last().map(|part| part.to_lowercase()).unwrap_or_default();
    let mut near: Vec<&str> = outline
        .blocks
        .iter()
        .filter_map(|block| block.name.as_deref())
        .filter(|name| {
            let lower = name.to_lowercase();
            lower.contains(&last) || (lower.len() > 3 && last.contains(&lower))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(OFFERED);
    let hint = if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) };
    format!("{shown:?} declares no {wanted:?}{hint}")
}
