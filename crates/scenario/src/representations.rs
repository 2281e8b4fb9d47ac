//! An object in several qualities: the web server of the Congestion Manager paper (section 3.2.1) asks what its share of the
//! path is (`cm_query`) and sends the best one that is there soon enough.

use rampmeter_control::Controller;
use rampmeter_transport::{Address, ConnectionId, Endpoint};
use rampmeter_units::{Bytes, Duration, Time};

/// The qualities of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representations {
    /// From the smallest to the largest.
    pub sizes: Vec<Bytes>,
    /// How soon it shall be there.
    pub within: Duration,
}

impl Representations {
    /// The largest for which `size / share + round trip <= within`, or the smallest, for a connection of `endpoint` that
    /// is open.
    pub fn choose<C: Controller, A: Address>(
        &self,
        now: Time,
        endpoint: &Endpoint<C, A>,
        connection: ConnectionId,
    ) -> Bytes {
        let status = endpoint.flow(connection).and_then(|flow| endpoint.manager().query(now, flow));
        let carried =
            status.map_or(Bytes::ZERO, |status| status.share.bytes_in(self.within.saturating_sub(status.smoothed_rtt)));
        let fitting = self.sizes.partition_point(|size| *size <= carried);
        self.sizes.get(fitting.saturating_sub(1)).copied().unwrap_or_default()
    }
}
