//! An HTML page as an outline that a person can review: one line for each element, with its text and the attributes that a
//! reader or a script depends on. Styles and scripts are left out; the browser test is theirs.

use std::fmt::Write;

/// Elements without content.
const VOID: &[&str] = &["br", "hr", "img", "input", "link", "meta"];
/// Elements whose content is another language's.
const FOREIGN: &[&str] = &["script", "style"];
/// What an outline shows of an element besides its id and classes.
const ATTRIBUTES: &[&str] = &[
    "aria-hidden",
    "aria-label",
    "aria-live",
    "checked",
    "colspan",
    "data-area",
    "data-levels",
    "data-text",
    "data-verdict",
    "href",
    "lang",
    "name",
    "open",
    "placeholder",
    "role",
    "rowspan",
    "scope",
    "src",
    "style",
    "title",
    "type",
    "value",
];

/// The outline of a page.
///
/// # Panics
/// When an element is not closed, or closed by another one's end.
pub fn outline(page: &str) -> String {
    let mut out = String::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        text(&mut out, open.len(), &rest[..at], open.iter().any(|(name, _)| *name == "pre"));
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let (opened, content) = open.pop().unwrap_or_default();
            assert_eq!(opened, name, "</{name}> ends another element:\n{out}");
            join_single_text(&mut out, content);
            continue;
        }
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        out.extend(std::iter::repeat_n("  ", open.len()));
        writeln!(out, "{}", element(name, attributes)).expect("a text");
        if FOREIGN.contains(&name) {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("it is closed") + close.len()..];
        } else if !VOID.contains(&name) {
            open.push((name, out.len()));
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    out
}

/// Puts the text of an element that has nothing else on the element's own line.
fn join_single_text(out: &mut String, content: usize) {
    let inside = out[content..].trim();
    if inside.starts_with("| ") && !inside.contains('\n') {
        let joined = format!(" {inside}\n");
        out.truncate(content - 1);
        out.push_str(&joined);
    }
}

/// `details#a0-x.test [open]`.
fn element(name: &str, attributes: &str) -> String {
    let mut line = name.to_owned();
    let mut shown = Vec::new();
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter == '=' || letter.is_whitespace()).unwrap_or(rest.len());
        let key = &rest[..end];
        rest = rest[end..].trim_start();
        let mut value = None;
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let close = quoted.find('"').expect("a value ends");
            value = Some(&quoted[..close]);
            rest = quoted[close + 1..].trim_start();
        }
        match (key, value) {
            ("id", Some(id)) => line.insert_str(name.len(), &format!("#{id}")),
            ("class", Some(classes)) => classes.split_whitespace().for_each(|class| {
                line.push('.');
                line.push_str(class);
            }),
            (key, Some(value)) if ATTRIBUTES.contains(&key) => {
                shown.push(format!("[{key}={}]", readable(value)));
            }
            (key, None) if ATTRIBUTES.contains(&key) => shown.push(format!("[{key}]")),
            _ => {}
        }
    }
    for attribute in shown {
        line.push(' ');
        line.push_str(&attribute);
    }
    line
}

fn text(out: &mut String, depth: usize, text: &str, is_exact: bool) {
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        out.extend(std::iter::repeat_n("  ", depth));
        let line = if is_exact { line.trim_end() } else { line.trim() };
        writeln!(out, "| {}", readable(line)).expect("a text");
    }
}

/// Quotes and slashes as they are; what would be markup stays escaped, so that the outline shows that it is.
fn readable(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&#x2f;", "/").replace("&#x27;", "'")
}
