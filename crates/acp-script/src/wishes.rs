//! Plain wishes: what a person types, turned into what an agent should do.
//!
//! [`TABLE`] is the one list; the mock agent, the scripted model and the reference agent all read it, so that a
//! test suite written in plain words exercises each of them. [`parse`] finds every wish in a text, in order.
//! Names, texts and commands are free: quoted with `'`, `"`, `` ` `` or typographic quotes, or bare.

use std::sync::LazyLock;
use std::time::Duration;

use regex::{Captures, Regex};

mod phrases;
#[cfg(test)]
mod tests;

pub use phrases::{TABLE, Wish};

/// What one wish asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Read a file, or some of its lines (1-based, inclusive count).
    Read {
        /// The file, as the person wrote it.
        path: String,
        /// First line, counted from 1.
        line: Option<u32>,
        /// How many lines.
        limit: Option<u32>,
    },
    /// Read the file that a `resource_link` of the same prompt points to.
    ReadLink,
    /// Create or overwrite a file.
    Write {
        /// The file.
        path: String,
        /// Its whole new text.
        text: String,
    },
    /// Replace one text by another in a file.
    Edit {
        /// The file.
        path: String,
        /// What is there.
        old: String,
        /// What shall be there.
        new: String,
    },
    /// Add text at the end of a file.
    Append {
        /// The file.
        path: String,
        /// The text to add.
        text: String,
    },
    /// Run a command in a terminal.
    Run {
        /// The command line.
        command: String,
        /// Kill it after this long.
        kill_after: Option<Duration>,
    },
    /// Look for a text, in one file or in the working folder.
    Search {
        /// What to look for.
        text: String,
        /// Where; `None` is the whole folder.
        path: Option<String>,
    },
    /// Look for words in the code of the working folder.
    Find(String),
    /// Say which files there are.
    Files {
        /// The folder; `None` is the working folder.
        path: Option<String>,
        /// A shell pattern that the files fit.
        pattern: Option<String>,
    },
    /// Show a declaration by its name.
    Show {
        /// Its name, as `name` or `Type.method`.
        symbol: String,
        /// The file, when the wish names one.
        path: Option<String>,
    },
    /// Look for code of a shape.
    Query {
        /// Code with holes.
        pattern: String,
        /// Its language, when the wish names one.
        language: Option<String>,
    },
    /// Take a piece of code out of a file.
    Extract(String),
    /// Hand a task to a helper.
    Delegate(String),
    /// Draft a plan and report progress on it.
    Plan {
        /// How many steps, when the wish says so.
        steps: Option<u32>,
        /// What the plan is for.
        topic: Option<String>,
    },
    /// Answer in several messages.
    Parts(u32),
    /// Think first, then stream an answer for a while.
    Think(Option<Duration>),
    /// Stream this many numbered pieces.
    Count(u32),
    /// Say nothing for a while, then answer.
    Wait(Duration),
    /// Answer with exactly this text.
    Say(String),
    /// Keep a word for later in this session.
    Remember(String),
    /// Give the word back.
    Recall,
    /// Call a tool of an MCP server.
    Mcp {
        /// The server, when the wish names one.
        server: Option<String>,
        /// The tool.
        tool: String,
        /// Its arguments as JSON text, when the wish gives any.
        arguments: Option<String>,
    },
    /// Say which MCP tools there are.
    McpList,
    /// Ask the person something with a form.
    ElicitForm(Option<String>),
    /// Send the person to a page.
    ElicitUrl,
    /// Ask for permission for something harmless.
    Permission,
    /// A tool call that fails.
    ToolFailure,
    /// End the turn as a refusal.
    Refuse,
    /// End the turn as if the token limit was reached.
    MaxTokens,
    /// End the turn as if the limit of model requests was reached.
    MaxTurnRequests,
    /// Answer the prompt with an error.
    Fail(Option<i64>),
    /// Change the session's mode.
    Mode(String),
    /// Change a config option.
    Config {
        /// The option's id or name.
        option: String,
        /// Its new value.
        value: String,
    },
    /// Send a notice.
    Notice(Option<String>),
    /// Compact the conversation.
    Compact,
    /// Give the session a title.
    Title(String),
    /// Report usage.
    Usage,
    /// Announce the slash commands again.
    Commands,
    /// Say where the session works.
    WhereAmI,
    /// Show an image.
    Image,
    /// Play a sound.
    Audio,
    /// Mention a resource by link and embed one.
    Resource,
    /// A slash command: its name and what follows.
    Slash {
        /// The command, without the slash.
        name: String,
        /// Its input.
        input: String,
    },
}

