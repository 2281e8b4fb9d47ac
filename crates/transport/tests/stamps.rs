//! Round trips and one-way delays end when a packet reaches a host, not when the host reads it.

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::{Duration, Ecn, Stream, Time};

type Host = Endpoint<AnyController, u32>;

const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// What the path takes one way, and a host to read what has arrived.
const WAY: Duration = Duration::from_millis(5);
const UNREAD: Duration = Duration::from_millis(3);

fn host(accept: Option<Config>, seed: u64) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept, ..EndpointConfig::default() };
    Endpoint::new(config, move || factory(Stream::from_seed(1)), Stream::from_seed(seed))
}

/// Carries all that `from` has to send to `to`; the time at which it is read.
fn carry(now: Time, from: &mut Host, address: u32, to: &mut Host) -> Time {
    let read_at = now + WAY + UNREAD;
    while let Some(transmit) = from.poll_transmit(now) {
        to.receive(read_at, address, &transmit.packet, Ecn::NotEct, now + WAY);
    }
    read_at
}

#[test]
fn a_receipt_that_waits_for_its_reader_lengthens_no_round_trip() {
    let config = Config::default();
    let (mut client, mut server) = (host(None, 1), host(Some(config.clone()), 2));
    let id = client.open(Time::ZERO, SERVER, &config).unwrap();
    client.write(Time::ZERO, id, 100_000);
    let mut now = Time::ZERO;
    for _ in 0..4 {
        now = carry(now, &mut client, CLIENT, &mut server);
        now = carry(now, &mut server, SERVER, &mut client);
    }
    // The server answers when it has read; what the client leaves unread does not count.
    let statistics = client.connection(id).unwrap().statistics();
    assert!(statistics.data_packets > 10);
    assert_eq!(statistics.min_rtt, WAY * 2 + UNREAD);
    assert_eq!(statistics.smoothed_rtt, WAY * 2 + UNREAD);
}
