//! The encoding of packets.
//!
//! ```text
//!  0               1               2               3
//! +-------+-------+---------------+---------------+---------------+
//! |version| kind  |     flags     |   receipts    |     sacks     |
//! +-------+-------+---------------+---------------+---------------+
//! |                          connection                           |
//! |                            number                             |
//! |                           sequence                            |
//! |                        acknowledgement                        |
//! |                            window                             |
//! +---------------+---------------+-------------------------------+
//! |   payload length (2 bytes)    |  receipts, 12 bytes each;     |
//! +-------------------------------+  sacks, 8; feedback, 21 each; |
//!                                 |  proof, 13                    |
//!                                 +-------------------------------+
//! ```
//!
//! Feedback is a byte with its type, followed by:
//!
//! ```text
//! 1, fair share   share, bit/s (8 bytes), queue, bytes (8), zero (4)
//! 2, XCP          window, bytes (8), round-trip time, microseconds (4), change, thousandths of a byte (8, signed)
//! ```
//!
//! Numbers are big-endian. With the 28 bytes of IPv4 and UDP, a packet that only carries data has 54 bytes of headers,
//! as many as TCP with timestamps has over a point-to-point link.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use thiserror::Error;

use crate::packet::{Kind, Packet, Proof, Receipt, RouterFeedback, Sack};

/// The version of the format.
pub const VERSION: u8 = 1;

/// The size of the fixed header in bytes.
pub const HEADER_BYTES: usize = 26;

/// The size of the IPv4 and UDP headers before the packet's header, in bytes.
pub const UDP_BYTES: usize = 28;

const RECEIPT_BYTES: usize = 12;
const SACK_BYTES: usize = 8;
const FEEDBACK_BYTES: usize = 21;
const PROOF_BYTES: usize = 13;

const FAIR_SHARE: u8 = 1;
const XCP: u8 = 2;

const FIN: u8 = 1;
const PING: u8 = 2;
const FEEDBACK: u8 = 4;
const ECHOED_FEEDBACK: u8 = 8;
const PROOF: u8 = 16;
const PROBE: u8 = 32;

/// Why a datagram could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The datagram's length differs from the length in its header.
    #[error("the datagram has {got} bytes; its header announces {announced}")]
    Length {
        /// The length according to the header (or the minimum length of a header).
        announced: usize,
        /// The datagram's length.
        got: usize,
    },
    /// Another version of the protocol, or another protocol.
    #[error("version {0} of the protocol is not supported: use version {VERSION}")]
    Version(u8),
    /// An undefined type, flag or count.
    #[error("undefined {0}")]
    Field(&'static str),
}

/// The length of the header that [`encode`] writes for `packet`, without the payload.
#[inline]
pub fn encoded_len(packet: &Packet) -> usize {
    let feedback = |f: &RouterFeedback| if *f == RouterFeedback::None { 0 } else { FEEDBACK_BYTES };
    HEADER_BYTES
        + packet.receipts.len() * RECEIPT_BYTES
        + packet.sacks.len() * SACK_BYTES
        + feedback(&packet.feedback)
        + feedback(&packet.echoed_feedback)
        + packet.proof.map_or(0, |_| PROOF_BYTES)
}

/// Appends the encoded header of `packet` to `out`. The caller appends the payload.
pub fn encode(packet: &Packet, out: &mut Vec<u8>) {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.push(VERSION << 4 | packet.kind as u8);
    out.push(
        flag(packet.fin, FIN)
            | flag(packet.ping, PING)
            | flag(packet.feedback != RouterFeedback::None, FEEDBACK)
            | flag(packet.echoed_feedback != RouterFeedback::None, ECHOED_FEEDBACK)
            | flag(packet.proof.is_some(), PROOF)
            | flag(packet.probe, PROBE),
    );
    out.push(packet.receipts.len() as u8);
    out.push(packet.sacks.len() as u8);
    for field in [packet.connection, packet.number, packet.sequence, packet.acknowledgement, packet.window] {
        out.extend(field.to_be_bytes());
    }
    out.extend(packet.payload.to_be_bytes());
    for receipt in packet.receipts.iter() {
        out.extend(receipt.number.to_be_bytes());
        out.extend((receipt.received_at.as_nanos() << 2 | u64::from(receipt.ecn.bits())).to_be_bytes());
    }
    for sack in packet.sacks.iter() {
        out.extend(sack.start.to_be_bytes());
        out.extend(sack.end.to_be_bytes());
    }
    for feedback in [packet.feedback, packet.echoed_feedback] {
        encode_feedback(feedback, out);
    }
    if let Some(Proof { number, arrived, sum }) = packet.proof {
        out.extend(number.to_be_bytes());
        out.extend(arrived.to_be_bytes());
        out.push(sum);
    }
}

