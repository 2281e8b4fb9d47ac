//! A terminal of an LTE or 5G cell.
//!
//! ```text
//!   slot     │ │█│ │ │█│█│ │ ...      █ the base station serves this terminal: one slot of `users`, at random
//!   bytes    mean * users * slot * efficiency / mean efficiency        the efficiency of the latest report
//!   delay    some blocks arrive at their repetition only, and later ones wait for them
//! ```
//!
//! The efficiency is that of a fading channel (`channel.rs`), reported every 5 ms. Link adaptation aims at 10% of lost
//! blocks (3GPP TS 36.213, section 7.2.3). A lost block is repeated after 8 ms (HARQ in FDD), and RLC delivers in order, so
//! blocks arrive in bursts. In the uplink a terminal requests before it sends: bytes are chosen when they are requested,
//! and leave with the grant, four subframes after the request was answered (TS 36.213, section 8).
//!
//! LTE: slots of 1 ms, a carrier of 2 GHz. 5G: a carrier of 3.5 GHz and slots of 0.5 ms in the common pattern DDDSU (TS
//! 38.213, section 11.1): of five slots four carry the downlink and one the uplink.
//!
//! Judgement: with `users` in the cell each slot serves one of them at random. A proportional fair scheduler favours
//! users at their peaks, which this omits. The two directions of a link fade independently, as they do at frequencies of
//! their own; that they share the shadowing is omitted. 5G repeats after 5 ms, a period of two patterns. A terminal on a train also
//! loses its cell at times: use `two-state`, or losses in bursts.

use rampmeter_units::{Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::channel::Channel;
use super::{LinkStreams, Model, Opportunity, WholeBytes, check_mean};
use crate::{Settings, ensure};

/// The time between two reports of the channel.
const REPORT: Duration = Duration::from_millis(5);

/// The share of blocks that are repeated.
const REPEATED: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Radio {
    Lte,
    Nr,
}

/// A cellular link's settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The mean rate.
    pub mean: Rate,
    /// The speed of the terminal in km/h. 3GPP evaluates 3 (walking), 30 (in a city) and 120 (on a motorway).
    #[default(3.0)]
    pub speed_kmh: f64,
    /// Users that the cell serves in turn, this terminal included.
    #[default(4)]
    pub users: u64,
    /// Whether it is the uplink.
    pub uplink: bool,
}

impl Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        let speeds = "write the speed in km/h, from 0.1 to 500, for example 3 for walking";
        ensure((0.1..=500.0).contains(&self.speed_kmh), format!("`speed_kmh` is {}: {speeds}", self.speed_kmh))?;
        ensure((1..=1000).contains(&self.users), format!("`users` is {}: write 1 to 1000", self.users))
    }
}

/// The settings of an LTE link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lte(pub Config);

/// The settings of a 5G link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nr(pub Config);

macro_rules! radio {
    ($settings:ident, $radio:expr) => {
        impl Settings for $settings {
            fn check(&self) -> Result<(), String> {
                self.0.check()
            }
        }

        impl Model for $settings {
            type Source = Cell;

            fn mean(&self) -> Rate {
                self.0.mean
            }

            fn source(&self, random: LinkStreams) -> Cell {
                Cell::new($radio, &self.0, random.own)
            }
        }
    };
}

radio!(Lte, Radio::Lte);
radio!(Nr, Radio::Nr);

impl Radio {
    fn slot(self) -> Duration {
        match self {
            Self::Lte => Duration::from_millis(1),
            Self::Nr => Duration::from_micros(500),
        }
    }

    /// The carrier frequency in hertz.
    fn carrier(self) -> f64 {
        match self {
            Self::Lte => 2e9,
            Self::Nr => 3.5e9,
        }
    }

    /// Whether the slot with this number carries data in this direction; and the share of such slots.
    fn carries(self, slot: u64, uplink: bool) -> bool {
        self == Self::Lte || uplink == (slot % 5 == 4)
    }

    fn share(self, uplink: bool) -> f64 {
        match (self, uplink) {
            (Self::Lte, _) => 1.0,
            (Self::Nr, false) => 0.8,
            (Self::Nr, true) => 0.2,
        }
    }

    fn repetition(self) -> Duration {
        match self {
            Self::Lte => Duration::from_millis(8),
            Self::Nr => Duration::from_millis(5),
        }
    }

    /// The time from a request to the transmission.
    fn request(self, uplink: bool) -> Duration {
        match (self, uplink) {
            (_, false) => Duration::ZERO,
            (Self::Lte, true) => Duration::from_millis(8),
            (Self::Nr, true) => Duration::from_millis(5),
        }
    }
}

/// The opportunities of one terminal.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    radio: Radio,
    uplink: bool,
    users: u64,
    random: Random,
    channel: Channel,
    /// The relative efficiency of the latest report.
    efficiency: f64,
    next_report: Time,
    /// The number of the slot before the next one.
    slot: u64,
    /// The bytes of a slot at the mean efficiency.
    slot_bytes: f64,
    whole: WholeBytes,
    /// The last arrival.
    last: Time,
}

impl Cell {
    fn new(radio: Radio, config: &Config, mut random: Random) -> Self {
        let of_channel = Random::from_seed(random.below(u64::MAX));
        let per_slot = config.mean.as_bps_f64() / 8.0 * radio.slot().as_secs_f64();
        Self {
            radio,
            uplink: config.uplink,
            users: config.users,
            channel: Channel::new(config.speed_kmh / 3.6, radio.carrier(), REPORT, of_channel),
            random,
            efficiency: 0.0,
            next_report: Time::ZERO,
            slot: 0,
            slot_bytes: per_slot * config.users as f64 / radio.share(config.uplink),
            whole: WholeBytes::default(),
            last: Time::ZERO,
        }
    }

    pub(super) fn next(&mut self) -> Opportunity {
        loop {
            self.slot += 1;
            if !self.radio.carries(self.slot, self.uplink) || self.random.below(self.users) > 0 {
                continue;
            }
            let at = Time::ZERO + self.radio.slot() * self.slot;
            while self.next_report <= at {
                self.efficiency = self.channel.report();
                self.next_report += REPORT;
            }
            let bytes = self.whole.of(self.slot_bytes * self.efficiency);
            if bytes.as_u64() > 0 {
                let repeated = self.random.chance(REPEATED);
                let repetition = if repeated { self.radio.repetition() } else { Duration::ZERO };
                self.last = self.last.max(at + self.radio.request(self.uplink) + repetition);
                return Opportunity { at, bytes, delay: self.last.since(at) };
            }
        }
    }
}
