//! Requests to the listener for metrics. The module is private to its crate, so its file is compiled into this target.
//!
//! An answer does not depend on what follows the request, nor on the pieces in which it arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/net/src/monitor/request.rs"]
mod request;

use request::{Answer, MAX_REQUEST, parse};

fuzz_target!(|bytes: &[u8]| {
    let answer = parse(bytes);
    match answer {
        None => assert!(bytes.len() < MAX_REQUEST, "a full buffer is decided on"),
        Some(Answer::Metrics) => assert!(bytes.starts_with(b"GET /metrics ")),
        Some(Answer::Refusal(status, text)) => assert!(status.starts_with('4') && text.ends_with('\n')),
    }
    let pieces = (1..=4).map(|quarters| &bytes[..bytes.len() * quarters / 4]);
    assert_eq!(pieces.map(parse).find(Option::is_some).flatten(), answer);
});
