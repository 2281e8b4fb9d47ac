//! The settings of the protocol between daemons.

use std::net::{IpAddr, SocketAddr};

use rampmeter_wire::CM_HEADER_BYTES;

use crate::inner_udp::INNER_BYTES;

/// The default UDP port of daemons. IANA has not assigned it for this use.
pub const DEFAULT_PORT: u16 = 2961;

/// The IP protocol number for experiments (RFC 3692).
pub(super) const RAW_PROTOCOL: u8 = 253;

/// The carriage of messages. Daemons that communicate must use the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carriage {
    /// None: no communication with other daemons.
    #[default]
    None,
    /// UDP datagrams, with this port at both ends.
    Udp(u16),
    /// IPv4 packets of protocol 253, which need privileges.
    Raw,
}

/// The settings of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protocol {
    /// The carriage of messages.
    pub carriage: Carriage,
    /// The local address; all addresses of the host if there is none.
    pub address: Option<IpAddr>,
    /// Ports to which datagrams with a CM header are forwarded even if no program has asked for them.
    pub deliver: Vec<u16>,
}

impl Carriage {
    /// The address of the daemon on the host of `to`; none without a carriage for it.
    pub(super) fn peer(self, mut to: SocketAddr) -> Option<SocketAddr> {
        to.set_port(match self {
            Self::Udp(port) => port,
            Self::Raw if to.is_ipv4() => 0,
            _ => return None,
        });
        Some(to)
    }

    /// The number of bytes by which a CM header reduces the payload of a packet to `ip`.
    pub(super) fn overhead(self, ip: IpAddr) -> usize {
        match self {
            Self::Udp(_) => CM_HEADER_BYTES + INNER_BYTES,
            Self::Raw if ip.is_ipv4() => CM_HEADER_BYTES,
            _ => 0,
        }
    }
}
