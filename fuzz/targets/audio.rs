//! The packets of the audio server and of its receivers. The module is private to its crate, so its file is compiled
//! into this target.
//!
//! What is accepted is written as the same bytes. An acknowledgement names each packet once, none older than 64 packets.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/apps/src/audio/datagram.rs"]
mod datagram;

use datagram::{ACKNOWLEDGEMENT, Acknowledgement, MIN_BYTES, read, write};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The fuzzer would hardly find the first four bytes by itself.
    for kind in [b"RMau", b"RMak"] {
        check(&[&kind[..], bytes].concat());
    }
});

fn check(bytes: &[u8]) {
    if let Some(number) = read(bytes) {
        assert!(bytes.len() >= MIN_BYTES);
        let encoding = bytes[8..MIN_BYTES].try_into().map_or(0, u64::from_be_bytes);
        let mut again = bytes.to_vec();
        write(&mut again, number, encoding);
        assert_eq!(again, bytes);
    }
    if let Some(acknowledgement) = Acknowledgement::read(bytes) {
        assert_eq!(acknowledgement.write(), bytes);
        assert_eq!(bytes.len(), ACKNOWLEDGEMENT);
        let ages: BTreeSet<_> = acknowledgement.numbers().map(|n| acknowledgement.number.wrapping_sub(n)).collect();
        assert_eq!(ages.len(), acknowledgement.before.count_ones() as usize + 1);
        assert!(ages.into_iter().all(|age| age <= 64));
    }
}
