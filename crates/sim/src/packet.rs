//! A packet on its way. Its payload is only a number.
//!
//! What a data packet needs travels by value, 56 bytes of it: queues are rings, so packets that follow each other on the
//! wire follow each other in memory. What only some packets carry, as acknowledgements do, is in a box; a pool keeps the
//! boxes of packets that have arrived for those to come. On fast and long paths a hundred thousand are under way and in no
//! cache, so boxes are small, what few runs need being in one of its own, and are fetched before they are looked at.

use rampmeter_island::{Feedback, HEADER_BYTES, Leaving};
use rampmeter_router::{Parcel, prefetch};
use rampmeter_transport::{Message, Transmit};
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::{
    CmHeader, CmKind, CmMessage, Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Receipt, RouterFeedback, Sack, UDP_BYTES,
    cm_encoded_len, encoded_len,
};

use crate::paths::{HopId, PathId, is_forward};

/// A packet in the network.
///
/// Its fields are plain numbers and `hop`, first and never zero, is where `Option` keeps its none: so a move is a copy of
/// whole words, which is most of what a simulator does.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Travelling {
    /// Where on its path it is.
    hop: HopId,
    options: Option<Box<Options>>,
    /// The path it travels.
    pub(crate) path: PathId,
    /// Its flow's place in the plan.
    pub(crate) flow: u32,
    /// Its size on the wire.
    bytes: u32,
    // Of the header, what every packet has; the names are those of [`Packet`].
    connection: u32,
    number: u32,
    sequence: u32,
    acknowledgement: u32,
    window: u32,
    payload: u16,
    body: Body,
    ends: u8,
    ecn: u8,
}

/// Bits of [`Travelling::ends`].
const FIN: u8 = 1;
const PING: u8 = 2;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// A packet of a connection.
    Segment(Kind),
    /// A datagram with a Congestion Manager's header.
    CmData,
    /// A datagram without a header.
    Bare,
    /// What is in its box.
    Rare,
}

/// Of the header, what only some packets have.
#[derive(Debug, Default)]
struct Options {
    feedback: RouterFeedback,
    echoed_feedback: RouterFeedback,
    receipts: List<Receipt, MAX_RECEIPTS>,
    sacks: List<Sack, MAX_SACKS>,
    rare: Option<Box<Rare>>,
}

/// What Congestion Managers and islands send.
#[derive(Debug, Default)]
enum Rare {
    /// Nothing: it has been taken out.
    #[default]
    Empty,
    /// A message of a Congestion Manager.
    Message(CmMessage),
    /// A packet in an island's header, and the number in that header.
    Wrapped(u32, Travelling),
    /// An egress's answer.
    Answer(Feedback),
}

impl Travelling {
    /// Takes it to the next hop of its path.
    pub(crate) fn advance(&mut self) {
        self.skip(1);
    }

    /// Takes it so many hops further.
    pub(crate) fn skip(&mut self, hops: u64) {
        self.hop = self.hop.saturating_add(hops);
    }

    pub(crate) fn hop(&self) -> HopId {
        self.hop
    }

    /// Whether it has stream bytes, or the stream's end, for its receiver's application.
    pub(crate) fn has_stream(&self) -> bool {
        self.has_payload() || self.ends & FIN != 0
    }

    pub(crate) fn has_payload(&self) -> bool {
        self.payload > 0
    }

    /// The header of a connection's packet, whole again.
    fn header(&self, kind: Kind) -> Packet {
        let plain = Packet {
            connection: self.connection,
            number: self.number,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            window: self.window,
            payload: self.payload,
            kind,
            fin: self.ends & FIN != 0,
            ping: self.ends & PING != 0,
            ..Packet::default()
        };
        match self.options.as_deref() {
            None => plain,
            Some(&Options { feedback, echoed_feedback, receipts, sacks, .. }) => {
                Packet { receipts, sacks, feedback, echoed_feedback, ..plain }
            }
        }
    }
}

/// What a packet is to its host.
pub(crate) enum Content {
    /// A connection's.
    Segment(Packet),
    /// A Congestion Manager's.
    Message(CmMessage),
    /// A datagram of a sender that does not know of ours.
    Bare,
}

