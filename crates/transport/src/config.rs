//! The settings of a connection and of an endpoint.

use rampmeter_manager::{AgentConfig, Sharing};
use rampmeter_units::{Bytes, Duration, Ecn, settings};
use rampmeter_wire::UDP_BYTES;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// How losses are detected and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Three duplicate acknowledgements; any new acknowledgement ends recovery (RFC 5681).
    Reno,
    /// Three duplicate acknowledgements; a partial acknowledgement retransmits the next hole (RFC 6582).
    NewReno,
    /// Selective acknowledgements: three packets above a hole (RFC 6675) or, once packets have arrived out of order, a
    /// packet that is later than a reordering window (RFC 8985).
    Sack,
}

/// The settings of a connection, for both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum size of packets, IP header included.
    pub packet: Bytes,
    /// The largest packets that are tried. Where the path carries them, packets grow from `packet` up to this size (RFC
    /// 8899), if `proofs` show what has arrived. Packets of scenarios do not grow.
    #[serde(skip)]
    pub max_packet: Bytes,
    /// The bytes of each packet around its header and payload: IP's and UDP's headers, and what an encrypted session
    /// adds.
    #[serde(skip, default = "udp_bytes")]
    pub overhead: Bytes,
    /// The maximum delay of an acknowledgement that waits for a second packet. Zero acknowledges every packet at once,
    /// which PCP needs (PCP section 3.5). RFC 5681 allows up to 500 ms.
    pub delayed_ack: Duration,
    /// How losses are detected and repaired.
    pub recovery: Recovery,
    /// Detect lost retransmissions by the arrival of later packets, too, instead of waiting for the timer.
    pub detect_lost_retransmissions: bool,
    /// Send a probe if the last packets of a flight may be lost, and detect losses also by time, instead of waiting for
    /// the retransmission timer (RFC 8985). With [`Recovery::Sack`] only. Off in scenarios unless given.
    pub tail_loss_probe: bool,
    /// The peer must prove which packets have arrived, and gives proofs itself. With [`Recovery::Sack`] only. Off in
    /// scenarios, whose peers are ours.
    #[serde(skip)]
    pub proofs: bool,
    /// Minimum retransmission timeout. RFC 6298 (2.4) says 1 s; Linux uses 200 ms.
    pub min_rto: Duration,
    /// First timeout of the handshake, doubled each time (RFC 6298 (2.1)).
    pub syn_timeout: Duration,
    /// The number of consecutive timeouts after which the connection ends with `TimedOut`.
    pub max_timeouts: u32,
    /// The receive window: bytes buffered for the application.
    pub receive_window: Bytes,
    /// The ECN code of data packets.
    #[serde(with = "ecn_name")]
    pub ecn: Ecn,
    /// An open connection sends a probe if its peer has sent nothing for this long and has nothing to acknowledge.
    /// After `max_timeouts` unanswered probes it ends. So a connection whose peer's last packet was lost does not
    /// remain forever. `None` sends no probes, as in scenarios.
    #[serde(skip)]
    pub keep_alive: Option<Duration>,
    /// First sequence number of the stream that this side sends, for tests of the wrap-around. `None` draws one for
    /// each connection, which a host that does not see its packets cannot guess (RFC 9293 section 3.4.1).
    pub first_sequence: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packet: Bytes::new(1250),
            max_packet: Bytes::ZERO,
            overhead: udp_bytes(),
            delayed_ack: Duration::ZERO,
            recovery: Recovery::Sack,
            detect_lost_retransmissions: true,
            tail_loss_probe: true,
            proofs: true,
            min_rto: Duration::from_millis(200),
            syn_timeout: Duration::from_secs(1),
            max_timeouts: 10,
            receive_window: Bytes::new(16_000_000),
            ecn: Ecn::NotEct,
            keep_alive: Some(Duration::from_secs(60)),
            first_sequence: None,
        }
    }
}

fn udp_bytes() -> Bytes {
    Bytes::new(UDP_BYTES as u64)
}

impl Config {
    /// Maximum timeout (RFC 6298 (2.5) allows any bound from 60 s).
    pub(crate) const MAX_RTO: Duration = Duration::from_secs(60);

