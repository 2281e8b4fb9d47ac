//! IPv4 packets as routers of the emulated world read and rewrite them. The modules are private to their crate, so
//! their files are compiled into this target.
//!
//! A rewrite changes only the intended field. A correct IP header checksum stays correct.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_router::Parcel;
use rampmeter_units::{Bytes, Ecn, Rate};
use rampmeter_wire::RouterFeedback;

#[allow(dead_code)]
#[path = "../../crates/linux/src/datagram.rs"]
mod datagram;

use datagram::{Datagram, OUR_PORTS};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    /// Whether the bytes get the headers of one of Rampmeter's packets.
    ours: bool,
    code: u8,
    share: u64,
    queue: u64,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Input { ours, code, share, queue, bytes } = input;
    let bytes = if ours { with_headers(bytes) } else { bytes.to_vec() };
    let bytes = bytes.as_slice();
    let Ok(mut packet) = Datagram::new(bytes.to_vec()) else { return };
    let (flow, has_payload, feedback) = (packet.flow(), packet.has_payload(), packet.feedback());
    assert_eq!(packet.bytes(), Bytes::new(bytes.len() as u64));
    let _ = (packet.source(), packet.destination());

    let sum = ip_sum(packet.as_bytes());
    packet.set_ecn(Ecn::from_bits(code));
    assert_eq!(packet.ecn(), Ecn::from_bits(code));
    assert_eq!(ip_sum(packet.as_bytes()), sum);

    let told = RouterFeedback::FairShare { share: Rate::from_bps(share), queue: Bytes::new(queue) };
    packet.set_feedback(told);
    let expected = if feedback == RouterFeedback::None { RouterFeedback::None } else { told };
    assert_eq!(packet.feedback(), expected);

    assert_eq!((packet.flow(), packet.has_payload()), (flow, has_payload));
    assert_eq!(packet.into_bytes().len(), bytes.len());
});

/// `bytes` in UDP and IPv4, between Rampmeter's ports. The first byte determines the length of the IP header.
fn with_headers(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.first().map_or(5, |byte| byte % 11 + 5);
    let mut packet = vec![0; usize::from(words) * 4 + 8];
    let udp = packet.len() - 8;
    packet[0] = 0x40 | words;
    packet[9] = 17;
    for port in [udp, udp + 2] {
        packet[port..port + 2].copy_from_slice(&OUR_PORTS.to_be_bytes());
    }
    packet[udp + 6] = 1; // a checksum, but not a correct one
    packet.extend(bytes.iter().skip(1));
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

/// The ones' complement sum over the IP header, which is the same for every header with a correct checksum.
fn ip_sum(bytes: &[u8]) -> u32 {
    let header = &bytes[..usize::from(bytes[0] & 0xf) * 4];
    let sum: u32 = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    // Uses one of the two forms of zero.
    if folded == 0xffff { 0 } else { folded }
}
