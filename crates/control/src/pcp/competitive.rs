//! Competitive mode: beside flows that do not give way, PCP keeps the window that CUBIC would have (section 3.5).
//!
//! The paper's tit for tat divides rate compensation by ten while compensation does not shorten the queue. Many PCP flows
//! that compensate together look the same to each of them, and then run the queue away. Two facts tell TCP apart instead:
//! a queue that does not fall although every PCP flow would make it fall, and how long it is. It is *odd* where no crowd of
//! PCP flows keeps a queue as long (`ODD` times the ceiling of 50 flows, see `judgement`).
//!
//! ```text
//! score   each round trip whose shortest wait is above the flow's target and not shorter than the one before: 1 point,
//!         if it is odd: 2; any other round trip: back to 0. A drain that failed: ENTRY points, if the flow has lost half of
//!         its rate since the queue was last as short as its target, or never saw it so short
//! enter   at ENTRY points, or from slow start (`start`), which ends with a loss, delays that grow or an odd queue
//! leave   in a drain: the shortest wait is a third of that before it and of what is odd, or less
//!         else: the shortest wait is the target or less, and nothing was lost to a queue for three round trips
//!         at any time: the flow has most of the link
//! ```
//!
//! In competitive mode a CUBIC of our own (RFC 9438) sees every acknowledgement and loss, and its window is the flow's. It
//! begins in slow start with ten packets or what the flow had when the score was last 0, and leaves it where delays begin
//! to grow (HyStart++). PCP sends no probes meanwhile and compensates for nothing. A flow that leaves keeps `KEPT` of its
//! rate, so that flows that took each other for TCP do not fill the link again at once.
//!
//! *Where TCP and short transfers share a slow link* the queue rises and falls all the time, and no twelve round trips in a
//! row show one that does not fall. The flow's rate falls with every round trip meanwhile, to a tenth and less. There a drain
//! shows them, because no other flow takes part in it. It alone is not enough: 50 PCP flows that start together fail to drain
//! their queue at first, and would compete for good (7% lost). But their rates do not fall for long. 250 kB on ten paths
//! beside up to three long CUBIC flows and web traffic (`paths.toml`, simulated, two seeds) take 2.8 s, 6.0 s without this
//! rule, and CUBIC takes 2.1 s.
//!
//! *Flows that take each other for TCP* would compete for ever. So all that compete drain the queue at the same moments of
//! the clock (`drain`). Where all are PCP this shortens the queue to less than a third, and all leave. Beside TCP it takes
//! away three fifths of the queue at most, and the flow goes on.
//!
//! Without a drain a queue that falls does not say that it is PCP that drains it: CUBIC's window falls by three tenths with
//! every loss, and behind a buffer of 0.4 round trips or less that empties the queue. A flow that leaves then has to enter
//! again, which takes many round trips on a deep buffer: 30 MB on `today.toml`'s DSL path beside one CUBIC did not end
//! within three minutes.
//!
//! *What the numbers weigh* (simulated; `today.toml` with 30 MB beside one CUBIC without and with history, one seed,
//! geometric means over CUBIC's time; loss on Figure 4's network at 0.90, worst of two or three seeds):
//!
//! ```text
//! design                                                        beside CUBIC   worst        at 0.90
//! no competitive mode                                           not run        80           0.03%
//! leaves when the queue falls by a tenth                        1.03, 0.97     unfinished   0.33%
//! leaves when it is half as long as odd                         0.93, 0.87     3.0          0.56%   50 flows do not leave
//! the same, and slow start goes over into competitive mode      0.84, 0.81     3.0          1.1%    the same
//! the same, and drains 2.5 s after the last empty queue         0.86, 0.83     unfinished   1.0%    they leave
//! the same, drains by the clock, a standing queue scores too    0.84, 0.79     1.8          1.0%
//! the same, the handshake alone does not decide, a history of
//!   one that left is not competitive                            0.85, 0.79     1.6          0.13%
//! the same, leaves with all of the link, slow start within
//!   the capacity                                                0.87, 0.83     2.1          0.12%
//! the same, leaves when it is a third of odd                    0.86, 0.79     1.6          0.28%
//! the same, also enters when its rate halved in 12 round trips
//!   above the target, falling or not                            0.82           1.3          0.94%
//! HyStart++, short drains, a queue that fell with a loss does not
//!   end it, nor does a handshake begin it                       0.82, 0.78     1.3          0.04%
//! the same, and a drain that fails starts it (this design)      0.83, 0.78     1.3          0.30%   three seeds, beside CUBIC
//! ```

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use super::{Pcp, Phase};
use crate::cubic::{self, Cubic};
use crate::{Ack, Algorithm, Controller, Loss, Path};

