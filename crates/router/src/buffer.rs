//! How much may wait in a router, for disciplines that know no other limit.

use rampmeter_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Backlog, Settings};

/// The room for packets that wait, of all flows together. Without either limit nothing is ever dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait.
    pub packets: Option<u64>,
    /// Most bytes that may wait.
    pub bytes: Option<Bytes>,
}

impl Config {
    pub(crate) fn most_packets(&self) -> u64 {
        self.packets.unwrap_or(u64::MAX)
    }

    pub(crate) fn most_bytes(&self) -> Bytes {
        self.bytes.unwrap_or(Bytes::MAX)
    }

    /// Whether more waits than may.
    pub(crate) fn is_over_full(&self, backlog: Backlog) -> bool {
        backlog.packets > self.most_packets() || backlog.bytes > self.most_bytes()
    }

    /// Whether a packet of `bytes` may join what waits.
    pub(crate) fn has_room(&self, backlog: Backlog, bytes: Bytes) -> bool {
        backlog.packets < self.most_packets() && backlog.bytes + bytes <= self.most_bytes()
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.packets == Some(0) || self.bytes == Some(Bytes::ZERO) {
            return Err("the buffer holds nothing: give packets = 1 or more, or bytes = \"1500 B\" or more".into());
        }
        Ok(())
    }
}
