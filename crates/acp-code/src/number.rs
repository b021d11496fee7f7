//! Counts on the wire: JSON has one kind of number, so `10` and `10.0` are the same count.

use serde::{Deserialize, Deserializer};

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and small")]
fn whole(number: f64) -> Option<usize> {
    (number >= 0.0 && number.fract() == 0.0 && number <= 1e15).then_some(number as usize)
}

/// A count of at least one.
pub(crate) fn positive<'de, D: Deserializer<'de>>(input: D) -> Result<usize, D::Error> {
    let number = f64::deserialize(input)?;
    whole(number)
        .filter(|count| *count > 0)
        .ok_or_else(|| serde::de::Error::custom(format!("expected a whole number from 1, not {number}")))
}

/// A count that may be zero; a missing one is zero too.
pub(crate) fn count<'de, D: Deserializer<'de>>(input: D) -> Result<usize, D::Error> {
    let number = Option::<f64>::deserialize(input)?.unwrap_or(0.0);
    whole(number)
        .ok_or_else(|| serde::de::Error::custom(format!("expected a whole number from 0, not {number}")))
}

/// A count of at least one, or none.
pub(crate) fn some<'de, D: Deserializer<'de>>(input: D) -> Result<Option<usize>, D::Error> {
    positive(input).map(Some)
}

/// The default of `max_results` where a result is a line.
pub(crate) fn two_hundred() -> usize {
    200
}

/// The default of `max_results`.
pub(crate) fn ten() -> usize {
    10
}

/// The default of `allow_tests`.
pub(crate) fn yes() -> bool {
    true
}
