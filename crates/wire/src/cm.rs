//! The messages between two Congestion Managers: `congestion-manager.md`, Figures 10 and 11.
//!
//! ```text
//! Figure 10: all but responses                        Figure 11: a response
//!  0   4   8        16              31                 0   4   8        16              31
//! +---+---+--------+----------------+                 +---+---+--------+----------------+
//! |ver|typ|protocol|    checksum    |                 |ver|typ| flags  |    checksum    |
//! +---+---+--------+----------------+                 +---+---+--------+----------------+
//! |            sequence             |                 |    flows       |     of all     |
//! +---------------------------------+                 +----------------+----------------+
//! |             flow id             |                 |           this probe            |
//! +---------------------------------+                 |           last probe            |
//!                                                     |        flow id, count  ...      |
//!                                                     +---------------------------------+
//! ```
//!
//! What the paper leaves open: data packets are of type 0. The two fields that Figure 11 calls unused are flags for
//! marked and missing packets ([`Response::marked`], [`Response::missed`]), and the number of all flows, if not all fit
//! into one packet. Receiver hints (section 3.2.1) are of type 6: a response without a last probe, with weights in
//! place of counts. The checksum is the Internet checksum (RFC 1071) of the whole message, without the payload of data.
//! A probe has four bytes of padding, so that no response without counts is longer than its probe. The version is 2
//! because [`crate::Packet`]s, which may share a UDP port with these messages, begin with version 1.

use crate::codec::{DecodeError, be_u32 as word};

/// The version of the format.
pub const CM_VERSION: u8 = 2;

/// The size of the header before a data packet's payload, in bytes.
pub const CM_HEADER_BYTES: usize = 12;

/// The size of a response without counts, in bytes.
const RESPONSE_BYTES: usize = 16;

/// The size of one count, in bytes.
const COUNT_BYTES: usize = 8;

/// The padding of a probe, in bytes.
const PROBE_PADDING: usize = RESPONSE_BYTES - CM_HEADER_BYTES;

/// The maximum number of flows in a response or a hint: as many as fit into an Ethernet frame.
pub const MAX_COUNTS: usize = 180;

const MARKED: u8 = 1;
const MISSED: u8 = 2;

/// The type of a message of Figure 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CmKind {
    /// Carries a data packet of a transport protocol.
    Data = 0,
    /// Asks whether the peer has a Congestion Manager.
    Syn = 1,
    /// Confirms that this host has a Congestion Manager.
    SynAck = 2,
    /// The sender of this message has no state for the message that it answers.
    Reset = 3,
    /// Requests a response with the packets received.
    Probe = 4,
}

/// A header of Figure 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmHeader {
    /// The type of the message.
    pub kind: CmKind,
    /// `Data`: the IP protocol number of the payload's transport protocol.
    pub protocol: u8,
    /// `Data`: one more than in the last data packet to the host, or in the last one of a flow whose program sends from
    /// a socket of its own. `Probe`: its number, from a separate sequence. `Syn`: the first sequence number, which
    /// `SynAck` repeats. `Reset`: the number of the message that it answers.
    pub sequence: u32,
    /// `Data`: the flow, by the sender's id. `Syn`: the second half of the sender's secret, whose first half is the
    /// sequence number; `SynAck` repeats it.
    pub flow: u32,
}

impl CmHeader {
    /// A message without data.
    pub fn control(kind: CmKind, sequence: u32) -> Self {
        Self { kind, protocol: 0, sequence, flow: 0 }
    }
}

/// The count of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The flow, by the data sender's id.
    pub flow: u32,
    /// In a response: its payload bytes that arrived. In a hint: the weight that it should have.
    pub count: u32,
}

/// The packets received since the previous probe (Figure 11).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The number of the probe that it answers.
    pub this_probe: u32,
    /// The number of the previous probe that was answered; `this_probe` in an unsolicited report of missing packets.
    pub last_probe: u32,
    /// Whether a packet arrived with a congestion mark (ECN).
    pub marked: bool,
    /// Whether packets are missing although at least three later ones arrived.
    pub missed: bool,
    /// The number of flows with packets received; more than [`Self::counts`] has where not all fit into one packet.
    pub flows: u16,
    /// The counts of the flows; at most [`MAX_COUNTS`]. In an unsolicited report: none if it is about packets of the
    /// sender's Congestion Manager, the flow if it is about packets of a program.
    pub counts: Vec<Count>,
}

