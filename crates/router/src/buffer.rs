//! Buffer limits, for disciplines that have no other limit.

use rampmeter_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Backlog, Settings};

/// The limits of the buffer, for all flows together. Without either limit no packet is dropped for lack of room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
}

impl Config {
    pub(crate) fn max_packets(&self) -> u64 {
        self.packets.unwrap_or(u64::MAX)
    }

    pub(crate) fn max_bytes(&self) -> Bytes {
        self.bytes.unwrap_or(Bytes::MAX)
    }

    /// Whether the backlog exceeds a limit.
    pub(crate) fn is_over_full(&self, backlog: Backlog) -> bool {
        backlog.packets > self.max_packets() || backlog.bytes > self.max_bytes()
    }

    /// Whether a packet of `bytes` fits into the buffer.
    pub(crate) fn has_room(&self, backlog: Backlog, bytes: Bytes) -> bool {
        backlog.packets < self.max_packets() && backlog.bytes + bytes <= self.max_bytes()
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.packets == Some(0) || self.bytes == Some(Bytes::ZERO) {
            return Err("the buffer holds no packet: write packets = 1 or more, or bytes = \"1500 B\" or more".into());
        }
        Ok(())
    }
}
