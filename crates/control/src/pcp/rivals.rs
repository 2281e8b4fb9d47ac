//! Rivals: flows that don't give way. Against them PCP competes as TCP would (section 3.5).
//!
//! The paper's tit for tat takes compensation that has no effect for a sign of TCP. Where many PCP flows share a link it
//! has no effect either, for any one of them, and letting go then runs the queue away. A better sign is *clearing*: PCP
//! flows make way together, and the queue shrinks. Where it does not, somebody does not make way. What a clearing leaves
//! of the queue is 0.2 to 0.5 of it among ten PCP flows and 0.9 and more beside TCP.
//!
//! ```text
//! courteous ── four clearings leave over 0.85 and none under 0.5 ──► competing
//! competing ── two in a row leave under 0.5                       ──► courteous
//! ```
//!
//! *Competing*: a window that grows by a packet a round trip and is halved by a loss, once a round trip (RFC 5681), and
//! packets spaced over the round trip. Not a tenth of the compensation, as in the paper: that is still too much against a
//! queue that TCP keeps full, and nothing says when it is too little.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// Clearings in a row that fail until a flow competes: longer than a path that grew longer takes to be known as such.
const FAILURES: u32 = 4;

/// Clearings in a row that work until it no longer does.
const SUCCESSES: u32 = 2;

/// Round trips from a clearing's begin until its effect has been seen.
const SEEN_AFTER: f64 = 3.5;

/// What a clearing that failed leaves of the queue at least, and one that worked at most.
const FAILED: f64 = 0.85;
const WORKED: f64 = 0.5;

/// Packets are spaced to leave a window in less than a round trip, so that the window decides.
const SPACING: f64 = 1.2;

#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// The clearing whose effect is awaited.
    awaited: Option<Awaited>,
    /// Clearings that said the opposite of what the flow believes, since one confirmed it.
    contrary: u32,
    /// The window, if there are rivals.
    window: Option<f64>,
    halved_at: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Awaited {
    until: Time,
    before: Duration,
    least: Duration,
}

impl Rivals {
    /// A clearing begins; the queue has been `before` at least.
    pub(super) fn on_clearing(&mut self, now: Time, rtt: Duration, before: Duration) {
        self.awaited = Some(Awaited { until: now + rtt.scale(SEEN_AFTER), before, least: before });
    }

    /// The shortest wait of the last round trip is `least`. A flow that begins to compete does so from `base`.
    pub(super) fn observe(&mut self, now: Time, least: Duration, base: Rate, rtt: Duration) {
        let Some(awaited) = &mut self.awaited else { return };
        awaited.least = awaited.least.min(least);
        if now < awaited.until {
            return;
        }
        let left = awaited.least.as_secs_f64() / awaited.before.as_secs_f64();
        self.awaited = None;
        let competing = self.is_competing();
        let (failed, worked) = (left > FAILED, left < WORKED);
        let (contrary, confirmed, most) =
            if competing { (worked, !worked, SUCCESSES) } else { (failed, worked, FAILURES) };
        if contrary {
            self.contrary += 1;
        } else if confirmed {
            self.contrary = 0;
        }
        if self.contrary >= most {
            self.contrary = 0;
            self.window = if competing { None } else { Some(base.bytes_in(rtt).as_f64()) };
        }
    }

    pub(super) fn is_competing(&self) -> bool {
        self.window.is_some()
    }

    /// How much may be on its way, if there are rivals.
    pub(super) fn window(&self, packet: Bytes) -> Option<Bytes> {
        self.window.map(|window| Bytes::new(window as u64).max(packet * 2))
    }

    /// The rate at which packets of that window are spaced.
    pub(super) fn rate(&self, packet: Bytes, rtt: Duration) -> Option<Rate> {
        self.window(packet).map(|window| Rate::of(window, rtt).scale(SPACING))
    }

    /// `acked` bytes arrived: a packet more for every window of them.
    pub(super) fn on_ack(&mut self, acked: Bytes, packet: Bytes) {
        let least = packet.as_f64() * 2.0;
        self.window =
            self.window.map(|window| window.max(least) + packet.as_f64() * acked.as_f64() / window.max(least));
    }

    /// A packet was lost.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Duration) {
        if self.halved_at.is_none_or(|at| now.since(at) > rtt) {
            self.halved_at = Some(now);
            self.window = self.window.map(|window| window / 2.0);
        }
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

    /// Clearings that leave these parts of the queue, one a second from `start` on.
    fn clear(rivals: &mut Rivals, start: u64, left: &[f64]) {
        let before = Duration::from_millis(10);
        for (second, left) in (start..).zip(left) {
            rivals.on_clearing(ms(1000 * second), RTT, before);
            rivals.observe(ms(1000 * second + 30), before.scale(*left), BASE, RTT);
            rivals.observe(ms(1000 * second + 100), before, BASE, RTT);
        }
    }

    #[test]
    fn who_meets_no_courtesy_competes_and_who_meets_it_again_stops() {
        let mut rivals = Rivals::default();
        clear(&mut rivals, 0, &[0.9, 0.9, 0.3, 0.9, 0.9, 0.7, 0.9]);
        assert!(!rivals.is_competing(), "one that worked proves courtesy, one in between nothing");
        clear(&mut rivals, 10, &[0.9]);
        assert_eq!(rivals.window(PACKET), Some(PACKET * 20));
        clear(&mut rivals, 20, &[0.3, 0.9, 0.3]);
        assert!(rivals.is_competing());
        clear(&mut rivals, 30, &[0.3]);
        assert_eq!(rivals.window(PACKET), None);
    }

    #[test]
    fn the_window_grows_by_a_packet_a_round_trip_and_is_halved_once_in_one() {
        let mut rivals = Rivals::default();
        clear(&mut rivals, 0, &[1.0; 4]);
        (0..20).for_each(|_| rivals.on_ack(PACKET, PACKET));
        let window = rivals.window(PACKET).unwrap().as_f64();
        assert!((20_950.0..=21_000.0).contains(&window), "{window}");
        (0..5).for_each(|i| rivals.on_loss(ms(9000 + i), RTT));
        assert!((rivals.window(PACKET).unwrap().as_f64() - window / 2.0).abs() < 1.0);
        let rate = rivals.rate(PACKET, RTT).unwrap();
        assert!((rate.as_bps_f64() / (1.2 * 4.0 * window / 0.02) - 1.0).abs() < 1e-3, "{rate}");
        (0..20).for_each(|i| rivals.on_loss(ms(10_000 + 100 * i), RTT));
        assert_eq!(rivals.window(PACKET), Some(PACKET * 2), "never less");
    }
}
