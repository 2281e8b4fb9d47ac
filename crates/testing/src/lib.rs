//! What tests of several crates share.

#![allow(missing_docs, clippy::missing_panics_doc, reason = "for tests only")]

mod fuzz_seed;
mod relay;

pub use fuzz_seed::check_fuzz_seed;
pub use relay::{RELAY_DELAY, Relay, RelayMode};

/// Bytes without repetition.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len).map(|_| (step() >> 32) as u8).collect()
}
