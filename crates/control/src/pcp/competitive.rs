//! Competitive mode: beside flows that do not give way, PCP keeps the window that CUBIC would have (section 3.5).
//!
//! The paper's tit for tat divides rate compensation by ten while compensation does not shorten the queue. Many PCP flows
//! that compensate together look the same to each of them, and then run the queue away. Two facts tell TCP apart instead:
//! a queue longer than any crowd of PCP flows keeps (*odd*: `ODD` times the ceiling of 50 flows, see `judgement`), and that
//! it does not fall, because PCP flows drain such a queue within a few round trips.
//!
//! ```text
//! enter   a new flow whose handshake waited that long: its first packet, a round trip later, waited no less
//!         any flow: ENTRY round trips in a row whose shortest waits are odd, none shorter than the one before
//! leave   the shortest wait of a round trip is a tenth below that of the one before, or no longer odd by half
//! ```
//!
//! In competitive mode a CUBIC of our own (RFC 9438) sees every acknowledgement and loss, and its window is the flow's. It
//! begins in slow start, with ten packets or what the flow had when the queue was last its own kind's. PCP sends no probes
//! meanwhile and compensates for nothing. A flow that leaves keeps `KEPT` of its rate, so that flows that took each other
//! for TCP do not fill the link again at once.
//!
//! *What the numbers weigh* (simulated; `today.toml` beside one CUBIC without and with history, one seed, geometric means
//! over CUBIC's time; loss on Figure 4's network at 0.90, two seeds, and of 50 flows that start together, three):
//!
//! ```text
//! entry                                            beside CUBIC     at 0.90    50 flows
//! no competitive mode                              up to 80 times   0.03%      not run
//! 4 round trips, ODD 1.5                           1.07, 0.98       1.1%       1.8%
//! the same without slow start for late entries     1.14, 1.13       0.8%       0.9%
//! the same, and all drain at each wall-clock second 1.06, 1.00      0.9%       1.4%
//! 6 round trips, ODD 1.3                           1.03, 0.98       0.4%       0.9%
//! ```
//!
//! With the last of these 3 MB still take 2 to 2.7 times CUBIC's time on the worst path. A queue that falls ends the
//! competition, so that a drain that all share by the clock is not needed.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use crate::cubic::{self, Cubic};
use crate::{Ack, Algorithm, Controller, Loss, Path};

/// A queue is odd from so many times the ceiling of a crowd on.
pub(super) const ODD: f64 = 1.3;

/// Round trips with an odd queue after which a flow competes.
const ENTRY: u32 = 6;

/// A wait that is at least this part of an earlier one did not fall.
const STEADY: f64 = 0.97;

/// A shortest wait that is no more than this part of the last round trip's fell.
const FELL: f64 = 0.9;

/// A flow leaves where the shortest wait is no more than this part of an odd one.
const LEAVE: f64 = 0.5;

/// What a flow that leaves keeps of its rate.
pub(super) const KEPT: f64 = 0.7;

/// A round takes so long at least.
const MIN_ROUND: Duration = Duration::from_millis(20);

/// Packets are spaced to leave a window in less than a round trip, so that the window decides.
const SPACING: f64 = 1.2;

/// The first window, in packets (RFC 6928).
pub(super) const FIRST_WINDOW: u64 = 10;

/// What a round trip shows of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// Its shortest wait.
    pub(super) min_wait: Duration,
    /// Waits beyond this are odd.
    pub(super) odd: Duration,
    /// The flow's base rate.
    pub(super) base: Rate,
    /// The smoothed round trip.
    pub(super) rtt: Duration,
}

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Entered,
    Left,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Competitive {
    packet: Bytes,
    tcp: Option<Cubic>,
    /// How long the handshake waited, while that may still decide.
    handshake: Option<Duration>,
    /// Rounds with an odd queue in a row.
    odd_rounds: u32,
    round_until: Time,
    /// The shortest wait of the last round.
    last_wait: Duration,
    /// The base rate when the queue was last not odd.
    cooperative_rate: Rate,
}

impl Competitive {
    /// A path whose handshake waited for `handshake`, as far as is known, with packets of `packet`.
    pub(super) fn new(packet: Bytes, handshake: Duration) -> Self {
        Self { packet, handshake: Some(handshake), ..Self::default() }
    }

    /// Goes on at once with a window of `had`, which an earlier transfer found by its losses: without slow start.
    pub(super) fn resume(&mut self, now: Time, had: Bytes, rtt: Duration) {
        let mut tcp = tcp(now, self.packet, had, rtt);
        tcp.leave_slow_start();
        self.tcp = Some(tcp);
    }

    pub(super) fn is_on(&self) -> bool {
        self.tcp.is_some()
    }

    /// The last round trip.
    pub(super) fn observe(&mut self, now: Time, sight: Sight) -> Change {
        let Sight { min_wait, odd, base, rtt } = sight;
        let handshake = self.handshake.take();
        let over = now >= self.round_until;
        if self.is_on() {
            let fell = over && min_wait <= self.last_wait.scale(FELL);
            if over {
                self.begin_round(now, rtt, min_wait);
            }
            if fell || min_wait <= odd.scale(LEAVE) {
                (self.tcp, self.odd_rounds) = (None, 0);
                return Change::Left;
            }
            return Change::Nothing;
        }
        if min_wait <= odd {
            self.cooperative_rate = base;
            self.odd_rounds = 0;
            self.begin_round(now, rtt, min_wait);
            return Change::Nothing;
        }
        if handshake.is_some_and(|waited| waited > odd && min_wait >= waited.scale(STEADY)) {
            return self.enter(now, sight, Bytes::ZERO);
        }
        if over {
            let fell = min_wait < self.last_wait.scale(STEADY);
            self.odd_rounds = if fell { 0 } else { self.odd_rounds + 1 };
            self.begin_round(now, rtt, min_wait);
        }
        if self.odd_rounds >= ENTRY {
            return self.enter(now, sight, self.cooperative_rate.max(base).bytes_in(rtt));
        }
        Change::Nothing
    }

