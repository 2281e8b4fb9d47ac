//! The start of a flow: its rate before any feedback, and slow start.
//!
//! In the first round trip after the handshake the paper sends nothing but a probe, one packet divided into five chunks
//! (section 3.1), and asks for a third of the remembered rate (section 3.4). *Deviation*: a flow starts with more,
//! depending on its history:
//!
//! ```text
//! history               handshake          the flow starts with
//! a rate                did not wait       a third of that rate at once, and a train that asks for the rest
//! a rate                waited             ten packets per round trip, evenly spaced, and trains on top
//! no rate                                  the same, and grows like TCP's slow start while trains are rejected
//! a rate, of a flow in  waited             the same
//!   competitive mode
//! ```
//!
//! *A third at once* carries data in that round trip. The paper asks for no more than a third "to avoid the chance that
//! multiple hosts will simultaneously probe for, and seemingly acquire, the full link bandwidth". If it is too much,
//! compensation corrects it within a round trip, and the rejected train halves the trust and with it the next third.
//! Figure 4 at 0.15: 1.7 round trips above fair queueing's bound, 2.6 if the flow asks first.
//!
//! *Ten packets* is what TCP has sent by then (RFC 6928), here spread over the round trip. 25 kB (Figure 10) take 76
//! ms, and 125 ms with five chunks.
//!
//! *Slow start.* Where other flows keep a standing queue, all trains are rejected, and without history the length of
//! that queue is unknown. So that it gets a share beside TCP, it doubles its base rate every round trip, as TCP does
//! with HyStart++, up to the capacity that packet pairs show, until it is clear whether other flows reduce their rates:
//!
//! ```text
//! a train is granted 0.4 of the new rate, or       more rate is available, and trains find it faster
//!   a third of the capacity builds no queue
//! a loss, growing delays (`HyStart++`), or a       other flows do not reduce their rates: competitive mode
//!   queue that grew by twice an odd queue            starts with that CUBIC, after a loss with 0.7 of its window
//!   (`competitive`)
//! ```
//!
//! 3 MB without history beside one CUBIC take 0.8 to 1.2 times CUBIC's time with it, and 4 to 10 times without. With
//! the second line of the table 2 to 10 long flows lose 0 to 0.3% from the start, without it 0.5 to 0.9%. HyStart++
//! removes the harm to a long CUBIC (`studies/pcp/NOTES.md`).
//!
//! If all flows of a host to a destination share one macroflow, and the previous macroflow ended in competitive mode
//! within the last minute, the next one starts in competitive mode with the window that was left.
//!
//! *After idle time*, a case that the paper leaves open, a flow starts over with a third of the highest rate that it has
//! had since the last cut, and a train that asks for the rest; but with ten packets per round trip if it had them. A
//! third of the *last* rate would leave a flow of short requests with nothing: each pause that is longer than the
//! retransmission timeout, which is little more than a round trip, would take two thirds. With that rule `rsync` over
//! `ssh`, 100 files and 2 MB over 100 Mb/s and 10 ms, took 47 s; with this one it takes 0.74 s (`make bench-tunnel`).
//! Slow start goes on, as TCP's does (RFC 5681 section 4.1): an idle time teaches nothing about the path.
//!
//! *First windows.* Where each flow of the macroflow has a first window, `n` active flows have `n` times ten packets per
//! round trip, but no more than what is known of the path: the highest rate since the last cut or, if there was none,
//! the capacity that packet pairs show. After a cut since the start the flow keeps its rate.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::competitive::{self, ODD_QUEUE_FACTOR};
use super::config::{FIRST_SHARE, RESUME_WITHIN};
use super::search::Search;
use super::{Pcp, Phase};
use crate::cubic::Cubic;
use crate::{Ack, Controller, Loss, Notice, Path};

/// Slow start ends if the queue grew by this multiple of an odd queue (`competitive`).
const SLOW_START_QUEUE: f64 = 2.0;

/// A train that is granted this share of the new base rate shows that more rate is available.
pub(super) const GRANTED_SHARE: f64 = 0.4;

/// So does this share of the capacity, if it builds no queue.
const CAPACITY_SHARE: f64 = 1.0 / 3.0;

/// When the base rate was last cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Never,
    /// Before the flow started over after its last idle time.
    BeforeStart,
    SinceStart,
}

/// The rate that TCP would have by now, while the path is unknown.
#[derive(Debug, Clone)]
pub(super) struct SlowStart {
    cubic: Cubic,
    /// The handshake's wait, if known.
    handshake_wait: Duration,
}

