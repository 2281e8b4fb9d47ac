//! Rivals: flows that don't give way. Against them PCP competes as TCP would (section 3.5).
//!
//! The paper's tit for tat takes compensation that has no effect for a sign of TCP. Where many PCP flows share a link it
//! has no effect either, for any one of them, and letting go then runs the queue away. Two signs are better:
//!
//! *A queue that PCP flows would not let be.* They tolerate more the less they have (`growth`); beyond one and a half
//! times what the fiftieth part of the link tolerates, all of them give way. A flow that sees more than that, in every
//! round for a while, tests who is there: it clears (`clearing`) out of turn.
//!
//! *Clearing.* PCP flows make way together, and the queue shrinks: of it 0.2 to 0.5 are left among ten PCP flows, and 0.9
//! and more beside TCP, unless a TCP halves its window just then.
//!
//! ```text
//! suspicion, from 0 to 30                           rounds are round trips, of 100 ms at least
//!   + 1     a round in which the queue was odd
//!   - 2     a round in which it was empty
//!   + 7     a test left over 0.6 of it, or a clearing whose turn it was over 0.85
//!   = 0     one of them left less than 0.5
//!
//! courteous ── suspicion reaches 24 ──► competing ── suspicion falls to 0 ──► courteous
//! ```
//!
//! Suspicion is remembered for the destination: a transfer that begins with 24 of it competes from its first packet. How
//! many transfers that takes depends on the path: 250 kB beside two long-lived TCPs at 76 and 99 Mb/s take about TCP's
//! time from the second or third on, beside three at 3.5 Mb/s twice TCP's still after the seventh (`paths.toml`).
//!
//! *Competing*: a window of ten packets, or what the flow had, that doubles every round trip until the first loss; from
//! then on it grows by a packet a round trip and is halved by a loss, once a round trip (RFC 5681). Packets are spaced
//! over the round trip. Not a tenth of the compensation, as in the paper: that is still too much against a queue that
//! TCP keeps full, and nothing says when it is too little.
//!
//! *What the numbers weigh.* Flows that suspect each other all compete, and then their queue proves them right. So what
//! is found sooner here is paid for where 50 PCP flows start together (`long_flows.toml`, 15 to 105 ms, five seeds):
//! 0.1% is lost in the mean with these numbers, 3% with rounds of 50 ms and 16 and 8 instead of 24 and 7. Beside TCP, PCP
//! gets 0.3 to 1 of what a TCP would with these, 0.54 to 1.05 with those, and 0.21 to 0.53 with clearings in turn alone.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// The share of the link at whose tolerance a queue begins to be odd, as a divisor, and so many times that tolerance.
pub(super) const CROWD: f64 = 50.0;
pub(super) const ODD: f64 = 1.5;

/// A round lasts so long at least: the queue is to be seen and made way for by flows with longer round trips.
const LEAST_ROUND: Duration = Duration::from_millis(100);

/// What suspicion is made of.
const FROM_ODD: f64 = 1.0;
const FROM_EMPTY: f64 = -2.0;
const FROM_FAILURE: f64 = 7.0;
const MOST: f64 = 30.0;

/// Suspicion at which a flow competes, and by how much it grows until a flow tests it.
const COMPETE: f64 = 24.0;
const TEST: f64 = 8.0;

/// Round trips from a clearing's begin until its effect has been seen.
const SEEN_AFTER: f64 = 3.5;

/// What a test or a clearing that failed leaves of the queue at least, and one that worked at most.
const TEST_FAILED: f64 = 0.6;
const FAILED: f64 = 0.85;
const WORKED: f64 = 0.5;

/// The first window, in packets (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// Packets are spaced to leave a window in less than a round trip, so that the window decides.
const SPACING: f64 = 1.2;

/// Whether an earlier transfer that left this much suspicion, in \[0, 1\], saw others not make way once at least.
pub(super) fn were_suspected(past: f64) -> bool {
    past * MOST > FROM_FAILURE - 0.5 // what was divided by it is not quite the same again
}

#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    suspicion: f64,
    /// The suspicion that the last clearing found or left.
    tested: f64,
    round_until: Time,
    /// The clearing whose effect is awaited.
    awaited: Option<Awaited>,
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Awaited {
    until: Time,
    before: Duration,
    least: Duration,
    is_test: bool,
}

/// What TCP would have in flight.
#[derive(Debug, Clone, Copy)]
struct Window {
    bytes: f64,
    /// Nothing was lost yet.
    slow_start: bool,
    halved_at: Option<Time>,
}