    /// Pieces of the stream at the end of a window, and steps of a window, are not smaller: half a packet. RFC 9293
    /// section 3.8.6.2 says a whole one, but the headers of our packets differ in length.
    pub(crate) fn min_piece(&self) -> u64 {
        self.packet.as_u64() / 2
    }

    pub(crate) fn requires_proofs(&self) -> bool {
        self.proofs && self.recovery == Recovery::Sack
    }

    /// Whether packets may grow.
    pub(crate) fn searches_packet_size(&self) -> bool {
        self.max_packet > self.packet && self.requires_proofs()
    }

    /// Reads a scenario's table. `packet` is the default of the setting of that name.
    pub fn read(table: &toml::Table, packet: Bytes) -> Result<Self, String> {
        let mut config: Self = settings::read(table)?;
        if !table.contains_key("packet") {
            config.packet = packet;
        }
        config.keep_alive = None;
        config.tail_loss_probe &= table.contains_key("tail_loss_probe");
        config.proofs = false;
        config.check().map(|()| config)
    }

    /// Checks the values. An error names the setting and its valid values.
    pub fn check(&self) -> Result<(), String> {
        if !(Bytes::new(256)..=Bytes::new(65_000)).contains(&self.packet) {
            return Err(format!("packet is {}: give 256 B to 65 kB", self.packet));
        }
        if self.max_packet > Bytes::new(65_000) {
            return Err(format!("max_packet is {}: give at most 65 kB", self.max_packet));
        }
        if self.delayed_ack > Duration::from_millis(500) {
            return Err(format!("delayed_ack is {}: give at most 500 ms (RFC 5681 section 4.2)", self.delayed_ack));
        }
        for (name, timeout) in [("syn_timeout", self.syn_timeout), ("min_rto", self.min_rto)] {
            if timeout == Duration::ZERO {
                return Err(format!("{name} is zero, which would retransmit without end: give for example \"1 s\""));
            }
        }
        if self.delayed_ack > Duration::ZERO && self.delayed_ack >= self.min_rto {
            let wrong = format!("delayed_ack is {}, and min_rto {}", self.delayed_ack, self.min_rto);
            return Err(format!("{wrong}: give min_rto more, so that no timer expires before the acknowledgement"));
        }
        if self.keep_alive == Some(Duration::ZERO) {
            return Err("keep_alive is zero, which would send probes without end: give for example \"60 s\"".into());
        }
        if self.receive_window < self.packet || self.receive_window > Bytes::new(1 << 30) {
            return Err(format!("receive_window is {}: give one packet to 1 GB", self.receive_window));
        }
        if self.max_timeouts == 0 {
            return Err("max_timeouts is 0: give 1 or more".into());
        }
        Ok(())
    }
}

/// The settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// How its connections share congestion control.
    pub sharing: Sharing,
    /// The settings of connections that peers open; `None` refuses them.
    pub accept: Option<Config>,
    /// The maximum number of connections in both directions.
    pub max_connections: usize,
    /// The maximum number of accepted connections whose opener has not yet shown that it receives this host's packets.
    /// One more replaces the oldest of the network with the most, and there of the peer with the most. So a flood of
    /// one network, or of one peer, replaces its own. One from many forged networks excludes openers that need longer
    /// for their proof than the flood needs to replace all of them.
    pub max_half_open: usize,
    /// How its datagram flows get feedback.
    pub agent: AgentConfig,
    /// The clock that timestamps arriving packets.
    pub clock: Clock,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            accept: None,
            max_connections: 4096,
            max_half_open: 256,
            agent: AgentConfig::default(),
            clock: Clock::default(),
        }
    }
}

mod ecn_name {
    use rampmeter_units::Ecn;
    use serde::{Deserialize, Deserializer, Serializer};

    const NAMES: [(&str, Ecn); 3] = [("not-ect", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1)];

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(ecn: &Ecn, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(NAMES.iter().find(|(_, code)| code == ecn).map_or("ce", |(name, _)| name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Ecn, D::Error> {
        let text = String::deserialize(d)?;
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, code)| *code)
            .ok_or_else(|| serde::de::Error::custom(format!("ecn is `{text}`: give not-ect, ect0 or ect1")))
    }
}