impl SlowStart {
    /// The rate after this acknowledgement, at most `max`: a window that is not filled does not grow.
    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack<'_>, rtt: Duration, max: Rate) -> Rate {
        let app_limited = ack.app_limited || Rate::of(self.cubic.window(), rtt) >= max;
        self.cubic.grow(now, &Ack { app_limited, ..*ack });
        Rate::of(self.cubic.window(), rtt).min(max)
    }

    fn on_first_windows(&mut self, now: Time, flows: usize) {
        self.cubic.on_notice(now, Notice::FirstWindows(flows));
    }

    pub(super) fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.cubic.on_idle(now, idle, timeout);
    }

    pub(super) fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.cubic.on_packet_size(now, packet);
    }

    /// Ends slow start with this loss, and returns the CUBIC for competitive mode.
    pub(super) fn on_loss(mut self, now: Time, loss: &Loss) -> Cubic {
        self.cubic.on_loss(now, loss);
        self.cubic
    }
}

impl Pcp {
    /// Starts on `path`; `first` is the test rate that history gives.
    pub(super) fn begin(&mut self, now: Time, path: &Path, first: Rate) {
        let handshake_wait = self.path_history.past_rtt().map_or(Duration::ZERO, |past| path.rtt.saturating_sub(past));
        self.competitive = competitive::Competitive::new(now, self.packet);
        let idle = self.past_rtt().is_some_and(|max_rtt| path.rtt <= max_rtt);
        let idle_briefly = path.idle_for.is_some_and(|idle_for| idle_for <= RESUME_WITHIN);
        let past = self.path_history.past;
        if let Some(past) =
            past.filter(|past| idle_briefly && past.competitive_rate > Rate::ZERO && self.config.compete)
        {
            self.competitive.resume(now, past.competitive_rate.bytes_in(path.rtt), self.rtt);
        } else if let Some(past) = past.filter(|_| idle) {
            let base = first.max(self.first_rate());
            return self.restart(now, base, past.base_rate.saturating_sub(base));
        } else if past.is_none_or(|past| past.competing_traffic > 0.5) {
            let cubic = competitive::new_cubic(now, self.packet, Bytes::ZERO, self.rtt);
            self.slow_start = Some(SlowStart { cubic, handshake_wait }).filter(|_| self.config.compete);
        }
        let base = self.first_rate();
        self.restart(now, base, first.saturating_sub(base));
    }

    /// The first window per round trip, but at most a third of the path's known capacity.
    fn first_rate(&self) -> Rate {
        self.window_rate().min(self.path_history.capacity().map_or(Rate::MAX, |capacity| capacity.scale(FIRST_SHARE)))
    }

    /// The rate of a first window.
    fn window_rate(&self) -> Rate {
        Rate::of(self.packet, self.rtt).scale(self.config.first_window)
    }

    /// There are `flows` first windows.
    pub(super) fn use_first_windows(&mut self, now: Time, flows: usize) {
        self.competitive.on_first_windows(now, flows);
        if let Some(base) = self.competitive_base() {
            self.base = base;
            return;
        }
        if self.last_cut == Cut::SinceStart {
            return;
        }
        if let Some(slow_start) = &mut self.slow_start {
            slow_start.on_first_windows(now, flows);
        }
        let max = match self.last_cut {
            Cut::Never => self.path_history.capacity().unwrap_or(Rate::MAX),
            _ => self.reached,
        };
        let windows = self.window_rate().scale(flows as f64);
        self.base = self.base.max(windows.min(max).min(self.config.max_rate));
    }

    /// Ends slow start if the queue shows whether other flows reduce their rates.
    pub(super) fn end_slow_start(&mut self, now: Time) {
        let level = self.view.level;
        let has_share =
            self.path_history.capacity().is_some_and(|capacity| self.base >= capacity.scale(CAPACITY_SHARE));
        if has_share && level <= self.ceiling(self.base) {
            self.slow_start = None;
        }
        let max = self.ceiling_of_many_flows().scale(ODD_QUEUE_FACTOR * SLOW_START_QUEUE);
        let is_over = |slow_start: &mut SlowStart| {
            level > slow_start.handshake_wait + max || !slow_start.cubic.window.in_slow_start()
        };
        if let Some(slow_start) = self.slow_start.take_if(is_over) {
            self.enter_competitive_mode(now, slow_start.cubic);
        }
    }

