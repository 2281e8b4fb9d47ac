//! What every application of these hosts begins with: transport settings, a controller, randomness.

use rampmeter_session::{MAX_OVERHEAD, MIN_HELLO_BYTES};
use rampmeter_transport::Config;
use rampmeter_units::Bytes;
use rampmeter_wire::UDP_BYTES;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// The controller of servers and clients that name no other. Over a path that loses 1% of its packets, PCP moves
/// 10 MB in 5.9 s for which NewReno takes 23.4 s (`docs/files.md`).
pub const DEFAULT_CONTROLLER: &str = "pcp";

/// The largest packets that are tried: those of Ethernet with jumbo frames.
const MAX_PACKET: Bytes = Bytes::new(9000);

/// The default transport settings: a peer that does not respond is given up after about ten seconds; datagrams begin
/// with 1200 bytes, which every path of QUIC carries (RFC 9000 section 14).
pub fn default_transport() -> Config {
    Config {
        packet: Bytes::new((UDP_BYTES + MIN_HELLO_BYTES) as u64),
        max_packet: MAX_PACKET,
        overhead: Bytes::new((UDP_BYTES + MAX_OVERHEAD) as u64),
        max_timeouts: 5,
        ..Config::default()
    }
}

/// The largest datagram that arrives: a packet, or a handshake.
pub fn max_datagram(transport: &Config) -> usize {
    (transport.packet.max(transport.max_packet).as_u64() as usize).max(MIN_HELLO_BYTES)
}

/// Unpredictable random numbers: a generator for cryptography with a seed from the operating system. Each packet needs a
/// number; a system call for each takes an eighth of a busy server's time.
pub fn os_random() -> impl RngCore + Send {
    StdRng::from_os_rng()
}

/// A random seed for a controller's choices.
pub fn fresh_seed() -> u64 {
    os_random().next_u64()
}
