//! The tunnel: messages between its ends, and what programs send to its port of SOCKS5 and HTTP. The modules are private to their
//! crate, so their files are compiled into this target.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/tunnel/src/http.rs"]
mod http;
#[allow(dead_code)]
#[path = "../../crates/tunnel/src/protocol.rs"]
mod protocol;
#[allow(dead_code)]
#[path = "../../crates/tunnel/src/socks.rs"]
mod socks;

use protocol::{HEAD, Message, is_host};

fuzz_target!(|bytes: &[u8]| {
    if let Some((message, len)) = message(bytes) {
        assert_eq!(message.encode(), bytes[..len]);
    }
    match socks::greeting(bytes) {
        Ok(Some(len)) => assert!(len <= bytes.len() && len <= socks::MAX_GREETING),
        Ok(None) => assert!(bytes.len() < socks::MAX_GREETING, "a full buffer is decided on"),
        Err(_) => {}
    }
    match socks::request(bytes) {
        Ok(Some((request, len))) => {
            assert!(len <= bytes.len() && len <= socks::MAX_REQUEST && is_host(&request.host));
        }
        Ok(None) => assert!(bytes.len() < socks::MAX_REQUEST, "a full buffer is decided on"),
        Err(_) => {}
    }
    match http::request(bytes) {
        Ok(Some((to, len))) => assert!(len <= bytes.len() && len <= http::MAX_REQUEST && is_host(&to.host)),
        Ok(None) => assert!(bytes.len() < http::MAX_REQUEST, "a full buffer is decided on"),
        Err(answer) => assert!(answer.starts_with(b"HTTP/1.1 400 ")),
    }
});

/// The message at the beginning, and its length.
fn message(bytes: &[u8]) -> Option<(Message, usize)> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let (kind, len) = Message::head(*head).ok()?;
    Some((Message::decode(kind, rest.get(..len)?).ok()?, HEAD + len))
}
