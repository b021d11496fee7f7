//! How a list of names becomes an enum and a module of constants.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ProtocolVersion;

/// A closed list of names, as one protocol version or the other has them.
pub trait Vocabulary: Copy + Eq + fmt::Debug + 'static {
    /// What one of them is called in messages: `method`, `stop reason`.
    const NOUN: &'static str;
    /// All of them, in the order of the schema.
    const ALL: &'static [Self];

    /// The name on the wire.
    fn as_str(self) -> &'static str;

    /// Reads a name of the wire.
    fn from_name(name: &str) -> Option<Self>;

    /// Whether this version of the protocol has it, in its stable or in its unstable schema.
    fn is_in(self, version: ProtocolVersion) -> bool;
}

/// A name that is not in the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {noun} {name:?}")]
pub struct UnknownWord {
    /// What it should have been.
    pub noun: &'static str,
    /// What it was.
    pub name: String,
}

/// A name as it came from outside: one that we know, or the text itself. Nothing is lost, and it is written as it was
/// read.
///
/// ```
/// use acp_proto::{Lenient, StopReason};
/// let known = Lenient::from("end_turn");
/// assert_eq!(known, StopReason::EndTurn);
/// let newer: Lenient<StopReason> = "out_of_budget".into();
/// assert_eq!((newer.known(), newer.as_str()), (None, "out_of_budget"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lenient<T> {
    /// In the list.
    Known(T),
    /// Not in the list.
    Unknown(Box<str>),
}

impl<T: Vocabulary> Lenient<T> {
    /// The name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.as_str(),
            Self::Unknown(name) => name,
        }
    }

    /// The value, when we know it.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Unknown(_) => None,
        }
    }
}

impl<T: Vocabulary> From<&str> for Lenient<T> {
    fn from(name: &str) -> Self {
        T::from_name(name).map_or_else(|| Self::Unknown(name.into()), Self::Known)
    }
}

impl<T: Vocabulary> From<String> for Lenient<T> {
    fn from(name: String) -> Self {
        match T::from_name(&name) {
            Some(word) => Self::Known(word),
            None => Self::Unknown(name.into()),
        }
    }
}

impl<T: Vocabulary> From<T> for Lenient<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: Vocabulary> PartialEq<T> for Lenient<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(*other)
    }
}

impl<T: Vocabulary> fmt::Display for Lenient<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T: Vocabulary> Serialize for Lenient<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: Vocabulary> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// Writes an enum, its constants and its [`Vocabulary`] from one list: variant, constant, name, versions.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $enum:ident ($noun:literal), names in $names:ident {
            $( $(#[$doc:meta])* $variant:ident = $constant:ident: $name:literal in [$($version:ident)+], )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $enum {
            $( $(#[$doc])* $variant, )+
        }

        #[doc = concat!("The names of [`", stringify!($enum), "`] as constants, to match texts against.")]
        pub mod $names {
            $( $(#[$doc])* pub const $constant: &str = $name; )+
        }

        impl $enum {
            /// All of them, in the order of the schema.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }

            /// Reads a name of the wire.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$variant), )+
                    _ => None,
                }
            }

            /// Whether this version of the protocol has it, in its stable or in its unstable schema.
            #[must_use]
            pub const fn is_in(self, version: $crate::ProtocolVersion) -> bool {
                match self {
                    $( Self::$variant => matches!(version, $($crate::ProtocolVersion::$version)|+), )+
                }
            }
        }

        impl $crate::Vocabulary for $enum {
            const NOUN: &'static str = $noun;
            const ALL: &'static [Self] = Self::ALL;

            fn as_str(self) -> &'static str {
                self.as_str()
            }

            fn from_name(name: &str) -> Option<Self> {
                Self::from_name(name)
            }

            fn is_in(self, version: $crate::ProtocolVersion) -> bool {
                self.is_in(version)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = $crate::UnknownWord;

            fn from_str(name: &str) -> Result<Self, $crate::UnknownWord> {
                Self::from_name(name)
                    .ok_or_else(|| $crate::UnknownWord { noun: $noun, name: name.to_owned() })
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::words::word(deserializer)
            }
        }
    };
}
pub(crate) use words;

/// Reads one name of a list without copying it.
pub(crate) fn word<'de, T: Vocabulary, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Word<T>(std::marker::PhantomData<T>);

    impl<T: Vocabulary> serde::de::Visitor<'_> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a {}", T::NOUN)
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
            T::from_name(name).ok_or_else(|| E::custom(UnknownWord { noun: T::NOUN, name: name.to_owned() }))
        }
    }

    deserializer.deserialize_str(Word(std::marker::PhantomData))
}
