//! Commands in their folder: what a pattern says about a line holds where the session works, and for what its words
//! really lead to.

use std::path::Path;

use acp_policy::{Action, Decision, Request, Rules, shell};

use crate::folders::Folders;

/// Decides about a command that would run in these folders: the session's own if there is none, several where a call
/// contradicts itself.
pub(crate) fn decide(
    rules: &Rules,
    request: &Request<'_>,
    line: &str,
    cwds: &[String],
    folders: &Folders,
) -> Decision {
    // In a folder of others `npm test` is not what a pattern for it was meant for: only rules for all commands hold there.
    if let Some(cwd) = cwds.iter().find(|cwd| matches!(folders.action(cwd), Action::Outside(_))) {
        let line = format!("cd {} && {line}", shell::quoted([cwd.as_str()]));
        return rules.decide(&Request { action: Action::Command(&line), ..*request });
    }
    let request = Request { action: Action::Command(line), ..*request };
    if strays(line, cwds, folders) {
        return Rules { allow: rules.allow.without_sets(), ..rules.clone() }.decide(&request);
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
            || (is_git && is_in_another_repository(&cwd, folders))
    })
}

/// Whether git would find a repository between this folder and the session's own: one that came with the files.
fn is_in_another_repository(cwd: &Path, folders: &Folders) -> bool {
    let has = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    for folder in cwd.ancestors().take_while(|_| cwd.is_absolute()) {
        let is_session_folder = folders.is_one(folder);
        if has(folder, ".git") {
            return !is_session_folder;
        }
        // A repository without a name of its own, as `git init --bare` makes it.
        if has(folder, "HEAD") && (has(folder, "objects") || has(folder, "commondir")) {
            return true;
        }
        if is_session_folder {
            return false;
        }
    }
    false
}
