use crate::words::words;

words! {
    /// What an option of a permission request means.
    pub enum PermissionOptionKind ("permission option kind"), names in option_kind {
        /// Allow this call.
        AllowOnce = ALLOW_ONCE: "allow_once" in [V1 V2],
        /// Allow this and later calls.
        AllowAlways = ALLOW_ALWAYS: "allow_always" in [V1 V2],
        /// Reject this call.
        RejectOnce = REJECT_ONCE: "reject_once" in [V1 V2],
        /// Reject this and later calls.
        RejectAlways = REJECT_ALWAYS: "reject_always" in [V1 V2],
    }
}

impl PermissionOptionKind {
    /// Whether choosing this lets the call go on.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}
