//! The file protocol: requests as a server reads them, answers as a client reads them. The module is private to its
//! crate, so its file is compiled into this target.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../crates/files/src/protocol.rs"]
mod protocol;

use protocol::{Answer, Request, check_controller, encode};
use rampmeter_net::check_name;

fn is_below(name: &str) -> bool {
    std::path::Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fuzz_target!(|text: &[u8]| {
    if let Some(request) = Request::decode(text) {
        assert!(check_name(&request.name).is_err() || is_below(&request.name));
        assert_eq!(Request::decode(&encode(&request)[2..]), Some(request));
    }
    if let Some(answer) = Answer::decode(text) {
        if let Answer::File { size, offset, controller, .. } = &answer {
            assert!(offset <= size && check_controller(controller).is_ok());
        }
        assert_eq!(Answer::decode(&encode(&answer)[2..]), Some(answer));
    }
});