impl Travelling {
    /// Bytes behind its header.
    pub(crate) fn payload(&self) -> usize {
        usize::from(self.payload)
    }

    /// The number in an island's header and the packet behind it, taken out of this one.
    pub(crate) fn take_wrapped(&mut self) -> Option<(u32, Self)> {
        match self.take_rare() {
            Rare::Wrapped(number, packet) => Some((number, packet)),
            _ => None,
        }
    }

    /// An egress's answer, taken out of it.
    pub(crate) fn take_answer(&mut self) -> Option<Feedback> {
        match self.take_rare() {
            Rare::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    fn rare(&self) -> Option<&Rare> {
        self.options.as_ref()?.rare.as_deref()
    }

    fn take_rare(&mut self) -> Rare {
        let rare = self.options.as_mut().and_then(|options| options.rare.as_deref_mut());
        rare.map(std::mem::take).unwrap_or_default()
    }

    /// What it is. Its message is taken out of it.
    pub(crate) fn take_content(&mut self) -> Content {
        match self.body {
            Body::Segment(kind) => Content::Segment(self.header(kind)),
            Body::CmData => Content::Message(CmMessage::Header(CmHeader {
                kind: CmKind::Data,
                protocol: self.window as u8,
                sequence: self.sequence,
                flow: self.connection,
            })),
            Body::Bare => Content::Bare,
            Body::Rare => match self.take_rare() {
                Rare::Message(message) => Content::Message(message),
                other => unreachable!("islands' packets end within them: {other:?}"),
            },
        }
    }
}

impl Parcel for Travelling {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow) << 1 | u64::from(is_forward(self.path))
    }

