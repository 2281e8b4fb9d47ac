//! Service curves: how much a flow is guaranteed to have been sent after any time of asking.
//!
//! ```text
//!  bytes |        __..--  slope m2           bytes |          /  slope m2
//!        |  __--''                                 |         /
//!        | /                                       |        /
//!        |/  slope m1                              |___----   slope m1
//!        +--d------------- time                    +------d------- time
//!         concave: early, low delay                 convex: late, others go first
//! ```
//!
//! A concave curve is the lesser of two lines, a convex one the greater. So two lines are all the state there is, and a
//! line is one exact whole number beside its slope: nothing drifts, whatever is done to it how often.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// What a flow that asks is guaranteed: `m1` for the time `d` after it begins to ask, `m2` from then on. The names are
/// the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceCurve {
    /// Slope of the first piece. Above `m2` the flow has low delay, below it others go first.
    pub m1: Rate,
    /// How long the first piece is.
    pub d: Duration,
    /// Slope of the second piece: the rate guaranteed for good.
    pub m2: Rate,
}

impl ServiceCurve {
    /// A rate, and the delay that comes of it: a packet of b bytes leaves within `b / rate`.
    pub const fn linear(rate: Rate) -> Self {
        Self { m1: rate, d: Duration::ZERO, m2: rate }
    }

    /// Whatever its rate, a packet of `packet` bytes leaves within `delay`.
    pub fn within(delay: Duration, packet: Bytes, rate: Rate) -> Self {
        let alone = rate.time_to_send(packet);
        if delay < alone {
            Self { m1: Rate::of(packet, delay), d: delay, m2: rate }
        } else {
            Self { m1: Rate::ZERO, d: delay.saturating_sub(alone), m2: rate }
        }
    }

    /// What a concave curve's first piece gives.
    pub(super) fn burst(&self) -> Option<Bytes> {
        Some(self.m1.bytes_in(self.d)).filter(|burst| self.m1 > self.m2 && *burst > Bytes::ZERO)
    }

    fn is_convex(&self) -> bool {
        self.m1 < self.m2
    }
}

/// A flow's service, exactly: a bit per second for a nanosecond is 1.
pub(super) type Service = i128;

pub(super) fn service(bytes: Bytes) -> Service {
    Service::from(bytes.as_u64()) * 8_000_000_000
}

/// No link is faster (1 Pb/s), and no product overflows below it.
const FASTEST: u64 = 1_000_000_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Line {
    slope: i128,
    /// Its height at the world's beginning, mostly far below zero.
    at_zero: Service,
}

impl Line {
    fn through(at: Time, service: Service, slope: Rate) -> Self {
        let slope = i128::from(slope.as_bps().min(FASTEST));
        Self { slope, at_zero: service - slope * i128::from(at.as_nanos()) }
    }

    fn height(&self, at: Time) -> Service {
        self.at_zero + self.slope * i128::from(at.as_nanos())
    }

    /// When it gets to `service`.
    fn reaches(&self, service: Service) -> Time {
        let to_go = service - self.at_zero;
        if to_go <= 0 {
            return Time::ZERO;
        }
        if self.slope == 0 {
            return Time::MAX;
        }
        let nanos = (to_go + self.slope - 1) / self.slope;
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn delay(&mut self, by: Duration) {
        self.at_zero -= self.slope * i128::from(by.as_nanos());
    }
}

/// The deadline curve and the eligible curve of a flow.
#[derive(Debug)]
pub(super) struct Curves {
    curve: ServiceCurve,
    /// The deadline curve D is the lesser of the two if it is concave, the greater if it is convex.
    pieces: [Line; 2],
    /// The eligible curve E of a convex curve. That of a concave one is D.
    eligible: Line,
}

impl Curves {
    /// Those of a flow that begins to ask, after having had `service`.
    pub(super) fn new(curve: ServiceCurve, now: Time, service: Service) -> Self {
        let first = Line::through(now, service, curve.m1);
        let bend = now + curve.d;
        let second = Line::through(bend, first.height(bend), curve.m2);
        // A flow with a convex curve may have to be served early, lest it want more later than is left.
        Self { curve, pieces: [first, second], eligible: Line::through(now, service, curve.m2) }
    }