/// A queue is odd from so many times the ceiling of a crowd on.
pub(super) const ODD_QUEUE_FACTOR: f64 = 1.3;

/// Points with which a flow enters: six round trips with an odd queue, or twelve with one above its target. 18 and 20
/// leave 30 MB on deep buffers unfinished.
const ENTRY_SCORE: u32 = 12;

/// What a round trip with an odd queue counts.
const ODD_QUEUE_POINTS: u32 = 2;

/// A flow starves at this part of the rate that it had when the queue was short.
const HALVED_RATE: f64 = 0.5;

/// A wait that is at least this part of an earlier one did not fall.
const NOT_FALLING: f64 = 0.97;

/// A flow leaves where the shortest wait is no more than this part of an odd one, or of that before its drain.
const EXIT_SHARE: f64 = 0.35;

/// For so many round trips after a loss a queue that fell does not count: TCP may have lowered its window.
const ROUNDS_AFTER_LOSS: u64 = 3;

/// A flow that carries this part of the capacity has nobody to compete with.
const WHOLE_LINK: f64 = 0.8;

/// What a flow that leaves keeps of its rate.
const RATE_KEPT_ON_EXIT: f64 = 0.7;

/// A round takes so long at least.
const MIN_ROUND: Duration = Duration::from_millis(20);

/// Packets are spaced to leave a window in less than a round trip, so that the window decides.
pub(super) const SPACING: f64 = 1.2;

/// The first window, in packets (RFC 6928).
pub(super) const FIRST_WINDOW: u64 = 10;

/// What a round trip shows of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueObservation {
    /// Its shortest wait.
    pub(super) min_wait: Duration,
    /// The queue that the flow aims at.
    pub(super) target: Duration,
    /// Waits beyond this are odd.
    pub(super) odd_wait: Duration,
    /// The flow's base rate.
    pub(super) base: Rate,
    /// The path's capacity, as far as is known.
    pub(super) capacity: Option<Rate>,
    /// The smoothed round trip.
    pub(super) rtt: Duration,
    /// The shortest wait before a drain in competitive mode, if this round trip shows its effect.
    pub(super) wait_before_drain: Option<Duration>,
    /// A drain out of competitive mode has just left most of the queue.
    pub(super) drain_failed: bool,
}

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Entered,
    Exited,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Competitive {
    packet: Bytes,
    cubic: Option<Cubic>,
    score: u32,
    /// When a packet was last lost to a queue.
    lost_at: Option<Time>,
    round_began: Time,
    round_until: Time,
    /// Delivered in this round.
    delivered: Bytes,
    /// The shortest wait of the last round.
    last_wait: Duration,
    /// The base rate when the score was last 0.
    cooperative_rate: Rate,
    /// The base rate when the queue was last as short as the target; none if it never was.
    rate_at_target: Option<Rate>,
}

impl Competitive {
    /// A path with packets of `packet`.
    pub(super) fn new(now: Time, packet: Bytes) -> Self {
        Self { packet, round_began: now, round_until: now, ..Self::default() }
    }

    /// Goes on at once with a window of `had`, which an earlier transfer found by its losses: without slow start.
    pub(super) fn resume(&mut self, now: Time, window: Bytes, rtt: Duration) {
        let mut cubic = new_cubic(now, self.packet, window, rtt);
        cubic.leave_slow_start();
        self.take_over(now, cubic, rtt);
    }

    /// Goes on with `tcp`, wherever it is.
    pub(super) fn take_over(&mut self, now: Time, cubic: Cubic, rtt: Duration) {
        self.cubic = Some(cubic);
        self.begin_round(now, rtt, Duration::ZERO);
    }

