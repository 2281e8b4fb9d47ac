//! The file protocol: requests as a server reads them, answers as a client reads them. The module is private to its
//! crate, so its file is compiled into this target.
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
    // A stream of answers, until one is invalid.
    let mut rest = bytes;
    while let Ok(Some((answer, len))) = Answer::parse(rest) {
        assert_eq!(answer.encode(), rest[..len]);
        rest = &rest[len..];
    }
});
