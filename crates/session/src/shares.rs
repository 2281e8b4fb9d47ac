//! How clients share what a host has a limited amount of: places, bytes of memory.
//!
//! A client is an address, in a network that most likely is one customer of a provider:
//!
//! | | network | client |
//! |---|---|---|
//! | IPv4 | 24 bits | an address |
//! | IPv6 | 48 bits | 64 bits |
//! | a listed key | the key | the key |
//!
//! A network may have at most four times as much as is then left; the last place is for one without any. So one
//! network has at most four fifths, a second one four fifths of the rest, and so on (dynamic thresholds: Choudhury and
//! Hahne, 1998, for the buffers of switches). The clients of a network share what it may have in the same way: one has
//! at most 16 parts of 25 of everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::key::PublicKey;

/// What a network or a client may have for each unit that is left.
const SHARE: u64 = 4;

/// A network or a client. Addresses are those of IPv6 (RFC 4291 section 2.5.5.2), without the bits that do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A network.
    Network(u128),
    /// A client.
    Client(u128),
    /// A client with a listed key, wherever it is.
    Key(PublicKey),
}

/// A client that has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharer {
    /// Its network.
    pub network: Name,
    /// The client itself.
    pub client: Name,
}

impl From<PublicKey> for Sharer {
    fn from(key: PublicKey) -> Self {
        Self { network: Name::Key(key), client: Name::Key(key) }
    }
}

/// The network of an address, and the number of its bits: 24 of IPv4, 48 of IPv6.
pub fn network(ip: IpAddr) -> (IpAddr, u8) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (Ipv4Addr::from_bits(ip.to_bits() >> 8 << 8).into(), 24),
        IpAddr::V6(ip) => (Ipv6Addr::from_bits(ip.to_bits() >> 80 << 80).into(), 48),
    }
}

impl From<IpAddr> for Sharer {
    fn from(ip: IpAddr) -> Self {
        let bits = |ip| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let client = match ip.to_canonical() {
            IpAddr::V4(ip) => bits(ip.into()),
            IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
        };
        Self { network: Name::Network(bits(network(ip).0)), client: Name::Client(client) }
    }
}

/// What a network has, and what its clients have of it.
#[derive(Debug, Default)]
struct Network {
    sum: u64,
    clients: BTreeMap<Name, u64>,
}

/// Whether a client that has `client` of a network's `network` may take `amount` of what is `left`.
fn permits(amount: u64, left: u64, network: u64, client: u64) -> bool {
    // The network may take `room`: network + room <= SHARE * (left - room).
    let room = SHARE.saturating_mul(left).saturating_sub(network) / (SHARE + 1);
    // The last place is for a network, and for a client, without one.
    let room = if network == 0 { room.max(1) } else { room };
    let is_first_place = client == 0 && amount == 1;
    amount <= left.min(room) && (is_first_place || client + amount <= SHARE.saturating_mul(room - amount))
}

/// Who has parts of an amount.
#[derive(Debug, Default)]
pub(crate) struct Used(BTreeMap<Name, Network>);

impl Used {
    /// Whether `sharer` may take `amount` of what is `left`.
    pub(crate) fn permits(&self, sharer: Sharer, amount: u64, left: u64) -> bool {
        let network = self.0.get(&sharer.network);
        let client = network.and_then(|network| network.clients.get(&sharer.client)).copied().unwrap_or(0);
        permits(amount, left, network.map_or(0, |network| network.sum), client)
    }

    pub(crate) fn take(&mut self, sharer: Sharer, amount: u64) {
        let network = self.0.entry(sharer.network).or_default();
        network.sum += amount;
        *network.clients.entry(sharer.client).or_default() += amount;
    }

    /// Gives back `amount`, or what `sharer` has if that is less. Returns how much.
    pub(crate) fn give_back(&mut self, sharer: Sharer, amount: u64) -> u64 {
        let Some(network) = self.0.get_mut(&sharer.network) else { return 0 };
        let Some(client) = network.clients.get_mut(&sharer.client) else { return 0 };
        let amount = amount.min(*client);
        *client -= amount;
        network.sum -= amount;
        if *client == 0 {
            network.clients.remove(&sharer.client);
        }
        if network.sum == 0 {
            self.0.remove(&sharer.network);
        }
        amount
    }
}

