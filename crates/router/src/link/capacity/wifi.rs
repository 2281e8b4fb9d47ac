//! A Wi-Fi station that shares its channel with others.
//!
//! ```text
//!   channel   ▓▓▓▓ ░░ ░░░░ ▓▓▓▓ ░ ▓▓▓▓ ░░░ ...      ▓ an aggregate of this station, ░ one of another station
//!   bytes     at the end of each ▓:  mean * mean cycle * modulation / mean modulation
//! ```
//!
//! Stations contend for each transmission. With equal rules each of them wins with the same probability (G. Bianchi,
//! "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE JSAC 18(3), 2000), so the number of
//! others' turns between two of ours is geometric. A winner sends an aggregate of frames (A-MPDU) of up to 4 ms, the limit
//! of Linux's drivers (Høiland-Jørgensen and others, "Ending the Anomaly", USENIX ATC 2017). Around
//! it are a backoff of 0 to 15 slots of 9 us, preambles, gaps and the block acknowledgement. Rate control moves to the
//! next higher or lower modulation at random times.
//!
//! Judgement: others' aggregates last 0 to 4 ms, uniformly. Modulations are MCS 3 to 9 of IEEE 802.11ac, all equally
//! frequent. Rate control moves every second on average. Collisions are not modelled; they lengthen some cycles. The two
//! directions of a link do not contend: acknowledgements take no airtime from data.
//! As opportunities do not depend on packets, a packet on an idle channel also waits for its turn.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{LinkStreams, Model, Opportunity, WholeBytes, check_mean, check_span};
use crate::{Settings, ensure};

/// A slot of the backoff.
const SLOT: Duration = Duration::from_micros(9);

/// The maximum number of slots of a backoff.
const WINDOW: u64 = 15;

/// Preamble, SIFS, block acknowledgement and AIFS around an aggregate.
const AROUND: Duration = Duration::from_micros(130);

/// Bits a subcarrier and symbol of MCS 3 to 9.
const MODULATIONS: [f64; 7] = [2.0, 3.0, 4.0, 4.5, 5.0, 6.0, 20.0 / 3.0];

/// A Wi-Fi link's settings.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The mean rate that this station gets.
    pub mean: Rate,
    /// Other stations that always have something to send.
    #[default(2)]
    pub stations: u64,
    /// The maximum duration of an aggregate.
    #[default(Duration::from_millis(4))]
    pub aggregate: Duration,
    /// The mean time between changes of the modulation.
    #[default(Duration::from_secs(1))]
    pub shift: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        ensure(self.stations <= 1000, format!("`stations` is {}: write 0 to 1000", self.stations))?;
        check_span("aggregate", self.aggregate, Duration::from_micros(100), Duration::from_micros(5484))?;
        check_span("shift", self.shift, Duration::from_millis(1), Duration::from_secs(3600))
    }
}

impl Config {
    /// The mean time from the end of one aggregate of this station to that of the next one.
    fn cycle(&self) -> Duration {
        let around = AROUND + SLOT.scale(WINDOW as f64 / 2.0);
        around + self.aggregate + (around + self.aggregate.scale(0.5)) * self.stations
    }
}

impl Model for Config {
    type Source = Station;

    fn mean(&self) -> Rate {
        self.mean
    }

    fn source(&self, random: LinkStreams) -> Station {
        Station::new(self, random.own)
    }
}

/// The opportunities of one station.
#[derive(Debug, Clone)]
pub(super) struct Station {
    random: Random,
    stations: u64,
    aggregate: Duration,
    shift: Duration,
    /// The bytes of an aggregate for each bit of modulation.
    bytes: f64,
    /// The index of the modulation.
    modulation: usize,
    next_shift: Time,
    at: Time,
    whole: WholeBytes,
}

impl Station {
    fn new(config: &Config, mut random: Random) -> Self {
        let mean = MODULATIONS.iter().sum::<f64>() / MODULATIONS.len() as f64;
        let modulation = random.below(MODULATIONS.len() as u64) as usize;
        let next_shift = Time::ZERO + Duration::from_secs_f64(random.exponential(config.shift.as_secs_f64()));
        Self {
            stations: config.stations,
            aggregate: config.aggregate,
            shift: config.shift,
            bytes: config.mean.as_bps_f64() / 8.0 * config.cycle().as_secs_f64() / mean,
            modulation,
            next_shift,
            at: Time::ZERO,
            whole: WholeBytes::default(),
            random,
        }
    }

    pub(super) fn next(&mut self) -> Opportunity {
        loop {
            while self.random.below(self.stations + 1) > 0 {
                let other = self.aggregate.scale(self.random.uniform());
                self.pass(other);
            }
            self.pass(self.aggregate);
            let bytes = self.whole.of(self.bytes * MODULATIONS[self.modulation]);
            if bytes > Bytes::ZERO {
                return Opportunity { at: self.at, bytes, delay: Duration::ZERO };
            }
        }
    }

    /// An aggregate of this duration takes the channel.
    fn pass(&mut self, aggregate: Duration) {
        self.at += AROUND + SLOT * self.random.below(WINDOW + 1) + aggregate;
        while self.next_shift <= self.at {
            // At both ends of the range one of the directions changes nothing, so all modulations are equally frequent.
            let up = self.random.chance(0.5);
            let to = if up { self.modulation + 1 } else { self.modulation.saturating_sub(1) };
            self.modulation = to.min(MODULATIONS.len() - 1);
            self.next_shift += Duration::from_secs_f64(self.random.exponential(self.shift.as_secs_f64()));
        }
    }
}
