//! Measurements of round trips and one-way delays end when a packet reaches a host, not when the host reads it.

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::{Duration, Ecn, Stream, Time};

type Host = Endpoint<AnyController, u32>;

const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// The one-way delay of the path, and the time until a host reads an arrived packet.
const ONE_WAY: Duration = Duration::from_millis(5);
const READ_DELAY: Duration = Duration::from_millis(3);

fn host(accept: Option<Config>, seed: u64) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept, ..EndpointConfig::default() };
    Endpoint::new(config, move || factory(Stream::from_seed(1)), Stream::from_seed(seed))
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
