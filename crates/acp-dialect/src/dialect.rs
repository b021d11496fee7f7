//! The names of the dialects, and how a program asks for one.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::form::Form;
use crate::traits::FormTraits;

/// A form of the protocol. Programs do not ask which one it is, but what it needs: [`Dialect::traits`].
#[derive(Clone, Copy)]
pub struct Dialect(&'static dyn Form);

impl Dialect {
    pub(crate) const fn of(form: &'static dyn Form) -> Self {
        Self(form)
    }

    pub(crate) fn form(self) -> &'static dyn Form {
        self.0
    }

    /// What the dialect needs from the programs around a translation.
    #[must_use]
    pub fn traits(self) -> &'static FormTraits {
        self.0.traits()
    }

    /// The name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.traits().name
    }

    /// Whether it is v1, which needs no translation.
    #[must_use]
    pub fn is_canonical(self) -> bool {
        self == Self::V1
    }

    /// The key under which fields that only this dialect knows travel in `_meta`.
    #[must_use]
    pub fn meta_key(self) -> &'static str {
        self.traits().meta_key
    }

    /// The error code for a request that the other side can no longer answer because it is gone.
    #[must_use]
    pub fn closed_code(self) -> i64 {
        self.0.codes().closed()
    }

    /// Whether a peer of this dialect may begin as one of `other` does.
    #[must_use]
    pub fn may_begin_like(self, other: Self) -> bool {
        self == other || other.is_canonical() && self.traits().begins_like_v1
    }

    /// The names of all dialects, for a help text: `v1, 2025.1, probe, go or delta`.
    #[must_use]
    pub fn choices() -> String {
        let [names @ .., last] = Self::ALL.map(Self::as_str);
        format!("{} or {last}", names.join(", "))
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Dialect {}

impl Hash for Dialect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that is no dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; use one of {names}", names = Dialect::ALL.map(Dialect::as_str).join(", "))]
pub struct UnknownDialect(pub String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == name)
            .ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}
