//! What it costs to send a parcel.

/// The heaviest parcel that is taken, in grams.
pub const HEAVIEST: u32 = 20_000;

/// Prices by weight.
pub struct Rates {
    base: u32,
    per_kilo: u32,
}

impl Rates {
    pub fn new(base: u32, per_kilo: u32) -> Self {
        Self { base, per_kilo }
    }

    /// The price of a parcel in cents.
    pub fn price(&self, grams: u32) -> Option<u32> {
        if grams > HEAVIEST {
            return None;
        }
        let kilos = grams / 1000;
        Some(self.base + kilos * self.per_kilo)
    }
}

fn old_price(grams: u32) -> u32 {
    grams * 2
}
