//! Rampmeter's packets: no input makes the decoder panic, and an accepted packet encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rampmeter_wire::{decode, encode, encoded_len};

fuzz_target!(|bytes: &[u8]| {
    let Ok((packet, payload)) = decode(bytes) else { return };
    assert_eq!(payload.len(), usize::from(packet.payload));
    let mut again = Vec::new();
    encode(&packet, &mut again);
    assert_eq!(again.len(), encoded_len(&packet));
    again.extend(payload);
    assert_eq!(decode(&again), Ok((packet, payload)));
    assert_eq!(again, bytes, "two encodings of one packet");
});