/// A message between two Congestion Managers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CmMessage {
    /// A message of Figure 10. The payload of data follows it.
    Header(CmHeader),
    /// Figure 11.
    Response(Box<Response>),
    /// The receiver requests these weights for the flows: `[o1:r1, ...]`, section 3.2.1.
    Hints {
        /// The number of the last probe received, which an off-path attacker does not know.
        probe: u32,
        /// The flows' weights.
        weights: Box<[Count]>,
    },
}

const RESPONSE: u8 = 5;
const HINTS: u8 = 6;

/// The encoded length of `message`, without a payload.
pub fn cm_encoded_len(message: &CmMessage) -> usize {
    match message {
        CmMessage::Header(CmHeader { kind: CmKind::Probe, .. }) => CM_HEADER_BYTES + PROBE_PADDING,
        CmMessage::Header(_) => CM_HEADER_BYTES,
        CmMessage::Response(response) => RESPONSE_BYTES + response.counts.len() * COUNT_BYTES,
        CmMessage::Hints { weights, .. } => RESPONSE_BYTES + weights.len() * COUNT_BYTES,
    }
}

/// Appends the encoded `message` to `out`. The caller appends the payload.
pub fn cm_encode(message: &CmMessage, out: &mut Vec<u8>) {
    let start = out.len();
    let first = |kind: u8, second: u8| [CM_VERSION << 4 | kind, second, 0, 0];
    let mut counted = |kind, flags, flows: u16, [this, last]: [u32; 2], counts: &[Count]| {
        let all = if usize::from(flows) > counts.len() { flows } else { 0 };
        out.extend(first(kind, flags));
        out.extend((counts.len() as u16).to_be_bytes());
        out.extend(all.to_be_bytes());
        let words = counts.iter().flat_map(|count| [count.flow, count.count]);
        [this, last].into_iter().chain(words).for_each(|word| out.extend(word.to_be_bytes()));
    };
    match message {
        CmMessage::Header(header) => {
            out.extend(first(header.kind as u8, header.protocol));
            out.extend(header.sequence.to_be_bytes());
            out.extend(header.flow.to_be_bytes());
            if header.kind == CmKind::Probe {
                out.extend([0; PROBE_PADDING]);
            }
        }
        CmMessage::Response(response) => {
            let flags = (u8::from(response.marked) * MARKED) | (u8::from(response.missed) * MISSED);
            let probes = [response.this_probe, response.last_probe];
            counted(RESPONSE, flags, response.flows, probes, &response.counts);
        }
        CmMessage::Hints { probe, weights } => counted(HINTS, 0, 0, [*probe, 0], weights),
    }
    let checksum = !sum(&out[start..]);
    out[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
}

/// Decodes a datagram into the message and, for data, the payload.
pub fn cm_decode(datagram: &[u8]) -> Result<(CmMessage, &[u8]), DecodeError> {
    let length = |announced| DecodeError::Length { announced, got: datagram.len() };
    let [first, second, ..] = *datagram else { return Err(length(CM_HEADER_BYTES)) };
    if first >> 4 != CM_VERSION {
        return Err(DecodeError::Version(first >> 4));
    }
    let kind = match first & 0xf {
        0 => CmKind::Data,
        1 => CmKind::Syn,
        2 => CmKind::SynAck,
        3 => CmKind::Reset,
        4 => CmKind::Probe,
        RESPONSE | HINTS => return Ok((decode_counts(datagram)?, &[])),
        _ => return Err(DecodeError::Field("type")),
    };
    let Some((bytes, payload)) = datagram.split_first_chunk::<CM_HEADER_BYTES>() else {
        return Err(length(CM_HEADER_BYTES));
    };
    let padding = if kind == CmKind::Probe { PROBE_PADDING } else { 0 };
    if kind != CmKind::Data && payload.len() != padding {
        return Err(length(CM_HEADER_BYTES + padding));
    }
    let summed = if kind == CmKind::Data { bytes } else { datagram };
    check(summed)?;
    let header = CmHeader { kind, protocol: second, sequence: word(&bytes[4..]), flow: word(&bytes[8..]) };
    Ok((CmMessage::Header(header), if kind == CmKind::Data { payload } else { &[] }))
}

fn decode_counts(datagram: &[u8]) -> Result<CmMessage, DecodeError> {
    let length = |announced| DecodeError::Length { announced, got: datagram.len() };
    let Some((bytes, rest)) = datagram.split_first_chunk::<RESPONSE_BYTES>() else {
        return Err(length(RESPONSE_BYTES));
    };
    let count = u16::from_be_bytes([bytes[4], bytes[5]]);
    if rest.len() != usize::from(count) * COUNT_BYTES {
        return Err(length(RESPONSE_BYTES + usize::from(count) * COUNT_BYTES));
    }
    if usize::from(count) > MAX_COUNTS {
        return Err(DecodeError::Field("number of flows"));
    }
    check(datagram)?;
    let counts = rest.chunks_exact(COUNT_BYTES).map(|pair| Count { flow: word(pair), count: word(&pair[4..]) });
    if bytes[0] & 0xf == HINTS {
        return Ok(CmMessage::Hints { probe: word(&bytes[8..]), weights: counts.collect() });
    }
    if bytes[1] & !(MARKED | MISSED) != 0 {
        return Err(DecodeError::Field("flag"));
    }
    Ok(CmMessage::Response(Box::new(Response {
        this_probe: word(&bytes[8..]),
        last_probe: word(&bytes[12..]),
        marked: bytes[1] & MARKED != 0,
        missed: bytes[1] & MISSED != 0,
        flows: u16::from_be_bytes([bytes[6], bytes[7]]).max(count),
        counts: counts.collect(),
    })))
}

fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    if sum(bytes) == 0xffff { Ok(()) } else { Err(DecodeError::Field("checksum")) }
}

