//! A message from another host, and how it is found in a packet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rampmeter_units::Ecn;

/// A received message.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) from: SocketAddr,
    /// The local address that it was sent to.
    pub(crate) to: IpAddr,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// The message in an IPv4 packet (RFC 791), as raw sockets return it.
    pub(crate) fn parse_ipv4(packet: &'a [u8]) -> Option<Self> {
        let (header, _) = packet.split_first_chunk::<20>()?;
        let ip = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let bytes = packet.get(usize::from(header[0] & 0xf).max(5) * 4..)?;
        let (from, to) = (ip(12), ip(16));
        let is_valid = header[0] >> 4 == 4 && !(to.is_multicast() || to.is_broadcast());
        let arrival = Self { from: (from, 0).into(), to: to.into(), ecn: Ecn::from_bits(header[1]), bytes };
        is_valid.then_some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_wire::{CmHeader, CmKind, CmMessage, cm_encode};

    use super::*;
    use crate::inner_udp::{UDP, write_header};
    use rampmeter_testing::check_fuzz_seed;

    #[test]
    fn parsing_any_bytes_never_panics() {
        for length in 0..80 {
            for first in 0..=255 {
                let mut packet = vec![0; length];
                packet.iter_mut().take(1).for_each(|byte| *byte = first);
                let _ = Arrival::parse_ipv4(&packet);
            }
        }
    }

    /// Seeds for the fuzz target `inner_udp`: a datagram, a message around it, and IPv4 packets around the message.
    #[test]
    fn the_fuzz_corpus_has_packets_and_what_they_contain() {
        let mut datagram = Vec::new();
        write_header(5000, 5, 0x0001_0203, &mut datagram);
        datagram.extend(b"hello");
        let mut message = Vec::new();
        cm_encode(&CmMessage::Header(CmHeader { protocol: UDP, ..CmHeader::control(CmKind::Data, 7) }), &mut message);
        message.extend(&datagram);
        let packet = |words: u8| {
            let mut packet = vec![0; usize::from(words) * 4];
            packet[..2].copy_from_slice(&[0x40 | words, 3]);
            packet[9] = 253;
            packet[12..20].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 2]);
            packet.extend(&message);
            packet
        };
        for (name, bytes) in [
            ("datagram", &datagram),
            ("message", &message),
            ("packet", &packet(5)),
            ("packet_with_options", &packet(7)),
        ] {
            check_fuzz_seed("inner_udp", name, bytes);
        }
        for words in [5, 7] {
            let packet = packet(words);
            let arrival = Arrival::parse_ipv4(&packet).unwrap();
            assert_eq!((arrival.bytes, arrival.ecn), (&message[..], Ecn::Ce));
            assert_eq!((arrival.from, arrival.to), (([192, 0, 2, 1], 0).into(), [198, 51, 100, 2].into()));
        }
    }
}
