//! TCP Reno (RFC 5681): every fast retransmit halves the window.
//!
//! Reno has no memory of the loss it answered last: when the connection leaves recovery with a second packet of the
//! same window still missing, that packet's own fast retransmit halves the window again. This is what NewReno mends; all
//! else is the same.

pub use crate::newreno::Config;
use crate::newreno::NewRenoRules;
use crate::rules::{Amount, Congestion, Rules, Seen, Windowed};

/// TCP Reno.
pub type Reno = Windowed<RenoRules>;

/// How the window of TCP Reno moves: as NewReno's, and for each loss again.
#[derive(Debug, Clone)]
pub struct RenoRules(NewRenoRules);

impl Rules for RenoRules {
    type Config = Config;

    const ONCE_A_WINDOW: bool = false;

    fn new(config: &Config) -> Self {
        Self(NewRenoRules::new(config))
    }

    fn first_window(config: &Config) -> u64 {
        NewRenoRules::first_window(config)
    }

    fn slow_start(&mut self, seen: &Seen<'_>) -> Option<Amount> {
        self.0.slow_start(seen)
    }

    fn increase(&mut self, seen: &Seen<'_>) -> Amount {
        self.0.increase(seen)
    }

    fn decrease(&mut self, congestion: &Congestion) -> Amount {
        self.0.decrease(congestion)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Duration, Stream, Time};

    use super::*;
    use crate::window::tests::{PACKET, ack};
    use crate::{Ack, Algorithm, Controller, Loss, LossKind, Path};

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
