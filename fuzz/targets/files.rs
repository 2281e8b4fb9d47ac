//! The file protocol: greetings and requests as a server reads them, answers as a client reads them. The module is
//! private to its crate, so its file is compiled into this target.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../crates/files/src/protocol/mod.rs"]
mod protocol;

use protocol::{Answer, Greeting, MAX_MESSAGE, MAX_PIECE, Request};
use rampmeter_net::check_name;

fn is_below(name: &str) -> bool {
    std::path::Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fuzz_target!(|bytes: &[u8]| {
    match Greeting::parse(bytes) {
        Ok(Some((greeting, len))) => assert_eq!(greeting.encode(), bytes[..len]),
        Ok(None) => assert!(bytes.len() < MAX_MESSAGE, "a full buffer is decided on"),
        Err(_) => {}
    }
    // A stream of requests, until one is invalid or incomplete.
    let (mut rest, mut encoded) = (bytes, Vec::new());
    while let Ok(Some((request, len))) = Request::parse(rest) {
        encoded.clear();
        request.encode(&mut encoded);
        assert!(encoded == rest[..len] && len <= MAX_MESSAGE);
        if let Request::Get { name, .. } = &request {
            assert!(check_name(name).is_err() || is_below(name));
        }
        rest = &rest[len..];
    }
    assert!(Request::parse(rest) != Ok(None) || rest.len() < MAX_MESSAGE, "a full buffer is decided on");
    // The same of answers.
    let mut rest = bytes;
    while let Ok(Some((answer, len))) = Answer::parse(rest) {
        encoded.clear();
        answer.encode(&mut encoded);
        assert!(encoded == rest[..len] && len <= MAX_MESSAGE);
        if let Answer::Bytes(len) = answer {
            assert!(len > 0 && len as usize <= MAX_PIECE);
        }
        rest = &rest[len..];
    }
    assert!(Answer::parse(rest) != Ok(None) || rest.len() < MAX_MESSAGE, "a full buffer is decided on");
});
