//! The file protocol: a request as a server reads it, an answer as a client does. The module is private to its crate and
//! compiled into this target as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/net/src/files/protocol.rs"]
mod protocol;

use protocol::{Answer, MAX_REQUEST, Request, check_name};

fuzz_target!(|bytes: &[u8]| {
    match Request::parse(bytes) {
        Ok(Some(request)) => {
            let encoded = request.encode();
            assert!(encoded.len() <= MAX_REQUEST && bytes.starts_with(&encoded));
            if check_name(&request.name).is_ok() {
                let below = std::path::Path::new(&request.name).components();
                assert!(below.into_iter().all(|part| matches!(part, std::path::Component::Normal(_))));
            }
        }
        Ok(None) => assert!(bytes.len() < MAX_REQUEST, "a full buffer is decided on"),
        Err(_) => {}
    }
    // A stream of answers, as long as it makes sense.
    let mut rest = bytes;
    while let Ok(Some((answer, len))) = Answer::parse(rest) {
        assert_eq!(answer.encode(), rest[..len]);
        rest = &rest[len..];
    }
});
