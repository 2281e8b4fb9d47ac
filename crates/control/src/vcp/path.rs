//! Whether the path carries VCP's codes, and whether anyone on it writes them. The paper's networks do both; real ones may
//! not. A sender that took silence for low load would grow by a part of its window whatever happens to others.
//!
//! - A path **bleaches** that clears the two bits: packets that left with a code arrive with `00`, which no router writes
//!   (RFC 3168 section 5 forbids it, some do it). So many in a row are taken for it, and so many with a code in a row for
//!   its end.
//! - Nobody **has spoken** while no packet ever arrived with high load, or none with anything else. A VCP router says high
//!   before it is overloaded; one that marks as RFC 3168 has it never does, and a path that sets all codes to one says high
//!   always or never. Losses and overloads that come first tell that nobody on the path speaks of its load.
//!
//! In both cases the sender is TCP until it finds otherwise. Marks are believed all the same: a classic router's
//! `11` is overload by VCP's reading too. So a path that sets all codes to `11` leaves a packet a round trip, as it does of
//! any sender that heeds ECN: it looks as a router does that has more flows than packets fit.

use rampmeter_units::LoadRegion;

use super::Config;

/// Why a sender can't do as VCP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The path clears codes.
    Bleached,
    /// Congestion comes from where no VCP router is.
    Unheard,
}

impl Trouble {
    /// What is wrong, and what the sender does about it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Bleached => "the path clears ECN codes; sends as TCP does until they come back",
            Self::Unheard => {
                "congestion of which no VCP router tells, or only in other codes than ours; sends as TCP does until one does"
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct PathCheck {
    bleached_after: u64,
    unheard_after: u64,
    bleached: bool,
    /// Packets in a row that contradict `bleached`.
    contradicting: u64,
    /// High load was told at least once.
    heard_high: bool,
    /// Low load was, or overload.
    heard_other: bool,
    /// Losses and overloads before that.
    congestions: u64,
}

impl PathCheck {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            bleached_after: config.bleached_after,
            unheard_after: config.unheard_after,
            bleached: false,
            contradicting: 0,
            heard_high: false,
            heard_other: false,
            congestions: 0,
        }
    }

    /// A packet arrived with the code of `region`, or none.
    pub(super) fn on_code(&mut self, region: Option<LoadRegion>) {
        match region {
            Some(LoadRegion::High) => self.heard_high = true,
            Some(LoadRegion::Low | LoadRegion::Over) => self.heard_other = true,
            None => {}
        }
        if region.is_none() == self.bleached {
            self.contradicting = 0;
            return;
        }
        self.contradicting += 1;
        if self.contradicting == self.bleached_after {
            self.bleached = !self.bleached;
            self.contradicting = 0;
        }
    }

    /// A loss or an overload was answered. While codes are cleared nobody could have told of it.
    pub(super) fn on_congestion(&mut self) {
        self.congestions += u64::from(!self.bleached);
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        if self.bleached {
            Some(Trouble::Bleached)
        } else if !(self.heard_high && self.heard_other)
            && self.unheard_after > 0
            && self.congestions >= self.unheard_after
        {
            Some(Trouble::Unheard)
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
        for trouble in [None, None, Some(Trouble::Unheard)] {
            path.on_code(Some(LoadRegion::Low));
            path.on_congestion();
            assert_eq!(path.trouble(), trouble);
        }
        path.on_code(Some(LoadRegion::Over));
        assert_eq!(path.trouble(), Some(Trouble::Unheard));
        path.on_code(Some(LoadRegion::High));
        for _ in 0..10 {
            path.on_congestion();
        }
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn who_says_high_load_and_nothing_else_says_nothing() {
        let mut path = check();
        path.on_code(Some(LoadRegion::High));
        for trouble in [None, None, Some(Trouble::Unheard)] {
            path.on_congestion();
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
        for _ in 0..10 {
            path.on_congestion();
        }
        for _ in 0..8 {
            path.on_code(Some(LoadRegion::Low));
        }
        assert_eq!(path.trouble(), None);
    }

    #[test]
    fn zero_means_never() {
        let mut path = PathCheck::new(&Config { bleached_after: 0, unheard_after: 0, ..Config::default() });
        for _ in 0..1000 {
            path.on_code(None);
            path.on_congestion();
        }
        assert_eq!(path.trouble(), None);
    }
}
