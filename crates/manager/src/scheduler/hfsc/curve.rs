//! Service curves: how many bytes a flow is guaranteed to have sent, as a function of the time since its request.
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
//! A concave curve is the minimum of two lines, a convex one the maximum. So two lines are the whole state. Each line
//! is an exact integer with its slope, so that no rounding errors accumulate.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// The guarantee of a flow: slope `m1` for the time `d` after its request, then slope `m2`. The names are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceCurve {
    /// Slope of the first piece. Above `m2` the flow has low delay; below it other flows precede.
    pub m1: Rate,
    /// Length of the first piece.
    pub d: Duration,
    /// Slope of the second piece: the guaranteed long-term rate.
    pub m2: Rate,
}

impl ServiceCurve {
    /// A rate, and the delay that follows from it: a packet of b bytes leaves within `b / rate`.
    pub const fn linear(rate: Rate) -> Self {
        Self { m1: rate, d: Duration::ZERO, m2: rate }
    }

    /// A rate and an independent delay: a packet of `packet` bytes leaves within `delay`.
    pub fn within(delay: Duration, packet: Bytes, rate: Rate) -> Self {
        let alone = rate.time_to_send(packet);
        if delay < alone {
            Self { m1: Rate::of(packet, delay), d: delay, m2: rate }
        } else {
            Self { m1: Rate::ZERO, d: delay.saturating_sub(alone), m2: rate }
        }
    }

    /// The bytes of a concave curve's first piece.
    pub(super) fn burst(&self) -> Option<Bytes> {
        Some(self.m1.bytes_in(self.d)).filter(|burst| self.m1 > self.m2 && *burst > Bytes::ZERO)
    }

    fn is_convex(&self) -> bool {
        self.m1 < self.m2
    }
}

/// A flow's exact service: 1 is one bit per second for one nanosecond.
pub(super) type Service = i128;

pub(super) fn service(bytes: Bytes) -> Service {
    Service::from(bytes.as_u64()) * 8_000_000_000
}

/// The maximum slope (1 Pb/s): no link is faster, and no product overflows.
const FASTEST: u64 = 1_000_000_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Line {
    slope: i128,
    /// The height at time zero, usually far below zero.
    offset: Service,
}

impl Line {
    fn through(at: Time, service: Service, slope: Rate) -> Self {
        let slope = i128::from(slope.as_bps().min(FASTEST));
        Self { slope, offset: service - slope * i128::from(at.as_nanos()) }
    }

    fn height(&self, at: Time) -> Service {
        self.offset + self.slope * i128::from(at.as_nanos())
    }

    /// The time at which the line reaches `service`.
    fn reaches(&self, service: Service) -> Time {
        let to_go = service - self.offset;
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
        self.offset -= self.slope * i128::from(by.as_nanos());
    }
}

/// The deadline curve and the eligible curve of a flow.
#[derive(Debug)]
pub(super) struct Curves {
    curve: ServiceCurve,
    /// The deadline curve D is the minimum of the two lines if it is concave, the maximum if it is convex.
    pieces: [Line; 2],
    /// The eligible curve E of a convex curve. E of a concave curve is D.
    eligible: Line,
}

impl Curves {
    /// The curves of a flow that begins to request after `service`.
    pub(super) fn new(curve: ServiceCurve, now: Time, service: Service) -> Self {
        let first = Line::through(now, service, curve.m1);
        let bend = now + curve.d;
        let second = Line::through(bend, first.height(bend), curve.m2);
        // A flow with a convex curve may have to be served early; otherwise its later demand could exceed the link.
        Self { curve, pieces: [first, second], eligible: Line::through(now, service, curve.m2) }
    }

    /// The flow requests again after idle time: `D(t) = min(D(t), S(t - now) + service)`.
    pub(super) fn resume(&mut self, now: Time, service: Service) {
        let fresh = Self::new(self.curve, now, service);
        if self.curve.is_convex() {
            // Deviation: the minimum of two crossing convex curves has three pieces; the old curve, which guarantees
            // more, remains.
            if self.pieces[0].height(now).max(self.pieces[1].height(now)) >= service {
                *self = fresh;
            }
        } else {
            for (piece, fresh) in self.pieces.iter_mut().zip(fresh.pieces) {
                piece.offset = piece.offset.min(fresh.offset);
            }
        }
    }

    /// The time by which `service` must have been given: `D^-1(service)`.
    pub(super) fn deadline(&self, service: Service) -> Time {
        let [first, second] = self.pieces.map(|piece| piece.reaches(service));
        if self.curve.is_convex() { first.min(second) } else { first.max(second) }
    }

    /// The time from which the flow is due more than `service`: `E^-1(service)`.
    pub(super) fn eligible(&self, service: Service) -> Time {
        if self.curve.is_convex() { self.eligible.reaches(service) } else { self.deadline(service) }
    }

    /// Moves all guarantees later by `by`.
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
    fn delay_and_rate_are_independent() {
        let bps = Rate::from_bps;
        assert_eq!(audio(), ServiceCurve { m1: bps(1_600_000), d: MS * 5, m2: bps(320_000) });
        let late = ServiceCurve::within(MS * 100, KB, bps(320_000));
        assert_eq!(late, ServiceCurve { m1: Rate::ZERO, d: MS * 75, m2: bps(320_000) });
        let line = ServiceCurve::within(MS * 25, KB, bps(320_000));
        assert_eq!(line, ServiceCurve { m1: Rate::ZERO, d: Duration::ZERO, m2: bps(320_000) });
        for (curve, delay) in [(audio(), 5), (late, 100), (line, 25), (ServiceCurve::linear(bps(320_000)), 25)] {
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
    fn idle_time_earns_only_one_first_piece() {
        let mut curves = Curves::new(audio(), ms(0), 0);
        curves.resume(ms(10), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(30), "too early for a second first piece");
        curves.resume(ms(10_000), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(10_005));
        assert_eq!(curves.deadline(service(KB * 3)), ms(10_030));
    }

    #[test]
    fn a_convex_curve_restarts_only_after_its_whole_service() {
        let late = ServiceCurve::within(MS * 100, KB, Rate::from_bps(320_000));
        let mut curves = Curves::new(late, ms(0), 0);
        curves.resume(ms(50), service(KB));
        assert_eq!(curves.deadline(service(KB * 2)), ms(125));
        curves.resume(ms(500), service(KB * 2));
        assert_eq!(curves.deadline(service(KB * 3)), ms(600));
    }

    #[test]
    fn unlimited_rates_and_endless_curves_do_not_overflow() {
        for (m1, m2) in [(Rate::MAX, Rate::ZERO), (Rate::ZERO, Rate::MAX), (Rate::MAX, Rate::MAX)] {
            let mut curves = Curves::new(ServiceCurve { m1, d: Duration::MAX, m2 }, Time::MAX, service(Bytes::MAX));
            curves.resume(Time::MAX, 0);
            curves.delay(Duration::MAX);
            assert!(curves.eligible(0) <= curves.deadline(service(Bytes::MAX)));
        }
    }
}
