//! A link with a high and a low rate that alternate at random: the model of Gilbert (1960) for capacity instead of loss.
//!
//! ```text
//!   high ──────┐        ┌─────────┐  ┌──      share   of the time at the low rate
//!   low        └────────┘         └──┘        length  mean time at the low rate; both times are exponential
//!                                             mean  = high (1 - share + share low)
//! ```
//!
//! It stands for whatever takes most of a link's capacity away for a while: millimetre waves behind a body or a
//! building, a tunnel, a radio's neighbour, a microwave oven. That happens to a place and not to a direction: both
//! directions of a link with the same `share` and `length` are low at the same times. Bytes leave every millisecond.
//!
//! The default share and length are those of millimetre waves that pedestrians block (3GPP TR 38.901, section 7.6.4, has
//! blockers of that kind); the numbers are a judgement.

use rampmeter_units::{Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{LinkStreams, Model, Opportunity, WholeBytes, check_mean, check_span};
use crate::{Settings, ensure};

/// The time between opportunities.
const TICK: Duration = Duration::from_millis(1);

/// The settings of a link with two rates.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The mean rate.
    pub mean: Rate,
    /// The low rate relative to the high one; 0 is an outage.
    #[default(0.1)]
    pub low: f64,
    /// The share of the time at the low rate.
    #[default(0.2)]
    pub share: f64,
    /// The mean time at the low rate.
    #[default(Duration::from_millis(500))]
    pub length: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        ensure((0.0..1.0).contains(&self.low), format!("`low` is {}: write 0 to below 1", self.low))?;
        ensure(self.share > 0.0 && self.share < 1.0, format!("`share` is {}: write above 0, below 1", self.share))?;
        check_span("length", self.length, TICK, Duration::from_secs(3600))
    }
}

impl Model for Config {
    type Source = TwoState;

    fn mean(&self) -> Rate {
        self.mean
    }

    fn source(&self, random: LinkStreams) -> TwoState {
        TwoState::new(self, random.shared)
    }
}

/// The opportunities of one link.
#[derive(Debug, Clone)]
pub(super) struct TwoState {
    random: Random,
    /// The bytes of a millisecond at the high and at the low rate.
    bytes: [f64; 2],
    /// The mean seconds at the high and at the low rate.
    lengths: [f64; 2],
    is_low: bool,
    next_change: Time,
    at: Time,
    whole: WholeBytes,
}

impl TwoState {
    fn new(config: &Config, mut random: Random) -> Self {
        let Config { mean, low, share, length } = config;
        let high = mean.as_bps_f64() / 8.0 * TICK.as_secs_f64() / (1.0 - share + share * low);
        let length = length.as_secs_f64();
        let mut two_state = Self {
            bytes: [high, high * low],
            lengths: [length * (1.0 - share) / share, length],
            is_low: random.chance(*share),
            random,
            next_change: Time::ZERO,
            at: Time::ZERO,
            whole: WholeBytes::default(),
        };
        two_state.draw_change();
        two_state
    }

    fn draw_change(&mut self) {
        let mean = self.lengths[usize::from(self.is_low)];
        self.next_change += Duration::from_secs_f64(self.random.exponential(mean));
    }

    pub(super) fn next(&mut self) -> Opportunity {
        loop {
            self.at += TICK;
            while self.next_change <= self.at {
                self.is_low = !self.is_low;
                self.draw_change();
            }
            let bytes = self.whole.of(self.bytes[usize::from(self.is_low)]);
            if bytes.as_u64() > 0 {
                return Opportunity { at: self.at, bytes, delay: Duration::ZERO };
            }
        }
    }
}
