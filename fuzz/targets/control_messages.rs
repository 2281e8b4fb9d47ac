//! Control messages and socket addresses of the kernel. The module is private to its crate, so its file is compiled into
//! this target.
//!
//! Bytes of any content and length are read. An address that is read is written as itself, and so is an ECN code.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_units::Ecn;

#[allow(dead_code)]
#[path = "../../crates/net/src/layout.rs"]
mod layout;

use layout::{Control, RawAddress, Received};

#[derive(Debug, Arbitrary)]
struct Input {
    address: [u8; 28],
    ecn: u8,
    segment: Option<u16>,
    length: u8,
    control: [u8; 128],
}

fuzz_target!(|input: Input| {
    let Input { address, ecn, segment, length, control } = input;
    let Received { ecn: read, stamp: _, segment: _, to: _ } = Control(control).read_first(length.into());
    assert_eq!(Ecn::from_bits(read.bits()), read);

    let Some(address) = RawAddress(address).read() else { return };
    let mut again = RawAddress::default();
    assert!(again.write(address) <= again.0.len());
    assert_eq!(again.read(), Some(address));
    let (mut control, ecn) = (Control::default(), Ecn::from_bits(ecn));
    let length = control.write(address.into(), ecn, segment);
    assert_eq!(control.read_first(length).ecn, ecn);
});
