//! Secrets by their shape, and by the words in front of them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::entropy::is_random;

/// A pattern, whose group `s` is the secret (without it, all of the match is), and what else must hold for it.
struct Shape {
    regex: Regex,
    holds: Holds,
}

/// What else must hold for a secret that was found.
type Holds = fn(&str) -> bool;

/// Formats that vendors give to their keys.
const VENDORS: &str = concat!(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}",
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_.-]{16,}",
    r"|xox[abeposr]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,}",
    r"|\b1//0[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
    r"|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|\bdo[opr]_v1_[a-f0-9]{32,}|\brubygems_[a-f0-9]{32,}",
    r"|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\bkey-[0-9a-f]{32}|\b(?:AC|SK)[0-9a-f]{32}\b|\br8_[A-Za-z0-9]{20,}",
    r"|\bgsk_[A-Za-z0-9]{20,}|\bxai-[A-Za-z0-9]{20,}|\bpplx-[A-Za-z0-9]{20,}|\bnvapi-[A-Za-z0-9_-]{20,}|\bdapi[0-9a-f]{32}",
    r"|\bsq0(?:atp|csp)-[A-Za-z0-9_-]{20,}|\bEAA[A-Za-z0-9]{40,}|\bshp(?:at|ss|ca|pa)_[A-Fa-f0-9]{20,}|\blin_api_[A-Za-z0-9]{20,}",
    r"|\b(?:ntn|secret)_[A-Za-z0-9]{30,}|\bfigd_[A-Za-z0-9_-]{20,}|\bCFPAT-[A-Za-z0-9_-]{20,}|\bPMAK-[A-Za-z0-9-]{20,}",
    r"|\bNRAK-[A-Z0-9]{20,}|\bATATT3[A-Za-z0-9_=-]{20,}|\bhv[sbr]\.[A-Za-z0-9_-]{20,}|\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{20,}",
    r"|\bsbp_[a-f0-9]{32,}|\btskey-[a-z]+-[A-Za-z0-9-]{16,}|\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}",
    r"|\bS[UANOCX][A-Z2-7]{56}\b|\b\d{8,10}:AA[A-Za-z0-9_-]{32,}|\b[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
);

/// What stands in front of a secret: a name, with the quotes of JSON, escaped or not.
const NAME: &str = r#"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|account[_-]?key|shared[_-]?access[_-]?signature|client[_-]?secret|token|secret|passw(?:or)?d|pwd|passphrase|credentials?|authorization|x-auth)"#;

fn anything(_: &str) -> bool {
    true
}

/// Whether a word is not one of a language: it has a digit, a sign or both cases, or is long.
fn is_no_word(word: &str) -> bool {
    let tail = word.get(1..).unwrap_or_default();
    word.len() >= 24
        || word.contains(|c: char| c.is_ascii_digit() || matches!(c, '+' | '/' | '=' | '_'))
        || tail.contains(|c: char| c.is_ascii_uppercase()) && word.contains(|c: char| c.is_ascii_lowercase())
}

fn is_no_number(word: &str) -> bool {
    word.contains(|c: char| !c.is_ascii_digit())
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let named = format!(
        r#"(?i)[a-z0-9_.-]*{NAME}\\*["']?\s*(?::|=>?)\s*\\*["']?(?:(?:bearer|basic|token|digest)\s+)?(?P<s>[^\s"'\\,;&<>{{}}]{{4,}})"#
    );
    let member = format!(r#"(?i)\\*"[a-z0-9_.-]*{NAME}\\*"\s*:\s*\\*"(?P<s>[^"\\]{{1,}})"#);
    let pair = format!(
        r#"(?i)\\*"name\\*"\s*:\s*\\*"[a-z0-9_.-]*(?:{NAME}|key|cookie)[a-z0-9_.-]*\\*"\s*,\s*\\*"value\\*"\s*:\s*\\*"(?P<s>[^"\\]+)"#
    );
    let flag = r"(?i)(?:^|\s)--?[a-z0-9-]*(?:api-?key|token|secret|passw(?:or)?d|passphrase|auth|credentials?)[= ]+(?P<s>[^\s-][^\s]{3,})";
    let query = r#"(?i)[?&;][a-z0-9_.-]*(?:key|token|secret|sig|signature|passw(?:or)?d|pwd|auth|credential|code)[a-z0-9_]*=(?P<s>[^&\s"'#\\]+)"#;
    let sources: [(&str, Holds); 15] = [
        (
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<s>(?s:.*?))(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            anything,
        ),
        (r"PuTTY-User-Key-File-\d:(?P<s>(?s:.*?))(?:Private-MAC:[^\n]*|\z)", anything),
        (VENDORS, anything),
        (r"(?i)\b(?:bearer|basic)\s+(?P<s>[A-Za-z0-9+/_.=~-]{8,})", is_no_word),
        (&member, anything),
        (&pair, anything),
        (&named, is_value),
        (flag, is_no_word),
        // `curl -u NAME:PASSWORD`; `docker run -u 1000:1000` says no secret.
        (r#"(?:^|[\s"'])(?:-u|--user|--proxy-user)[ =]*["']?[^\s:"'/]+:(?P<s>[^\s"'/]{3,})"#, is_no_number),
        (r#"(?i)\b(?:set-)?cookie:\s*(?P<s>[^\r\n"]+)"#, anything),
        (r"(?i)\b(?:password|passphrase|passwd)\s+(?:is|was)\s+(?P<s>\S{6,})", is_no_word),
        (r#"(?i)\b[a-z][a-z0-9+.-]*://[^\s/@:"'\\]*:(?P<s>[^\s/@"'\\]+)@"#, anything),
        (r#"(?i)\b[a-z][a-z0-9+.-]*://(?P<s>[^\s/@:"'\\]{16,})@"#, is_no_word),
        (query, anything),
        (r#"[?&][A-Za-z0-9_.-]+=(?P<s>[^&\s"'#\\]{16,})"#, is_random),
    ];
    sources
        .into_iter()
        .filter_map(|(source, holds)| Some(Shape { regex: Regex::new(source).ok()?, holds }))
        .collect()
});

/// Whether what stands after a name and a colon is a value, and not the next word of a sentence.
fn is_value(word: &str) -> bool {
    !matches!(word, "null" | "true" | "false" | "none" | "None" | "undefined")
}

/// So long are texts that come again and again: names of methods, fields and tests, ids.
const SHORT: usize = 160;
/// So many of them are remembered.
const REMEMBERED: usize = 20_000;

thread_local! {
    /// Short texts without a secret. The same few thousand make up most of a report.
    static PLAIN: RefCell<HashSet<Box<str>>> = RefCell::default();
}

/// Where secrets are in a text, in order and apart from each other.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    // Nothing shorter has a secret and says so.
    if text.len() < 8 {
        return Vec::new();
    }
    if text.len() > SHORT {
        return search(text);
    }
    if PLAIN.with_borrow(|plain| plain.contains(text)) {
        return Vec::new();
    }
    let found = search(text);
    if found.is_empty() {
        PLAIN.with_borrow_mut(|plain| {
            if plain.len() < REMEMBERED {
                plain.insert(text.into());
            }
        });
    }
    found
}

fn search(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for shape in SHAPES.iter() {
        for captures in shape.regex.captures_iter(text) {
            let Some(secret) = captures.name("s").or_else(|| captures.get(0)) else { continue };
            if (shape.holds)(secret.as_str()) && secret.as_str() != super::HIDDEN {
                found.push(secret.range());
            }
        }
    }
    found.retain(|range| !range.is_empty());
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SHAPES.len(), 15);
    }
}
