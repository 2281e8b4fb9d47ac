//! A real IPv4 packet, as routers process it.
//!
//! A router may rewrite the ECN bits of the IP header and the feedback option of Rampmeter's own packets. Both
//! checksums are updated, as a forwarding router does, so that the kernel at the other end accepts the packet.

use std::fmt;
use std::net::Ipv4Addr;

use rampmeter_router::{Hosts, Parcel};
use rampmeter_run::{HopId, Routed};
use rampmeter_trace::Capture;
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::checksum::updated;
use rampmeter_wire::{Packet, RouterFeedback, decode, encode};

/// The first UDP port of Rampmeter's packets; each scheme has one port.
pub(crate) const OUR_PORTS: u16 = 40_000;

/// The first UDP port on which other transports' stacks accept flows; each scheme has one port.
pub(crate) const STACK_PORTS: u16 = 4433;

/// How many ports they have.
const MAX_STACK_PORTS: u16 = 1000;

/// The type of service, without its ECN code, of packets of these stacks that carry data, which only their senders know.
/// It is DSCP 1 (lower effort, RFC 8622), which no router here distinguishes.
pub(crate) const DATA_TOS: u8 = 1 << 2;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[derive(Clone)]
pub(crate) struct Datagram {
    bytes: Vec<u8>,
    flow: u64,
    hop: HopId,
    noted: Ecn,
}

impl Capture for Datagram {
    fn write(&self, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&self.bytes);
        self.bytes.len()
    }
}

impl Datagram {
    /// A packet from `bytes` as read from a network device. Returns the bytes if they are not an IPv4 packet. Fragments
    /// do not occur: all senders here set DF or stay within the MTU of the devices.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let valid = bytes.len() >= IP_HEADER
            && bytes[0] >> 4 == 4
            && header_len(&bytes) >= IP_HEADER
            && usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) == bytes.len()
            && bytes.len() >= header_len(&bytes) + UDP_HEADER;
        if !valid {
            return Err(bytes);
        }
        let mut datagram = Self { bytes, flow: 0, hop: HopId::MIN, noted: Ecn::NotEct };
        datagram.flow = datagram.hash();
        Ok(datagram)
    }

    pub(crate) fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.bytes[12], self.bytes[13], self.bytes[14], self.bytes[15])
    }

    pub(crate) fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.bytes[16], self.bytes[17], self.bytes[18], self.bytes[19])
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether the packet carries stream bytes.
    pub(crate) fn has_payload(&self) -> bool {
        let transport = &self.bytes[header_len(&self.bytes)..];
        match self.bytes[9] {
            TCP => transport.get(12).is_some_and(|&offset| transport.len() > usize::from(offset >> 4) * 4),
            _ if self.is_ours() => self.header().is_some_and(|header| header.payload > 0),
            _ => self.is_of_stack() && self.bytes[1] & DATA_TOS != 0,
        }
    }

    /// The source and the destination port, if this is a packet of UDP.
    fn udp_ports(&self) -> Option<[u16; 2]> {
        let ports = header_len(&self.bytes);
        let port = |at: usize| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        (self.bytes[9] == UDP).then(|| [port(ports), port(ports + 2)])
    }

    fn is_ours(&self) -> bool {
        self.udp_ports().is_some_and(|ports| ports.iter().all(|port| *port >= OUR_PORTS))
    }

    fn is_of_stack(&self) -> bool {
        let of_stacks = STACK_PORTS..STACK_PORTS + MAX_STACK_PORTS;
        self.udp_ports().is_some_and(|ports| ports.iter().any(|port| of_stacks.contains(port)))
    }

    /// The header, if this is one of Rampmeter's packets.
    fn header(&self) -> Option<Packet> {
        let payload = header_len(&self.bytes) + UDP_HEADER;
        self.is_ours().then(|| decode(&self.bytes[payload..]).ok()).flatten().map(|(packet, _)| packet)
    }

    /// FNV-1a over protocol, addresses and ports. For Rampmeter's packets also over the connection, because many
    /// connections share a socket.
    fn hash(&self) -> u64 {
        let ports = header_len(&self.bytes);
        let connection = if self.is_ours() { ports + UDP_HEADER + 4..ports + UDP_HEADER + 8 } else { 0..0 };
        let parts = [&self.bytes[9..10], &self.bytes[12..20], &self.bytes[ports..ports + 4]];
        let connection = self.bytes.get(connection).unwrap_or_default();
        fnv(parts.into_iter().chain([connection]).flatten())
    }
}

