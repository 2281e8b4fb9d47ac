//! Measurements of round trips and one-way delays end when a packet reaches a host, not when the host reads it. Packets
//! that a host reads together need one acknowledgement.

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rampmeter_wire::{MAX_RECEIPTS, Packet};

type Host = Endpoint<AnyController, u32>;

const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// The one-way delay of the path, and the time until a host reads an arrived packet.
const ONE_WAY: Duration = Duration::from_millis(5);
const READ_DELAY: Duration = Duration::from_millis(3);

fn host(accept: Option<Config>, seed: u64) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept, ..EndpointConfig::default() };
    Endpoint::new(config, move || factory(Random::from_seed(1)), Random::from_seed(seed))
}

/// Carries all packets of `from` to `to`. Returns the time at which they are read.
fn carry(now: Time, from: &mut Host, address: u32, to: &mut Host) -> Time {
    let read_at = now + ONE_WAY + READ_DELAY;
    while let Some(transmit) = from.poll_transmit(now) {
        to.receive(read_at, address, &transmit.packet, Ecn::NotEct, now + ONE_WAY);
    }
    read_at
}

#[test]
fn a_late_reading_of_a_receipt_does_not_lengthen_the_rtt() {
    let config = Config::default();
    let (mut client, mut server) = (host(None, 1), host(Some(config.clone()), 2));
    let id = client.open(Time::ZERO, SERVER, &config).unwrap();
    client.write(Time::ZERO, id, 100_000);
    let mut now = Time::ZERO;
    for _ in 0..4 {
        now = carry(now, &mut client, CLIENT, &mut server);
        now = carry(now, &mut server, SERVER, &mut client);
    }
    // The server answers after reading; the delay of the client's reading does not count.
    let statistics = client.connection(id).unwrap().statistics();
    assert!(statistics.data_packets > 10);
    assert_eq!(statistics.min_rtt, ONE_WAY * 2 + READ_DELAY);
    assert_eq!(statistics.smoothed_rtt, ONE_WAY * 2 + READ_DELAY);
}

/// An open connection, and the first packets of the client's stream, which have just left.
struct First {
    client: Host,
    server: Host,
    id: ConnectionId,
    now: Time,
    sent: Vec<Packet>,
}

impl First {
    fn of(bytes: u64) -> Self {
        let config = Config::default();
        let (mut client, mut server) = (host(None, 1), host(Some(config.clone()), 2));
        let id = client.open(Time::ZERO, SERVER, &config).unwrap();
        client.write(Time::ZERO, id, bytes);
        let mut now = carry(Time::ZERO, &mut client, CLIENT, &mut server);
        now = carry(now, &mut server, SERVER, &mut client);
        let sent = std::iter::from_fn(|| client.poll_transmit(now)).map(|transmit| transmit.packet);
        let sent = sent.filter(|packet| packet.payload > 0).collect();
        Self { client, server, id, now, sent }
    }
}

#[test]
fn packets_that_are_read_together_need_one_acknowledgement() {
    const BYTES: u64 = 10_000;
    let First { mut client, mut server, id, now, sent } = First::of(BYTES);
    let (first, others) = sent.split_first().unwrap();
    assert_eq!(others.len(), MAX_RECEIPTS);
    server.receive(now, CLIENT, first, Ecn::NotEct, now);
    assert!(server.must_acknowledge(), "the first bytes");
    let mut acknowledgements = vec![server.poll_transmit(now).unwrap().packet];
    assert!(server.poll_transmit(now).is_none());
    for (n, packet) in others.iter().enumerate() {
        server.receive(now, CLIENT, packet, Ecn::NotEct, now);
        assert_eq!(server.must_acknowledge(), n + 1 == MAX_RECEIPTS, "{n}");
    }
    acknowledgements.push(server.poll_transmit(now).unwrap().packet);
    assert!(server.poll_transmit(now).is_none());
    let numbers: Vec<_> = acknowledgements[1].receipts.iter().map(|receipt| receipt.number).collect();
    assert_eq!(numbers, others.iter().map(|packet| packet.number).collect::<Vec<_>>());
    for acknowledgement in &acknowledgements {
        client.receive(now, SERVER, acknowledgement, Ecn::NotEct, now);
    }
    let connection = client.connection(id).unwrap();
    assert_eq!((connection.acknowledged(), connection.in_flight()), (BYTES, Bytes::ZERO));
}

/// A hole is reported before the next packet may hide it.
#[test]
fn packets_after_a_hole_are_acknowledged_one_by_one() {
    let First { mut server, now, sent, .. } = First::of(10_000);
    for packet in &sent[1..] {
        server.receive(now, CLIENT, packet, Ecn::NotEct, now);
        assert!(server.must_acknowledge());
        assert_eq!(server.poll_transmit(now).unwrap().packet.receipts.len(), 1);
        assert!(server.poll_transmit(now).is_none() && !server.must_acknowledge());
    }
}
