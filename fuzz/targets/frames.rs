//! What a session opens: messages between the two sessions before the transport's packets, here of an authenticated
//! host that sends any bytes. The module is private to its crate, so its file is compiled into this target.
//!
//! Frames that are taken are encoded as the same bytes. The rest is not changed.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/session/src/frame.rs"]
mod frame;

use frame::Frame;

fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut again) = (bytes, Vec::new());
    while let Some(frame) = Frame::take(&mut rest) {
        frame.encode(&mut again);
        assert!(again.len() + rest.len() == bytes.len());
    }
    again.extend(rest);
    assert_eq!(again, bytes);
});