    fn begin_round(&mut self, now: Time, rtt: Duration, min_wait: Duration) {
        (self.round_until, self.last_wait) = (now + rtt.max(MIN_ROUND), min_wait);
    }

    fn enter(&mut self, now: Time, sight: Sight, had: Bytes) -> Change {
        self.tcp = Some(tcp(now, self.packet, had, sight.rtt));
        self.begin_round(now, sight.rtt, sight.min_wait);
        Change::Entered
    }

    /// How much may be in flight, in competitive mode.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.tcp.as_ref().map(Controller::window)
    }

    /// The rate at which packets of that window are spaced.
    pub(super) fn rate(&self, rtt: Duration) -> Option<Rate> {
        self.window().map(|window| Rate::of(window, rtt).scale(SPACING))
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if let Some(tcp) = &mut self.tcp {
            tcp.on_ack(now, ack);
        }
    }

    pub(super) fn on_loss(&mut self, now: Time, loss: &Loss) {
        if let Some(tcp) = &mut self.tcp {
            tcp.on_loss(now, loss);
        }
    }
}

/// A CUBIC in slow start, with `had` in flight or ten packets.
pub(super) fn tcp(now: Time, packet: Bytes, had: Bytes, rtt: Duration) -> Cubic {
    let initial_window = (had.as_u64() / packet.as_u64().max(1)).max(FIRST_WINDOW);
    let config = cubic::Config { initial_window, ..cubic::Config::default() };
    let mut tcp = Cubic::new(&config, Stream::from_seed(0)); // it draws nothing
    tcp.on_path(now, &Path::new(packet, rtt, None));
    tcp
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(20);
    /// Twenty packets a round trip.
    const BASE: Rate = Rate::from_bps(8_000_000);

    /// A round trip at `at` milliseconds whose shortest wait is `wait` milliseconds, where 10 are odd.
    fn see(competitive: &mut Competitive, at: u64, wait: f64) -> Change {
        let min_wait = Duration::from_secs_f64(wait / 1e3);
        let sight = Sight { min_wait, odd: Duration::from_millis(10), base: BASE, rtt: RTT };
        competitive.observe(Time::ZERO + Duration::from_millis(at), sight)
    }

    fn entered_after(waits: &[f64]) -> Option<usize> {
        let mut competitive = Competitive::new(PACKET, Duration::ZERO);
        see(&mut competitive, 0, 1.0);
        waits.iter().enumerate().find_map(|(round, wait)| {
            let change = see(&mut competitive, 20 * (round as u64 + 1), *wait);
            (change == Change::Entered).then_some(round + 1)
        })
    }

    #[test]
    fn six_rounds_of_an_odd_queue_that_does_not_fall_start_it() {
        assert_eq!(entered_after(&[11.0; 9]), Some(6));
        assert_eq!(entered_after(&[9.0; 9]), None, "PCP flows keep such a queue");
        assert_eq!(entered_after(&[19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0]), None, "others drain it");
    }

    #[test]
    fn a_flow_that_enters_keeps_what_it_had_before_the_queue() {
        let mut competitive = Competitive::new(PACKET, Duration::ZERO);
        see(&mut competitive, 0, 1.0);
        (1..7).for_each(|round| assert_eq!(see(&mut competitive, 20 * round, 11.0) == Change::Entered, round == 6));
        assert_eq!(competitive.window(), Some(PACKET * 20));
    }

    #[test]
    fn a_new_flow_that_waits_in_the_handshake_and_after_it_enters_at_once() {
        let entered = |handshake: u64, wait| {
            let mut competitive = Competitive::new(PACKET, Duration::from_millis(handshake));
            see(&mut competitive, 0, wait) == Change::Entered
        };
        assert!(entered(15, 15.0));
        assert!(!entered(15, 14.0), "the queue falls");
        assert!(!entered(9, 9.0), "the queue is not odd");
    }

    #[test]
    fn a_queue_that_falls_by_a_tenth_or_is_short_ends_it() {
        let entered = || {
            let mut competitive = Competitive::new(PACKET, Duration::from_millis(15));
            assert_eq!(see(&mut competitive, 0, 15.0), Change::Entered);
            assert_eq!(see(&mut competitive, 20, 15.0), Change::Nothing);
            competitive
        };
        assert_eq!(see(&mut entered(), 40, 14.0), Change::Nothing);
        assert_eq!(see(&mut entered(), 40, 13.0), Change::Left);
        assert_eq!(see(&mut entered(), 30, 5.0), Change::Left, "within a round");
    }

    #[test]
    fn its_window_doubles_in_a_round_trip_unless_it_resumed() {
        let window = |mut competitive: Competitive| {
            (0..10).for_each(|_| competitive.on_ack(Time::ZERO + RTT, &crate::reno_window::tests::ack(1)));
            competitive.window()
        };
        let mut entered = Competitive::new(PACKET, Duration::from_millis(15));
        see(&mut entered, 0, 15.0);
        assert!(window(entered) > Some(PACKET * 15));
        let mut resumed = Competitive::new(PACKET, Duration::ZERO);
        resumed.resume(Time::ZERO, PACKET * 30, RTT);
        assert!(window(resumed) < Some(PACKET * 32));
    }
}
