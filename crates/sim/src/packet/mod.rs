//! A packet in transit. The payload is only a number of bytes.
//!
//! The fields of a data packet are stored by value, in 56 bytes. Queues are rings, so packets that follow each other on
//! the wire follow each other in memory. Fields that only some packets have, such as acknowledgements, are in a box. A
//! pool reuses the boxes of packets that have arrived. On fast and long paths a hundred thousand packets are in transit
//! and in no cache. So boxes are small, with a second box for fields that few runs need, and are prefetched before use.

use std::cell::Cell;

use rampmeter_island::{EgressFeedback, EnteringPacket, HEADER_BYTES};
use rampmeter_router::{Hosts, Parcel, prefetch};
use rampmeter_run::{HopId, Routed};
use rampmeter_scenario::NodeId;
use rampmeter_transport::{Envelope, Message};
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::{
    CmHeader, CmKind, CmMessage, Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Receipt, RouterFeedback, Sack, UDP_BYTES,
    cm_encoded_len, encoded_len,
};

use crate::paths::{PathId, Start, is_forward};

/// A packet in the network.
///
/// `hop` comes first and is never zero, so `Option` encodes `None` there; the cell hides the unused values of `Body`,
/// which it would take instead. A move is then a copy of whole words; such moves are most of the simulator's work.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct InTransit {
    /// The packet's position on its path.
    hop: HopId,
    /// The packet's path.
    pub(crate) path: PathId,
    options: Option<Box<Options>>,
    /// The index of the flow in the plan.
    pub(crate) flow: u32,
    /// The size on the wire.
    bytes: u32,
    // The header fields that every packet has, named as in [`Packet`].
    connection: u32,
    number: u32,
    sequence: u32,
    acknowledgement: u32,
    window: u32,
    payload: u16,
    source: NodeNumber,
    destination: NodeNumber,
    body: Cell<Body>,
    ends: u8,
    ecn: u8,
}

/// The number of a node, in three bytes: scenarios have fewer nodes than 2^24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeNumber([u8; 3]);

impl From<NodeId> for NodeNumber {
    fn from(node: NodeId) -> Self {
        let [low, middle, high, ..] = (node.0 as u32).to_le_bytes();
        Self([low, middle, high])
    }
}

impl From<NodeNumber> for u64 {
    fn from(NodeNumber([low, middle, high]): NodeNumber) -> Self {
        Self::from(u32::from_le_bytes([low, middle, high, 0]))
    }
}

/// Bits of [`InTransit::ends`]; the upper two are an ECN code that was noted.
const FIN: u8 = 1;
const PING: u8 = 2;
const NOTED: u32 = 6;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// A packet of a connection.
    Segment(Kind),
    /// A datagram with a Congestion Manager's header.
    CmData,
    /// A datagram without a header.
    Bare,
    /// The content of the second box.
    Extra,
}

/// Header fields that only some packets have.
#[derive(Debug, Clone, Default)]
struct Options {
    feedback: RouterFeedback,
    echoed_feedback: RouterFeedback,
    receipts: List<Receipt, MAX_RECEIPTS>,
    sacks: List<Sack, MAX_SACKS>,
    extra: Option<Box<Extra>>,
}

/// Packets of Congestion Managers and islands.
#[derive(Debug, Clone, Default)]
enum Extra {
    /// The content was taken out.
    #[default]
    Empty,
    /// A message of a Congestion Manager.
    Message(CmMessage),
    /// A packet in an island's header, and the number in that header.
    Wrapped(u32, InTransit),
    /// An egress's answer.
    Answer(EgressFeedback),
    /// A UDP datagram of another stack.
    Foreign(Vec<u8>),
}

impl InTransit {
    /// Puts the packet at the start of its path.
    #[inline]
    pub(crate) fn depart(&mut self, start: Start) {
        (self.hop, self.source, self.destination) = (start.hop, start.source.into(), start.destination.into());
    }

    /// Whether the packet carries stream bytes or the end of the stream.
    pub(crate) fn has_stream(&self) -> bool {
        // A reset may have the bit, too.
        self.has_payload() || (self.ends & FIN != 0 && self.body.get() != Body::Segment(Kind::Reset))
    }

    pub(crate) fn has_payload(&self) -> bool {
        self.payload > 0
    }

    /// Writes the complete header of a connection's packet into `header`. False if this is not such a packet.
    pub(crate) fn write_header(&self, header: &mut Packet) -> bool {
        let Body::Segment(kind) = self.body.get() else { return false };
        header.reset();
        header.connection = self.connection;
        header.number = self.number;
        header.sequence = self.sequence;
        header.acknowledgement = self.acknowledgement;
        header.window = self.window;
        header.payload = self.payload;
        header.kind = kind;
        header.fin = self.ends & FIN != 0;
        header.ping = self.ends & PING != 0;
        if let Some(options) = self.options.as_deref() {
            header.feedback = options.feedback;
            header.echoed_feedback = options.echoed_feedback;
            header.receipts.copy_from(&options.receipts);
            header.sacks.copy_from(&options.sacks);
        }
        true
    }
}

