//! From a verdict to one of the options that the agent offered.

use acp_proto::PermissionOptionKind;

use crate::Verdict;

/// One option of a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The option's id, to be sent back as it came.
    pub id: &'a str,
    /// What it means. `None`: a kind that this version does not know, which is never chosen by itself.
    pub kind: Option<PermissionOptionKind>,
}

/// The answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This option was chosen.
    Selected(String),
    /// No option fits, or the turn was cancelled.
    Cancelled,
}

/// Picks the option that says what the verdict says: once before always, and `Cancelled` when the agent offers
/// nothing of the sort. [`Verdict::Ask`] means here that there is nobody to ask, which is a no.
pub fn choose_option(verdict: Verdict, options: &[Choice<'_>]) -> Outcome {
    let wanted = match verdict {
        Verdict::Allow => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
        Verdict::Deny | Verdict::Ask => {
            [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]
        }
    };
    wanted
        .iter()
        .find_map(|kind| options.iter().find(|option| option.kind == Some(*kind)))
        .map_or(Outcome::Cancelled, |option| Outcome::Selected(option.id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Choice<'_>; 4] = [
        Choice { id: "aa", kind: Some(PermissionOptionKind::AllowAlways) },
        Choice { id: "ra", kind: Some(PermissionOptionKind::RejectAlways) },
        Choice { id: "ao", kind: Some(PermissionOptionKind::AllowOnce) },
        Choice { id: "ro", kind: Some(PermissionOptionKind::RejectOnce) },
    ];

    fn pick(verdict: Verdict, options: &[Choice<'_>]) -> String {
        match choose_option(verdict, options) {
            Outcome::Selected(id) => id,
            Outcome::Cancelled => "cancelled".to_owned(),
        }
    }

    #[test]
    fn once_is_preferred_to_always() {
        assert_eq!(pick(Verdict::Allow, &ALL), "ao");
        assert_eq!(pick(Verdict::Deny, &ALL), "ro");
        assert_eq!(pick(Verdict::Ask, &ALL), "ro");
    }

    #[test]
    fn always_is_taken_when_it_is_all_there_is() {
        assert_eq!(pick(Verdict::Allow, &ALL[..2]), "aa");
        assert_eq!(pick(Verdict::Deny, &ALL[..2]), "ra");
    }

    #[test]
    fn an_option_of_the_other_side_is_never_taken() {
        assert_eq!(pick(Verdict::Deny, &ALL[..1]), "cancelled");
        assert_eq!(pick(Verdict::Allow, &ALL[1..2]), "cancelled");
        assert_eq!(pick(Verdict::Allow, &[Choice { id: "x", kind: None }]), "cancelled");
        assert_eq!(pick(Verdict::Allow, &[]), "cancelled");
    }
}
