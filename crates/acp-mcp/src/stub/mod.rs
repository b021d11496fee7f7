//! The stub.