/// What a round trip shows of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// The shortest wait.
    pub(super) least: Duration,
    /// Waits up to this are none.
    pub(super) near: Duration,
    /// Waits beyond this are not PCP's.
    pub(super) odd: Duration,
}

impl Rivals {
    /// A transfer to where `suspicion` was left, in \[0, 1\].
    pub(super) fn new(suspicion: f64, packet: Bytes) -> Self {
        let suspicion = if suspicion.is_nan() { 0.0 } else { suspicion.clamp(0.0, 1.0) * MOST };
        let window = (suspicion >= COMPETE).then(|| Window::new(Bytes::ZERO, packet));
        Self { suspicion, tested: suspicion, window, ..Self::default() }
    }

    /// There are rivals, by what earlier transfers and the handshake say.
    pub(super) fn meet(&mut self, packet: Bytes) {
        *self = Self::new(COMPETE / MOST, packet);
    }

    /// Who competes goes on with `had` in flight, as the last transfer did. It found that by its losses, or is to find the
    /// rest by them: no slow start.
    pub(super) fn resume(&mut self, had: Bytes, packet: Bytes) {
        if let Some(window) = self.window.as_mut().filter(|_| had > packet * FIRST_WINDOW as u64) {
            *window = Window { slow_start: false, ..Window::new(had, packet) };
        }
    }

    /// What to remember, in \[0, 1\].
    pub(super) fn suspicion(&self) -> f64 {
        self.suspicion / MOST
    }

    /// Whether to clear out of turn.
    pub(super) fn wants_test(&self) -> bool {
        self.awaited.is_none() && !self.is_competing() && self.suspicion >= self.tested + TEST
    }

    /// A clearing begins, as a test if one was wanted; the queue has been `before` at least.
    pub(super) fn on_clearing(&mut self, now: Time, rtt: Duration, before: Duration) {
        let is_test = self.wants_test();
        let until = now + rtt.max(LEAST_ROUND).scale(SEEN_AFTER);
        self.awaited = Some(Awaited { until, before, least: before, is_test });
    }

    /// The last round trip, which a flow of `base` saw.
    pub(super) fn observe(&mut self, now: Time, sight: Sight, base: Rate, rtt: Duration, packet: Bytes) {
        if now >= self.round_until {
            self.round_until = now + rtt.max(LEAST_ROUND);
            if sight.least <= sight.near {
                self.suspicion += FROM_EMPTY;
            } else if sight.least > sight.odd {
                self.suspicion += FROM_ODD;
            }
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.least = awaited.least.min(sight.least);
        }
        if let Some(awaited) = self.awaited.take_if(|awaited| now >= awaited.until) {
            let left = awaited.least.as_secs_f64() / awaited.before.as_secs_f64();
            if left > if awaited.is_test { TEST_FAILED } else { FAILED } {
                self.suspicion += FROM_FAILURE;
            } else if left < WORKED {
                self.suspicion = 0.0;
            }
            self.tested = self.suspicion;
        }
        self.suspicion = self.suspicion.clamp(0.0, MOST);
        if self.suspicion == 0.0 {
            self.window = None;
        } else if self.suspicion >= COMPETE {
            self.window.get_or_insert_with(|| Window::new(base.bytes_in(rtt), packet));
        }
        self.tested = self.tested.min(self.suspicion);
    }

    pub(super) fn is_competing(&self) -> bool {
        self.window.is_some()
    }

    /// How much may be on its way, if there are rivals.
    pub(super) fn window(&self, packet: Bytes) -> Option<Bytes> {
        self.window.map(|window| Bytes::new(window.bytes as u64).max(packet * 2))
    }

    /// The rate at which packets of that window are spaced.
    pub(super) fn rate(&self, packet: Bytes, rtt: Duration) -> Option<Rate> {
        self.window(packet).map(|window| Rate::of(window, rtt).scale(SPACING))
    }

    /// `acked` bytes arrived: in slow start as many more, later a packet more for every window of them.
    pub(super) fn on_ack(&mut self, acked: Bytes, packet: Bytes) {
        if let Some(window) = &mut self.window {
            window.bytes = window.bytes.max(packet.as_f64() * 2.0);
            window.bytes += acked.as_f64() * if window.slow_start { 1.0 } else { packet.as_f64() / window.bytes };
        }
    }

