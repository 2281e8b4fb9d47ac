//! Where packets go and come from: a socket's address on real wires, a node's number in simulated networks.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

use rampmeter_manager::Destination;

/// Where packets go and come from.
pub trait Address: Copy + Ord + Debug {
    /// What congestion control keeps in common.
    fn destination(&self) -> Destination;
}

impl Address for SocketAddr {
    fn destination(&self) -> Destination {
        match self.ip() {
            IpAddr::V4(ip) => Destination(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) => Destination(ip.to_bits()),
        }
    }
}

impl Address for u32 {
    fn destination(&self) -> Destination {
        Destination(u128::from(*self))
    }
}
