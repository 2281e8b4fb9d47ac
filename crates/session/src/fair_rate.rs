//! Handshakes a second, shared by the networks and clients that they come from.
//!
//! Dynamic thresholds, as for [`shares`](crate::shares): a network may have as many as are then left, so one has at
//! most half of them, two have a third each, and so on. The clients of a network share what it may have in the same
//! way: one alone has at most a third of all. Nothing is reserved, and a client without any finds some left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rampmeter_units::{Duration, Time};

use crate::shares::{Name, Sharer};

/// Counts that are below this are discarded: after about three seconds.
const MIN_COUNT: f64 = 0.05;

const PURGE_INTERVAL: Duration = Duration::from_secs(1);

/// A count that falls by a factor of e in a second: of events at a steady rate, their number in a second.
#[derive(Debug, Clone, Copy)]
struct Count {
    value: f64,
    at: Time,
}

impl Count {
    const ZERO: Self = Self { value: 0.0, at: Time::ZERO };

    fn at(self, now: Time) -> f64 {
        self.value * (-now.since(self.at).as_secs_f64()).exp()
    }

    fn add(&mut self, now: Time, amount: f64) {
        *self = Self { value: self.at(now) + amount, at: now };
    }
}

/// Events a second, shared by networks, and by the clients of a network.
#[derive(Debug)]
pub(crate) struct FairRate {
    /// The maximum of all counts together.
    max: f64,
    all: Count,
    /// Those of networks and clients with recent events, so at most about eight times `max`.
    counts: BTreeMap<Name, Count>,
    purge_at: Time,
}

impl FairRate {
    /// At most `max` events a second, and at once.
    pub(crate) fn new(max: f64) -> Self {
        Self { max, all: Count::ZERO, counts: BTreeMap::new(), purge_at: Time::ZERO }
    }

    /// Counts an event of the client at `ip` if it may have one now. Returns whether it may.
    pub(crate) fn take(&mut self, now: Time, ip: IpAddr) -> bool {
        self.purge(now);
        let sharer = Sharer::from(ip);
        let count = |name| self.counts.get(&name).map_or(0.0, |count: &Count| count.at(now));
        let left = self.max - self.all.at(now) - 1.0;
        let left_to_network = left - count(sharer.network);
        let is_permitted = count(sharer.client) <= left_to_network;
        if is_permitted {
            self.all.add(now, 1.0);
            for name in [sharer.network, sharer.client] {
                self.counts.entry(name).or_insert(Count::ZERO).add(now, 1.0);
            }
        }
        is_permitted
    }

    fn purge(&mut self, now: Time) {
        if self.purge_at <= now {
            self.purge_at = now + PURGE_INTERVAL;
            self.counts.retain(|_, count| count.at(now) >= MIN_COUNT);
        }
    }
}

/// Tokens that come at a steady rate, up to a second's worth.
#[derive(Debug)]
pub(crate) struct Budget {
    rate: f64,
    level: f64,
    at: Time,
}

impl Budget {
    pub(crate) fn new(rate: f64) -> Self {
        Self { rate, level: rate, at: Time::ZERO }
    }

    pub(crate) fn take(&mut self, now: Time) -> bool {
        self.level = (self.level + now.since(self.at).as_secs_f64() * self.rate).min(self.rate);
        self.at = self.at.max(now);
        let has_one = self.level >= 1.0;
        self.level -= f64::from(u8::from(has_one));
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Client `client` of network `network`.
    fn ip(network: u32, client: u8) -> IpAddr {
        Ipv4Addr::from_bits(network << 8 | u32::from(client)).into()
    }

    /// How many events each of `clients`, addresses that ask for so many a second, gets in the last of ten seconds.
    fn rates(clients: &[(IpAddr, u32)]) -> Vec<u32> {
        let mut rate = FairRate::new(1000.0);
        let mut taken = vec![0; clients.len()];
        for step in 0..10_000 {
            let now = Time::ZERO + Duration::from_millis(step);
            for (index, (ip, offered)) in clients.iter().enumerate() {
                // `offered` a second, evenly: those due by the end of this millisecond, less those due before.
                let due = |step: u64| step * u64::from(*offered) / 1000;
                for _ in due(step)..due(step + 1) {
                    let is_taken = rate.take(now, *ip);
                    taken[index] += u32::from(is_taken && step >= 9000);
                }
            }
        }
        taken
    }

    #[test]
    fn one_address_gets_a_third_and_the_others_all_they_need() {
        let [flood, neighbor, other] = rates(&[(ip(1, 1), 20_000), (ip(1, 2), 100), (ip(2, 1), 100)])[..] else {
            unreachable!()
        };
        assert!((215..=260).contains(&flood), "{flood}: a third of what 300 leave");
        assert_eq!((neighbor, other), (100, 100));
    }

    #[test]
    fn one_network_gets_half_and_the_others_all_they_need() {
        let mut clients: Vec<(IpAddr, u32)> = (0..20).map(|client| (ip(1, client), 2000)).collect();
        clients.push((ip(2, 1), 100));
        let rates = rates(&clients);
        let network: u32 = rates[..20].iter().sum();
        assert!((420..=480).contains(&network), "{network}: as much as is left beside 100");
        assert!(rates[..20].iter().all(|rate| (15..=30).contains(rate)), "equal parts of it: {rates:?}");
        assert_eq!(rates[20], 100);
    }

    #[test]
    fn floods_of_many_networks_get_equal_parts_and_leave_one() {
        let mut clients: Vec<(IpAddr, u32)> = (0..20).map(|network| (ip(network, 1), 5000)).collect();
        clients.push((ip(20, 1), 10));
        let rates = rates(&clients);
        assert!(rates[..20].iter().all(|rate| (40..=55).contains(rate)), "a twenty-second of 1000: {rates:?}");
        assert_eq!(rates[20], 10);
    }

    #[test]
    fn the_total_is_limited_and_quiet_clients_are_discarded() {
        let mut rate = FairRate::new(1000.0);
        let taken = (0..100_000).filter(|&network| rate.take(Time::ZERO, ip(network, 1))).count();
        assert_eq!((taken, rate.counts.len()), (1000, 2000), "each has a count and one of its network");
        assert!(rate.take(Time::ZERO + Duration::from_secs(4), ip(1, 1)));
        assert_eq!(rate.counts.len(), 2);
    }
}
