//! TCP Reno (RFC 5681): every fast retransmit halves the window.
//!
//! Reno has no memory of the loss it answered last: when the connection leaves recovery with a second packet of the
//! same window still missing, that packet's own fast retransmit halves the window again. This is what NewReno mends.
//! Marks halve it once a window of data (RFC 3168 section 6.1.2).

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

pub use crate::reno_window::Config;
use crate::reno_window::RenoWindow;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Path, Sent};

/// TCP Reno.
#[derive(Debug, Clone)]
pub struct Reno {
    window: RenoWindow,
    /// Highest number sent when the last mark was answered.
    marked_until: Option<u64>,
}

impl Algorithm for Reno {
    type Config = Config;

    fn new(config: &Config, _random: Stream) -> Self {
        Self { window: RenoWindow::new(config), marked_until: None }
    }
}

impl Controller for Reno {
    fn on_path(&mut self, _now: Time, path: &Path) {
        self.window.start(path.packet);
    }

    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.window.grow(ack);
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        match loss.kind {
            LossKind::Persistent => self.window.collapse(loss.flight, loss.repeated),
            LossKind::Ecn if self.marked_until.is_some_and(|until| loss.number <= until) => return,
            LossKind::Transient | LossKind::Ecn if loss.recovering => {}
            LossKind::Transient | LossKind::Ecn => self.window.halve(loss.flight),
        }
        if loss.kind == LossKind::Ecn {
            self.marked_until = Some(loss.last_sent);
        }
    }

    fn on_idle(&mut self, _now: Time, idle: Duration, timeout: Duration) {
        self.window.restart(idle, timeout);
    }

    fn window(&self) -> Bytes {
        self.window.window()
    }

    fn departure(&self) -> Departure {
        self.window.departure()
    }

    fn rate(&self) -> Option<Rate> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno_window::tests::{PACKET, ack};

    #[test]
    fn each_fast_retransmit_halves_again() {
        let mut reno = Reno::new(&Config { initial_window: 16, ..Config::default() }, Stream::from_seed(1));
        reno.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
        let loss = Loss {
            kind: LossKind::Transient,
            bytes: PACKET,
            flight: PACKET * 16,
            number: 3,
            last_sent: 20,
            recovering: false,
            repeated: false,
        };
        reno.on_loss(Time::ZERO, &loss);
        assert_eq!(reno.window(), PACKET * 8);
        reno.on_ack(Time::ZERO, &Ack { recovering: true, ..ack(1) });
        reno.on_loss(Time::ZERO, &Loss { flight: PACKET * 8, number: 5, ..loss });
        assert_eq!(reno.window(), PACKET * 4);
    }

    #[test]
    fn marks_halve_once_a_window() {
        let mut reno = Reno::new(&Config { initial_window: 16, ..Config::default() }, Stream::from_seed(1));
        reno.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
        let mark = Loss {
            kind: LossKind::Ecn,
            bytes: Bytes::ZERO,
            flight: PACKET * 16,
            number: 3,
            last_sent: 20,
            recovering: false,
            repeated: false,
        };
        for number in [3, 4, 20] {
            reno.on_loss(Time::ZERO, &Loss { number, ..mark });
            assert_eq!(reno.window(), PACKET * 8);
        }
        reno.on_loss(Time::ZERO, &Loss { number: 21, ..mark });
        assert_eq!(reno.window(), PACKET * 4);
    }
}
