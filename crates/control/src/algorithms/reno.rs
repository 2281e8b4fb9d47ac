//! TCP Reno (RFC 5681): every fast retransmit halves the window.
//!
//! Reno does not record its last reaction to a loss. If the connection leaves recovery while a second packet of the
//! same window is still missing, the fast retransmit of that packet halves the window again. NewReno avoids this;
//! everything else is the same.

pub use crate::newreno::Config;
use crate::newreno::NewRenoRules;
use crate::rules::Windowed;

/// TCP Reno.
pub type Reno = Windowed<RenoRules>;

/// The window rules of TCP Reno: those of NewReno, applied to every loss.
pub type RenoRules = NewRenoRules<false>;

#[cfg(test)]
mod tests {
    use rampmeter_units::{Duration, Random, Time};

    use super::*;
    use crate::testing::{PACKET, ack, loss, mark};
    use crate::{Ack, Algorithm, Controller, Loss, LossKind, Path};

    fn started() -> Reno {
        let mut reno = Reno::new(&Config { initial_window: 16, ..Config::default() }, Random::from_seed(1));
        reno.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
        reno
    }

    #[test]
    fn each_fast_retransmit_halves_again() {
        let mut reno = started();
        reno.on_loss(Time::ZERO, &loss(LossKind::Transient, 3, 20));
        assert_eq!(reno.window(), PACKET * 8);
        reno.on_ack(Time::ZERO, &Ack { recovering: true, ..ack(1) });
        reno.on_loss(Time::ZERO, &loss(LossKind::Transient, 5, 20));
        assert_eq!(reno.window(), PACKET * 4);
        let again = |kind| Loss { recovering: true, ..loss(kind, 30, 40) };
        reno.on_loss(Time::ZERO, &again(LossKind::Transient));
        assert_eq!(reno.window(), PACKET * 4, "the same recovery");
        reno.on_loss(Time::ZERO, &again(LossKind::Persistent));
        assert_eq!(reno.window(), PACKET, "a timeout ends it");
    }

    #[test]
    fn marks_halve_once_a_window() {
        let mut reno = started();
        for number in [3, 4, 20] {
            reno.on_ack(Time::ZERO, &mark(number, 20));
            assert_eq!(reno.window(), PACKET * 8);
        }
        reno.on_ack(Time::ZERO, &mark(21, 30));
        assert_eq!(reno.window(), PACKET * 4);
    }
}
