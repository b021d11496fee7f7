//! JSON-RPC frames, lines and peers as values.
