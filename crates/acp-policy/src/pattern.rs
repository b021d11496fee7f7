//! Allowed and denied tools as patterns: `Bash(git *)`, `Bash(npm test)`, `Read`, `Edit(src/**)`, `mcp__docs__*`.

use std::fmt;
use std::str::FromStr;

use crate::decide::{PolicyRequest, ToolAction};
use crate::policy::pattern_names;
use crate::{OperationClass, ToolKind, glob, sets, shell};

/// How the tools of MCP servers begin.
const FOREIGN: &str = "mcp__";

/// One pattern: a tool's name, with a wildcard if you like, and what it may be used on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern {
    name: String,
    on: Option<String>,
}

/// A pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolPatternError {
    /// There is no tool name.
    #[error("the tool pattern {0:?} has no tool name; write for instance Read or Bash(git *)")]
    NoName(String),
    /// The parentheses do not match.
    #[error("the tool pattern {0:?} needs its closing parenthesis at the end, as in Bash(git *)")]
    Parenthesis(String),
    /// The parentheses hold nothing.
    #[error("the tool pattern {0:?} has empty parentheses; leave them out to mean every use")]
    Empty(String),
    /// There is no such set of commands.
    #[error("the tool pattern {0:?} names a set of commands that does not exist; there are {sets}", sets = sets::names().join(" and "))]
    NoSet(String),
}

impl FromStr for ToolPattern {
    type Err = ToolPatternError;

    fn from_str(text: &str) -> Result<Self, ToolPatternError> {
        let text = text.trim();
        let (name, on) = match text.split_once('(') {
            None if text.contains(')') => return Err(ToolPatternError::Parenthesis(text.to_owned())),
            None => (text, None),
            Some((name, rest)) => {
                let on =
                    rest.strip_suffix(')').ok_or_else(|| ToolPatternError::Parenthesis(text.to_owned()))?;
                (name, Some(shell::normalised(on)))
            }
        };
        // A server is called as its client likes; no other tool has a name with spaces.
        if name.is_empty() || (name.contains(char::is_whitespace) && !is_foreign(name)) {
            return Err(ToolPatternError::NoName(text.to_owned()));
        }
        if on.as_deref() == Some("") {
            return Err(ToolPatternError::Empty(text.to_owned()));
        }
        if on.as_deref().is_some_and(|on| is_set_name(on) && !sets::exists(on)) {
            return Err(ToolPatternError::NoSet(text.to_owned()));
        }
        Ok(ToolPattern { name: name.to_owned(), on })
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            None => f.write_str(&self.name),
            Some(on) => write!(f, "{}({on})", self.name),
        }
    }
}

impl ToolPattern {
    /// Whether it is about a tool of this name, whatever that would be used on.
    pub fn is_for(&self, tool: &str) -> bool {
        same_name(&self.name, tool)
    }

    /// Whether it is about a tool only as far as it is used on certain things.
    pub fn is_partial(&self) -> bool {
        self.on.is_some()
    }

    /// What to tell a person who allows this: a wildcard for a program that can start others covers those too.
    pub fn warning(&self) -> Option<String> {
        let on = self.on.as_deref().filter(|on| self.is_bash() && on.contains('*'))?;
        let program = on.split([' ', ':']).next()?;
        let why = sets::danger(program)?;
        let set = format!("{program}:read");
        let advice = if sets::exists(&set) {
            format!("; {}({set}) covers what only reads", self.name)
        } else {
            String::new()
        };
        Some(format!("{self} allows more than it seems to: {why}{advice}"))
    }

