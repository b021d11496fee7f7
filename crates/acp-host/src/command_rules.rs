//! Commands in their folder: what a pattern says about a line holds where the session works, and for what its words
//! really lead to.

use acp_policy::{PolicyDecision, PolicyRequest, PolicyRules, ToolAction, shell};

use crate::folders::Folders;
use crate::repository;

/// Decides about a command that would run in these folders: the session's own if there is none, several where a call
/// contradicts itself.
pub(crate) fn decide(
    rules: &PolicyRules,
    request: &PolicyRequest<'_>,
    line: &str,
    cwds: &[String],
    folders: &Folders,
) -> PolicyDecision {
    // In a folder of others `npm test` is not what a pattern for it was meant for: only rules for all commands hold there.
    if let Some(cwd) = cwds.iter().find(|cwd| matches!(folders.action(cwd), ToolAction::Outside(_))) {
        let line = format!("cd {} && {line}", shell::quoted([cwd.as_str()]));
        return rules.decide(&PolicyRequest { action: ToolAction::Command(&line), ..*request });
    }
    let request = PolicyRequest { action: ToolAction::Command(line), ..*request };
    if strays(line, cwds, folders) {
        return PolicyRules { allow: rules.allow.without_sets(), ..rules.clone() }.decide(&request);
    }
    rules.decide(&request)
}

/// Whether a command that seems to read below its folder would read elsewhere, through a link, or have git read the
/// configuration of another repository, which can name programs to start.
fn strays(line: &str, cwds: &[String], folders: &Folders) -> bool {
    let Some(words) = shell::words(line) else { return false };
    let here = [".".to_owned()];
    let cwds = if cwds.is_empty() { &here } else { cwds };
    cwds.iter().map(|cwd| folders.real(cwd)).any(|cwd| {
        let leads_out = |word: &str| cwd.is_absolute() && !folders.holds(&cwd.join(word));
        let is_git = words.first().is_some_and(|program| program == "git");
        let values = words.iter().filter_map(|word| word.split_once('=')).map(|(_, value)| value);
        words.iter().skip(1).map(String::as_str).chain(values).any(leads_out)
            || (is_git && repository::is_foreign(&cwd, folders))
    })
}