    /// Nothing was sent for `idle`, longer than `timeout`.
    pub(super) fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration, rtt: Duration) {
        self.score = 0;
        self.begin_round(now, rtt, Duration::ZERO);
        if let Some(cubic) = &mut self.cubic {
            cubic.on_idle(now, idle, timeout);
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.cubic.is_some()
    }

    /// The last round trip.
    pub(super) fn observe(&mut self, now: Time, observation: &QueueObservation) -> Change {
        let is_over = now >= self.round_until;
        if observation.min_wait <= observation.target {
            self.rate_at_target = Some(observation.base);
        }
        let change = if self.is_on() {
            self.exit(now, observation, is_over)
        } else {
            let rate_halved = self.rate_at_target.is_none_or(|rate| observation.base <= rate.scale(HALVED_RATE));
            self.score += if observation.drain_failed && rate_halved { ENTRY_SCORE } else { 0 };
            self.update_score(observation, is_over);
            self.enter(now, observation)
        };
        if is_over || change != Change::Nothing {
            self.begin_round(now, observation.rtt, observation.min_wait);
        }
        change
    }

    fn begin_round(&mut self, now: Time, rtt: Duration, last_wait: Duration) {
        (self.round_began, self.round_until) = (now, now + rtt.max(MIN_ROUND));
        (self.last_wait, self.delivered) = (last_wait, Bytes::ZERO);
    }

    /// Whether the last round trip says that others do not give way.
    fn update_score(&mut self, observation: &QueueObservation, is_over: bool) {
        if observation.min_wait <= observation.target
            || (is_over && observation.min_wait < self.last_wait.scale(NOT_FALLING))
        {
            self.score = 0;
        } else if is_over {
            self.score += if observation.min_wait > observation.odd_wait { ODD_QUEUE_POINTS } else { 1 };
        }
        if self.score == 0 {
            self.cooperative_rate = observation.base;
        }
    }

    fn enter(&mut self, now: Time, observation: &QueueObservation) -> Change {
        if self.score < ENTRY_SCORE {
            return Change::Nothing;
        }
        let window = self.cooperative_rate.max(observation.base).bytes_in(observation.rtt);
        self.cubic = Some(new_cubic(now, self.packet, window, observation.rtt));
        Change::Entered
    }

    fn exit(&mut self, now: Time, observation: &QueueObservation, is_over: bool) -> Change {
        let delivered = Rate::of(self.delivered, now.since(self.round_began));
        let has_whole_link =
            is_over && observation.capacity.is_some_and(|capacity| delivered >= capacity.scale(WHOLE_LINK));
        let lost_recently = self.lost_at.is_some_and(|at| now.since(at) < observation.rtt * ROUNDS_AFTER_LOSS);
        let others_reduce_rate = match observation.wait_before_drain {
            Some(before) if before > observation.target => {
                observation.min_wait <= before.min(observation.odd_wait).scale(EXIT_SHARE)
            }
            _ => observation.min_wait <= observation.target && !lost_recently,
        };
        if !has_whole_link && !others_reduce_rate {
            return Change::Nothing;
        }
        (self.cubic, self.score, self.rate_at_target) = (None, 0, Some(observation.base.scale(RATE_KEPT_ON_EXIT)));
        Change::Exited
    }

    /// How much may be in flight, in competitive mode.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.cubic.as_ref().map(Controller::window)
    }

    /// The rate at which packets of that window are spaced.
    pub(super) fn rate(&self, rtt: Duration) -> Option<Rate> {
        self.window().map(|window| Rate::of(window, rtt).scale(SPACING))
    }

    /// Of a flow that may not fill its window if `is_drained`: the window does not grow then.
    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack<'_>, is_drained: bool) {
        self.delivered += ack.delivered;
        if let Some(cubic) = &mut self.cubic {
            cubic.grow(now, &Ack { app_limited: ack.app_limited || is_drained, ..*ack }); // marks are nothing to it
        }
    }

    /// A packet was lost: to a queue if `is_queue`, else by chance.
    pub(super) fn on_loss(&mut self, now: Time, loss: &Loss, is_queue: bool) {
        self.lost_at = if is_queue { Some(now) } else { self.lost_at };
        if let Some(cubic) = &mut self.cubic {
            cubic.on_loss(now, loss);
        }
    }
}

impl Pcp {
    /// Section 3.5: whether there are others that do not give way, and the rate beside them.
    pub(super) fn update_competitive_mode(&mut self, now: Time) {
        let odd_wait = self.ceiling_of_many_flows().scale(ODD_QUEUE_FACTOR);
        let (min_wait, target, capacity) = (self.view.min_wait, self.target(self.base), self.path_history.capacity());
        let observation = QueueObservation {
            min_wait,
            target,
            odd_wait,
            base: self.base,
            capacity,
            rtt: self.rtt,
            wait_before_drain: self.drain.wait_before_drain(now),
            drain_failed: self.drain.take_failed_drain(now),
        };
        match self.competitive.observe(now, &observation) {
            Change::Exited => {
                self.base = self.base.scale(RATE_KEPT_ON_EXIT).max(self.min_rate());
                self.compensation.on_cut(now, 1.0 - RATE_KEPT_ON_EXIT);
                self.drain.restart(now, min_wait);
                self.phase = Phase::Waiting(self.drain.until().unwrap_or(now).max(now + self.rtt));
            }
            Change::Entered => self.phase = Phase::Waiting(now + self.rtt),
            Change::Nothing => {}
        }
        self.base = self.competitive_base().unwrap_or(self.base);
        self.path_history.on_competitive(self.competitive.window().map(|window| Rate::of(window, self.rtt)));
    }

