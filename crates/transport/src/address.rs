//! Addresses of hosts: a socket's address on the wire, a node's number in simulated networks.

use std::fmt::Debug;
use std::net::SocketAddr;

use rampmeter_manager::Destination;

/// The address of a host.
pub trait Address: Copy + Ord + Debug {
    /// The destination that congestion control uses: an address without a port.
    fn destination(&self) -> Destination;
}

impl Address for SocketAddr {
    fn destination(&self) -> Destination {
        self.ip().into()
    }
}

impl Address for u32 {
    fn destination(&self) -> Destination {
        Destination(u128::from(*self))
    }
}
