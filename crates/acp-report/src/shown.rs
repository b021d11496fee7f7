//! What agents said, made harmless for where a report shows it: no control characters, no markup, no commands to the
//! service that shows the log. What the suite says of itself (titles, ids, links) keeps its
//! markup.

use acp_comply::Results;
use acp_text::Untrusted;
use serde_json::Value;

use crate::{ReportFormat, summary};

/// The results with every text of an agent made harmless.
pub(crate) fn harmless(results: &Results, format: ReportFormat) -> Result<Results, serde_json::Error> {
    let mut value = serde_json::to_value(results)?;
    walk(&mut value, "", format);
    serde_json::from_value(value)
}

/// Members that the suite, the registry and this program write.
const OWN: &[&str] = &[
    "id",
    "file",
    "title",
    "description",
    "docs",
    "requirements",
    "aliases",
    "verdict",
    "severity",
    "area",
    "rule",
    "requirement",
    "blame",
    "started",
    "dir",
    "state",
    "kind",
    "attempts",
    "test",
    "schema",
];
/// Members with several lines.
const BLOCKS: &[&str] = &["stderr"];
/// Members that Markdown shows between backticks.
const CODE: &[&str] = &["target", "closest", "excerpt", "expected", "text"];

/// Before the names of members that an agent has chosen.
const THEIRS: char = '\0';

fn walk(value: &mut Value, name: &str, format: ReportFormat) {
    match value {
        Value::String(text) => *text = shown(text, name, format),
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, name, format)),
        Value::Object(members) => {
            // What an agent calls itself is not ours, whatever its members are called.
            let theirs = name == "header" || name.starts_with(THEIRS);
            let told = std::mem::take(members);
            members.extend(told.into_iter().map(|(key, mut member)| {
                if theirs {
                    walk(&mut member, &format!("{THEIRS}{key}"), format);
                    return (shown(&key, "", format), member);
                }
                walk(&mut member, &key, format);
                (key, member)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shown(text: &str, name: &str, format: ReportFormat) -> String {
    let (markdown, page) =
        (matches!(format, ReportFormat::Markdown | ReportFormat::Table), format == ReportFormat::Html);
    let block = || guarded(&Untrusted::new(text).block().to_string());
    let one_line = summary::one_line(text);
    let words = Untrusted::new(&one_line);
    match () {
        () if OWN.contains(&name) => guarded(&acp_text::line(text)),
        () if BLOCKS.contains(&name) && markdown => block().replace("```", "'''"),
        // It escapes markup itself, and its places take several lines.
        () if BLOCKS.contains(&name) || page => block(),
        () if CODE.contains(&name) && markdown => words.line().to_string().replace('`', "'"),
        () if markdown => words.markdown().to_string(),
        () => words.line().to_string(),
    }
}

fn guarded(text: &str) -> String {
    acp_text::CommandGuard::default().pass(text)
}
