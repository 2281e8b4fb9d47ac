//! Shares of hosts in FQ-CoDel with `isolation`, for any number of flows of each host.
//!
//! Queues are never empty. In a round of the rotation each queue gets one quantum, and the quanta of a host's queues are
//! `Q` together. So after `R` rounds a host with `n` flows has sent `R Q` bytes, except for:
//! - the round that is not complete: at most `Q`;
//! - the first two quanta of its queues, which are `Q` at most while the other queues are not yet busy: `2 n Q`;
//! - the credit of its queues, from `-P` to `Q` each, where `P` is the size of a packet: `n P`, `n Q` in the other direction.

use proptest::prelude::*;
use rampmeter_router::{AnyRouter, Environment, Hosts, Parcel, Registry, Router, Verdict};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

const QUANTUM: u64 = 1514;
const MAX_PACKET: u64 = 1500;
const MAX_FLOWS: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    host: u64,
    number: u64,
    bytes: u64,
    /// Whether the host is the packet's destination, and not its source.
    is_destination: bool,
}

impl Parcel for Packet {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }
    fn flow(&self) -> u64 {
        self.host * MAX_FLOWS + self.number
    }
    fn hosts(&self) -> Hosts {
        // The host at the other end is different for each flow.
        let (host, other) = (self.host, 1000 + self.flow());
        let (source, destination) = if self.is_destination { (other, host) } else { (host, other) };
        Hosts { source, destination }
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _ecn: Ecn) {}
}

fn router(isolation: &str) -> AnyRouter<Packet> {
    let settings = format!("isolation = \"{isolation}\"\nflows = 8192");
    let config = Registry::default().config("fq-codel", &settings.parse().unwrap()).unwrap();
    config.make(Environment { rate: Rate::MAX, delay: Duration::ZERO }, Random::from_seed(1))
}

/// The bytes that each flow of each host sends of `total`, if all of them always have packets.
fn served(isolation: &str, hosts: &[(u64, u64)], is_destination: bool, total: u64) -> Vec<Vec<u64>> {
    let mut router = router(isolation);
    let mut served: Vec<_> = hosts.iter().map(|(flows, _)| vec![0; *flows as usize]).collect();
    for (host, (flows, bytes)) in (0..).zip(hosts) {
        for number in 0..*flows {
            for _ in 0..2 {
                let packet = Packet { host, number, bytes: *bytes, is_destination };
                assert_eq!(router.enqueue(Time::ZERO, packet), Verdict::Queued);
            }
        }
    }
    let mut left = total;
    while left > 0 {
        let packet = router.dequeue(Time::ZERO).unwrap();
        left = left.saturating_sub(packet.bytes);
        served[packet.host as usize][packet.number as usize] += packet.bytes;
        assert_eq!(router.enqueue(Time::ZERO, packet), Verdict::Queued);
    }
    served
}

fn spread(values: impl Iterator<Item = u64> + Clone) -> u64 {
    values.clone().max().unwrap() - values.min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hosts_send_equal_amounts_and_so_do_their_flows(
        hosts in prop::collection::vec((1..=MAX_FLOWS, 200..=MAX_PACKET), 2..5),
        (isolation, is_destination) in prop::sample::select(&[
            ("sources", false), ("destinations", true), ("hosts", false), ("hosts", true),
        ][..]),
    ) {
        let served = served(isolation, &hosts, is_destination, 300_000 * hosts.len() as u64);
        let most = hosts.iter().map(|(flows, _)| *flows).max().unwrap();
        let difference = spread(served.iter().map(|flows| flows.iter().sum()));
        prop_assert!(difference <= 2 * QUANTUM + most * (2 * QUANTUM + MAX_PACKET), "{served:?}");
        for flows in &served {
            prop_assert!(spread(flows.iter().copied()) <= 3 * QUANTUM + MAX_PACKET, "{served:?}");
        }
    }

    #[test]
    fn flows_send_equal_amounts_without_isolation_of_their_hosts(
        hosts in prop::collection::vec((1..=MAX_FLOWS, 200..=MAX_PACKET), 2..5),
        (isolation, is_destination) in prop::sample::select(&[
            ("flows", false), ("sources", true), ("destinations", false),
        ][..]),
    ) {
        let served = served(isolation, &hosts, is_destination, 300_000 * hosts.len() as u64);
        prop_assert!(spread(served.into_iter().flatten()) <= 2 * QUANTUM + MAX_PACKET);
    }
}
