//! What another host's packet has around and inside a message of Congestion Managers: the IPv4 header, as raw sockets
//! return it, and the datagram of a program. The modules are private to their crate, so their files are compiled into
//! this target.
//!
//! A datagram that is read is written as the same bytes. A message is the end of its packet, for one host.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rampmeter_wire::{CmMessage, cm_decode};

#[path = "../../crates/cm/src/daemon/arrival.rs"]
mod arrival;
#[path = "../../crates/cm/src/inner_udp.rs"]
mod inner_udp;

use arrival::Arrival;
use inner_udp::{INNER_BYTES, UDP, read, write_header};

fuzz_target!(|bytes: &[u8]| {
    check_message(bytes);
    if let Some(Arrival { from, to, ecn, bytes: message }) = Arrival::parse_ipv4(bytes) {
        assert!(bytes.ends_with(message) && bytes.len() - message.len() >= 20);
        assert!(from.port() == 0 && to.is_ipv4() && !to.is_multicast());
        assert_eq!(ecn.bits(), bytes[1] & 3);
        check_message(message);
    }
});

fn check_message(bytes: &[u8]) {
    check_datagram(UDP, bytes);
    if let Ok((CmMessage::Header(header), payload)) = cm_decode(bytes) {
        check_datagram(header.protocol, payload);
    }
}

fn check_datagram(protocol: u8, bytes: &[u8]) {
    let Some(datagram) = read(protocol, bytes) else { return };
    assert!(protocol == UDP && datagram.to != 0);
    assert_eq!(datagram.payload.len(), bytes.len() - INNER_BYTES);
    let mut again = Vec::new();
    write_header(datagram.to, datagram.payload.len(), datagram.tag, &mut again);
    again.extend(datagram.payload);
    assert_eq!(again, bytes);
}