    /// A packet was lost.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Duration) {
        if let Some(window) = self.window.as_mut().filter(|w| w.halved_at.is_none_or(|at| now.since(at) > rtt)) {
            *window = Window { bytes: window.bytes / 2.0, slow_start: false, halved_at: Some(now) };
        }
    }
}

impl Window {
    /// Of a flow that has `had` in flight.
    fn new(had: Bytes, packet: Bytes) -> Self {
        Self { bytes: had.as_f64().max(packet.as_f64() * FIRST_WINDOW), slow_start: true, halved_at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(20);
    /// Twenty packets a round trip.
    const BASE: Rate = Rate::from_bps(8_000_000);

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// A shortest wait of this many milliseconds, where 1 is none and 20 is odd.
    fn see(rivals: &mut Rivals, at: u64, least: f64) {
        let millis = Duration::from_millis;
        let sight = Sight { least: Duration::from_secs_f64(least / 1e3), near: millis(1), odd: millis(20) };
        rivals.observe(ms(at), sight, BASE, RTT, PACKET);
    }

    /// A clearing at `at` milliseconds that leaves so much of 10 ms.
    fn clear(rivals: &mut Rivals, at: u64, left: f64) {
        rivals.on_clearing(ms(at), RTT, Duration::from_millis(10));
        see(rivals, at + 30, 10.0 * left);
        see(rivals, at + 400, 10.0);
    }

    #[test]
    fn who_meets_no_courtesy_competes_and_who_meets_it_again_stops() {
        let mut rivals = Rivals::default();
        for (second, left) in [0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.7, 0.9].into_iter().enumerate() {
            clear(&mut rivals, 1000 * second as u64, left);
        }
        assert!(!rivals.is_competing(), "one that worked proves courtesy, one in between nothing");
        clear(&mut rivals, 10_000, 0.9);
        assert_eq!(rivals.window(PACKET), Some(PACKET * 20));
        clear(&mut rivals, 20_000, 0.7);
        assert!(rivals.is_competing());
        clear(&mut rivals, 30_000, 0.3);
        assert_eq!(rivals.window(PACKET), None);
    }

    #[test]
    fn a_queue_that_pcp_would_not_let_be_is_tested_and_less_must_remain() {
        let mut rivals = Rivals::default();
        (0..7).for_each(|n| see(&mut rivals, 100 * n, 21.0));
        assert!(!rivals.wants_test());
        see(&mut rivals, 750, 21.0);
        assert!(rivals.wants_test());
        clear(&mut rivals, 800, 0.7);
        assert!(!rivals.wants_test(), "the next one only after eight more");
        assert_eq!(rivals.suspicion(), 15.0 / 30.0);
    }

    #[test]
    fn an_empty_queue_ends_the_competition() {
        let mut rivals = Rivals::new(1.0, PACKET);
        (0..14).for_each(|n| see(&mut rivals, 100 * n, 0.5));
        assert!(rivals.is_competing());
        see(&mut rivals, 1400, 0.5);
        assert!(!rivals.is_competing());
    }

    #[test]
    fn suspicion_is_remembered() {
        assert_eq!(Rivals::new(0.7, PACKET).window(PACKET), None);
        assert_eq!(Rivals::new(0.9, PACKET).window(PACKET), Some(PACKET * 10));
        assert_eq!(Rivals::new(f64::NAN, PACKET).suspicion(), 0.0);
    }

    #[test]
    fn the_window_doubles_until_a_loss_then_grows_by_a_packet_a_round_trip_and_is_halved_once_in_one() {
        let mut rivals = Rivals::new(1.0, PACKET);
        (0..10).for_each(|_| rivals.on_ack(PACKET, PACKET));
        assert_eq!(rivals.window(PACKET), Some(PACKET * 20));
        (0..5).for_each(|i| rivals.on_loss(ms(9000 + i), RTT));
        assert_eq!(rivals.window(PACKET), Some(PACKET * 10));
        (0..10).for_each(|_| rivals.on_ack(PACKET, PACKET));
        let window = rivals.window(PACKET).unwrap().as_f64();
        assert!((10_900.0..=11_000.0).contains(&window), "{window}");
        let rate = rivals.rate(PACKET, RTT).unwrap();
        assert!((rate.as_bps_f64() / (1.2 * 8.0 * window / 0.02) - 1.0).abs() < 1e-3, "{rate}");
        (0..20).for_each(|i| rivals.on_loss(ms(10_000 + 100 * i), RTT));
        assert_eq!(rivals.window(PACKET), Some(PACKET * 2), "never less");
    }
}