    fn is_control(&self) -> bool {
        // An island carries only packets with payload in its header.
        let is_wrapped = || self.body == Body::Rare && matches!(self.rare(), Some(Rare::Wrapped(..)));
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

    fn prefetch(&self) {
        if let Some(options) = &self.options {
            prefetch(&**options);
        }
    }
}

/// Boxes to use again.
#[derive(Debug, Default)]
pub(crate) struct Pool(#[allow(clippy::vec_box, reason = "the boxes are what is kept")] Vec<Box<Options>>);

impl Pool {
    /// The packet of `transmit`, of `flow`, about to leave from `hop`.
    pub(crate) fn packet(&mut self, transmit: &Transmit<PathId>, flow: u32, hop: HopId) -> Travelling {
        let Transmit { to: path, packet: header, ecn, .. } = transmit;
        let len = encoded_len(header);
        let options = (len > rampmeter_wire::HEADER_BYTES).then(|| {
            let mut options = self.0.pop().unwrap_or_default();
            options.receipts = header.receipts;
            options.sacks = header.sacks;
            options.feedback = header.feedback;
            options.echoed_feedback = header.echoed_feedback;
            options
        });
        Travelling {
            hop,
            options,
            path: *path,
            flow,
            bytes: (len + usize::from(header.payload) + UDP_BYTES) as u32,
            connection: header.connection,
            number: header.number,
            sequence: header.sequence,
            acknowledgement: header.acknowledgement,
            window: header.window,
            payload: header.payload,
            body: Body::Segment(header.kind),
            ends: (u8::from(header.fin) * FIN) | (u8::from(header.ping) * PING),
            ecn: ecn.bits(),
        }
    }

    /// The packet of `message`, of `flow`, about to leave from `hop`.
    pub(crate) fn message(&mut self, message: Message<PathId>, flow: u32, hop: HopId) -> Travelling {
        let header = message.data().copied();
        let len = message.message.as_ref().map_or(0, cm_encoded_len);
        let body = match (header, &message.message) {
            (Some(_), _) => Body::CmData,
            (None, Some(_)) => Body::Rare,
            (None, None) => Body::Bare,
        };
        let options = message.message.filter(|_| body == Body::Rare).map(|message| self.rare(Rare::Message(message)));
        Travelling {
            hop,
            options,
            path: message.to,
            flow,
            bytes: (len + usize::from(message.payload) + UDP_BYTES) as u32,
            connection: header.map_or(0, |header| header.flow),
            number: 0,
            sequence: header.map_or(0, |header| header.sequence),
            acknowledgement: 0,
            window: header.map_or(0, |header| header.protocol.into()),
            payload: message.payload,
            body,
            ends: 0,
            ecn: message.ecn.bits(),
        }
    }

    /// The packet that `leaving` is in an island's header, on `path` from `hop`; its flow is `flow`.
    pub(crate) fn wrapped(&mut self, leaving: Leaving<Travelling>, flow: u32, path: PathId, hop: HopId) -> Travelling {
        let Leaving { number, code, inner } = leaving;
        let bytes = inner.bytes + HEADER_BYTES as u32;
        let packet = self.island(Rare::Wrapped(number, inner), flow, path, hop);
        Travelling { bytes, ecn: code.bits(), ..packet }
    }

    /// An egress's answer, on `path` from `hop`, of the aggregate `flow`.
    pub(crate) fn answer(&mut self, answer: Feedback, flow: u32, path: PathId, hop: HopId) -> Travelling {
        self.island(Rare::Answer(answer), flow, path, hop)
    }

    /// An island's packet, of an answer's size.
    fn island(&mut self, content: Rare, flow: u32, path: PathId, hop: HopId) -> Travelling {
        Travelling {
            hop,
            options: Some(self.rare(content)),
            path,
            flow,
            bytes: Feedback::BYTES as u32,
            connection: 0,
            number: 0,
            sequence: 0,
            acknowledgement: 0,
            window: 0,
            payload: 0,
            body: Body::Rare,
            ends: 0,
            ecn: Ecn::NotEct.bits(),
        }
    }

    /// A box with nothing but `content`.
    fn rare(&mut self, content: Rare) -> Box<Options> {
        let mut options = self.0.pop().unwrap_or_default();
        let mut rare = options.rare.take().unwrap_or_default();
        *rare = content;
        *options = Options { rare: Some(rare), ..Options::default() };
        options
    }

    /// The packet's journey is over.
    pub(crate) fn take_back(&mut self, mut packet: Travelling) {
        if let Some((_, inner)) = packet.take_wrapped() {
            self.0.extend(inner.options);
        }
        self.0.extend(packet.options);
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Time;

    use super::*;

    #[test]
    fn what_arrives_is_what_left() {
        let plain = Packet {
            connection: 1,
            number: 2,
            sequence: 3,
            acknowledgement: 4,
            window: 5,
            payload: 6,
            kind: Kind::SynAck,
            fin: true,
            ping: true,
            ..Packet::default()
        };
        let mut full = plain;
        assert!(full.receipts.push(Receipt { number: 7, ecn: Ecn::Ce, received_at: Time::from_nanos(8) }));
        assert!(full.sacks.push(Sack { start: 9, end: 10 }));
        let asked = RouterFeedback::FairShare { share: rampmeter_units::Rate::MAX, queue: Bytes::ZERO };
        let asking = Packet { feedback: asked, ..plain };
        let mut endpoint = rampmeter_transport::Endpoint::new(
            rampmeter_transport::EndpointConfig::default(),
            || {
                rampmeter_control::Registry::default().factory("reno", &toml::Table::new()).unwrap()(
                    rampmeter_units::Stream::from_seed(1),
                )
            },
            rampmeter_units::Stream::from_seed(1),
        );
        let connection = endpoint.open(Time::ZERO, 0, &rampmeter_transport::Config::default()).unwrap();
        let mut pool = Pool::default();
        for header in [full, plain, asking, full] {
            let transmit = Transmit { to: 0, packet: header, ecn: Ecn::Ect0, connection, offset: 0 };
            let packet = pool.packet(&transmit, 0, HopId::MIN);
            assert_eq!(packet.header(header.kind), header);
            assert_eq!(packet.bytes().as_u64() as usize, encoded_len(&header) + UDP_BYTES + 6);
            assert_eq!(packet.feedback(), header.feedback);
            pool.take_back(packet);
        }
        assert_eq!(pool.0.len(), 1, "one box did for all");
        assert_eq!((size_of::<Travelling>(), size_of::<Option<Travelling>>()), (56, 56));
    }
}