/// The content of a packet that is not one of a connection.
pub(crate) enum Content {
    /// A message of a Congestion Manager.
    Message(CmMessage),
    /// A datagram without a Congestion Manager's header.
    Bare,
}

impl InTransit {
    /// Payload bytes.
    pub(crate) fn payload(&self) -> usize {
        usize::from(self.payload)
    }

    /// Takes out the number in an island's header and the packet behind that header.
    pub(crate) fn take_wrapped(&mut self) -> Option<(u32, Self)> {
        match self.take_extra() {
            Extra::Wrapped(number, packet) => Some((number, packet)),
            _ => None,
        }
    }

    /// Takes out an egress's answer.
    pub(crate) fn take_answer(&mut self) -> Option<EgressFeedback> {
        match self.take_extra() {
            Extra::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    /// Takes out a UDP datagram of another stack.
    pub(crate) fn take_foreign(&mut self) -> Option<Vec<u8>> {
        match self.take_extra() {
            Extra::Foreign(contents) => Some(contents),
            _ => None,
        }
    }

    /// The path that it takes, and the index of its flow in the plan.
    pub(crate) fn route(&self) -> (PathId, u32) {
        (self.path, self.flow)
    }

    fn extra(&self) -> Option<&Extra> {
        self.options.as_ref()?.extra.as_deref()
    }

    fn take_extra(&mut self) -> Extra {
        let extra = self.options.as_mut().and_then(|options| options.extra.as_deref_mut());
        extra.map(std::mem::take).unwrap_or_default()
    }

    /// The content of a packet that is not one of a connection. Takes the message out of the packet.
    pub(crate) fn take_content(&mut self) -> Content {
        match self.body.get() {
            Body::Segment(_) => unreachable!("connections' packets have a header"),
            Body::CmData => Content::Message(CmMessage::Header(CmHeader {
                kind: CmKind::Data,
                protocol: self.window as u8,
                sequence: self.sequence,
                flow: self.connection,
            })),
            Body::Bare => Content::Bare,
            Body::Extra => match self.take_extra() {
                Extra::Message(message) => Content::Message(message),
                other => unreachable!("islands' packets end within them: {other:?}"),
            },
        }
    }
}

impl Routed for InTransit {
    #[inline]
    fn hop(&self) -> HopId {
        self.hop
    }

    #[inline]
    fn set_hop(&mut self, hop: HopId) {
        self.hop = hop;
    }

    fn note_ecn(&mut self) {
        self.ends = self.ends & !(0b11 << NOTED) | self.ecn << NOTED;
    }

    fn noted_ecn(&self) -> Ecn {
        Ecn::from_bits(self.ends >> NOTED)
    }
}

impl Parcel for InTransit {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow) << 1 | u64::from(is_forward(self.path))
    }

    fn hosts(&self) -> Hosts {
        Hosts { source: self.source.into(), destination: self.destination.into() }
    }

    fn label(&self) -> Option<u64> {
        let number = match self.body.get() {
            Body::Segment(_) => self.number,
            Body::CmData => self.sequence,
            Body::Bare | Body::Extra => return None,
        };
        Some((self.flow() << 40) + u64::from(number))
    }

    fn is_control(&self) -> bool {
        // An island carries only packets with payload in its header.
        let is_wrapped = || self.body.get() == Body::Extra && matches!(self.extra(), Some(Extra::Wrapped(..)));
        !self.has_payload() && !is_wrapped()
    }

    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.ecn)
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn.bits();
    }

    fn feedback(&self) -> RouterFeedback {
        self.options.as_ref().map_or(RouterFeedback::None, |options| options.feedback)
    }

    fn set_feedback(&mut self, feedback: RouterFeedback) {
        self.options.get_or_insert_default().feedback = feedback;
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn prefetch(&self) {
        if let Some(options) = &self.options {
            prefetch(&**options);
        }
    }
}

/// Memory for packets, which all hosts share.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Boxes for reuse.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept")]
    boxes: Vec<Box<Options>>,
    /// The header of the packet that a host sends or receives now. It is in one place, which is in the CPU's cache.
    pub(crate) header: Packet,
}