/// Finds every wish in `text`, in the order they stand there.
///
/// Where two wishes begin at the same place, the one that stands first in [`TABLE`] wins; a wish is looked for
/// only behind the end of the one before it, so that a quoted text is never read as a wish of its own.
pub fn parse(text: &str) -> Vec<Intent> {
    if let Some(slash) = slash(text) {
        return vec![slash];
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some((intent, end)) = next_wish(text, from) {
        found.push(intent);
        from = end;
    }
    found
}

fn slash(text: &str) -> Option<Intent> {
    let rest = text.trim_start().strip_prefix('/')?;
    let (name, input) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    is_name.then(|| Intent::Slash { name: name.to_owned(), input: input.trim().to_owned() })
}

fn next_wish(text: &str, from: usize) -> Option<(Intent, usize)> {
    let lower = text.to_lowercase();
    let mut hits: Vec<(usize, usize, &Compiled, &Regex)> = COMPILED
        .iter()
        .filter(|compiled| compiled.may_match(&lower))
        .filter_map(|compiled| {
            let regex = compiled.regex.as_ref()?;
            let hit = regex.find_at(text, from)?;
            Some((hit.start(), hit.end(), compiled, regex))
        })
        .collect();
    hits.sort_by_key(|(start, ..)| *start);
    hits.into_iter().find_map(|(start, end, compiled, regex)| {
        let captures = regex.captures_at(text, from)?;
        let intent = (compiled.wish.build)(&Found { captures: &captures })?;
        Some((intent, end.max(start + 1)))
    })
}

/// What a phrase captured.
pub struct Found<'a> {
    captures: &'a Captures<'a>,
}

impl Found<'_> {
    /// The text in place of `{name}`, without its quotes.
    pub fn text(&self, name: &str) -> Option<String> {
        (0..QUOTES.len() + 1)
            .find_map(|n| self.captures.name(&format!("{name}{n}")))
            .map(|found| found.as_str().to_owned())
    }

    /// The text of a plain named group.
    pub fn plain(&self, group: &str) -> Option<String> {
        self.captures.name(group).map(|found| found.as_str().to_owned())
    }

    /// The number in place of `{name}`, as digits or as a word up to twelve.
    pub fn number(&self, name: &str) -> Option<u32> {
        let text = self.captures.name(name)?.as_str().to_lowercase();
        text.parse().ok().or_else(|| NUMBERS.iter().position(|word| *word == text).map(|at| at as u32))
    }

    /// The duration in place of `{name}`: a number and a unit.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        let number = self.number(name)?;
        let unit = self.captures.name(&format!("{name}_unit"))?.as_str().to_lowercase();
        let scale = if unit.starts_with("ms") || unit.starts_with("milli") {
            1
        } else if unit.starts_with("min") {
            60_000
        } else {
            1000
        };
        Some(Duration::from_millis(u64::from(number).saturating_mul(scale)))
    }
}

const NUMBERS: [&str; 13] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
];

/// Opening and closing quotes.
const QUOTES: [(char, char); 6] = [('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’'), ('«', '»')];

/// A phrase of the table. Its expression is compiled when a text first has the words that it cannot do without: an
/// agent that starts for one prompt must not pay for all phrases.
struct Compiled {
    wish: &'static Wish,
    /// Of each of these a text must hold one to match.
    needs: Vec<Vec<String>>,
    regex: LazyLock<Option<Regex>, Box<dyn FnOnce() -> Option<Regex> + Send>>,
}

impl Compiled {
    fn may_match(&self, lower: &str) -> bool {
        self.needs.iter().all(|words| words.iter().any(|word| lower.contains(word.as_str())))
    }
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    TABLE
        .iter()
        .flat_map(|wish| wish.phrases.iter().map(move |phrase| (wish, *phrase)))
        .map(|(wish, phrase)| Compiled {
            wish,
            needs: needs(phrase),
            regex: LazyLock::new(Box::new(move || compile(phrase).ok())),
        })
        .collect()
});

