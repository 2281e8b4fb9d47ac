//! How a daemon talks to those of other hosts, as whoever starts it wants it.

use std::net::{IpAddr, SocketAddr};

use rampmeter_wire::CM_HEADER_BYTES;

use super::inner::INNER_BYTES;

/// The UDP port that daemons listen at unless told otherwise. It is not one that IANA has assigned for this.
pub const DEFAULT_PORT: u16 = 2961;

/// IP's number for experiments (RFC 3692).
pub(super) const RAW_PROTOCOL: u8 = 253;

/// What messages travel in. Daemons that are to understand each other agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carriage {
    /// Nothing: no daemon is talked to.
    #[default]
    None,
    /// UDP datagrams, here and there at this port.
    Udp(u16),
    /// IPv4 packets of protocol 253, which takes privileges.
    Raw,
}

/// How a daemon talks to others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protocol {
    /// What in.
    pub carriage: Carriage,
    /// From which address; from all of the host's if none is named.
    pub address: Option<IpAddr>,
    /// Ports that datagrams with a CM header are handed on to although no program has asked for it.
    pub deliver: Vec<u16>,
}

impl Carriage {
    /// Where the daemon of the host at `to` is spoken to; none if it can't be.
    pub(super) fn peer(self, mut to: SocketAddr) -> Option<SocketAddr> {
        to.set_port(match self {
            Self::Udp(port) => port,
            Self::Raw if to.is_ipv4() => 0,
            _ => return None,
        });
        Some(to)
    }

    /// How much less a packet to `ip` carries with a header than without.
    pub(super) fn overhead(self, ip: IpAddr) -> usize {
        match self {
            Self::Udp(_) => CM_HEADER_BYTES + INNER_BYTES,
            Self::Raw if ip.is_ipv4() => CM_HEADER_BYTES,
            _ => 0,
        }
    }
}
