//! `file`, `file:10`, `file:10-20`, `file#Symbol`, `file#Type.method`.

/// What is asked of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// First and last line, counted from 1.
    Lines(usize, usize),
    /// The parts of a name, outermost first.
    Symbol(Vec<String>),
}

/// A file and what is asked of it, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) file: String,
    pub(super) wanted: Wanted,
}

/// Reads one request. `exists` tells whether a file has this very name: names may hold `#` and `:` too.
pub(super) fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Spec, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the request is empty; give a file".to_owned());
    }
    let whole = || Spec { file: text.to_owned(), wanted: Wanted::All };
    if exists(text) {
        return Ok(whole());
    }
    // A name may hold it too: `#private`, `r#type`.
    let mut splits = text.match_indices('#').map(|(at, _)| (&text[..at], &text[at + 1..]));
    if let Some((file, symbol)) = splits.find(|(file, _)| exists(file)).or_else(|| text.rsplit_once('#')) {
        let symbol = symbol.trim();
        if symbol.is_empty() {
            return Err("no name follows the `#`; write file#Symbol or file#Type.method".to_owned());
        }
        return Ok(Spec { file: file.to_owned(), wanted: Wanted::Symbol(parts_of(symbol)) });
    }
    let Some((file, numbers)) = text.rsplit_once(':') else { return Ok(whole()) };
    // `file:10:5` names a column too, as compilers do; the line is what counts.
    if let Some((front, line)) = file.rsplit_once(':')
        && let (Ok(line), Ok(_)) = (line.parse(), numbers.parse::<usize>())
    {
        return lines(front, line, line);
    }
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => lines(file, first, last),
        _ => Ok(whole()),
    }
}

/// The parts of a name, outermost first.
pub(super) fn parts_of(symbol: &str) -> Vec<String> {
    let mut parts: Vec<String> = symbol.replace("::", ".").split('.').map(str::to_owned).collect();
    // A name that begins or ends with a dot is no path of names: `.button` of a style sheet.
    if parts.iter().any(String::is_empty) {
        parts = vec![symbol.to_owned()];
    }
    for part in &mut parts {
        *part = part.trim_start_matches('#').trim().to_owned();
    }
    parts
}

fn lines(file: &str, first: usize, last: usize) -> Result<Spec, String> {
    if first == 0 || last < first {
        return Err(format!("{first}-{last} are no lines; lines count from 1, the first before the last"));
    }
    Ok(Spec { file: file.to_owned(), wanted: Wanted::Lines(first, last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Spec {
        parse(text, |name| name == "odd#name:3").expect("a request")
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(read("a.rs").wanted, Wanted::All);
        assert_eq!(read("a.rs:10").wanted, Wanted::Lines(10, 10));
        assert_eq!(read("a.rs:10-20").wanted, Wanted::Lines(10, 20));
        assert_eq!(read("a.rs:10:5").wanted, Wanted::Lines(10, 10));
        assert_eq!(read("a.rs#Walk").wanted, Wanted::Symbol(vec!["Walk".to_owned()]));
        let method = Wanted::Symbol(vec!["Walk".to_owned(), "next".to_owned()]);
        assert_eq!(read("a.rs#Walk.next"), Spec { file: "a.rs".to_owned(), wanted: method.clone() });
        assert_eq!(read("a.rs#Walk::next").wanted, method);
    }

    #[test]
    fn a_file_whose_name_looks_like_a_request_is_a_file() {
        assert_eq!(read("odd#name:3").wanted, Wanted::All);
        assert_eq!(read("odd#name:3").file, "odd#name:3");
    }

    #[test]
    fn lines_that_cannot_be_are_refused() {
        assert!(parse("a.rs:0", |_| false).is_err());
        assert!(parse("a.rs:9-3", |_| false).is_err());
        assert!(parse("a.rs#", |_| false).is_err());
        assert!(parse("  ", |_| false).is_err());
    }
}
