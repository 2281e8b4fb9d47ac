//! Whether the path carries VCP's codes, and whether anyone on it writes them. The paper's networks do both; real ones may
//! not. A sender that took silence for low load would grow by a part of its window whatever happens to others.
//!
//! - A path **bleaches** that clears the two bits: packets that left with a code arrive with `00`, which no router writes
//!   (RFC 3168 section 5 forbids it, some do it). So many in a row are taken for it, and so many with a code in a row for
//!   its end.
//! - Nobody **has spoken** while no packet ever arrived with high load, or none with anything else. A VCP router says high
//!   before it is overloaded; one that marks as RFC 3168 has it never does, and a path that sets all codes to one says high
//!   always or never. Losses and overloads that come first, each after another word than overload, tell that nobody on the
//!   path speaks of its load: a VCP router would, within a load interval. So those within one count once, and those with
//!   nothing but overload between them do not count: who begins where others have overloaded a VCP router hears nothing else
//!   at first.
//! - Nothing but **overload** is told, on and on, and no queue stands. So many cuts of an eighth end any overload but that
//!   of more flows than packets fit, which shows in a queue, or of a path that sets all codes to it.
//!
//! In all these cases the sender is TCP until it finds otherwise. Marks are believed all the same: a classic router's
//! `11` is overload by VCP's reading too. So a path that sets all codes to `11` leaves a packet a round trip, as it does of
//! any sender that heeds ECN: it looks as a router does that has more flows than packets fit.

use rampmeter_units::{Duration, LoadRegion, Time};

use super::Config;

/// So many cuts to 7/8 leave an eighth of any load, if all make them.
const CUTS_TO_AN_EIGHTH: u64 = 16;

/// Why a sender can't do as VCP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The path clears codes.
    Bleached,
    /// Congestion comes from where no VCP router is.
    Unheard,
    /// Overload is all that is told, whatever is cut, and there is no queue.
    Overloaded,
}

impl Trouble {
    /// What is wrong, and what the sender does about it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Bleached => "the path clears ECN codes; sends as TCP does until they come back",
            Self::Unheard => {
                "congestion of which no VCP router tells, or only in other codes than ours; sends as TCP does until one does"
            }
            Self::Overloaded => {
                "nothing but overload is told, and no queue stands: the path sets all codes to that, or more flows send \
                 than packets fit on it; sends as TCP does until something else is told"
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct PathCheck {
    cleared_codes_after: u64,
    missing_router_after: u64,
    load_interval: Duration,
    bleached: bool,
    /// Packets in a row that contradict `bleached`.
    contradicting: u64,
    /// High load was told at least once.
    heard_high: bool,
    /// Low load was, or overload.
    heard_other: bool,
    /// The lightest load that was told since the last loss or overload.
    lightest: Option<LoadRegion>,
    /// Losses and overloads before high load was told, or another one, that came while something else than overload was.
    unheard: u64,
    /// When the last of them was.
    last_unheard: Option<Time>,
    /// Losses and overloads in a row, without a queue, between which nothing else was told.
    overloads: u64,
}

impl PathCheck {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            cleared_codes_after: config.cleared_codes_after,
            missing_router_after: config.missing_router_after,
            load_interval: config.load_interval,
            bleached: false,
            contradicting: 0,
            heard_high: false,
            heard_other: false,
            lightest: None,
            unheard: 0,
            last_unheard: None,
            overloads: 0,
        }
    }

    /// A packet arrived with the code of `region`, or none.
    pub(super) fn on_code(&mut self, region: Option<LoadRegion>) {
        match region {
            Some(LoadRegion::High) => self.heard_high = true,
            Some(LoadRegion::Low | LoadRegion::Over) => self.heard_other = true,
            None => {}
        }
        if matches!(region, Some(LoadRegion::Low | LoadRegion::High)) {
            self.overloads = 0;
        }
        self.lightest = [region, self.lightest].into_iter().flatten().min();
        if region.is_none() == self.bleached {
            self.contradicting = 0;
            return;
        }
        self.contradicting += 1;
        if self.contradicting == self.cleared_codes_after {
            self.bleached = !self.bleached;
            self.contradicting = 0;
        }
    }

