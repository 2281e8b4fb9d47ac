//! Which clients get one of a server's places.
//!
//! A network of clients (an IPv4 address, or the first 64 bits of an IPv6 address) gets a place if it has then at most
//! [`SHARE`] times as many as are free, or if it has none yet. So one network has at most four fifths of all places, a
//! second one four fifths of the others, and so on (dynamic thresholds: Choudhury and Hahne, 1998, for the buffers of
//! switches). The last free place is for a network without one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Places that a network may have for each free one.
const SHARE: usize = 4;

/// The network of a client.
pub(super) fn network(ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => u64::from(ip.to_bits()),
            None => (Ipv6Addr::to_bits(ip) >> 64) as u64 | 1 << 63, // no IPv4 address has this bit
        },
    }
}

/// Whether a client at `ip` gets one of `all` places beside the clients at `taken`.
pub fn has_place(ip: IpAddr, all: usize, taken: impl Iterator<Item = IpAddr>) -> bool {
    let network_of = network(ip);
    let (mut used, mut own) = (0, 0);
    for other in taken {
        used += 1;
        own += usize::from(network(other) == network_of);
    }
    permits(own, all.saturating_sub(used))
}

/// Whether a network that has `own` places may take one of those that are free.
fn permits(own: usize, free: usize) -> bool {
    free > 0 && (own == 0 || own < SHARE * (free - 1))
}

/// Places, and the networks that have them.
#[derive(Debug)]
pub(super) struct Places {
    free: usize,
    by_network: BTreeMap<u64, usize>,
}

impl Places {
    pub(super) fn new(all: usize) -> Self {
        Self { free: all, by_network: BTreeMap::new() }
    }

    /// Takes a place for a client at `ip`, if its network may have another one.
    pub(super) fn take(&mut self, ip: IpAddr) -> bool {
        let network = network(ip);
        let is_permitted = permits(self.by_network.get(&network).copied().unwrap_or(0), self.free);
        if is_permitted {
            self.free -= 1;
            *self.by_network.entry(network).or_default() += 1;
        }
        is_permitted
    }

    /// Gives back a place that was taken for `ip`.
    pub(super) fn give_back(&mut self, ip: IpAddr) {
        let network = network(ip);
        let Some(own) = self.by_network.get_mut(&network) else { return };
        self.free += 1;
        *own -= 1;
        if *own == 0 {
            self.by_network.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of places of `all` that each of `networks` gets, one after the other.
    fn places(all: usize, networks: &[&str]) -> Vec<usize> {
        let (mut places, mut taken) = (Places::new(all), Vec::<IpAddr>::new());
        let fill = |ip: &&str| {
            let ip: IpAddr = ip.parse().unwrap();
            let before = taken.len();
            while has_place(ip, all, taken.iter().copied()) {
                assert!(places.take(ip));
                taken.push(ip);
            }
            assert!(!places.take(ip), "both count alike");
            taken.len() - before
        };
        let counts = networks.iter().map(fill).collect();
        for ip in taken {
            places.give_back(ip);
        }
        assert_eq!((places.free, places.by_network.len()), (all, 0));
        counts
    }

    #[test]
    fn no_network_takes_all_places() {
        assert_eq!(places(250, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]), [200, 40, 8]);
        assert_eq!(places(4, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]), [3, 1, 0]);
        assert_eq!(places(1, &["10.0.0.1", "10.0.0.2"]), [1, 0]);
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_its_places() {
        assert_eq!(places(250, &["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]), [200, 0, 40]);
        assert_eq!(places(250, &["10.0.0.1", "::ffff:10.0.0.1"]), [200, 0]);
    }
}
