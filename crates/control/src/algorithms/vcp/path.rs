//! Checks whether the path preserves VCP's codes, and whether a router on it writes them. The paper's networks do both;
//! real ones may not, and a sender that treats missing codes as low load would grow by a share of its window without
//! regard to other flows. So it behaves as TCP while one of these faults lasts (`docs/vcp.md`, *On real paths*):
//!
//! - **Cleared codes**: a number of packets in a row arrived with `00`, which VCP routers never write. The same number
//!   with a code ends it.
//! - **No VCP router**: no packet ever arrived with high load, or none with another code. A VCP router reports high
//!   load before overload; an RFC 3168 router never does, and a path that sets all codes to one value always or never.
//!   Losses and overloads before the first high load count: once a load interval, because a VCP router reports within
//!   one, and not with only overload between them, which a flow receives that starts while other flows overload a VCP
//!   router.
//! - **Only overload**: all codes report overload after a number of cuts of an eighth, and there is no standing queue,
//!   as more flows than packets fit on the path would cause.
//!
//! It still reacts to marks: the `11` of a classic router means overload in VCP, too.

use rampmeter_units::{Duration, LoadRegion, Time};

use super::Config;

/// The number of cuts to 7/8 that reduce any load to an eighth, if all flows make them.
const CUTS_TO_AN_EIGHTH: u64 = 16;

/// Why a sender cannot behave as VCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathFault {
    /// The path clears codes.
    ClearsCodes,
    /// Congestion occurs where there is no VCP router.
    NoVcpRouter,
    /// All codes report overload after any number of cuts, and round trips show no standing queue.
    OnlyOverload,
}

