//! Words about patterns that allow more than they seem to.

use acp_policy::ToolPatterns;

/// Tells the person on standard error which allowed patterns cover programs that start others.
pub fn warn(who: &str, allow: &ToolPatterns) {
    for warning in allow.warnings() {
        eprintln!("{who}: warning: {warning}");
    }
}
