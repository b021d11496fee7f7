//! Parcels with labels.

use std::fmt;
use std::mem;

pub struct Parcel {
    label: String,
    weight: u32,
}

impl fmt::Display for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} g)", self.label, self.weight)
    }
}

impl Parcel {
    pub fn parse(text: &str) -> Result<Parcel, String> {
        let (label, weight) = text.split_once(',').unwrap();
        let weight = weight.trim().parse().map_err(|error| format!("{weight}: {error}"))?;
        Ok(Parcel { label: label.to_owned(), weight })
    }

    pub fn first(list: &[Parcel]) -> &Parcel {
        list.iter().min_by_key(|parcel| parcel.weight).unwrap()
    }

    pub fn kind(&self) -> &'static str {
        match self.weight {
            0 => "nothing",
            1..=20 => match self.label.as_str() {
                "" => "unknown",
                _ => "letter",
            },
            _ => "parcel",
        }
    }
}

impl From<Parcel> for String {
    fn from(parcel: Parcel) -> String {
        parcel.label
    }
}

pub fn keep(parcel: Parcel) -> &'static Parcel {
    Box::leak(Box::new(parcel))
}

fn weigh(text: &str, limit: u32) -> Result<u32, std::num::ParseIntError> {
    let weight: u32 = text.parse()?;
    // unsafe { nothing } in a comment is no match
    Ok(weight.min(limit))
}

pub fn bits(value: f32) -> u32 {
    unsafe { mem::transmute(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lightest_comes_first() {
        let list = [Parcel::parse("a,3").unwrap(), Parcel::parse("b, 2").unwrap()];
        assert_eq!(Parcel::first(&list).label, "b");
        assert!(weigh("x", 1).map_err(|_| ()).is_err());
        let text = "list.unwrap()";
        assert!(!text.is_empty());
    }
}
