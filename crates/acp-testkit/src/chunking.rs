use crate::Rng;

/// How a byte stream is cut on its way.
#[derive(Debug, Clone)]
pub enum Chunking {
    /// Everything that waits, at once.
    Whole,
    /// Always this many bytes (at least one).
    Fixed(usize),
    /// Pieces of any size, a single byte and everything included.
    Seeded(Rng),
}

impl Chunking {
    /// Random pieces from a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Rng::new(seed))
    }

    /// How many of `waiting` bytes come next: between one and all of them.
    pub fn next(&mut self, waiting: usize) -> usize {
        let size = match self {
            Self::Whole => waiting,
            Self::Fixed(size) => *size,
            Self::Seeded(rng) => match rng.below(4) {
                0 => 1,
                1 => 1 + rng.below(8),
                2 => 1 + rng.below(waiting),
                _ => waiting,
            },
        };
        size.clamp(1, waiting.max(1)).min(waiting)
    }

    /// `bytes` in pieces.
    pub fn cut<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(self.next(bytes.len()));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}