    /// The same about the tools of this name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Self {
        Self { name: name.to_owned(), on: self.on.clone() }
    }

    /// The same about the place that the path really leads to, if `real` knows another name for what stands before the
    /// first wildcard.
    pub fn relocated(&self, real: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let on = self.on.as_deref()?;
        let fixed: usize = on.split_inclusive('/').take_while(|part| !part.contains('*')).map(str::len).sum();
        let (front, rest) = on.split_at(fixed);
        let front = real(front.strip_suffix('/').unwrap_or(front)).filter(|_| fixed > 0)?;
        let on = if rest.is_empty() { front } else { format!("{front}/{rest}") };
        Some(Self { name: self.name.clone(), on: Some(on) })
    }

    /// The same under the other name of a place in a person's home: `~/x` is `/home/me/x`, and the other way round.
    fn at_home(&self, home: &str) -> Option<Self> {
        let home = home.trim_end_matches('/');
        let on = self.on.as_deref().filter(|_| !home.is_empty())?;
        let on = match on.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            Some(_) => return None,
            None => match on.strip_prefix(home)? {
                rest if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
                _ => return None,
            },
        };
        Some(Self { name: self.name.clone(), on: Some(on) })
    }

    /// Whether the pattern covers the request so surely that it may be allowed without a question.
    ///
    /// A command is covered only by a `Bash` pattern and only when a shell would run it as one plain command.
    pub(crate) fn covers(&self, request: &PolicyRequest<'_>) -> bool {
        match request.action {
            ToolAction::Command(line) => {
                self.is_bash() && self.on.as_deref().is_none_or(|on| plain_match(on, line))
            }
            ToolAction::Path(path) | ToolAction::Outside(path) => {
                self.names(request) && self.on.as_deref().is_none_or(|on| path_match(on, path, request.root))
            }
            ToolAction::Unknown => {
                // A command that is not shown cannot be vouched for, except by a pattern for every command.
                self.names(request) && self.on.is_none()
            }
        }
    }

    /// Whether the pattern touches the request at all: the reading for rules that forbid.
    pub(crate) fn touches(&self, request: &PolicyRequest<'_>) -> bool {
        match (&self.on, request.action) {
            (None, ToolAction::Command(_)) => self.forbids(request) || self.is_bash(),
            (None, _) => self.forbids(request),
            (Some(on), ToolAction::Command(line)) => {
                let commands = || {
                    let suspects = shell::suspects(line);
                    suspects.iter().any(|it| {
                        command_match(on, |pattern| glob::any_star_from(pattern, &it.text, &it.starts))
                            || is_in_set(on, it)
                    })
                };
                let files = || shell::mentions(line).iter().any(|word| path_touches(on, word, request.root));
                ((self.forbids(request) || self.is_bash()) && commands())
                    || (self.is_about_files() && files())
            }
            (Some(on), ToolAction::Path(path) | ToolAction::Outside(path)) => {
                self.may_touch(request) && path_touches(on, path, request.root)
            }
            (Some(_), ToolAction::Unknown) => false,
        }
    }

    /// Whether a part of what it forbids may be what the request is about, as far as its kind and names tell: a call of
    /// a kind that says little may read, change or run anything.
    pub(crate) fn may_touch(&self, request: &PolicyRequest<'_>) -> bool {
        let says_little =
            OperationClass::of(request.kind) == OperationClass::Execute || request.kind == ToolKind::Think;
        let found_is_read = request.kind == ToolKind::Search && self.stands_for(ToolKind::Read);
        self.is_partial()
            && (self.forbids(request)
                || found_is_read
                || (says_little && (self.is_about_files() || self.is_bash())))
    }

    /// Whether the pattern, as one that forbids, is about such a tool: who may not edit may not delete or move either.
    fn forbids(&self, request: &PolicyRequest<'_>) -> bool {
        self.names(request)
            || (OperationClass::of(request.kind) == OperationClass::Write && self.stands_for(ToolKind::Edit))
    }

    fn is_about_files(&self) -> bool {
        ToolKind::ALL.iter().copied().any(|kind| {
            kind != ToolKind::Think
                && OperationClass::of(kind) <= OperationClass::Write
                && self.stands_for(kind)
        })
    }

    fn is_bash(&self) -> bool {
        self.stands_for(ToolKind::Execute)
    }

    fn names(&self, request: &PolicyRequest<'_>) -> bool {
        request.tools.iter().any(|tool| self.is_for(tool)) || self.stands_for(request.kind)
    }

    fn stands_for(&self, kind: ToolKind) -> bool {
        pattern_names(kind).iter().any(|name| same_name(&self.name, name))
    }

    /// Whether it can be about any tool at all: one of these, one of an MCP server, or all of a kind.
    fn is_about(&self, tools: &[&str]) -> bool {
        let foreign = match self.name.to_ascii_lowercase().split_once('*') {
            None => is_foreign(&self.name),
            Some((front, _)) => front.starts_with(FOREIGN) || FOREIGN.starts_with(front),
        };
        foreign
            || ToolKind::ALL.iter().copied().any(|kind| self.stands_for(kind))
            || tools.iter().any(|tool| self.is_for(tool))
    }
}