    /// Slow start goes over into competitive mode. A train that is under way is given up.
    pub(super) fn enter_competitive_mode(&mut self, now: Time, cubic: Cubic) {
        self.competitive.take_over(now, cubic, self.rtt);
        self.phase = Phase::Waiting(now + self.rtt);
    }

    /// The part of the capacity that the window takes.
    pub(super) fn capacity_share(&self) -> f64 {
        let rate = Rate::of(self.competitive.window().unwrap_or(Bytes::ZERO), self.rtt).as_bps_f64();
        self.path_history.capacity().map_or(1.0, |capacity| (rate / capacity.as_bps_f64()).clamp(0.01, 1.0))
    }

    /// The base rate of a flow in competitive mode.
    pub(super) fn competitive_base(&self) -> Option<Rate> {
        let rate = self.competitive.rate(self.rtt)?;
        Some(rate.clamp(self.min_rate(), self.config.fastest))
    }
}

/// A CUBIC in slow start, with `had` in flight or ten packets.
pub(super) fn new_cubic(now: Time, packet: Bytes, window: Bytes, rtt: Duration) -> Cubic {
    let initial_window = (window.as_u64() / packet.as_u64().max(1)).max(FIRST_WINDOW);
    let config = cubic::Config { initial_window, hystart: true, ..cubic::Config::default() };
    let mut cubic = Cubic::new(&config, Stream::from_seed(0)); // it draws nothing
    cubic.on_path(now, &Path::new(packet, rtt, None));
    cubic
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(20);
    /// Twenty packets a round trip.
    const BASE: Rate = Rate::from_bps(8_000_000);

    /// A round trip at `at` milliseconds whose shortest wait is `wait` milliseconds, where 2 are the target and 10 odd.
    fn observe(competitive: &mut Competitive, at: u64, wait: f64) -> Change {
        observe_drain(competitive, at, wait, None)
    }

    /// The same in a drain before which the shortest wait was `before` milliseconds.
    fn observe_drain(competitive: &mut Competitive, at: u64, wait: f64, before: Option<u64>) -> Change {
        competitive.observe(
            ms(at),
            &QueueObservation { wait_before_drain: before.map(Duration::from_millis), ..observation(wait) },
        )
    }

    fn observation(wait: f64) -> QueueObservation {
        let min_wait = Duration::from_secs_f64(wait / 1e3);
        let (target, odd_wait) = (Duration::from_millis(2), Duration::from_millis(10));
        let capacity = Some(BASE.scale(10.0));
        let (wait_before_drain, drain_failed) = (None, false);
        QueueObservation { min_wait, target, odd_wait, base: BASE, capacity, rtt: RTT, wait_before_drain, drain_failed }
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    fn entered_after(waits: &[f64]) -> Option<usize> {
        let mut competitive = Competitive::new(Time::ZERO, PACKET);
        observe(&mut competitive, 0, 1.0);
        waits.iter().enumerate().find_map(|(round, wait)| {
            let change = observe(&mut competitive, 20 * (round as u64 + 1), *wait);
            (change == Change::Entered).then_some(round + 1)
        })
    }

    /// A flow that entered at 120 ms.
    fn entered() -> Competitive {
        let mut competitive = Competitive::new(Time::ZERO, PACKET);
        observe(&mut competitive, 0, 1.0);
        (1..7).for_each(|round| assert_eq!(observe(&mut competitive, 20 * round, 11.0) == Change::Entered, round == 6));
        competitive
    }

    #[test]
    fn a_queue_that_does_not_fall_starts_it_sooner_if_it_is_odd() {
        assert_eq!(entered_after(&[11.0; 9]), Some(6));
        assert_eq!(entered_after(&[9.0; 15]), Some(12));
        assert_eq!(entered_after(&[2.0; 15]), None, "that is the target");
        assert_eq!(entered_after(&[19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0]), None, "others drain it");
        assert_eq!(entered_after(&[11.0, 11.0, 11.0, 10.5, 11.0, 11.0, 11.0]), None, "it fell once");
    }

    #[test]
    fn a_drain_that_fails_starts_it_where_the_flow_starves() {
        let fails = |before: &[f64], wait, base: f64| {
            let mut competitive = Competitive::new(Time::ZERO, PACKET);
            before
                .iter()
                .zip(0..)
                .for_each(|(wait, at)| assert_eq!(observe(&mut competitive, at, *wait), Change::Nothing));
            let observation = QueueObservation { drain_failed: true, base: BASE.scale(base), ..observation(wait) };
            competitive.observe(ms(100), &observation) == Change::Entered
        };
        assert!(fails(&[], 8.0, 1.0), "it never saw a short queue");
        assert!(!fails(&[], 2.0, 1.0), "the queue is as short as it should be");
        assert!(!fails(&[2.0], 8.0, 0.51) && fails(&[2.0], 8.0, 0.5), "half of its rate");
    }

    #[test]
    fn a_flow_that_enters_keeps_what_it_had_before_the_queue() {
        assert_eq!(entered().window(), Some(PACKET * 20));
    }

    #[test]
    fn a_drain_that_leaves_a_third_of_the_queue_ends_competition() {
        let exits = |wait, before| observe_drain(&mut entered(), 140, wait, Some(before)) == Change::Exited;
        assert!(!exits(3.6, 20) && exits(3.5, 20), "of what is odd");
        assert!(!exits(1.5, 4) && exits(1.4, 4), "of what there was");
        assert_eq!(observe_drain(&mut entered(), 130, 3.5, Some(20)), Change::Exited, "within a round");
    }

    #[test]
    fn without_a_drain_only_an_empty_queue_ends_competition() {
        assert_eq!(observe(&mut entered(), 140, 2.1), Change::Nothing);
        assert_eq!(observe(&mut entered(), 140, 2.0), Change::Exited);
    }

    #[test]
    fn a_queue_that_is_empty_after_a_loss_does_not_end_competition() {
        let lost = |to_a_queue| {
            let mut competitive = entered();
            competitive.on_loss(ms(140), &crate::pcp::tests::loss(PACKET), to_a_queue);
            competitive
        };
        assert_eq!(observe(&mut lost(true), 199, 0.0), Change::Nothing, "others lost packets, too");
        assert_eq!(observe(&mut lost(true), 200, 0.0), Change::Exited, "three round trips are over");
        assert_eq!(observe_drain(&mut lost(true), 150, 0.0, Some(20)), Change::Exited, "a drain says more");
        assert_eq!(
            observe_drain(&mut lost(true), 150, 0.0, Some(2)),
            Change::Nothing,
            "unless the queue was empty before"
        );
        assert_eq!(observe(&mut lost(false), 150, 0.0), Change::Exited, "lost by chance");
    }

    #[test]
    fn a_flow_that_has_all_of_the_link_leaves() {
        let carried = |packets| {
            let mut competitive = entered();
            competitive.on_ack(ms(130), &crate::testing::ack(packets), false);
            observe(&mut competitive, 140, 15.0)
        };
        assert_eq!(carried(159), Change::Nothing);
        assert_eq!(carried(160), Change::Exited, "0.8 of 200 packets a round trip");
    }

    #[test]
    fn its_window_does_not_grow_while_the_queue_is_drained() {
        let mut competitive = entered();
        let window = competitive.window();
        (0..10).for_each(|_| competitive.on_ack(Time::ZERO + RTT, &crate::testing::ack(1), true));
        assert_eq!(competitive.window(), window);
    }

    #[test]
    fn its_window_doubles_in_a_round_trip_unless_it_resumed() {
        let window = |mut competitive: Competitive| {
            (0..10).for_each(|_| competitive.on_ack(Time::ZERO + RTT, &crate::testing::ack(1), false));
            competitive.window()
        };
        assert!(window(entered()) > Some(PACKET * 25));
        let mut resumed = Competitive::new(Time::ZERO, PACKET);
        resumed.resume(Time::ZERO, PACKET * 30, RTT);
        assert!(window(resumed) < Some(PACKET * 32));
    }

    #[test]
    fn delays_that_grow_end_its_slow_start_before_a_loss() {
        let ends = |longer: u64| {
            let mut cubic = new_cubic(Time::ZERO, PACKET, PACKET * 20, RTT);
            for at in 1..1000 {
                let rtt = Some(RTT + Duration::from_millis(if at > 100 { longer } else { 0 }));
                cubic.on_ack(ms(at), &Ack { rtt, ..crate::testing::ack(1) });
            }
            !cubic.in_slow_start()
        };
        assert!(ends(5) && !ends(3), "RFC 9406: from 4 ms on");
    }
}
