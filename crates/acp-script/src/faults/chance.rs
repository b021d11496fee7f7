//! Chance that is the same in every run with the same seed.

/// A small generator (splitmix64): good enough to choose frames, useless for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// True with that probability.
    pub(crate) fn hits(&mut self, probability: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let draw = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        draw < probability
    }

    pub(crate) fn byte(&mut self) -> u8 {
        (self.next() >> 24) as u8
    }
}
