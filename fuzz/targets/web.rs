//! Requests to the web server and their ranges. The modules are private to their crate, so their files are compiled into
//! this target.
//!
//! A request is decided on at the end of its header, whatever follows. A range lies within the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/apps/src/web/priority.rs"]
mod priority;
#[path = "../../crates/apps/src/web/range.rs"]
mod range;
#[path = "../../crates/apps/src/web/request.rs"]
mod request;
#[allow(dead_code)]
#[path = "../../crates/apps/src/web/status.rs"]
mod status;

use request::{MAX_HEAD, Parsed, parse};

fuzz_target!(|bytes: &[u8]| {
    match parse(bytes) {
        Parsed::Incomplete => assert!(bytes.len() < MAX_HEAD, "a full buffer is decided on"),
        Parsed::Refused(status, _) => assert!((400..500).contains(&status.0)),
        Parsed::Complete(request, length) => {
            assert!(length <= MAX_HEAD);
            let head = &bytes[..length];
            assert_eq!(parse(head), Parsed::Complete(request.clone(), length));
            assert_eq!(parse(&head[..length - 1]), Parsed::Incomplete);
            assert!(!request.object.is_empty() && !request.object.ends_with('/'));
            for size in [0, 1, bytes.len() as u64, u64::MAX] {
                if let Some((first, count)) = request.range.as_ref().and_then(|(range, _)| range.of(size)) {
                    assert!(count > 0 && first.checked_add(count).is_some_and(|end| end <= size));
                }
            }
        }
    }
});
