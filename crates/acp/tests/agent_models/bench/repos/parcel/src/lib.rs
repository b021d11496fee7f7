//! Prices and labels for parcels.

pub mod label;
pub mod rate;

pub use rate::Rates;