    /// Starts over after idle time.
    pub(super) fn resume(&mut self, now: Time) {
        self.reached = self.reached.max(self.base);
        let ten_packets = self.first_rate().min(self.base);
        let base = self.reached.scale(FIRST_SHARE).max(ten_packets);
        self.restart(now, base, self.reached.saturating_sub(base));
    }

    /// Starts to search for more than `base`, with the test rate `first`.
    pub(super) fn restart(&mut self, now: Time, base: Rate, first: Rate) {
        self.base = self.competitive_base().unwrap_or(base.clamp(self.min_rate(), self.config.max_rate));
        self.last_cut = if self.last_cut == Cut::SinceStart { Cut::BeforeStart } else { self.last_cut };
        self.search = Search::new(first.max(self.min_probe()));
        self.pacer.reset(now);
        self.unanswered_trains = 0;
        self.phase = Phase::Waiting(now);
        self.poll(now);
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use crate::pcp::Config;
    use crate::pcp::probe::PairRate;
    use crate::pcp::tests::loss;
    use crate::testing::ack;
    use crate::{Algorithm, History};

    use super::*;

    const PACKET: Bytes = Bytes::new(1250);
    const RTT: Duration = Duration::from_millis(100);
    const PAST: Rate = Rate::from_bps(30_000_000);
    const CAPACITY: Rate = Rate::from_bps(40_000_000);
    const TEN_PACKETS: Rate = Rate::from_bps(1_000_000);

    fn past() -> History {
        History { capacity: CAPACITY, ..History::new(PAST, RTT) }
    }

    /// A flow that starts after `idle_for` and a handshake of `millis` milliseconds.
    fn started(past: Option<History>, idle_for: Option<Duration>, millis: u64) -> Pcp {
        let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
        let path = Path { idle_for, ..Path::new(PACKET, Duration::from_millis(millis), past) };
        pcp.on_path(Time::ZERO, &path);
        pcp
    }

    #[test]
    fn on_an_idle_path_a_flow_uses_a_third_and_asks_for_the_rest() {
        let pcp = started(Some(past()), None, 100);
        assert_eq!(pcp.base, PAST.scale(1.0 / 3.0));
        assert_eq!(pcp.pace(), PAST, "the train");
        assert_eq!(pcp.departure().bytes, PACKET);
    }

    #[test]
    fn a_flow_with_little_trust_starts_with_less() {
        let pcp = started(Some(History { trust: 0.5, ..past() }), None, 100);
        assert_eq!(pcp.base, PAST.scale(0.5 / 3.0));
    }

    #[test]
    fn on_a_busy_path_a_flow_starts_with_ten_packets() {
        for (past, slow_start) in
            [(None, true), (Some(past()), false), (Some(History { competing_traffic: 1.0, ..past() }), true)]
        {
            let pcp = started(past, None, 103);
            assert!((pcp.base.as_bps_f64() / TEN_PACKETS.scale(100.0 / 103.0).as_bps_f64() - 1.0).abs() < 1e-3);
            assert_eq!(pcp.slow_start.is_some(), slow_start, "{past:?}");
        }
    }

    #[test]
    fn a_loss_in_slow_start_starts_competitive_mode() {
        let mut pcp = started(None, None, 100);
        pcp.on_loss(Time::ZERO + RTT, &loss(PACKET));
        assert!(pcp.slow_start.is_none());
        assert_eq!(pcp.window(), PACKET * 7, "CUBIC keeps 0.7");
    }

    #[test]
    fn growing_delays_in_slow_start_start_competitive_mode() {
        let mut pcp = started(None, None, 100);
        pcp.slow_start.as_mut().unwrap().cubic.window.leave_slow_start();
        pcp.end_slow_start(Time::ZERO + RTT);
        assert!(pcp.slow_start.is_none());
        assert_eq!(pcp.window(), PACKET * 10);
    }

    /// Acknowledges ten packets in slow start.
    fn acknowledge(pcp: &mut Pcp, app_limited: bool) {
        for _ in 0..10 {
            pcp.on_ack(Time::ZERO + RTT, &Ack { delivered: PACKET, smoothed_rtt: RTT, app_limited, ..ack(1) });
        }
    }

    #[test]
    fn slow_start_doubles_the_rate_up_to_the_maximum() {
        let mut pcp = started(None, None, 100);
        acknowledge(&mut pcp, true);
        assert_eq!(pcp.base, TEN_PACKETS, "the application limits it");
        acknowledge(&mut pcp, false);
        assert_eq!(pcp.base, TEN_PACKETS.scale(2.0));
        pcp.config.max_rate = TEN_PACKETS.scale(2.5);
        (0..10).for_each(|_| acknowledge(&mut pcp, false));
        assert_eq!(pcp.base, TEN_PACKETS.scale(2.5));
        assert_eq!(pcp.slow_start.unwrap().cubic.window(), PACKET * 25, "a window that is not filled does not grow");
    }

    #[test]
    fn slow_start_counts_in_packets_of_the_new_size() {
        let mut pcp = started(None, None, 100);
        pcp.phase = Phase::Waiting(Time::MAX);
        pcp.on_packet_size(Time::ZERO, PACKET / 2);
        assert_eq!(pcp.slow_start.unwrap().cubic.departure().bytes, PACKET / 2);
    }

    #[test]
    fn a_third_of_the_capacity_without_a_queue_ends_slow_start() {
        // A packet takes 0.25 ms. The ceiling at 14 Mb/s is 3.3 (1 + 3 ln(40 / 14)) + 5 / 2 packets, 4.05 ms. That of one
        // of 50 flows is 3.3 (1 + 3 ln 50) + 5 / 2, 11.1 ms: a queue of 2.6 times that is another flow's.
        for (megabits, level, in_slow_start, competes) in [
            (13.3, 0.0, true, false),
            (13.4, 0.0, false, false),
            (14.0, 4.0, false, false),
            (14.0, 4.1, true, false),
            (1.0, 28.8, true, false),
            (1.0, 29.1, false, true),
        ] {
            let mut pcp = started(None, None, 100);
            pcp.path_history.on_pair(PairRate { rate: CAPACITY, weight: 1.0 });
            pcp.base = Rate::from_bps_f64(megabits * 1e6);
            pcp.view.level = Duration::from_secs_f64(level / 1e3);
            pcp.end_slow_start(Time::ZERO + RTT);
            assert_eq!(
                (pcp.slow_start.is_some(), pcp.competitive.is_on()),
                (in_slow_start, competes),
                "{megabits} Mb/s, {level} ms"
            );
        }
    }

    #[test]
    fn slow_start_starts_over_after_an_idle_time() {
        let mut pcp = started(None, None, 100);
        acknowledge(&mut pcp, false);
        assert_eq!(pcp.base, TEN_PACKETS.scale(2.0));
        pcp.on_idle(Time::ZERO + RTT * 20, RTT * 20, RTT * 2);
        assert_eq!(pcp.base, TEN_PACKETS);
        assert_eq!(pcp.slow_start.as_ref().unwrap().cubic.window(), PACKET * 10);
        (0..2).for_each(|_| acknowledge(&mut pcp, false));
        assert_eq!(pcp.base, TEN_PACKETS.scale(3.0));
    }

    #[test]
    fn first_windows_add_up_to_what_is_known_of_the_path() {
        let mut pcp = started(None, None, 100);
        pcp.on_notice(Time::ZERO, Notice::FirstWindows(3));
        assert_eq!(pcp.base, TEN_PACKETS.scale(3.0));
        assert_eq!(pcp.slow_start.as_ref().unwrap().cubic.window(), PACKET * 30);
        pcp.path_history.on_pair(PairRate { rate: TEN_PACKETS.scale(3.5), weight: 1.0 });
        pcp.on_notice(Time::ZERO, Notice::FirstWindows(6));
        assert_eq!(pcp.base, TEN_PACKETS.scale(3.5), "the capacity");

        pcp.cut(0.5);
        pcp.base = TEN_PACKETS.scale(4.0);
        pcp.on_idle(Time::ZERO + RTT * 20, RTT * 20, RTT * 2);
        pcp.on_notice(Time::ZERO + RTT * 20, Notice::FirstWindows(6));
        assert_eq!(pcp.base, TEN_PACKETS.scale(4.0), "the highest rate since the cut");
    }

    #[test]
    fn a_cut_ends_first_windows_until_the_next_idle_time() {
        let mut pcp = started(None, None, 100);
        pcp.cut(0.0);
        pcp.on_notice(Time::ZERO, Notice::FirstWindows(2));
        assert_eq!(pcp.base, TEN_PACKETS.scale(2.0), "a cut by nothing is none");
        pcp.cut(0.5);
        pcp.on_notice(Time::ZERO, Notice::FirstWindows(6));
        assert_eq!(pcp.base, TEN_PACKETS);
        pcp.base = TEN_PACKETS.scale(3.0);
        pcp.on_idle(Time::ZERO + RTT * 20, RTT * 20, RTT * 2);
        pcp.on_notice(Time::ZERO + RTT * 20, Notice::FirstWindows(2));
        assert_eq!(pcp.base, TEN_PACKETS.scale(2.0));
    }

    #[test]
    fn first_windows_add_up_in_competitive_mode() {
        let mut pcp = started(None, None, 100);
        pcp.enter_competitive_mode(Time::ZERO, competitive::new_cubic(Time::ZERO, PACKET, Bytes::ZERO, RTT));
        pcp.on_notice(Time::ZERO, Notice::FirstWindows(3));
        assert_eq!((pcp.window(), pcp.base), (PACKET * 30, TEN_PACKETS.scale(3.0 * competitive::SPACING)));
    }

    #[test]
    fn many_idle_times_cost_no_more_than_one() {
        let mut pcp = started(Some(past()), None, 100);
        pcp.base = Rate::from_bps(27_000_000);
        for n in 1..=20 {
            pcp.on_idle(Time::ZERO + RTT * 20 * n, RTT * 20, RTT * 2);
            assert_eq!((pcp.base, pcp.pace()), (Rate::from_bps(9_000_000), Rate::from_bps(27_000_000)));
        }
        pcp.cut(0.5);
        pcp.on_idle(Time::ZERO + RTT * 500, RTT * 20, RTT * 2);
        assert_eq!(pcp.base, Rate::from_bps(4_500_000), "a third of what is left after the cut");
    }

    #[test]
    fn idle_times_leave_ten_packets_to_a_flow_that_had_them() {
        let mut pcp = started(None, None, 100);
        pcp.base = TEN_PACKETS.scale(2.0);
        pcp.on_idle(Time::ZERO + RTT * 20, RTT * 20, RTT * 2);
        assert_eq!(pcp.base, TEN_PACKETS);
        pcp.cut(0.5);
        pcp.on_idle(Time::ZERO + RTT * 40, RTT * 20, RTT * 2);
        assert_eq!(pcp.base, TEN_PACKETS.scale(0.5));
    }

    #[test]
    fn a_drain_in_competitive_mode_keeps_the_window() {
        let competitive_rate =
            History { competing_traffic: 1.0, competitive_rate: Rate::from_bps(10_000_000), ..past() };
        let mut pcp = started(Some(competitive_rate), Some(RTT), 120);
        let (base, window, now) = (pcp.base, pcp.window(), Time::ZERO + Duration::from_millis(2500));
        assert!(pcp.drain.begin_by_clock(&Config::default(), now, RTT, RTT, 0.5).is_some());
        assert_eq!((pcp.pace(), pcp.window()), (base.scale(0.1), window));
    }

    #[test]
    fn on_a_thin_path_a_flow_starts_with_a_third_of_it() {
        let thin = Rate::from_bps(600_000);
        let pcp = started(Some(History { capacity: thin, ..History::new(thin, RTT) }), None, 120);
        assert_eq!(pcp.base, Rate::from_bps(200_000));
    }

    #[test]
    fn a_macroflow_resumes_competitive_mode_with_its_window() {
        let competitive_rate =
            History { competing_traffic: 1.0, competitive_rate: Rate::from_bps(10_000_000), ..past() };
        let soon = Some(Duration::from_secs(10));
        assert_eq!(started(Some(competitive_rate), soon, 120).window(), Bytes::new(150_000), "10 Mb/s for 120 ms");
        assert_eq!(started(Some(competitive_rate), Some(Duration::from_secs(61)), 120).window(), Bytes::MAX);
        assert_eq!(
            started(Some(competitive_rate), None, 120).window(),
            Bytes::MAX,
            "only a macroflow with all flows to the destination resumes"
        );
        assert_eq!(started(Some(past()), soon, 120).window(), Bytes::MAX, "one that was not in competitive mode");
    }

    #[test]
    fn a_macroflow_asks_for_as_much_as_its_flows() {
        let mut pcp = started(Some(past()), None, 100);
        let one = pcp.min_probe();
        pcp.on_notice(Time::ZERO, Notice::Flows(4));
        assert_eq!(pcp.min_probe().as_bps(), one.as_bps() * 4);
    }
}
