//! The registry of dialects. A dialect is a folder here, its `mod` line, and its line in the registry.

mod delta;
mod go;
mod probe;
mod v1;
mod v2025;

#[cfg(test)]
mod tests;

use crate::dialect::Dialect;

macro_rules! registry {
    ($($(#[$about:meta])* $name:ident = $form:expr;)+) => {
        impl Dialect {
            $($(#[$about])* pub const $name: Self = Self::of(&$form);)+

            /// Every dialect, in the order used by tables. The canonical one comes first.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];
        }
    };
}

registry! {
    /// Canonical ACP, protocol version 1.
    V1 = v1::Canonical;
    /// Snake-case names, version string `2025.1`, session ids chosen by the client.
    V2025_1 = v2025::V2025;
    /// `newSession` / `prompt` / `messageChunk`, version string `1`.
    PROBE = probe::Probe;
    /// The form of the Go structs: near v1, with its own tool-call, capability and content shapes.
    GO = go::Go;
    /// `assistant.message_delta` over TCP, version string `2025-01-01`.
    DELTA = delta::Delta;
}