/// FNV-1a.
fn fnv<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn header_len(bytes: &[u8]) -> usize {
    usize::from(bytes[0] & 0xf) * 4
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B {} > {}", self.bytes.len(), self.source(), self.destination())
    }
}

impl Routed for Datagram {
    fn hop(&self) -> HopId {
        self.hop
    }

    fn set_hop(&mut self, hop: HopId) {
        self.hop = hop;
    }

    fn note_ecn(&mut self) {
        self.noted = self.ecn();
    }

    fn noted_ecn(&self) -> Ecn {
        self.noted
    }
}

impl Parcel for Datagram {
    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.len() as u64)
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn hosts(&self) -> Hosts {
        let number = |address: Ipv4Addr| u64::from(address.to_bits());
        Hosts { source: number(self.source()), destination: number(self.destination()) }
    }

    /// The packet's number, if it is one of Rampmeter's that routers can read. Else a hash of what they do not change:
    /// TCP's sequence numbers, or UDP's checksum and the first bytes of its payload. Only the former is consecutive.
    fn label(&self) -> Option<u64> {
        let transport = &self.bytes[header_len(&self.bytes)..];
        let number = self.header().map(|packet| u64::from(packet.number));
        Some(self.flow.wrapping_add(number.unwrap_or_else(|| fnv(transport.iter().skip(4).take(24)))))
    }

    fn is_control(&self) -> bool {
        !self.has_payload()
    }

    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.bytes[1])
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        let old = [self.bytes[0], self.bytes[1]];
        let new = [old[0], old[1] & !0b11 | ecn.bits()];
        let checksum = updated(u16::from_be_bytes([self.bytes[10], self.bytes[11]]), &old, &new);
        self.bytes[1] = new[1];
        self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn feedback(&self) -> RouterFeedback {
        self.header().map_or(RouterFeedback::None, |header| header.feedback)
    }

    fn set_feedback(&mut self, feedback: RouterFeedback) {
        let Some(mut header) = self.header() else { return };
        if header.feedback == RouterFeedback::None || feedback == RouterFeedback::None {
            return;
        }
        header.feedback = feedback;
        let mut new = Vec::with_capacity(128);
        encode(&header, &mut new);
        let payload = header_len(&self.bytes) + UDP_HEADER;
        let (udp, ours) = self.bytes.split_at_mut(payload);
        let (old, checksum) = (&mut ours[..new.len()], udp.len() - 2);
        let before = u16::from_be_bytes([udp[checksum], udp[checksum + 1]]);
        if before != 0 {
            // Zero means "no checksum", so a sum of zero is written as 0xffff (RFC 768).
            let after = match updated(before, old, &new) {
                0 => 0xffff,
                sum => sum,
            };
            udp[checksum..].copy_from_slice(&after.to_be_bytes());
        }
        old.copy_from_slice(&new);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rampmeter_units::Rate;
    use rampmeter_wire::checksum::of;

    use super::*;

    /// A packet of Rampmeter's between two addresses, with both checksums.
    pub(crate) fn ours(from: Ipv4Addr, to: Ipv4Addr, header: &Packet) -> Vec<u8> {
        let mut ours = Vec::new();
        encode(header, &mut ours);
        ours.resize(ours.len() + usize::from(header.payload), 0x5a);
        let total = (IP_HEADER + UDP_HEADER + ours.len()) as u16;
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0];
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        let sum = of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        for field in [OUR_PORTS, OUR_PORTS, (UDP_HEADER + ours.len()) as u16, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(ours);
        let sum = udp_sum(&bytes);
        bytes[26..28].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        bytes
    }

    /// The UDP checksum over the pseudo header, the UDP header and the payload; zero if the packet has a correct one.
    fn udp_sum(bytes: &[u8]) -> u16 {
        let mut covered = bytes[12..20].to_vec();
        covered.extend([0, UDP]);
        covered.extend(&bytes[24..26]);
        covered.extend(&bytes[IP_HEADER..]);
        of(&covered)
    }

    fn request(payload: u16) -> Packet {
        let feedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };
        Packet { connection: 7, payload, feedback, ..Packet::default() }
    }

    const FROM: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);
    const TO: Ipv4Addr = Ipv4Addr::new(10, 65, 0, 1);

    #[test]
    fn consecutive_packets_of_a_flow_have_consecutive_labels() {
        let label = |number| {
            let packet = Packet { number, ..request(10) };
            Datagram::new(ours(FROM, TO, &packet)).unwrap().label().unwrap()
        };
        assert_eq!(label(8), label(7).wrapping_add(1));
    }

    proptest! {
        #[test]
        fn marking_keeps_the_header_checksum_correct(code in 0u8..4, id: u16, dscp in 0u8..64) {
            let mut bytes = ours(FROM, TO, &request(10));
            bytes[1] = dscp << 2;
            bytes[4..6].copy_from_slice(&id.to_be_bytes());
            bytes[10..12].fill(0);
            let sum = of(&bytes[..IP_HEADER]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut packet = Datagram::new(bytes).unwrap();
            packet.set_ecn(Ecn::from_bits(code));
            prop_assert_eq!(packet.ecn().bits(), code);
            prop_assert_eq!(packet.as_bytes()[1] >> 2, dscp);
            prop_assert_eq!(of(&packet.as_bytes()[..IP_HEADER]), 0);
        }

        #[test]
        fn feedback_keeps_the_udp_checksum_correct(share: u64, queue: u64, payload in 0u16..100) {
            let mut packet = Datagram::new(ours(FROM, TO, &request(payload))).unwrap();
            let answer = RouterFeedback::FairShare { share: Rate::from_bps(share), queue: Bytes::new(queue) };
            packet.set_feedback(answer);
            prop_assert_eq!(packet.feedback(), answer);
            prop_assert_eq!(udp_sum(packet.as_bytes()), 0);
            prop_assert_eq!(packet.has_payload(), payload > 0);
        }
    }

    #[test]
    fn a_packet_without_a_request_gets_no_feedback() {
        let before = ours(FROM, TO, &Packet { payload: 3, ..Packet::default() });
        let mut packet = Datagram::new(before.clone()).unwrap();
        packet.set_feedback(request(0).feedback);
        assert_eq!(packet.as_bytes(), before);
    }

    #[test]
    fn connections_on_one_socket_are_different_flows() {
        let flow = |connection| {
            let header = Packet { connection, ..Packet::default() };
            Datagram::new(ours(FROM, TO, &header)).unwrap().flow()
        };
        assert_eq!(flow(1), flow(1));
        assert_ne!(flow(1), flow(2));
    }

    #[test]
    fn hosts_are_the_addresses_of_the_packet() {
        let packet = Datagram::new(ours(FROM, TO, &request(0))).unwrap();
        assert_eq!(packet.hosts(), Hosts { source: 0x0a40_0001, destination: 0x0a41_0001 });
    }

    #[test]
    fn bytes_that_are_not_ipv4_are_returned() {
        for bytes in [vec![], vec![0x60; 60], vec![0x45; 20], vec![0x4f; 30]] {
            assert_eq!(Datagram::new(bytes.clone()).err(), Some(bytes));
        }
    }
}