/// The ones' complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_count() -> impl Strategy<Value = Count> {
        any::<(u32, u32)>().prop_map(|(flow, count)| Count { flow, count })
    }

    fn any_message() -> impl Strategy<Value = CmMessage> {
        let kind = prop_oneof![
            Just(CmKind::Data),
            Just(CmKind::Syn),
            Just(CmKind::SynAck),
            Just(CmKind::Reset),
            Just(CmKind::Probe)
        ];
        let header = (kind, any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(kind, protocol, sequence, flow)| {
            CmMessage::Header(CmHeader { kind, protocol, sequence, flow })
        });
        let counts = || prop::collection::vec(any_count(), 0..MAX_COUNTS);
        let response = (any::<[u32; 2]>(), any::<[bool; 2]>(), 0u16..9, counts()).prop_map(
            |([this_probe, last_probe], [marked, missed], others, counts)| {
                let flows = counts.len() as u16 + others;
                CmMessage::Response(Box::new(Response { this_probe, last_probe, marked, missed, flows, counts }))
            },
        );
        let hints =
            (any::<u32>(), counts()).prop_map(|(probe, weights)| CmMessage::Hints { probe, weights: weights.into() });
        prop_oneof![header, response, hints]
    }

    proptest! {
        #[test]
        fn an_encoded_message_decodes_to_itself(message in any_message(), payload in any::<[u8; 5]>()) {
            let mut bytes = Vec::new();
            cm_encode(&message, &mut bytes);
            prop_assert_eq!(bytes.len(), cm_encoded_len(&message));
            let is_data = matches!(message, CmMessage::Header(CmHeader { kind: CmKind::Data, .. }));
            if is_data {
                bytes.extend(payload);
            }
            let expected: &[u8] = if is_data { &payload } else { &[] };
            prop_assert_eq!(cm_decode(&bytes), Ok((message, expected)));
        }

        #[test]
        fn a_flipped_bit_is_detected(message in any_message(), index in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = Vec::new();
            cm_encode(&message, &mut bytes);
            let index = index.index(bytes.len());
            bytes[index] ^= 1 << bit;
            prop_assert!(cm_decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_decode_to_a_message_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = cm_decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = CM_VERSION << 4 | (*first & 7);
            }
            let _ = cm_decode(&bytes);
        }
    }

    #[test]
    fn the_bytes_are_those_of_figures_10_and_11() {
        let mut bytes = Vec::new();
        let header = CmHeader { kind: CmKind::Data, protocol: 17, sequence: 0x0102_0304, flow: 0x0506_0708 };
        cm_encode(&CmMessage::Header(header), &mut bytes);
        assert_eq!(bytes, [0x20, 17, 0xcf, 0xda, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.clear();
        let counts = vec![Count { flow: 7, count: 1000 }];
        let response = Response { this_probe: 5, last_probe: 4, marked: false, missed: false, flows: 1, counts };
        cm_encode(&CmMessage::Response(Box::new(response)), &mut bytes);
        let after = [0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 3, 0xe8];
        assert_eq!((bytes[0], bytes[1], &bytes[4..]), (0x25, 0, &after[..]));
    }

    #[test]
    fn no_answer_is_longer_than_its_request() {
        let length = |kind| cm_encoded_len(&CmMessage::Header(CmHeader::control(kind, 0)));
        assert!(length(CmKind::SynAck) <= length(CmKind::Syn));
        assert!(cm_encoded_len(&CmMessage::Response(Box::default())) <= length(CmKind::Probe));
        assert!(length(CmKind::Reset) <= length(CmKind::Data));
    }
}