fn encode_feedback(feedback: RouterFeedback, out: &mut Vec<u8>) {
    match feedback {
        RouterFeedback::None => {}
        RouterFeedback::FairShare { share, queue } => {
            out.push(FAIR_SHARE);
            out.extend(share.as_bps().to_be_bytes());
            out.extend(queue.as_u64().to_be_bytes());
            out.extend([0; 4]);
        }
        RouterFeedback::Xcp { window, rtt, change } => {
            out.push(XCP);
            out.extend(window.as_u64().to_be_bytes());
            out.extend(u32::try_from(rtt.as_nanos() / 1000).unwrap_or(u32::MAX).to_be_bytes());
            out.extend(change.to_be_bytes());
        }
    }
}

fn decode_feedback(bytes: &[u8]) -> Option<RouterFeedback> {
    match *bytes.first()? {
        FAIR_SHARE if bytes[17..] == [0; 4] => Some(RouterFeedback::FairShare {
            share: Rate::from_bps(be_u64(&bytes[1..])),
            queue: Bytes::new(be_u64(&bytes[9..])),
        }),
        XCP => Some(RouterFeedback::Xcp {
            window: Bytes::new(be_u64(&bytes[1..])),
            rtt: Duration::from_micros(be_u32(&bytes[9..]).into()),
            change: be_u64(&bytes[13..]) as i64,
        }),
        _ => None,
    }
}

/// Decodes a datagram into its header and its payload.
pub fn decode(datagram: &[u8]) -> Result<(Packet, &[u8]), DecodeError> {
    let (packet, payload, rest) = decode_first(datagram)?;
    if rest.is_empty() {
        Ok((packet, payload))
    } else {
        Err(DecodeError::Length { announced: datagram.len() - rest.len(), got: datagram.len() })
    }
}

/// Decodes the first of several packets: its header, its payload, and the bytes of the others.
pub fn decode_first(datagram: &[u8]) -> Result<(Packet, &[u8], &[u8]), DecodeError> {
    let too_short = DecodeError::Length { announced: HEADER_BYTES, got: datagram.len() };
    let Some((fixed, rest)) = datagram.split_first_chunk::<HEADER_BYTES>() else { return Err(too_short) };
    if fixed[0] >> 4 != VERSION {
        return Err(DecodeError::Version(fixed[0] >> 4));
    }
    let flags = fixed[1];
    if flags & !(FIN | PING | FEEDBACK | ECHOED_FEEDBACK | PROOF | PROBE) != 0 {
        return Err(DecodeError::Field("flag"));
    }
    let mut words = fixed[4..24].chunks_exact(4).map(be_u32);
    let mut word = || words.next().unwrap_or_default();
    let mut packet = Packet {
        kind: match fixed[0] & 0xf {
            1 => Kind::Syn,
            2 => Kind::SynAck,
            3 => Kind::Data,
            4 => Kind::Reset,
            _ => return Err(DecodeError::Field("kind")),
        },
        fin: flags & FIN != 0,
        ping: flags & PING != 0,
        probe: flags & PROBE != 0,
        connection: word(),
        number: word(),
        sequence: word(),
        acknowledgement: word(),
        window: word(),
        payload: u16::from_be_bytes([fixed[24], fixed[25]]),
        ..Packet::default()
    };

    let (receipts, sacks) = (usize::from(fixed[2]), usize::from(fixed[3]));
    let feedbacks = usize::from(flags & FEEDBACK != 0) + usize::from(flags & ECHOED_FEEDBACK != 0);
    let proof = if flags & PROOF != 0 { PROOF_BYTES } else { 0 };
    let options = receipts * RECEIPT_BYTES + sacks * SACK_BYTES + feedbacks * FEEDBACK_BYTES + proof;
    let announced = HEADER_BYTES + options + usize::from(packet.payload);
    if announced > datagram.len() {
        return Err(DecodeError::Length { announced, got: datagram.len() });
    }
    let (options, rest) = rest.split_at(options);
    let (payload, rest) = rest.split_at(usize::from(packet.payload));
    let (receipt_bytes, options) = options.split_at(receipts * RECEIPT_BYTES);
    let (sack_bytes, mut options) = options.split_at(sacks * SACK_BYTES);
    for bytes in receipt_bytes.chunks_exact(RECEIPT_BYTES) {
        let stamp = be_u64(&bytes[4..]);
        let receipt = Receipt {
            number: be_u32(bytes),
            ecn: Ecn::from_bits(stamp as u8),
            received_at: Time::from_nanos(stamp >> 2),
        };
        if !packet.receipts.push(receipt) {
            return Err(DecodeError::Field("number of receipts"));
        }
    }
    for bytes in sack_bytes.chunks_exact(SACK_BYTES) {
        if !packet.sacks.push(Sack { start: be_u32(bytes), end: be_u32(&bytes[4..]) }) {
            return Err(DecodeError::Field("number of sacks"));
        }
    }
    for (bit, slot) in [(FEEDBACK, &mut packet.feedback), (ECHOED_FEEDBACK, &mut packet.echoed_feedback)] {
        if flags & bit != 0 {
            let (bytes, later) = options.split_at(FEEDBACK_BYTES);
            *slot = decode_feedback(bytes).ok_or(DecodeError::Field("kind of feedback"))?;
            options = later;
        }
    }
    if let (Some(&sum), true) = (options.get(12), proof > 0) {
        packet.proof = Some(Proof { number: be_u32(options), arrived: be_u64(&options[4..]), sum });
    }
    Ok((packet, payload, rest))
}

