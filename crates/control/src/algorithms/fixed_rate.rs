//! A constant rate, independent of the path: cross traffic, audio and video without adaptation.

use rampmeter_units::{Bytes, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::parts::check::require;
use crate::{Ack, Algorithm, Controller, Departure, Loss, Notice, Pacer, Path, Sent, Settings};

/// Settings of the fixed-rate sender.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The rate, headers included. There is no default.
    pub rate: Rate,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        require(self.rate > Rate::ZERO, || {
            "rate is missing or 0 b/s, so no packet could ever be sent: write, for example, rate = \"1 Mb/s\"".into()
        })
    }
}

/// Sends at a constant rate.
#[derive(Debug, Clone)]
pub struct FixedRate {
    rate: Rate,
    packet: Bytes,
    pacer: Pacer,
}

impl Algorithm for FixedRate {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("sends at a constant rate and ignores the reports of programs");

    fn new(config: &Config, _random: Random) -> Self {
        Self { rate: config.rate, packet: Bytes::ZERO, pacer: Pacer::default() }
    }
}

impl Controller for FixedRate {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet;
        self.pacer.reset(now);
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.pacer.sent(now, sent.bytes, self.rate);
    }

    fn on_notice(&mut self, _now: Time, notice: Notice) {
        if let Notice::Unsent(bytes) = notice {
            self.pacer.give_back(bytes, self.rate);
        }
    }

    fn on_ack(&mut self, _now: Time, _ack: &Ack<'_>) {}

    fn on_loss(&mut self, _now: Time, _loss: &Loss) {}

    fn window(&self) -> Bytes {
        Bytes::MAX
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;

    #[test]
    fn packets_are_sent_evenly() {
        let config = Config { rate: "8 Mb/s".parse().unwrap() };
        let mut sender = FixedRate::new(&config, Random::from_seed(1));
        let packet = Bytes::new(1000);
        let start = Time::ZERO + Duration::from_secs(1);
        sender.on_path(start, &Path::new(packet, Duration::from_millis(20), None));
        for number in 0..5 {
            let Departure { at: now, bytes, .. } = sender.departure();
            assert_eq!((now, bytes), (start + Duration::from_millis(number), packet));
            sender.on_sent(now, &Sent { number, bytes: packet, in_flight: packet });
        }
    }
}
