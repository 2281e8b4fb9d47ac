//! Resuming: what a macroflow begins with whose destination rested for a short while only.
//!
//! The paper asks for a third of the remembered rate first, "to avoid the chance that multiple hosts will simultaneously
//! probe for, and seemingly acquire, the full link bandwidth" (section 3.4), and nothing but probes leaves until the
//! answer is there. Where all flows of a host to a destination share one macroflow, none of them can be in each other's
//! way, and what the last one learnt is fresh, more is known before the first packet leaves:
//!
//! ```text
//! the last transfer      the handshake                  this one
//! competed               -                              competes, with the rate that the last one had
//! -                      did not wait                   has the third at once, and asks for all the rest
//! suspected rivals       waited longer than PCP lets be competes from its first packet, in slow start
//! -                      waited                         asks for a third, as ever; refused even the least, it has that
//! ```
//!
//! The third is what newcomers that probe at once are all granted too, a round trip later. Taken at once it is data for
//! that round trip, and one train instead of two finds the rest. Where it is wrong, compensation answers within a round
//! trip, and the first train fails, which halves the trust and with it the next third.

use rampmeter_units::{Rate, Time};

use super::search::Search;
use super::{Pcp, Phase, rivals};
use crate::Path;

impl Pcp {
    /// The base rate to begin with, if the path's history is fresh and nobody else seems to be there, and what to ask for;
    /// `first`, where nothing is known that would help. Begins to compete where others are there that don't make way.
    pub(super) fn resume(&mut self, path: &Path, first: Rate) -> (Option<Rate>, Rate) {
        let rested_briefly = path.rested.zip(self.config.resume).is_some_and(|(rested, longest)| rested <= longest);
        let past = self.memory.past().filter(|_| rested_briefly);
        self.resumes = past.is_some();
        let Some(past) = past else { return (None, first) };
        let waited = path.rtt.saturating_sub(past.min_rtt);
        if self.rivals.is_competing() {
            self.rivals.resume(past.competed.bytes_in(path.rtt), self.packet);
        } else if self.past_rtt().is_some_and(|longest| path.rtt <= longest) {
            let base = first.clamp(self.least(), self.config.fastest);
            return (Some(base), past.base_rate.saturating_sub(base));
        } else if self.config.compete && rivals::were_suspected(past.rivals) && waited > self.tolerated(past.base_rate)
        {
            self.rivals.meet(self.packet);
        }
        (None, first)
    }

    /// The base rate of a flow that competes.
    pub(super) fn competing_rate(&self) -> Option<Rate> {
        let rate = self.rivals.rate(self.packet, self.rtt)?;
        Some(rate.clamp(self.least(), self.config.fastest))
    }

    /// Begins to search for more than `base`, if there is one, with `first` to try.
    pub(super) fn restart(&mut self, now: Time, base: Option<Rate>, first: Rate) {
        self.base = self.competing_rate().or(base);
        self.search = Search::new(first);
        self.spacing.reset(now, self.config.slowest);
        self.unheard = 0;
        self.phase = Phase::Waiting(now);
        self.poll(now);
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Duration, Stream};

    use crate::pcp::Config;
    use crate::{Algorithm, Controller, History};

    use super::*;

    const PACKET: Bytes = Bytes::new(1250);
    const RTT: Duration = Duration::from_millis(100);
    const PAST: Rate = Rate::from_bps(30_000_000);
    const CAPACITY: Rate = Rate::from_bps(40_000_000);

    fn past() -> History {
        History { capacity: CAPACITY, ..History::new(PAST, RTT) }
    }

    /// A macroflow that begins after `rested` and a handshake that took `millis` of milliseconds.
    fn begun(config: &Config, past: History, rested: Option<Duration>, millis: u64) -> Pcp {
        let mut pcp = Pcp::new(config, Stream::from_seed(1));
        let path = Path { rested, ..Path::new(PACKET, Duration::from_millis(millis), Some(past)) };
        pcp.on_path(Time::ZERO, &path);
        pcp
    }

    const SOON: Option<Duration> = Some(Duration::from_secs(10));

    #[test]
    fn after_a_short_rest_the_third_is_there_at_once_and_the_first_train_asks_for_the_rest() {
        let pcp = begun(&Config::default(), past(), SOON, 100);
        assert_eq!(pcp.base, Some(PAST.scale(1.0 / 3.0)));
        assert_eq!(pcp.pace(), Some(PAST), "the train");
        assert_eq!(pcp.departure().bytes, PACKET);
    }

    #[test]
    fn a_history_that_was_wrong_is_resumed_with_less() {
        let pcp = begun(&Config::default(), History { trust: 0.5, ..past() }, SOON, 100);
        assert_eq!(pcp.base, Some(PAST.scale(0.5 / 3.0)));
    }

    #[test]
    fn a_long_rest_a_queue_flows_beside_or_the_paper_ask_before_anything_else() {
        let (ours, paper) = (Config::default(), Config::paper());
        let long = Some(Duration::from_secs(61));
        for (config, rested, millis) in
            [(&ours, long, 100), (&ours, SOON, 103), (&ours, None, 100), (&paper, SOON, 100)]
        {
            let pcp = begun(config, past(), rested, millis);
            assert_eq!((pcp.base, pcp.window()), (None, Bytes::MAX), "{rested:?} {millis}");
        }
    }

    #[test]
    fn who_competed_goes_on_with_what_it_had() {
        let competed = History { rivals: 1.0, competed: Rate::from_bps(10_000_000), ..past() };
        let mut pcp = begun(&Config::default(), competed, SOON, 120);
        assert_eq!(pcp.window(), Bytes::new(150_000), "10 Mb/s for 120 ms");
        pcp.rivals.on_ack(Bytes::new(15_000), PACKET);
        assert_eq!(pcp.window(), Bytes::new(150_125), "without slow start");
        let pcp = begun(&Config::default(), competed, None, 120);
        assert_eq!(pcp.window(), PACKET * 10, "of others' flows beside it, it knows nothing");
    }

    #[test]
    fn who_saw_others_not_make_way_and_waits_in_the_handshake_competes_at_once() {
        // A tenth of the link lets 1 + 10 ln 10 = 24 packets be: 6 ms.
        let base_rate = CAPACITY.scale(0.1);
        let window =
            |rivals, millis| begun(&Config::default(), History { base_rate, rivals, ..past() }, SOON, millis).window();
        assert_eq!(window(7.0 / 30.0, 107), PACKET * 10);
        assert_eq!(window(7.0 / 30.0, 105), Bytes::MAX, "a queue that PCP lets be");
        assert_eq!(window(6.0 / 30.0, 120), Bytes::MAX, "no clearing has failed");
    }

    #[test]
    fn a_macroflow_asks_for_as_much_as_its_flows_would() {
        let mut pcp = begun(&Config::default(), past(), SOON, 100);
        let one = pcp.least_probe();
        pcp.on_flows(4);
        assert_eq!(pcp.least_probe().as_bps(), one.as_bps() * 4);
        let mut newcomers = begun(&Config::default(), past(), None, 100);
        newcomers.on_flows(80);
        assert_eq!(newcomers.least_probe(), one, "which has to be granted before anything leaves");
    }
}