/// What a text must hold for the phrase to match: of each list one word. What cannot be told is left out.
fn needs(phrase: &str) -> Vec<Vec<String>> {
    if alternatives(phrase).len() > 1 {
        return heads(phrase).into_iter().collect();
    }
    let mut needs = Vec::new();
    let mut rest = phrase;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '(' => {
                let Some(close) = closing(&rest[1..]) else { break };
                let (group, after) = (&rest[1..=close], &rest[close + 2..]);
                if let (Some(inside), false) = (group.strip_prefix("?:"), after.starts_with(['?', '*', '{']))
                {
                    needs.extend(heads(inside));
                }
                close + 2
            }
            '{' => {
                let Some(end) = rest.find('}') else { break };
                if rest[..end].ends_with(":quoted") {
                    needs.push(QUOTES.iter().map(|(open, _)| open.to_string()).collect());
                }
                end + 1
            }
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            '\\' => 2,
            c if c.is_ascii_alphabetic() => {
                needs.extend(head(rest).map(|word| vec![word]));
                rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    needs
}

/// The words one of which a text must hold for one of the alternatives to match; `None` when that cannot be told.
fn heads(phrase: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for alternative in alternatives(phrase) {
        match alternative.strip_prefix("(?:").and_then(|rest| Some((rest, closing(rest)?))) {
            Some((rest, close)) if !rest[close + 1..].starts_with(['?', '*', '{']) => {
                found.extend(heads(&rest[..close])?);
            }
            Some(_) => return None,
            None => found.push(head(alternative)?),
        }
    }
    Some(found)
}

/// The literal letters at the beginning, without a last one that may be left out.
fn head(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let optional = text[end..].starts_with(['?', '*', '{']);
    let word = &text[..if optional { end.saturating_sub(1) } else { end }];
    (!word.is_empty()).then(|| word.to_lowercase())
}

/// Splits at the `|` that stand outside of all groups.
fn alternatives(phrase: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in phrase.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(&phrase[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&phrase[from..]);
    parts
}

/// Where the group that is open at the beginning closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_i32;
    text.char_indices().find_map(|(at, c)| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at)
    })
}

/// Turns a phrase of the table into a regular expression.
fn compile(phrase: &str) -> Result<Regex, regex::Error> {
    static HOLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\{(?P<name>[a-z]+):(?P<kind>[a-z]+)\}").ok());
    let mut pattern = String::from(r"(?i)\b");
    let mut at = 0;
    if let Some(hole) = HOLE.as_ref() {
        for found in hole.captures_iter(phrase) {
            let Some(whole) = found.get(0) else { continue };
            pattern.push_str(&phrase[at..whole.start()].replace(' ', r"\s+"));
            pattern.push_str(&fragment(&found["name"], &found["kind"]));
            at = whole.end();
        }
    }
    pattern.push_str(&phrase[at..].replace(' ', r"\s+"));
    Regex::new(&pattern)
}

/// The expression for one hole of a phrase.
fn fragment(name: &str, kind: &str) -> String {
    let number = || format!(r"(?P<{name}>\d+|{})", NUMBERS.join("|"));
    match kind {
        "number" => number(),
        "duration" => {
            format!(r"{}\s*(?P<{name}_unit>ms|milliseconds?|s|secs?|seconds?|min|minutes?)\b", number())
        }
        // A bare path has a dot or a slash in it, and does not end in punctuation.
        "path" => quoted(name, r#"[^\s'"`“”‘’«»,;:?!()]*[./][^\s'"`“”‘’«»,;:?!()]*[^\s'"`“”‘’«»,;:?!().]"#),
        // Where the phrase already says that a file comes, any word will do.
        "name" => quoted(name, r#"[^\s'"`“”‘’«»,;:?!()]*[^\s'"`“”‘’«»,;:?!().]"#),
        // The name of a declaration, with the types around it.
        "symbol" => quoted(name, r"[\w$][\w.:]*\w|\w"),
        "word" => quoted(name, r"[\w][\w.-]*\w|\w"),
        // A bare command or text runs to the end of its line or sentence.
        "rest" => quoted(name, r"[^\s'\x22`“‘«][^\n]*?"),
        "quoted" => quoted(name, ""),
        "json" => format!(r"(?P<{name}0>\{{.*\}})"),
        _ => String::new(),
    }
}

/// Any of the quoted forms, or `bare` (as the last group) when it is not empty.
fn quoted(name: &str, bare: &str) -> String {
    let mut forms: Vec<String> = QUOTES
        .iter()
        .enumerate()
        // An apostrophe inside a word does not close a single quote.
        .map(|(n, (open, close))| match open {
            '\'' | '‘' => format!(r"{open}(?P<{name}{n}>(?:[^{close}]|{close}\b{{start}})*){close}"),
            _ => format!("{open}(?P<{name}{n}>[^{close}]*){close}"),
        })
        .collect();
    if !bare.is_empty() {
        forms.push(format!("(?P<{name}{}>{bare})", QUOTES.len()));
    }
    format!("(?:{})", forms.join("|"))
}
