//! The messages between the Congestion Manager's daemon and its clients. The module is private to its crate, so its file
//! is compiled into this target.
//!
//! Records of any content are decoded or refused. A decoded message is encoded as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cm/src/message.rs"]
mod message;

/// What the module uses of its crate.
mod client {
    pub(crate) use cm::Id;
}
mod error {
    pub(crate) use cm::Error;
}
mod ring {
    pub(crate) type Record = [u64; 8];
}

use message::{Command, Notice};

fuzz_target!(|record: [u64; 8]| {
    // Most records get a kind that exists.
    let mut record = record;
    if record[0] & 0x80 != 0 {
        record[0] &= 0xffff_ffff_0000_000f;
    }
    if let Some((flow, command)) = Command::decode(&record) {
        assert_eq!(Command::decode(&command.encode(flow)), Some((flow, command)));
    }
    if let Some((flow, notice)) = Notice::decode(&record) {
        assert_eq!(Notice::decode(&notice.encode(flow)), Some((flow, notice)));
    }
});
