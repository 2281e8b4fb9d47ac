//! The networks of other hosts, and how they share what this host has: handshakes a second, and places.
//!
//! Both are shared by dynamic thresholds (Choudhury and Hahne, 1998, for the buffers of switches): a network may use as
//! much as makes no more than a fixed multiple of what is then left. Nothing is reserved, and a network that uses
//! nothing finds something left.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use rampmeter_units::{Duration, Time};

/// What one customer of a provider has, most likely: the first 24 bits of an IPv4 address, the first 48 of an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    is_v6: bool,
    prefix: u64,
}

impl Network {
    pub(crate) fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self { is_v6: false, prefix: u64::from(ip.to_bits() >> 8) },
            IpAddr::V6(ip) => Self { is_v6: true, prefix: (ip.to_bits() >> 80) as u64 },
        }
    }
}

/// Counts of a network that are below this are discarded: after about three seconds.
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

/// Events a second, shared by networks: one network has at most half of them, two have a third each, and so on.
#[derive(Debug)]
pub(crate) struct FairRate {
    /// The maximum of all counts together.
    max: f64,
    all: Count,
    /// Only networks with recent events, so at most about four times `max`.
    by_network: BTreeMap<Network, Count>,
    purge_at: Time,
}

impl FairRate {
    /// At most `max` events a second, and at once.
    pub(crate) fn new(max: f64) -> Self {
        Self { max, all: Count::ZERO, by_network: BTreeMap::new(), purge_at: Time::ZERO }
    }

    /// Counts an event of `network` if it may have one now. Returns whether it may.
    pub(crate) fn take(&mut self, now: Time, network: Network) -> bool {
        self.purge(now);
        let own = self.by_network.get(&network).map_or(0.0, |count| count.at(now));
        let left = self.max - self.all.at(now) - 1.0;
        let is_permitted = left >= 0.0 && own <= left;
        if is_permitted {
            self.all.add(now, 1.0);
            self.by_network.entry(network).or_insert(Count::ZERO).add(now, 1.0);
        }
        is_permitted
    }

    fn purge(&mut self, now: Time) {
        if self.purge_at <= now {
            self.purge_at = now + PURGE_INTERVAL;
            self.by_network.retain(|_, count| count.at(now) >= MIN_COUNT);
        }
    }
}

/// What an owner may have for each place that is left.
const SHARE: usize = 4;

/// The places of a table that owners use. One owner gets at most four fifths of them, a second one four fifths of the
/// rest, and so on. The last place is for an owner that has none.
#[derive(Debug)]
pub(crate) struct Places<O>(BTreeMap<O, usize>);

impl<O: Ord> Places<O> {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether `owner` may take one of the places that are left.
    pub(crate) fn permits(&self, owner: &O, left: usize) -> bool {
        let own = self.0.get(owner).copied().unwrap_or(0);
        left > 0 && (own == 0 || own < SHARE * (left - 1))
    }

    pub(crate) fn take(&mut self, owner: O) {
        *self.0.entry(owner).or_default() += 1;
    }

    pub(crate) fn give_back(&mut self, owner: &O) {
        let Some(used) = self.0.get_mut(owner) else { return };
        *used -= 1;
        if *used == 0 {
            self.0.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(ip: &str) -> Network {
        Network::of(SocketAddr::new(ip.parse().unwrap(), 1))
    }

    #[test]
    fn a_network_is_what_a_customer_has() {
        for (one, other, is_same) in [
            ("10.0.0.1", "10.0.0.200", true),
            ("10.0.0.1", "10.0.1.1", false),
            ("10.0.0.1", "::ffff:10.0.0.9", true),
            ("2001:db8:1:2::3", "2001:db8:1:ffff::1", true),
            ("2001:db8:1::3", "2001:db8:2::3", false),
            ("0.0.0.1", "::1", false),
        ] {
            assert_eq!(network(one) == network(other), is_same, "{one} and {other}");
        }
    }

    /// How many of `offered` events a second each network gets in the last of ten seconds.
    fn rates(offered: &[u32]) -> Vec<u32> {
        let mut rate = FairRate::new(1000.0);
        let mut taken = vec![0; offered.len()];
        for step in 0..10_000 {
            let now = Time::ZERO + Duration::from_millis(step);
            for (index, offered) in offered.iter().enumerate() {
                // `offered` a second, evenly: those due by the end of this millisecond, less those due before.
                let due = |step: u64| step * u64::from(*offered) / 1000;
                for _ in due(step)..due(step + 1) {
                    let is_taken = rate.take(now, Network { is_v6: false, prefix: index as u64 });
                    taken[index] += u32::from(is_taken && step >= 9000);
                }
            }
        }
        taken
    }

    #[test]
    fn one_network_gets_half_and_the_others_all_they_need() {
        let [flood, other] = rates(&[20_000, 100])[..] else { unreachable!() };
        assert!((420..=480).contains(&flood), "{flood}: as much as is left beside 100");
        assert_eq!(other, 100);
    }

    #[test]
    fn floods_of_many_networks_get_equal_parts_and_leave_one() {
        let mut offered = vec![5000; 20];
        offered.push(10);
        let rates = rates(&offered);
        assert!(rates[..20].iter().all(|rate| (40..=55).contains(rate)), "a twenty-first of 1000: {rates:?}");
        assert_eq!(rates[20], 10);
    }

    #[test]
    fn the_total_is_limited_and_quiet_networks_are_discarded() {
        let mut rate = FairRate::new(1000.0);
        let taken = (0..100_000).filter(|&prefix| rate.take(Time::ZERO, Network { is_v6: false, prefix })).count();
        assert_eq!((taken, rate.by_network.len()), (1000, 1000));
        assert!(rate.take(Time::ZERO + Duration::from_secs(4), network("10.0.0.1")));
        assert_eq!(rate.by_network.len(), 1);
    }

    #[test]
    fn no_owner_takes_all_places_and_the_last_is_for_a_new_one() {
        let mut places = Places::new();
        let mut left = 250;
        let mut fill = |places: &mut Places<u32>, owner| {
            let before = left;
            while places.permits(&owner, left) {
                places.take(owner);
                left -= 1;
            }
            before - left
        };
        let taken = [1, 2, 3, 4, 5, 6, 1].map(|owner| fill(&mut places, owner));
        assert_eq!(taken, [200, 40, 8, 1, 1, 0, 0]);
        places.give_back(&1);
        assert!(places.permits(&6, 1) && !places.permits(&2, 1));
    }
}