/// A packet that has not departed: no position, no contents.
#[inline]
const fn empty() -> InTransit {
    InTransit {
        hop: HopId::MIN,
        path: 0,
        options: None,
        flow: 0,
        bytes: 0,
        connection: 0,
        number: 0,
        sequence: 0,
        acknowledgement: 0,
        window: 0,
        payload: 0,
        source: NodeNumber([0; 3]),
        destination: NodeNumber([0; 3]),
        body: Cell::new(Body::Bare),
        ends: 0,
        ecn: 0,
    }
}

impl Pool {
    /// The packet with the current header, and `flow`.
    #[inline]
    pub(crate) fn packet(&mut self, envelope: &Envelope<PathId>, flow: u32) -> InTransit {
        let Envelope { to: path, ecn, .. } = envelope;
        let header = &self.header;
        let len = encoded_len(header);
        let options = (len > rampmeter_wire::HEADER_BYTES).then(|| {
            let mut options = self.boxes.pop().unwrap_or_default();
            options.receipts.copy_from(&header.receipts);
            options.sacks.copy_from(&header.sacks);
            options.feedback = header.feedback;
            options.echoed_feedback = header.echoed_feedback;
            options
        });
        InTransit {
            path: *path,
            options,
            flow,
            bytes: (len + usize::from(header.payload) + UDP_BYTES) as u32,
            connection: header.connection,
            number: header.number,
            sequence: header.sequence,
            acknowledgement: header.acknowledgement,
            window: header.window,
            payload: header.payload,
            body: Cell::new(Body::Segment(header.kind)),
            ends: (u8::from(header.fin) * FIN) | (u8::from(header.ping) * PING),
            ecn: ecn.bits(),
            ..empty()
        }
    }

    /// The packet of `message` and `flow`.
    pub(crate) fn message(&mut self, message: Message<PathId>, flow: u32) -> InTransit {
        let header = message.data().copied();
        let len = message.message.as_ref().map_or(0, cm_encoded_len);
        let body = match (header, &message.message) {
            (Some(_), _) => Body::CmData,
            (None, Some(_)) => Body::Extra,
            (None, None) => Body::Bare,
        };
        let options =
            message.message.filter(|_| body == Body::Extra).map(|message| self.extra(Extra::Message(message)));
        InTransit {
            path: message.to,
            options,
            flow,
            bytes: (len + usize::from(message.payload) + UDP_BYTES) as u32,
            connection: header.map_or(0, |header| header.flow),
            sequence: header.map_or(0, |header| header.sequence),
            window: header.map_or(0, |header| header.protocol.into()),
            payload: message.payload,
            body: Cell::new(body),
            ecn: message.ecn.bits(),
            ..empty()
        }
    }

    /// A UDP datagram of another stack and of `flow`, to this path. `payload` bytes of its `contents` are the
    /// application's.
    pub(crate) fn foreign(&mut self, flow: u32, path: PathId, contents: Vec<u8>, payload: u16, ecn: Ecn) -> InTransit {
        let bytes = (contents.len() + UDP_BYTES) as u32;
        let options = Some(self.extra(Extra::Foreign(contents)));
        InTransit { path, options, flow, bytes, payload, body: Cell::new(Body::Extra), ecn: ecn.bits(), ..empty() }
    }

    /// `leaving` in an island's header, on `path`; its flow is `flow`.
    pub(crate) fn wrapped(&mut self, leaving: EnteringPacket<InTransit>, flow: u32, path: PathId) -> InTransit {
        let EnteringPacket { number, code, inner } = leaving;
        let bytes = inner.bytes + HEADER_BYTES as u32;
        let options = Some(self.extra(Extra::Wrapped(number, inner)));
        InTransit { path, options, flow, bytes, body: Cell::new(Body::Extra), ecn: code.bits(), ..empty() }
    }

    /// An egress's answer for the aggregate `flow`, on `path`.
    pub(crate) fn answer(&mut self, answer: EgressFeedback, flow: u32, path: PathId) -> InTransit {
        let options = Some(self.extra(Extra::Answer(answer)));
        let bytes = EgressFeedback::BYTES as u32;
        InTransit { path, options, flow, bytes, body: Cell::new(Body::Extra), ..empty() }
    }

    /// A box that contains only `content`.
    fn extra(&mut self, content: Extra) -> Box<Options> {
        let mut options = self.boxes.pop().unwrap_or_default();
        let mut extra = options.extra.take().unwrap_or_default();
        *extra = content;
        *options = Options { extra: Some(extra), ..Options::default() };
        options
    }

    /// Returns the boxes of a packet that has arrived, or was dropped, to the pool.
    pub(crate) fn recycle(&mut self, mut packet: InTransit) {
        if packet.body.get() == Body::Extra
            && let Some((_, inner)) = packet.take_wrapped()
        {
            self.boxes.extend(inner.options);
        }
        if let Some(options) = packet.options {
            self.boxes.push(options);
        }
    }
}

#[cfg(test)]
mod tests;
