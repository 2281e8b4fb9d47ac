//! Addresses of hosts: a socket's address on the wire, a node's number in simulated networks.

use std::fmt::Debug;
use std::net::SocketAddr;

use rampmeter_manager::{Destination, Owner};

/// The address of a host.
pub trait Address: Copy + Ord + Debug {
    /// The destination that congestion control uses: an address without a port.
    fn destination(&self) -> Destination;

    /// The session with this host, which owns its flows where sessions have macroflows of their own.
    fn session(&self) -> Owner {
        Owner::default()
    }

    /// Its network: what one customer of a provider has, most likely. Networks share what a host has for peers that
    /// have proved nothing.
    fn network(&self) -> Destination {
        self.destination()
    }
}

impl Address for SocketAddr {
    fn destination(&self) -> Destination {
        self.ip().into()
    }

    fn network(&self) -> Destination {
        network(self.destination())
    }
}

impl Address for u32 {
    fn destination(&self) -> Destination {
        Destination(u128::from(*self))
    }
}

/// The network of a destination: the first 24 bits of an IPv4 address, the first 48 of an IPv6 address.
pub fn network(destination: Destination) -> Destination {
    const MAPPED: u128 = 0xffff << 32; // IPv4 addresses in IPv6 (RFC 4291 section 2.5.5.2)
    let bits = destination.0;
    let host_bits = if bits >> 32 == MAPPED >> 32 { 8 } else { 80 };
    Destination(bits >> host_bits << host_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_a_customer_has() {
        for (one, other, is_same) in [
            ("10.0.0.1:5", "10.0.0.200:6", true),
            ("10.0.0.1:5", "10.0.1.1:5", false),
            ("10.0.0.1:5", "[::ffff:10.0.0.9]:5", true),
            ("[2001:db8:1:2::3]:5", "[2001:db8:1:ffff::1]:5", true),
            ("[2001:db8:1::3]:5", "[2001:db8:2::3]:5", false),
            ("0.0.0.1:5", "[::1]:5", false),
        ] {
            let network = |text: &str| text.parse::<SocketAddr>().unwrap().network();
            assert_eq!(network(one) == network(other), is_same, "{one} and {other}");
        }
    }
}
