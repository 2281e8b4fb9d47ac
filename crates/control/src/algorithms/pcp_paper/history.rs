//! The first test rate of a flow, and the history that it leaves for the next one (sections 3.3 and 3.4).
//!
//! A prediction is accurate if the base rate reached it before the end of the flow. Whether the first probe was accepted
//! says less about the path: with other traffic that is often chance.

use rampmeter_units::{Duration, Rate};

use super::Config;
use super::config::FIRST_TEST;
use crate::{History, Path};

/// Weight of a new flow in the remembered base rate. The paper gives no number.
const GAIN: f64 = 0.25;

/// The minimum trust. It only keeps the product above zero.
const MIN_TRUST: f64 = 1e-6;

#[derive(Debug, Clone, Default)]
pub(super) struct PathHistory {
    past: Option<History>,
    /// The first test rate: the prediction, if there is a history.
    first_test: Rate,
    /// The highest base rate.
    max_base: Rate,
}

impl PathHistory {
    /// Starts a flow on `path`. Also returns its first test rate.
    pub(super) fn new(config: &Config, path: &Path) -> (Self, Rate) {
        let past = match config.rigged {
            Some(rate) => Some(History::new(rate, path.rtt)), // section 4.2.3
            None => path.history.filter(|past| past.base_rate > Rate::ZERO),
        };
        let test = match past {
            Some(past) => past.base_rate.scale(FIRST_TEST * trust(past)), // section 3.4
            None => Rate::of(path.packet * 2, path.rtt),                  // section 3.3
        };
        (Self { past, first_test: test, ..Self::default() }, test)
    }

    /// A probe was accepted; `base` is the base rate after it.
    pub(super) fn on_accepted(&mut self, base: Rate) {
        self.max_base = self.max_base.max(base);
    }

    /// Writes the history at the end of the flow.
    pub(super) fn remember(&self, min_rtt: Duration, history: &mut Option<History>) {
        if self.max_base == Rate::ZERO {
            return; // no probe was accepted
        }
        let past = history.unwrap_or_else(|| History::new(self.max_base, min_rtt));
        let trust = match self.past {
            Some(_) if self.max_base >= self.first_test => (trust(past) * 2.0).min(1.0),
            Some(_) => trust(past) * 0.5,
            None => trust(past),
        };
        let base_rate = past.base_rate.scale(1.0 - GAIN) + self.max_base.scale(GAIN);
        *history = Some(History { base_rate, trust, ..past });
    }
}

fn trust(past: History) -> f64 {
    if past.trust >= MIN_TRUST { past.trust.min(1.0) } else { MIN_TRUST } // also if it is not a number
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Bytes;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn mbps(n: u64) -> Rate {
        Rate::from_bps(n * 1_000_000)
    }

    /// A flow that reaches `max_base`. Returns its first test rate.
    fn flow(history: &mut Option<History>, max_base: Rate) -> Rate {
        let (mut path_history, first) =
            PathHistory::new(&Config::default(), &Path::new(Bytes::new(1250), RTT, *history));
        path_history.on_accepted(max_base);
        path_history.on_accepted(max_base.scale(0.1));
        path_history.remember(RTT, history);
        first
    }

    #[test]
    fn the_first_test_halves_when_wrong_and_doubles_when_right() {
        let mut history = None;
        flow(&mut history, mbps(24));
        let trusts = [7, 4, 24, 24, 24].map(|max_base| {
            flow(&mut history, mbps(max_base));
            history.unwrap().trust
        });
        // Tests of 24 / 3, of (24 3 + 7) / 4 / 3 / 2 = 3.3, and so on.
        assert_eq!(trusts, [0.5, 1.0, 1.0, 1.0, 1.0]);
        let mut history = Some(History { trust: 0.125, ..History::new(mbps(24), RTT) });
        assert_eq!([24, 24, 24, 24, 24].map(|max_base| flow(&mut history, mbps(max_base))), [1, 2, 4, 8, 8].map(mbps));
    }

    #[test]
    fn the_remembered_rate_is_a_running_mean() {
        let mut history = None;
        flow(&mut history, mbps(40));
        flow(&mut history, mbps(20));
        assert_eq!(history.unwrap().base_rate, mbps(35));
    }
}
