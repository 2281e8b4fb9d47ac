//! Addresses of C programs. The module is private to its crate, so its file is compiled into this target.
//!
//! An address that is read is written as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/capi/src/address.rs"]
mod address;

use address::{read, write};

fuzz_target!(|bytes: &[u8]| match read(bytes) {
    Ok(address) => {
        let again = write(address);
        assert_eq!(read(&again), Ok(address));
        assert_eq!(again[..4], bytes[..4], "family and port");
    }
    Err(error) => assert!(matches!(error, cm::Error::Invalid | cm::Error::Destination)),
});
