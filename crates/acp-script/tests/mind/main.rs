//! An agent with hands and a mind of its own, in virtual time.

mod delegate;
mod hands;
mod harness;
mod limits;
mod model;
mod room;