/// An amount, and who has parts of it.
#[derive(Debug)]
pub struct Shares {
    left: u64,
    used: Used,
}

impl Shares {
    /// Nothing of `all` is taken yet.
    pub fn new(all: u64) -> Self {
        Self { left: all, used: Used::default() }
    }

    /// Takes `amount` for `sharer`, if it may have it. Returns whether it may.
    pub fn take(&mut self, sharer: impl Into<Sharer>, amount: u64) -> bool {
        let sharer = sharer.into();
        let is_permitted = self.used.permits(sharer, amount, self.left);
        if is_permitted {
            self.left -= amount;
            self.used.take(sharer, amount);
        }
        is_permitted
    }

    /// Gives back `amount` that was taken for `sharer`.
    pub fn give_back(&mut self, sharer: impl Into<Sharer>, amount: u64) {
        self.left += self.used.give_back(sharer.into(), amount);
    }
}

/// Whether a client at `ip` gets one of `all` places beside the clients at `taken`.
pub fn has_place(ip: IpAddr, all: usize, taken: impl Iterator<Item = IpAddr>) -> bool {
    let sharer = Sharer::from(ip);
    let (mut used, mut network, mut client) = (0, 0, 0);
    for other in taken.map(Sharer::from) {
        used += 1;
        network += u64::from(other.network == sharer.network);
        client += u64::from(other == sharer);
    }
    permits(1, (all as u64).saturating_sub(used), network, client)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of places of `all` that each of `clients` gets, one after the other.
    fn places(all: usize, clients: &[&str]) -> Vec<usize> {
        let (mut shares, mut taken) = (Shares::new(all as u64), Vec::<IpAddr>::new());
        let fill = |ip: &&str| {
            let ip: IpAddr = ip.parse().unwrap();
            let before = taken.len();
            while has_place(ip, all, taken.iter().copied()) {
                assert!(shares.take(ip, 1));
                taken.push(ip);
            }
            assert!(!shares.take(ip, 1), "both count alike");
            taken.len() - before
        };
        let counts = clients.iter().map(fill).collect();
        for ip in taken {
            shares.give_back(ip, 1);
        }
        assert_eq!((shares.left, shares.used.0.len()), (all as u64, 0));
        counts
    }

    #[test]
    fn no_network_takes_all_places() {
        // Four networks, one after the other.
        let clients = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.2.1", "10.0.2.2", "10.0.3.1"];
        assert_eq!(places(250, &clients), [160, 32, 36, 8, 8, 2, 2]);
        assert_eq!(places(1, &["10.0.0.1", "10.0.0.2"]), [1, 0]);
        assert_eq!(places(250, &["10.0.0.1", "::ffff:10.0.0.1"]), [160, 0]);
    }

    #[test]
    fn six_networks_of_one_home_leave_places_for_another() {
        let home: Vec<String> = (0..6).map(|n| format!("2001:db8:1:{n}::1")).collect();
        let mut clients: Vec<&str> = home.iter().map(String::as_str).collect();
        clients.push("2001:db8:2::1");
        let places = places(250, &clients);
        assert_eq!(places[0], 160);
        assert_eq!(places[..6].iter().sum::<usize>(), 200);
        assert_eq!(places[6], 32, "the other home");
    }

    #[test]
    fn amounts_are_shared_in_the_same_way() {
        let (one, other) = (Sharer::from(IpAddr::from([10, 0, 0, 1])), Sharer::from(IpAddr::from([10, 0, 1, 1])));
        let mut shares = Shares::new(1000);
        assert!(!shares.take(one, 641) && shares.take(one, 500));
        assert!(!shares.take(one, 200) && shares.take(one, 140), "16 parts of 25");
        assert!(!shares.take(other, 361) && shares.take(other, 200));
        shares.give_back(one, 640);
        assert!(shares.take(one, 300));
    }
}