    /// The flow asks again after a silence: `D(t) = min(D(t), S(t - now) + service)`.
    pub(super) fn resume(&mut self, now: Time, service: Service) {
        let fresh = Self::new(self.curve, now, service);
        if self.curve.is_convex() {
            // Deviation: the lesser of two that cross has three pieces; the old one, which promises more, stays.
            if self.pieces[0].height(now).max(self.pieces[1].height(now)) >= service {
                *self = fresh;
            }
        } else {
            for (piece, fresh) in self.pieces.iter_mut().zip(fresh.pieces) {
                piece.at_zero = piece.at_zero.min(fresh.at_zero);
            }
        }
    }

    /// When `service` must have been given: `D^-1(service)`.
    pub(super) fn deadline(&self, service: Service) -> Time {
        let [first, second] = self.pieces.map(|piece| piece.reaches(service));
        if self.curve.is_convex() { first.min(second) } else { first.max(second) }
    }

    /// When more than `service` is due to the flow: `E^-1(service)`.
    pub(super) fn eligible(&self, service: Service) -> Time {
        if self.curve.is_convex() { self.eligible.reaches(service) } else { self.deadline(service) }
    }

    /// Everything is guaranteed that much later.
    pub(super) fn delay(&mut self, by: Duration) {
        self.pieces.iter_mut().chain([&mut self.eligible]).for_each(|line| line.delay(by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: Bytes = Bytes::new(1000);
    const MS: Duration = Duration::from_millis(1);

    fn ms(n: u64) -> Time {
        Time::ZERO + MS * n
    }

    /// 1 kB every 25 ms, each within 5 ms.
    fn audio() -> ServiceCurve {
        ServiceCurve::within(MS * 5, KB, Rate::from_bps(320_000))
    }

    #[test]
    fn delay_and_rate_are_apart() {
        let bps = Rate::from_bps;
        assert_eq!(audio(), ServiceCurve { m1: bps(1_600_000), d: MS * 5, m2: bps(320_000) });
        let patient = ServiceCurve::within(MS * 100, KB, bps(320_000));
        assert_eq!(patient, ServiceCurve { m1: Rate::ZERO, d: MS * 75, m2: bps(320_000) });
        for (curve, delay) in [(audio(), 5), (patient, 100), (ServiceCurve::linear(bps(320_000)), 25)] {
            let curves = Curves::new(curve, ms(1000), service(KB));
            assert_eq!(curves.deadline(service(KB * 2)), ms(1000 + delay));
            assert_eq!(curves.deadline(service(KB * 3)), ms(1000 + delay + 25), "m2 holds from then on");
            assert_eq!(curves.eligible(service(KB)), ms(1000));
        }
    }

    #[test]
    fn packets_on_time_have_the_same_delay_forever() {
        let mut curves = Curves::new(audio(), ms(0), 0);
        for n in 1..100_000 {
            curves.resume(ms(25 * n), service(KB * n));
            assert_eq!(curves.eligible(service(KB * n)), ms(25 * n));
            assert_eq!(curves.deadline(service(KB * (n + 1))), ms(25 * n + 5));
        }
    }

    #[test]
    fn silence_earns_one_first_piece_and_no_more() {
        let mut curves = Curves::new(audio(), ms(0), 0);
        curves.resume(ms(10), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(30), "too early for a second first piece");
        curves.resume(ms(10_000), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(10_005));
        assert_eq!(curves.deadline(service(KB * 3)), ms(10_030));
    }

    #[test]
    fn a_convex_curve_starts_anew_only_when_all_it_promised_was_given() {
        let patient = ServiceCurve::within(MS * 100, KB, Rate::from_bps(320_000));
        let mut curves = Curves::new(patient, ms(0), 0);
        curves.resume(ms(50), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(125));
        curves.resume(ms(500), service(KB * 2));
        assert_eq!(curves.deadline(service(KB * 3)), ms(600));
    }

    #[test]
    fn rates_without_limit_and_curves_without_end_do_not_overflow() {
        for (m1, m2) in [(Rate::MAX, Rate::ZERO), (Rate::ZERO, Rate::MAX), (Rate::MAX, Rate::MAX)] {
            let mut curves = Curves::new(ServiceCurve { m1, d: Duration::MAX, m2 }, Time::MAX, service(Bytes::MAX));
            curves.resume(Time::MAX, 0);
            curves.delay(Duration::MAX);
            assert!(curves.eligible(0) <= curves.deadline(service(Bytes::MAX)));
        }
    }
}
