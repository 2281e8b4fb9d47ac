//! TCP NewReno (RFC 6582) and its SACK-based sibling (RFC 6675): one halving a window of data, however many were lost.
//!
//! What belongs to one window of data is for `episode.rs` to say. Which of the two siblings runs is the transport's
//! choice of how to find and repair losses: `recovery = "newreno"` or `"sack"`.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use crate::episode::Episode;
pub use crate::reno_window::Config;
use crate::reno_window::RenoWindow;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Path, Sent};

/// TCP NewReno.
#[derive(Debug, Clone)]
pub struct NewReno {
    window: RenoWindow,
    episode: Episode,
}

impl Algorithm for NewReno {
    type Config = Config;

    fn new(config: &Config, _random: Stream) -> Self {
        Self { window: RenoWindow::new(config), episode: Episode::default() }
    }
}

impl Controller for NewReno {
    fn on_path(&mut self, _now: Time, path: &Path) {
        self.window.start(path.packet);
    }

    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.window.grow(ack);
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        if !self.episode.begins(loss) {
            return;
        }
        match loss.kind {
            LossKind::Persistent => self.window.collapse(loss.flight, loss.repeated),
            LossKind::Transient | LossKind::Ecn => self.window.halve(loss.flight),
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
    use crate::reno_window::tests::PACKET;

    #[test]
    fn many_losses_of_one_window_halve_it_once() {
        let mut newreno = NewReno::new(&Config { initial_window: 16, ..Config::default() }, Stream::from_seed(1));
        newreno.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
        let loss = Loss {
            kind: LossKind::Transient,
            bytes: PACKET,
            flight: PACKET * 16,
            number: 3,
            last_sent: 20,
            recovering: false,
            repeated: false,
        };
        newreno.on_loss(Time::ZERO, &loss);
        newreno.on_loss(Time::ZERO, &Loss { number: 20, last_sent: 24, ..loss });
        assert_eq!(newreno.window(), PACKET * 8);
        newreno.on_loss(Time::ZERO, &Loss { number: 21, flight: PACKET * 8, last_sent: 30, ..loss });
        assert_eq!(newreno.window(), PACKET * 4);
    }
}
