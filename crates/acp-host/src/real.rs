//! Paths as they really are: an alias of a file that is denied is denied too, and one that leads elsewhere is decided by
//! where it leads.

use std::path::{Path, PathBuf};

use acp_policy::{
    Policy, PolicyDecision, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolPatterns,
};

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

/// Decides about a file by the path as it is given, and by where that really leads.
pub(crate) fn decide(rules: &PolicyRules, request: &PolicyRequest<'_>) -> PolicyDecision {
    decide_by(rules, request, Names::of(request))
}

/// The same where it is known where the path leads: a second look may find another file.
pub(crate) fn decide_file(rules: &PolicyRules, request: &PolicyRequest<'_>, file: &Path) -> PolicyDecision {
    let names = Names::of(request).map(|names| Names { file: file.to_owned(), ..names });
    decide_by(rules, request, names)
}

fn decide_by(rules: &PolicyRules, request: &PolicyRequest<'_>, names: Option<Names>) -> PolicyDecision {
    if let Some(denial) = denial_by(rules, request, names.as_ref()) {
        return denial;
    }
    let decision = rules.decide(request);
    let Some(names) = names else { return decision };
    if decision.verdict != PolicyVerdict::Allow || !names.differ() {
        return decision;
    }
    let [real, as_given] = names.requests(request, |request| rules.decide(request));
    let elsewhere = [real, as_given].into_iter().flatten();
    match elsewhere.min_by_key(|decision| crate::tool_call::strictness(decision.verdict)) {
        Some(PolicyDecision { verdict, reason }) if verdict != PolicyVerdict::Allow => {
            PolicyDecision { verdict, reason: format!("it leads to {}, {reason}", names.file.display()) }
        }
        _ => decision,
    }
}

/// Why a request is denied by a pattern, whatever name the file is given.
pub(crate) fn denial(rules: &PolicyRules, request: &PolicyRequest<'_>) -> Option<PolicyDecision> {
    denial_by(rules, request, Names::of(request).as_ref())
}

fn denial_by(
    rules: &PolicyRules,
    request: &PolicyRequest<'_>,
    names: Option<&Names>,
) -> Option<PolicyDecision> {
    if rules.deny.is_empty() {
        return None;
    }
    let denying = PolicyRules { deny: rules.deny.clone(), ..PolicyRules::of(Policy::Yolo) };
    let is_denial = |decision: &PolicyDecision| decision.verdict == PolicyVerdict::Deny;
    let decision = denying.decide(request);
    if is_denial(&decision) {
        return Some(decision);
    }
    let names = names?;
    let root = Path::new(request.root.unwrap_or_default());
    let denying = PolicyRules { deny: with_real_names(&rules.deny, root), ..denying };
    let [real, as_given] = names.requests(request, |request| denying.decide(request));
    let denial = [real, as_given].into_iter().flatten().find(is_denial)?;
    if !names.differ() {
        return Some(denial);
    }
    let reason = format!("it leads to {}, {}", names.file.display(), denial.reason);
    Some(PolicyDecision { verdict: PolicyVerdict::Deny, reason })
}

/// The names of the file that a request is about.
struct Names {
    given: PathBuf,
    root: PathBuf,
    real_root: PathBuf,
    file: PathBuf,
}

impl Names {
    fn of(request: &PolicyRequest<'_>) -> Option<Names> {
        let (ToolAction::Path(path) | ToolAction::Outside(path)) = request.action else { return None };
        let root = Path::new(request.root.unwrap_or_default());
        let given = root.join(path);
        if !given.is_absolute() {
            return None;
        }
        let (real_root, file) = (real_path(root), real_path(&given));
        Some(Names { given, root: root.to_owned(), real_root, file })
    }

    /// Whether a link or a detour leads to another name.
    fn differ(&self) -> bool {
        self.file != self.given
    }

    /// Asks about the file by its real name, and by the name that it has from the folder as it was given: patterns may be
    /// about either.
    fn requests(
        &self,
        request: &PolicyRequest<'_>,
        ask: impl Fn(&PolicyRequest<'_>) -> PolicyDecision,
    ) -> [Option<PolicyDecision>; 2] {
        let about = |file: &Path, root: &Path| {
            let (file, root) = (file.to_string_lossy(), root.to_string_lossy());
            let action = match request.action {
                ToolAction::Outside(_) => ToolAction::Outside(&file),
                _ => ToolAction::Path(&file),
            };
            ask(&PolicyRequest { action, root: Some(&root), ..*request })
        };
        let as_given = self.file.strip_prefix(&self.real_root).ok().map(|rest| self.root.join(rest));
        [Some(about(&self.file, &self.real_root)), as_given.map(|file| about(&file, &self.root))]
    }
}
