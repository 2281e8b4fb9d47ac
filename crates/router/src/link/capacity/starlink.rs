//! A terminal of Starlink: satellites in low orbits, one after the other.
//!
//! ```text
//!   12 s            27 s            42 s            57 s       ...      each satellite has its rate and its delay
//!   ─┤gap├───────────┤gap├───────────┤gap├───────────┤gap├────►
//!        █ █  ██ █  █ ...      one frame of `users`, at random
//! ```
//!
//! All terminals are reassigned to satellites at the seconds 12, 27, 42 and 57 of each minute (N. Mohan and others, "A
//! multifaceted look at Starlink performance", WWW 2024); a run starts with a minute. At a handover delays grow by 30 to
//! 50 ms (G. Huston, "A transport protocol's view of Starlink", APNIC 2024), for about 140 ms (arXiv:2601.08439): nothing
//! leaves for `gap`, and then what has waited. Satellites differ in capacity, 10 to 70 Mb/s within tens of seconds (Z.
//! Lai and others, "Making Internet congestion control robust to LEO satellite dynamics", SIGCOMM 2025). Frames last
//! 1/750 s (T. E. Humphreys and others, "Signal structure of the Starlink Ku-band downlink", IEEE TAES 59(5), 2023).
//! Between handovers successive round trips differ by 6.7 ms (Huston): a terminal does not get every frame.
//!
//! One satellite serves both directions: handovers, additional delay and relative rate are theirs together, the frames
//! are each direction's own.
//!
//! Judgement: rates of satellites are uniform up to `spread` around the mean, the additional delay of a satellite is
//! uniform up to 8 ms one way, and a terminal gets one frame of four. Losses are not part of the model; a link can have
//! them: Huston has 1 to 2%, Lai and others 0.5 to 6% in bad seconds.

use rampmeter_units::{Duration, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{LinkStreams, Model, Opportunity, WholeBytes, check_mean, check_span};
use crate::{Settings, ensure};

/// The time between handovers.
pub const HANDOVER: Duration = Duration::from_secs(15);

/// The time of the first handover.
pub const FIRST: Duration = Duration::from_secs(12);

/// Frames a second.
const FRAMES: f64 = 750.0;

/// The maximum additional delay of a satellite.
const MAX_DELAY: Duration = Duration::from_millis(8);

/// A Starlink terminal's settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The mean rate.
    pub mean: Rate,
    /// The maximum difference of a satellite's rate from the mean, as a share of it.
    #[default(0.5)]
    pub spread: f64,
    /// How long nothing leaves after a handover.
    #[default(Duration::from_millis(50))]
    pub gap: Duration,
    /// Terminals that get frames in turn, this one included.
    #[default(4)]
    pub users: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        ensure((0.0..=1.0).contains(&self.spread), format!("`spread` is {}: write a share from 0 to 1", self.spread))?;
        check_span("gap", self.gap, Duration::ZERO, Duration::from_secs(10))?;
        ensure((1..=1000).contains(&self.users), format!("`users` is {}: write 1 to 1000", self.users))
    }
}

impl Model for Config {
    type Source = Terminal;

    fn mean(&self) -> Rate {
        self.mean
    }

    fn source(&self, random: LinkStreams) -> Terminal {
        Terminal::new(self, random)
    }
}

/// The opportunities of one terminal.
#[derive(Debug, Clone)]
pub(super) struct Terminal {
    random: LinkStreams,
    config: Config,
    /// The mean bytes of a frame.
    frame_bytes: f64,
    /// The number of the frame before the next one.
    frame: u64,
    next_handover: Time,
    /// The end of the gap after the last handover.
    gap_end: Time,
    /// The satellite's rate relative to the mean.
    relative: f64,
    delay: Duration,
    whole: WholeBytes,
}

impl Terminal {
    fn new(config: &Config, random: LinkStreams) -> Self {
        let usable = 1.0 - config.gap.as_secs_f64() / HANDOVER.as_secs_f64();
        let frame_bytes = config.mean.as_bps_f64() / 8.0 / FRAMES * config.users as f64 / usable;
        let mut terminal = Self {
            random,
            config: config.clone(),
            frame_bytes,
            frame: 0,
            next_handover: Time::ZERO + FIRST,
            gap_end: Time::ZERO,
            relative: 1.0,
            delay: Duration::ZERO,
            whole: WholeBytes::default(),
        };
        terminal.take_satellite();
        terminal
    }

    fn take_satellite(&mut self) {
        let random = &mut self.random.shared;
        self.relative = 1.0 + self.config.spread * (2.0 * random.uniform() - 1.0);
        self.delay = MAX_DELAY.scale(random.uniform());
    }

    pub(super) fn next(&mut self) -> Opportunity {
        loop {
            self.frame += 1;
            let at = Time::ZERO + Duration::from_secs_f64(self.frame as f64 / FRAMES);
            while self.next_handover <= at {
                self.gap_end = self.next_handover + self.config.gap;
                self.next_handover += HANDOVER;
                self.take_satellite();
            }
            if at < self.gap_end || self.random.own.below(self.config.users) > 0 {
                continue;
            }
            let bytes = self.whole.of(self.frame_bytes * self.relative);
            if bytes.as_u64() > 0 {
                return Opportunity { at, bytes, delay: self.delay };
            }
        }
    }
}
