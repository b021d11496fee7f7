//! What is printed on a parcel.

use crate::rate::HEAVIEST;

/// The lines of a label.
pub fn lines(name: &str, street: &str) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(name.to_uppercase());
    lines.push(street.to_owned());
    lines
}

pub fn warning(grams: u32) -> &'static str {
    if grams > HEAVIEST / 2 {
        "HEAVY"
    } else {
        ""
    }
}
