//! Rampmeter's packets, of which a datagram may have several: no input makes the decoder panic, and an accepted packet
//! encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rampmeter_wire::{decode, decode_first, encode, encoded_len};

fuzz_target!(|bytes: &[u8]| {
    let mut left = bytes;
    while let Ok((packet, payload, rest)) = decode_first(left) {
        let first = &left[..left.len() - rest.len()];
        assert_eq!(payload.len(), usize::from(packet.payload));
        let mut again = Vec::new();
        encode(&packet, &mut again);
        assert_eq!(again.len(), encoded_len(&packet));
        again.extend(payload);
        assert_eq!(again, first, "two encodings of one packet");
        assert_eq!(decode(first), Ok((packet, payload)));
        left = rest;
    }
});
