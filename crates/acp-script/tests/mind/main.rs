//! An agent with hands and a mind of its own, in virtual time.

mod delegate;
mod desk;
mod hands;
mod limits;
mod model;
mod room;
