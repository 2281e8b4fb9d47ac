//! Tests of packets in transit.

use rampmeter_control::{Controller, Registry};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::{Random, Time};

use super::*;

fn endpoint() -> Endpoint<impl Controller, PathId> {
    let reno = Registry::default().factory("reno", &toml::Table::new()).unwrap();
    Endpoint::new(EndpointConfig::default(), move || reno(Random::from_seed(1)), Random::from_seed(1))
}

#[test]
fn packets_keep_their_headers() {
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
    let connection = endpoint().open(Time::ZERO, 0, &Config::default()).unwrap();
    let mut pool = Pool::default();
    let start = Start { hop: HopId::MIN, source: NodeId(0x01_02_03), destination: NodeId(7) };
    for header in [full, plain, asking, full] {
        let envelope = Envelope { to: 0, ecn: Ecn::Ect0, connection, offset: 0, padding: 0 };
        pool.header = header;
        let mut packet = pool.packet(&envelope, 0);
        packet.depart(start);
        let mut arriving = Packet::default();
        assert!(packet.write_header(&mut arriving));
        assert_eq!(arriving, header);
        assert_eq!(packet.bytes().as_u64() as usize, encoded_len(&header) + UDP_BYTES + 6);
        assert_eq!(packet.feedback(), header.feedback);
        assert_eq!(packet.hosts(), Hosts { source: 0x01_02_03, destination: 7 });
        pool.recycle(packet);
    }
    assert_eq!(pool.boxes.len(), 1, "one box was reused for all");
    assert_eq!((size_of::<InTransit>(), size_of::<Option<InTransit>>()), (56, 56));
}

// Constant labels would give all packets of a flow the same code (VCP+).
#[test]
fn consecutive_datagrams_have_consecutive_labels() {
    let mut pool = Pool::default();
    let flow = Some(endpoint().open_datagrams(Time::ZERO, 0, 100, &Config::default()));
    let mut label = |message: Option<CmMessage>| {
        let message = Message { to: 0, message, payload: 100, ecn: Ecn::Ect1, flow };
        pool.message(message, 3).label()
    };
    let header = CmHeader { kind: CmKind::Data, protocol: 17, sequence: 7, flow: 1 };
    let first = label(Some(CmMessage::Header(header))).unwrap();
    assert_eq!(label(Some(CmMessage::Header(CmHeader { sequence: 8, ..header }))).unwrap(), first + 1);
    assert_eq!(label(None), None);
}
