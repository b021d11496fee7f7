//! Ids that the agent gives out. They are opaque: compared and sent back, never taken apart.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(Arc<str>);

            impl $name {
                /// The id as it travels.
                #[must_use]
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl From<&str> for $name {
                fn from(id: &str) -> Self {
                    Self(id.into())
                }
            }

            impl From<String> for $name {
                fn from(id: String) -> Self {
                    Self(id.into())
                }
            }

            impl From<Arc<str>> for $name {
                fn from(id: Arc<str>) -> Self {
                    Self(id)
                }
            }

            impl Deref for $name {
                type Target = str;

                fn deref(&self) -> &str {
                    &self.0
                }
            }

            impl AsRef<str> for $name {
                fn as_ref(&self) -> &str {
                    &self.0
                }
            }

            impl Borrow<str> for $name {
                fn borrow(&self) -> &str {
                    &self.0
                }
            }

            impl PartialEq<str> for $name {
                fn eq(&self, other: &str) -> bool {
                    &*self.0 == other
                }
            }

            impl PartialEq<&str> for $name {
                fn eq(&self, other: &&str) -> bool {
                    &*self.0 == *other
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(&self.0)
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    String::deserialize(deserializer).map(Self::from)
                }
            }
        )+
    };
}

ids! {
    /// A session, as the agent named it. Cheap to clone; a map keyed by it can be asked with a `&str`.
    SessionId,
    /// A tool call within a session, as the agent named it.
    ToolCallId,
}
