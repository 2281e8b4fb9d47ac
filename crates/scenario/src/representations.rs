//! An object in several qualities: the web server of the Congestion Manager paper (section 3.2.1) asks what its share of the
//! path is (`cm_query`) and sends the best one that is there soon enough: "pick the representation that maximizes receiver
//! quality without incurring high latency".
//!
//! ```text
//! the largest with   size / share + srtt <= within,   else the smallest
//! ```

use rampmeter_control::Controller;
use rampmeter_transport::{Address, ConnectionId, Endpoint};
use rampmeter_units::{Bytes, Duration, Rate, Time};

/// The qualities of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representations {
    /// From the smallest to the largest.
    pub sizes: Vec<Bytes>,
    /// How soon it shall be there.
    pub within: Duration,
}

impl Representations {
    /// What a connection of `endpoint` that is open sends.
    pub fn choose<C: Controller, A: Address>(
        &self,
        now: Time,
        endpoint: &Endpoint<C, A>,
        connection: ConnectionId,
    ) -> Bytes {
        let status = endpoint.flow(connection).and_then(|flow| endpoint.manager().query(now, flow));
        let (share, srtt) = status.map_or_else(Default::default, |status| (status.share, status.smoothed_rtt));
        choose(&self.sizes, share, srtt, self.within).map_or(Bytes::ZERO, |place| self.sizes[place])
    }
}

/// The place, among representations of these sizes, of the largest one that a flow with this share of a path with this round
/// trip brings there `within` a time, or of the smallest; none of none.
pub fn choose(sizes: &[Bytes], share: Rate, srtt: Duration, within: Duration) -> Option<usize> {
    let carried = share.bytes_in(within.saturating_sub(srtt));
    let places = || sizes.iter().enumerate().map(|(place, size)| (*size, place));
    let in_time = places().filter(|(size, _)| *size <= carried);
    in_time.max().or_else(|| places().min()).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_arrives_in_time_is_taken() {
        // 100 kb/s over 2 s less 120 ms are 23.5 kB.
        let sizes = [800_000, 20_000, 100_000].map(Bytes::new);
        let (srtt, within) = (Duration::from_millis(120), Duration::from_secs(2));
        let chosen = |kbps: u64| choose(&sizes, Rate::from_bps(kbps * 1000), srtt, within).map(|place| sizes[place]);
        let expected = [(10, 20_000), (100, 20_000), (425, 20_000), (426, 100_000), (3400, 100_000), (3410, 800_000)];
        for (kbps, size) in expected {
            assert_eq!(chosen(kbps), Some(Bytes::new(size)), "{kbps} kb/s");
        }
        assert_eq!(choose(&sizes, Rate::MAX, within, srtt), Some(1), "no rate makes up for the round trip");
        assert_eq!(choose(&[], Rate::MAX, srtt, within), None);
    }
}
