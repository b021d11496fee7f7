//! From a verdict to one of the options that the agent offered.

use acp_proto::PermissionOptionKind;

use crate::PolicyVerdict;

/// One option of a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionOption<'a> {
    /// The option's id, to be sent back as it came.
    pub id: &'a str,
    /// What it means. `None`: a kind that this version does not know, which is never chosen by itself.
    pub kind: Option<PermissionOptionKind>,
}

/// The answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionOutcome {
    /// This option was chosen.
    Selected(String),
    /// No option fits, or the turn was cancelled.
    Cancelled,
}

/// Picks the option that says what the verdict says: once before always, and `Cancelled` when the agent offers
/// nothing of the sort. [`PolicyVerdict::Ask`] means here that there is nobody to ask, which is a no.
pub fn choose_option(verdict: PolicyVerdict, options: &[PermissionOption<'_>]) -> PermissionOutcome {
    let wanted = match verdict {
        PolicyVerdict::Allow => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
        PolicyVerdict::Deny | PolicyVerdict::Ask => {
            [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]
        }
    };
    wanted
        .iter()
        .find_map(|kind| options.iter().find(|option| option.kind == Some(*kind)))
        .map_or(PermissionOutcome::Cancelled, |option| PermissionOutcome::Selected(option.id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PermissionOption<'_>; 4] = [
        PermissionOption { id: "aa", kind: Some(PermissionOptionKind::AllowAlways) },
        PermissionOption { id: "ra", kind: Some(PermissionOptionKind::RejectAlways) },
        PermissionOption { id: "ao", kind: Some(PermissionOptionKind::AllowOnce) },
        PermissionOption { id: "ro", kind: Some(PermissionOptionKind::RejectOnce) },
    ];

    fn pick(verdict: PolicyVerdict, options: &[PermissionOption<'_>]) -> String {
        match choose_option(verdict, options) {
            PermissionOutcome::Selected(id) => id,
            PermissionOutcome::Cancelled => "cancelled".to_owned(),
        }
    }

    #[test]
    fn once_is_preferred_to_always() {
        assert_eq!(pick(PolicyVerdict::Allow, &ALL), "ao");
        assert_eq!(pick(PolicyVerdict::Deny, &ALL), "ro");
        assert_eq!(pick(PolicyVerdict::Ask, &ALL), "ro");
    }

    #[test]
    fn always_is_taken_when_it_is_all_there_is() {
        assert_eq!(pick(PolicyVerdict::Allow, &ALL[..2]), "aa");
        assert_eq!(pick(PolicyVerdict::Deny, &ALL[..2]), "ra");
    }

    #[test]
    fn an_option_of_the_other_side_is_never_taken() {
        assert_eq!(pick(PolicyVerdict::Deny, &ALL[..1]), "cancelled");
        assert_eq!(pick(PolicyVerdict::Allow, &ALL[1..2]), "cancelled");
        assert_eq!(pick(PolicyVerdict::Allow, &[PermissionOption { id: "x", kind: None }]), "cancelled");
        assert_eq!(pick(PolicyVerdict::Allow, &[]), "cancelled");
    }
}