impl PathFault {
    /// A message with the fault and the behavior of the sender.
    pub fn description(self) -> &'static str {
        match self {
            Self::ClearsCodes => "the path clears ECN codes; sends as TCP does until they come back",
            Self::NoVcpRouter => {
                "congestion that no VCP router reports, or only with other codes than `codes`; sends as TCP does until \
                 one does"
            }
            Self::OnlyOverload => {
                "all codes report overload and no queue is visible: the path sets all codes to overload, or has \
                 more flows than packets fit on it; sends as TCP does until another code arrives"
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct PathCheck {
    cleared_codes_after: u64,
    missing_router_after: u64,
    load_interval: Duration,
    cleared: bool,
    /// The number of packets in a row that contradict `cleared`.
    contradicting_codes: u64,
    /// High load was reported at least once.
    seen_high: bool,
    /// Low load or overload was reported at least once.
    seen_other: bool,
    /// The lowest load reported since the last loss or overload.
    lowest: Option<LoadRegion>,
    /// The number of losses and overloads without a report of a VCP router, each after another code than overload.
    unreported: u64,
    /// The time of the last one that counted.
    last_unreported: Option<Time>,
    /// The number of losses and overloads in a row without a standing queue and without another code between them.
    overloads: u64,
}

impl PathCheck {
    /// With `graded` codes, high load alone shows a router: near full load a slow flow receives no other code for long.
    pub(super) fn new(config: &Config, graded: bool) -> Self {
        Self {
            seen_other: graded,
            cleared_codes_after: config.cleared_codes_after,
            missing_router_after: config.missing_router_after,
            load_interval: config.load_interval,
            ..Self::default()
        }
    }

    /// A packet arrived with the code of `region`, or without a code.
    pub(super) fn on_code(&mut self, region: Option<LoadRegion>) {
        match region {
            Some(LoadRegion::High) => self.seen_high = true,
            Some(LoadRegion::Low | LoadRegion::Over) => self.seen_other = true,
            None => {}
        }
        if matches!(region, Some(LoadRegion::Low | LoadRegion::High)) {
            self.overloads = 0;
        }
        self.lowest = [region, self.lowest].into_iter().flatten().min();
        if region.is_none() == self.cleared {
            self.contradicting_codes = 0;
            return;
        }
        self.contradicting_codes += 1;
        if self.contradicting_codes == self.cleared_codes_after {
            self.cleared = !self.cleared;
            self.contradicting_codes = 0;
        }
    }

    /// The sender reacted to a loss or an overload. It does not count while codes are cleared, because no report could
    /// arrive.
    pub(super) fn on_congestion(&mut self, now: Time, has_standing_queue: bool) {
        if self.cleared {
            return;
        }
        if self.last_unreported.is_some_and(|last| now.since(last) < self.load_interval) {
            return;
        }
        match self.lowest.take() {
            Some(LoadRegion::Over) => self.overloads += u64::from(!has_standing_queue),
            Some(_) => {
                self.unreported += 1;
                self.last_unreported = Some(now);
            }
            None => {}
        }
    }

    pub(super) fn fault(&self) -> Option<PathFault> {
        if self.cleared {
            Some(PathFault::ClearsCodes)
        } else if self.missing_router_after == 0 || self.seen_high && self.seen_other {
            None
        } else if self.unreported >= self.missing_router_after {
            Some(PathFault::NoVcpRouter)
        } else if self.overloads >= CUTS_TO_AN_EIGHTH {
            Some(PathFault::OnlyOverload)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> PathCheck {
        PathCheck::new(&Config::default(), false)
    }

    /// A loss or an overload in load interval `interval`, without a standing queue.
    fn congest(path: &mut PathCheck, interval: u64) {
        path.on_congestion(Time::ZERO + Config::default().load_interval * interval, false);
    }

    #[test]
    fn eight_packets_in_a_row_set_or_clear_the_cleared_codes_fault() {
        let mut path = check();
        for _ in 0..100 {
            for _ in 0..7 {
                path.on_code(None);
            }
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.fault(), None);
        for _ in 0..8 {
            path.on_code(None);
        }
        assert_eq!(path.fault(), Some(PathFault::ClearsCodes));
        for _ in 0..7 {
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.fault(), Some(PathFault::ClearsCodes));
        path.on_code(Some(LoadRegion::Low));
        assert_eq!(path.fault(), None);
    }

    #[test]
    fn congestion_before_any_high_load_indicates_no_vcp_router() {
        let mut path = check();
        for (interval, fault) in [(1, None), (2, None), (3, Some(PathFault::NoVcpRouter))] {
            path.on_code(Some(LoadRegion::Low));
            congest(&mut path, interval);
            assert_eq!(path.fault(), fault);
        }
        path.on_code(Some(LoadRegion::Over));
        assert_eq!(path.fault(), Some(PathFault::NoVcpRouter));
        path.on_code(Some(LoadRegion::High));
        for interval in 4..14 {
            congest(&mut path, interval);
        }
        assert_eq!(path.fault(), None);
    }

    #[test]
    fn a_flow_that_starts_during_overload_finds_no_fault() {
        let mut path = check();
        path.on_code(Some(LoadRegion::Low));
        congest(&mut path, 1);
        for interval in 2..17 {
            path.on_code(Some(LoadRegion::Over));
            congest(&mut path, interval);
            assert_eq!(path.fault(), None);
        }
    }

    // By then sixteen cuts would have reduced any load to an eighth.
    #[test]
    fn only_overload_for_sixteen_cuts_without_a_queue_is_a_fault() {
        let mut path = check();
        for interval in 0..100 {
            path.on_code(Some(LoadRegion::Over));
            path.on_congestion(Time::ZERO + Config::default().load_interval * interval, true);
        }
        for interval in 0..16 {
            assert_eq!(path.fault(), None);
            path.on_code(Some(LoadRegion::Over));
            congest(&mut path, interval);
        }
        assert_eq!(path.fault(), Some(PathFault::OnlyOverload));
        path.on_code(Some(LoadRegion::Low));
        assert_eq!(path.fault(), None);
    }
}