pub(crate) fn be_u32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |n, &b| n << 8 | u32::from(b))
}

fn be_u64(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |n, &b| n << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{List, MAX_RECEIPTS};

    fn any_packet() -> impl Strategy<Value = Packet> {
        let kind = prop_oneof![Just(Kind::Syn), Just(Kind::SynAck), Just(Kind::Data), Just(Kind::Reset)];
        let receipt = (any::<u32>(), 0u8..4, 0u64..1 << 62).prop_map(|(number, ecn, at)| Receipt {
            number,
            ecn: Ecn::from_bits(ecn),
            received_at: Time::from_nanos(at),
        });
        let sack = any::<(u32, u32)>().prop_map(|(start, end)| Sack { start, end });
        let feedback = prop_oneof![
            Just(RouterFeedback::None),
            any::<(u64, u64)>().prop_map(|(share, queue)| RouterFeedback::FairShare {
                share: Rate::from_bps(share),
                queue: Bytes::new(queue),
            }),
            any::<(u64, u32, i64)>().prop_map(|(window, rtt, change)| RouterFeedback::Xcp {
                window: Bytes::new(window),
                rtt: Duration::from_micros(rtt.into()),
                change,
            }),
        ];
        let proof = prop::option::of(any::<(u32, u64, u8)>())
            .prop_map(|proof| proof.map(|(number, arrived, sum)| Proof { number, arrived, sum }));
        (
            kind,
            any::<[u32; 5]>(),
            0u16..2000,
            any::<(bool, bool, bool)>(),
            prop::collection::vec(receipt, 0..=MAX_RECEIPTS),
            prop::collection::vec(sack, 0..=3),
            (feedback.clone(), feedback, proof),
        )
            .prop_map(
                |(kind, words, payload, (fin, ping, probe), receipts, sacks, (feedback, echoed_feedback, proof))| {
                    let [connection, number, sequence, acknowledgement, window] = words;
                    let mut packet = Packet {
                        connection,
                        number,
                        sequence,
                        acknowledgement,
                        window,
                        payload,
                        kind,
                        fin,
                        ping,
                        probe,
                        proof,
                        feedback,
                        echoed_feedback,
                        ..Packet::default()
                    };
                    for receipt in receipts {
                        assert!(packet.receipts.push(receipt));
                    }
                    for sack in sacks {
                        assert!(packet.sacks.push(sack));
                    }
                    packet
                },
            )
    }

    proptest! {
        #[test]
        fn an_encoded_packet_decodes_to_itself(packet in any_packet()) {
            let mut bytes = Vec::new();
            encode(&packet, &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_len(&packet));
            bytes.resize(bytes.len() + usize::from(packet.payload), 0xab);
            let (read, payload) = decode(&bytes).unwrap();
            prop_assert_eq!(read, packet);
            prop_assert_eq!(payload.len(), usize::from(packet.payload));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..250)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_damaged_packet_never_makes_the_decoder_panic(
            packet in any_packet(),
            at in any::<prop::sample::Index>(),
            with: u8,
        ) {
            let mut bytes = Vec::new();
            encode(&packet, &mut bytes);
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn several_packets_of_a_datagram_are_decoded_one_by_one() {
        let packets = [Packet { payload: 3, ..Packet::default() }, Packet { number: 7, ..Packet::default() }];
        let mut bytes = Vec::new();
        for packet in &packets {
            encode(packet, &mut bytes);
            bytes.resize(bytes.len() + usize::from(packet.payload), 9);
        }
        let (first, payload, rest) = decode_first(&bytes).unwrap();
        assert_eq!((first, payload), (packets[0], &[9; 3][..]));
        assert_eq!(decode_first(rest).unwrap(), (packets[1], &[][..], &[][..]));
    }

    #[test]
    fn a_data_packet_has_54_bytes_of_headers() {
        assert_eq!(encoded_len(&Packet::default()) + UDP_BYTES, 54);
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = Vec::new();
        encode(&Packet::default(), &mut bytes);
        bytes.push(0);
        assert_eq!(decode(&bytes).unwrap_err(), DecodeError::Length { announced: 26, got: 27 });
    }

    /// Seeds for the fuzz target `wire`: a packet of each kind, with each of its parts, in their present encoding.
    #[test]
    fn the_fuzz_corpus_has_every_kind_of_packet() {
        let seed = |name: &str, bytes: &[u8]| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire").join(name);
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, bytes).unwrap();
            }
            assert!(std::fs::read(&path).unwrap_or_default() == bytes, "{name}: UPDATE_CORPUS=1 writes it");
        };
        let share = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };
        let xcp = RouterFeedback::Xcp { window: Bytes::new(30_000), rtt: Duration::from_millis(50), change: -1500 };
        let mut data = Packet {
            connection: 9,
            number: 300,
            sequence: 1000,
            acknowledgement: 77,
            window: 65_536,
            payload: 3,
            fin: true,
            proof: Some(Proof { number: 300, arrived: 0b1011, sum: 7 }),
            echoed_feedback: xcp,
            ..Packet::default()
        };
        data.receipts.push(Receipt { number: 299, ecn: Ecn::Ce, received_at: Time::from_nanos(1 << 40) });
        data.sacks.push(Sack { start: 100, end: 200 });
        let mut acknowledgement = Packet { payload: 0, fin: false, receipts: List::default(), ..data };
        for number in 300..300 + MAX_RECEIPTS as u32 {
            acknowledgement.receipts.push(Receipt { number, ..data.receipts[0] });
        }
        assert!(acknowledgement.receipts.is_full());
        for (name, packet) in [
            ("syn", Packet { kind: Kind::Syn, number: 5, sequence: 77, feedback: share, ..Packet::default() }),
            ("syn_ack", Packet { kind: Kind::SynAck, connection: 5, number: 9, sequence: 1, ..Packet::default() }),
            ("data", data),
            ("acknowledgement", acknowledgement),
            ("xcp", Packet { connection: 9, number: 301, payload: 3, feedback: xcp, ..Packet::default() }),
            ("ping", Packet { connection: 9, ping: true, ..Packet::default() }),
            ("probe", Packet { connection: 9, number: 302, probe: true, ..Packet::default() }),
            ("reset", Packet { kind: Kind::Reset, connection: 9, sequence: 1000, ..Packet::default() }),
        ] {
            let mut bytes = Vec::new();
            encode(&packet, &mut bytes);
            bytes.resize(bytes.len() + usize::from(packet.payload), 7);
            seed(name, &bytes);
            assert_eq!(decode(&bytes).unwrap().0, packet);
        }
    }
}
