//! The handshake on the socket of a Congestion Manager's daemon: requests as the daemon reads them, answers as a client
//! does. The module is private to its crate, so its file is compiled into this target.
//!
//! What is accepted is encoded as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cm/src/handshake/encoding.rs"]
mod encoding;

/// What the module uses of its crate.
mod error {
    pub(crate) use cm::Error;
}

use encoding::{BYTES, ClientRequest, decode_answer, encode_answer};
use error::Error;

fuzz_target!(|bytes: [u8; BYTES]| {
    check(&bytes);
    // The fuzzer would hardly find the first twelve bytes by itself.
    let mut known = ClientRequest::Connect.encode();
    known[12..].copy_from_slice(&bytes[12..]);
    check(&known);
});

fn check(bytes: &[u8; BYTES]) {
    match ClientRequest::decode(bytes) {
        Ok(request) => assert_eq!(&request.encode(), bytes),
        Err(error) => assert_eq!(error, Error::Version),
    }
    match decode_answer(bytes) {
        Err(Error::Version) => {} // also for bytes of no version
        answer => assert_eq!(&encode_answer(answer), bytes),
    }
}
