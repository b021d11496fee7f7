//! A quick hash for maps whose keys are part of the program. Keys from the wire go into the standard maps, which
//! cannot be driven into collisions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with keys that are part of the program.
pub(crate) type StaticMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Multiplies eight bytes at a time.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
