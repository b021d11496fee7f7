//! Paths as they really are: an alias of a file that is denied is denied too.

use std::path::{Path, PathBuf};

use acp_policy::{Action, Decision, Policy, Request, Rules, ToolPatterns, Verdict};

/// The path without links and `..`; what does not exist yet is taken by its text.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        (Some(parent), None) => {
            let mut up = real_path(parent);
            up.pop();
            up
        }
        _ => path.to_owned(),
    }
}

/// The patterns, and where the folder of `root` has links on their paths, the same about where these lead.
#[must_use]
pub fn with_real_names(patterns: &ToolPatterns, root: &Path) -> ToolPatterns {
    let real = |path: &str| {
        let given = root.join(path);
        let real = real_path(&given);
        (given.is_absolute() && real != given).then(|| real.to_string_lossy().into_owned())
    };
    patterns.iter().flat_map(|it| std::iter::once(it.clone()).chain(it.relocated(real))).collect()
}

/// Decides by the path as it is given, and refuses a file that is really another one, which is denied.
pub(crate) fn decide(rules: &Rules, request: &Request<'_>) -> Decision {
    let decision = rules.decide(request);
    let Action::Path(path) = request.action else { return decision };
    if decision.verdict == Verdict::Deny || rules.deny.is_empty() {
        return decision;
    }
    let root = Path::new(request.root.unwrap_or_default());
    let given = root.join(path);
    if !given.is_absolute() {
        return decision;
    }
    let (real_root, file) = (real_path(root), real_path(&given));
    // Patterns may name the file from the folder, by its real name, or by the folder's name as it was given.
    let as_given = file.strip_prefix(&real_root).map(|rest| root.join(rest));
    let denying = Rules { deny: with_real_names(&rules.deny, root), ..Rules::of(Policy::Yolo) };
    let denied = |file: &Path, root: &Path| {
        let (file, root) = (file.to_string_lossy(), root.to_string_lossy());
        let really = Request { action: Action::Path(&file), root: Some(&root), ..*request };
        Some(denying.decide(&really)).filter(|decision| decision.verdict == Verdict::Deny)
    };
    let denial = denied(&file, &real_root).or_else(|| denied(as_given.as_deref().ok()?, root));
    match denial {
        Some(Decision { verdict, reason }) if file != given => {
            Decision { verdict, reason: format!("it leads to {}, {reason}", file.display()) }
        }
        other => other.unwrap_or(decision),
    }
}