/// A list of patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolPatterns(Vec<ToolPattern>);

impl ToolPatterns {
    /// Reads patterns, one per item; an item may itself hold several, separated by commas outside parentheses.
    pub fn parse<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Result<Self, ToolPatternError> {
        let mut patterns = Vec::new();
        for item in items {
            for text in split_list(item.as_ref()) {
                patterns.push(text.parse()?);
            }
        }
        Ok(ToolPatterns(patterns))
    }

    /// The patterns, and those about files in a person's home under both of its names: `~` and what it stands for.
    #[must_use]
    pub fn at_home(&self, home: &str) -> Self {
        self.iter().flat_map(|it| std::iter::once(it.clone()).chain(it.at_home(home))).collect()
    }

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &ToolPattern> {
        self.0.iter()
    }

    /// What to tell a person who allows these.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(ToolPattern::warning)
    }

    /// The first pattern that is about none of these tools, none of an MCP server and no kind of tools: a slip of the pen.
    pub fn stranger(&self, tools: &[&str]) -> Option<&ToolPattern> {
        self.0.iter().find(|pattern| !pattern.is_about(tools))
    }

    /// The same without named sets of commands (`Bash(git:read)`), which hold only where their words mean what they say.
    #[must_use]
    pub fn without_sets(&self) -> ToolPatterns {
        self.iter().filter(|it| !it.on.as_deref().is_some_and(is_set_name)).cloned().collect()
    }

    /// Whether a pattern is about the request's tool, whatever that would be used on.
    pub(crate) fn names(&self, request: &PolicyRequest<'_>) -> bool {
        self.0.iter().any(|pattern| pattern.names(request))
    }

    pub(crate) fn covering(&self, request: &PolicyRequest<'_>) -> Option<&ToolPattern> {
        self.0.iter().find(|pattern| pattern.covers(request))
    }

    pub(crate) fn touching(&self, request: &PolicyRequest<'_>) -> Option<&ToolPattern> {
        self.0.iter().find(|pattern| pattern.touches(request))
    }
}

impl FromIterator<ToolPattern> for ToolPatterns {
    fn from_iter<I: IntoIterator<Item = ToolPattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}

fn is_foreign(name: &str) -> bool {
    name.get(..FOREIGN.len()).is_some_and(|front| front.eq_ignore_ascii_case(FOREIGN))
}

fn split_list(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|item| !item.is_empty())
    .collect()
}

