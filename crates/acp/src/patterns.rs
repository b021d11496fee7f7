//! Patterns as people give them.

use acp_policy::{ToolPatternError, ToolPatterns};

/// Reads patterns. A file in the person's home has two names there, `~/x` and `/home/me/x`: a pattern is for both.
pub fn parse<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Result<ToolPatterns, ToolPatternError> {
    let patterns = ToolPatterns::parse(items)?;
    Ok(match std::env::var("HOME") {
        Ok(home) if home.starts_with('/') => patterns.at_home(&home),
        _ => patterns,
    })
}

/// Tells the person on standard error which allowed patterns cover programs that start others.
pub fn warn(who: &str, allow: &ToolPatterns) {
    for warning in allow.warnings() {
        eprintln!("{who}: warning: {warning}");
    }
}
