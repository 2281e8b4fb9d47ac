//! Between two hosts, of which this one may have several addresses.

use std::net::{IpAddr, SocketAddr};

/// The addresses of datagrams between this host and another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The address of this host that the other one sends to, so that answers come from there; `None` if the socket has
    /// one address only, or the system may choose one.
    pub local: Option<IpAddr>,
    /// The address of the other host.
    pub remote: SocketAddr,
}

impl From<SocketAddr> for Route {
    fn from(remote: SocketAddr) -> Self {
        Self { local: None, remote }
    }
}