    /// A loss or an overload was answered; whether a queue stands. While codes are cleared nobody could have told of it.
    pub(super) fn on_congestion(&mut self, now: Time, queue: bool) {
        if self.bleached {
            return;
        }
        if self.last_unheard.is_some_and(|last| now.since(last) < self.load_interval) {
            return;
        }
        match self.lightest.take() {
            Some(LoadRegion::Over) => self.overloads += u64::from(!queue),
            Some(_) => {
                self.unheard += 1;
                self.last_unheard = Some(now);
            }
            None => {}
        }
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        if self.bleached {
            Some(Trouble::Bleached)
        } else if self.missing_router_after == 0 || self.heard_high && self.heard_other {
            None
        } else if self.unheard >= self.missing_router_after {
            Some(Trouble::Unheard)
        } else if self.overloads >= CUTS_TO_AN_EIGHTH {
            Some(Trouble::Overloaded)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> PathCheck {
        PathCheck::new(&Config::default())
    }

    /// A loss or an overload in that load interval, without a queue.
    fn congest(path: &mut PathCheck, interval: u64) {
        path.on_congestion(Time::ZERO + Config::default().load_interval * interval, false);
    }

    #[test]
    fn eight_packets_in_a_row_without_a_code_are_bleached_and_eight_with_one_mended() {
        let mut path = check();
        for _ in 0..100 {
            for _ in 0..7 {
                path.on_code(None);
            }
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.trouble(), None);
        for _ in 0..8 {
            path.on_code(None);
        }
        assert_eq!(path.trouble(), Some(Trouble::Bleached));
        for _ in 0..7 {
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.trouble(), Some(Trouble::Bleached));
        path.on_code(Some(LoadRegion::Low));
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn congestion_before_any_high_load_is_not_a_vcp_routers() {
        let mut path = check();
        for (interval, trouble) in [(1, None), (2, None), (3, Some(Trouble::Unheard))] {
            path.on_code(Some(LoadRegion::Low));
            congest(&mut path, interval);
            assert_eq!(path.trouble(), trouble);
        }
        path.on_code(Some(LoadRegion::Over));
        assert_eq!(path.trouble(), Some(Trouble::Unheard));
        path.on_code(Some(LoadRegion::High));
        for interval in 4..14 {
            congest(&mut path, interval);
        }
        assert_eq!(path.trouble(), None);
    }

    // A router measures for a load interval before it can tell of what happens.
    #[test]
    fn losses_within_a_load_interval_count_once() {
        let mut path = check();
        for _ in 0..10 {
            path.on_code(Some(LoadRegion::Low));
            congest(&mut path, 1);
        }
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn who_begins_while_others_overload_a_router_hears_nothing_but_that_and_waits() {
        let mut path = check();
        path.on_code(Some(LoadRegion::Low));
        congest(&mut path, 1);
        for interval in 2..17 {
            path.on_code(Some(LoadRegion::Over));
            congest(&mut path, interval);
            assert_eq!(path.trouble(), None);
        }
    }

    // By then sixteen cuts would have left an eighth of any load.
    #[test]
    fn nothing_but_overload_for_sixteen_cuts_without_a_queue_is_answered_as_tcp_does_until_something_else_is_told() {
        let mut path = check();
        for interval in 0..100 {
            path.on_code(Some(LoadRegion::Over));
            path.on_congestion(Time::ZERO + Config::default().load_interval * interval, true);
        }
        for interval in 0..16 {
            assert_eq!(path.trouble(), None);
            path.on_code(Some(LoadRegion::Over));
            congest(&mut path, interval);
        }
        assert_eq!(path.trouble(), Some(Trouble::Overloaded));
        path.on_code(Some(LoadRegion::Low));
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn who_says_high_load_and_nothing_else_says_nothing() {
        let mut path = check();
        for (interval, trouble) in [(1, None), (2, None), (3, Some(Trouble::Unheard))] {
            path.on_code(Some(LoadRegion::High));
            congest(&mut path, interval);
            assert_eq!(path.trouble(), trouble);
        }
        path.on_code(Some(LoadRegion::Low));
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn losses_while_codes_are_cleared_say_nothing_of_routers() {
        let mut path = check();
        for _ in 0..8 {
            path.on_code(None);
        }
        for interval in 0..10 {
            congest(&mut path, interval);
        }
        for _ in 0..8 {
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn zero_means_never() {
        let mut path = PathCheck::new(&Config { cleared_codes_after: 0, missing_router_after: 0, ..Config::default() });
        for interval in 0..1000 {
            path.on_code(None);
            congest(&mut path, interval);
        }
        for code in [LoadRegion::Low, LoadRegion::Over] {
            for interval in 1000..1100 {
                path.on_code(Some(code));
                congest(&mut path, interval);
            }
        }
        assert_eq!(path.trouble(), None);
    }
}
