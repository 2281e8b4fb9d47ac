//! The upstream of a cable modem (DOCSIS 3.1): the modem requests, and the headend (CMTS) grants.
//!
//! ```text
//!   interval      │   k     │  k + 1  │  k + 2  │       every 2 ms a MAP message lists the grants of one interval
//!   grant         │  ▓      │      ▓  │ ▓       │       at a random place in each
//!                    └─ request ────────┘               a grant carries the next request; it is granted two MAPs later
//! ```
//!
//! This is the model of the DOCSIS module for ns-3 (`cablelabs/docsis-ns3`, "Model Overview"): a grant at a random place
//! in each MAP interval, of the capacity that other modems leave, which varies uniformly; requests ride on grants; and a
//! request that is sent in one interval is granted two intervals later. Packets leave the queue when they are requested
//! and arrive after the additional delay of their grant. With the interval of 2 ms a packet waits 2 to 8 ms, which is
//! what G. White, K. Sundaresan and B. Briscoe call media acquisition ("Low Latency DOCSIS", draft-white-tsvwg-lld-00).
//!
//! Judgement: the variation of 50%. Collisions of first requests, which delay the first packet after a pause further,
//! are not modelled. The subscribed rate is a shaper's: the model `token-bucket`, on a link of its own.

use rampmeter_units::{Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{LinkStreams, Model, Opportunity, WholeBytes, check_mean, check_span};
use crate::{Settings, ensure};

/// A request that is sent in one interval is granted this many intervals later.
const PIPELINE: usize = 2;

/// The settings of a cable modem's upstream.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The mean rate.
    pub mean: Rate,
    /// The interval of MAP messages.
    #[default(Duration::from_millis(2))]
    pub map: Duration,
    /// The maximum difference of a grant from its mean, as a share of it.
    #[default(0.5)]
    pub variation: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        check_span("map", self.map, Duration::from_micros(100), Duration::from_millis(100))?;
        let shares = "write a share from 0 to 1";
        ensure((0.0..=1.0).contains(&self.variation), format!("`variation` is {}: {shares}", self.variation))
    }
}

impl Model for Config {
    type Source = Modem;

    fn mean(&self) -> Rate {
        self.mean
    }

    fn source(&self, random: LinkStreams) -> Modem {
        Modem::new(self, random.own)
    }
}

/// The opportunities of one modem.
#[derive(Debug, Clone)]
pub(super) struct Modem {
    random: Random,
    map: Duration,
    variation: f64,
    mean_bytes: f64,
    /// The number of the interval of the first of `grants`.
    interval: u64,
    /// The times of the grants of the next intervals.
    grants: [Time; PIPELINE + 1],
    whole: WholeBytes,
}

impl Modem {
    fn new(config: &Config, random: Random) -> Self {
        let mut modem = Self {
            random,
            map: config.map,
            variation: config.variation,
            mean_bytes: config.mean.as_bps_f64() / 8.0 * config.map.as_secs_f64(),
            interval: 0,
            grants: [Time::ZERO; PIPELINE + 1],
            whole: WholeBytes::default(),
        };
        modem.grants = std::array::from_fn(|interval| modem.grant(interval as u64));
        modem
    }

    /// The time of the grant of an interval.
    fn grant(&mut self, interval: u64) -> Time {
        Time::ZERO + self.map * interval + self.map.scale(self.random.uniform())
    }

    pub(super) fn next(&mut self) -> Opportunity {
        loop {
            let [at, .., granted] = self.grants;
            self.grants.rotate_left(1);
            self.interval += 1;
            self.grants[PIPELINE] = self.grant(self.interval + PIPELINE as u64);
            let share = 1.0 + self.variation * (2.0 * self.random.uniform() - 1.0);
            let bytes = self.whole.of(self.mean_bytes * share);
            if bytes.as_u64() > 0 {
                return Opportunity { at, bytes, delay: granted.since(at) };
            }
        }
    }
}