fn same_name(pattern: &str, name: &str) -> bool {
    glob::any_star(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

/// `git:read` is the name of a set, `git:*` is not.
fn is_set_name(on: &str) -> bool {
    on.split_once(':').is_some_and(|(program, set)| {
        let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
        is_word(program) && is_word(set)
    })
}

/// Whether one of the commands that a part of a line may hold is of the set.
fn is_in_set(on: &str, suspect: &shell::Suspect) -> bool {
    /// Longer than the name of a program.
    const NAME: usize = 32;
    if !is_set_name(on) {
        return false;
    }
    let text: Vec<char> = suspect.text.chars().collect();
    suspect.starts.iter().any(|start| {
        // Most words begin no command of the set: what an agent sends may have a million of them.
        let name: String = text[*start..].iter().take(NAME).take_while(|c| **c != ' ').collect();
        sets::has_program(on, &name) && {
            let command: String = text[*start..].iter().collect();
            sets::covers_words(on, &command.split(' ').collect::<Vec<_>>())
        }
    })
}

fn plain_match(on: &str, line: &str) -> bool {
    if is_set_name(on) {
        return sets::covers(on, line);
    }
    let command = shell::normalised(line);
    shell::plain(line).is_ok() && command_match(on, |pattern| glob::any_star(pattern, &command))
}

/// `git *` and its other spelling `git:*` also cover `git` alone, but never `gitk`.
fn command_match(on: &str, matches: impl Fn(&str) -> bool) -> bool {
    match on.strip_suffix(":*").or_else(|| on.strip_suffix(" *")) {
        Some(prefix) => matches(prefix) || matches(&format!("{prefix} *")),
        None => matches(on),
    }
}

/// Only a path without detours is covered for sure.
fn path_match(on: &str, path: &str, root: Option<&str>) -> bool {
    if path.split('/').any(|part| part == "..") {
        return false;
    }
    let inside = root.and_then(|root| {
        path.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'))
    });
    glob::path(on, path) || inside.is_some_and(|inside| glob::path(on.trim_start_matches("./"), inside))
}

/// However the path is spelled: with detours, doubled slashes, from the root or in full.
fn path_touches(on: &str, path: &str, root: Option<&str>) -> bool {
    let path = &*shell::with_folders(path);
    let root = root.map(without_dots);
    let full = match &root {
        Some(root) if !path.starts_with('/') => without_dots(&format!("{root}/{path}")),
        _ => without_dots(path),
    };
    let on = without_dots(on);
    glob::path(&on, path)
        || path_match(&on, &without_dots(path), None)
        || path_match(&on, &full, root.as_deref())
}

/// Resolves `.`, `..` and empty parts in the text of a path.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_prints_as_it_was_written() {
        for text in ["Read", "Bash(git *)", "mcp__docs__*", "mcp__My files__*", "Edit(src/**)"] {
            assert_eq!(text.parse::<ToolPattern>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_broken_pattern_says_what_is_wrong() {
        assert!(matches!("Bash(git *".parse::<ToolPattern>(), Err(ToolPatternError::Parenthesis(_))));
        assert!(matches!("Bash)".parse::<ToolPattern>(), Err(ToolPatternError::Parenthesis(_))));
        assert!(matches!("(git)".parse::<ToolPattern>(), Err(ToolPatternError::NoName(_))));
        assert!(matches!("Read files".parse::<ToolPattern>(), Err(ToolPatternError::NoName(_))));
        assert!(matches!("Bash()".parse::<ToolPattern>(), Err(ToolPatternError::Empty(_))));
        assert!(matches!("Bash(git:write)".parse::<ToolPattern>(), Err(ToolPatternError::NoSet(_))));
    }

    #[test]
    fn a_wildcard_for_a_program_that_can_start_others_is_warned_about() {
        let warning = |text: &str| text.parse::<ToolPattern>().expect("a pattern").warning();
        for text in
            ["Bash(git *)", "Bash(git:*)", "Bash(git log *)", "run_command(find *)", "Bash(/usr/bin/env *)"]
        {
            assert!(warning(text).is_some_and(|words| words.starts_with(text)), "{text}");
        }
        assert!(warning("Bash(git *)").is_some_and(|words| words.contains("Bash(git:read)")));
        for text in ["Bash(git:read)", "Bash(git status)", "Bash(ls *)", "Bash", "Edit(git/**)", "Read"] {
            assert_eq!(warning(text), None, "{text}");
        }
    }

    #[test]
    fn a_pattern_about_nothing_that_there_is_stands_out() {
        let tools = ["read_file", "query"];
        for (text, strange) in [
            ("Read", false),
            ("read_file(a/**)", false),
            ("*_file", false),
            ("run_command", false),
            ("execute", false),
            ("mcp__docs__*", false),
            ("MCP__docs__find", false),
            ("*", false),
            ("mcp*", false),
            ("Bsh(git *)", true),
            ("Foo(bar)", true),
            ("mcp", true),
            ("write_file", true),
        ] {
            let patterns = ToolPatterns::parse([text]).expect("a pattern");
            assert_eq!(patterns.stranger(&tools).is_some(), strange, "{text}");
        }
    }

    #[test]
    fn a_path_is_followed_as_far_as_it_is_fixed() {
        let real = |path: &str| (path == "/w/link" || path == "link").then(|| "/w/real".to_owned());
        for (given, leads) in [
            ("Read(link/**)", Some("Read(/w/real/**)")),
            ("Read(/w/link/*.key)", Some("Read(/w/real/*.key)")),
            ("Edit(link)", Some("Edit(/w/real)")),
            ("Edit(link/)", Some("Edit(/w/real)")),
            ("Read(link*)", None),
            ("Read(**/link)", None),
            ("Read(other/**)", None),
            ("Read", None),
        ] {
            let pattern: ToolPattern = given.parse().expect("a pattern");
            assert_eq!(pattern.relocated(real).map(|it| it.to_string()).as_deref(), leads, "{given}");
        }
    }

    #[test]
    fn a_list_splits_at_commas_outside_parentheses() {
        let patterns = ToolPatterns::parse(["Read, Bash(echo a,b)", "Grep"])
            .map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(patterns, Ok(vec!["Read".to_owned(), "Bash(echo a,b)".to_owned(), "Grep".to_owned()]));
    }
}
