//! Capacity that varies: a link that may send some bytes at some times, and nothing in between.
//!
//! ```text
//!   opportunities     │1500    │3000 │1500            │4500
//!   time          ────┴────────┴─────┴────────────────┴──────►
//! ```
//!
//! Cellular, wireless, cable and satellite links work so: a scheduler grants bytes to a station at once. An opportunity
//! that finds the queue empty is lost. A packet that is larger than what is left of an opportunity continues in the next
//! one, and small packets share one, as in mahimahi.
//!
//! Opportunities come from a trace or from a model of such a link: a file each. A model draws from its random streams and
//! depends on no packet, so a link has the same capacity with every sender and in every world. A token bucket is the
//! exception: what it grants depends on what was sent, so it has no opportunities of its own.
//!
//! Both directions of a link draw from the same stream what they share: the satellite, and the times at which nothing
//! passes. What a scheduler grants to one direction is drawn from a stream of that direction.

pub mod cellular;
mod channel;
pub mod docsis;
pub mod starlink;
pub mod token_bucket;
mod trace;
pub mod two_state;
pub mod wifi;

use std::sync::{Arc, LazyLock};

use rampmeter_units::{Bytes, Duration, Random, Rate, Registry, Time};

use self::token_bucket::Shaper;
use crate::ensure;
use crate::link::schedule::Schedule;
use crate::link::transmitter::Transmitter;
pub use trace::{BYTES_PER_LINE, MAX_LINES, Trace, TraceError};

/// Bytes that may leave at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opportunity {
    /// When.
    pub at: Time,
    /// How many, more than zero.
    pub bytes: Bytes,
    /// The delay of these bytes in addition to the link's propagation delay.
    pub delay: Duration,
}

/// The random numbers that decide how the capacity of one direction of a link varies.
#[derive(Debug, Clone)]
pub struct LinkStreams {
    /// The same for both directions: for what a link has once.
    pub shared: Random,
    /// For what each direction has of its own.
    pub own: Random,
}

#[cfg(test)]
impl LinkStreams {
    /// The streams of a direction of the link with the seed `shared`.
    pub(crate) fn from_seeds(shared: u64, own: u64) -> Self {
        Self { shared: Random::from_seed(!shared), own: Random::from_seed(own) }
    }
}

/// The settings of a model.
trait Model {
    /// What makes its opportunities.
    type Source;

    /// The mean rate.
    fn mean(&self) -> Rate;

    /// The opportunities of one direction of a link.
    fn source(&self, random: LinkStreams) -> Self::Source;
}

/// Generates the enums, the registry and the dispatch from one list with a line per model: its settings, and what makes its
/// opportunities, in an endless sequence at increasing times.
macro_rules! models {
    ($($variant:ident($settings:ty, $source:ty): $name:literal, $about:literal;)*) => {
        /// The capacity of a link, if it is not a constant rate.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Capacity {
            $(#[doc = $about] $variant($settings),)*
            /// A shaper.
            TokenBucket(token_bucket::Config),
            /// A trace, repeated without end.
            Trace(Arc<Trace>),
        }

        /// An endless sequence of opportunities at increasing times.
        #[derive(Debug, Clone)]
        pub struct Opportunities(Source);

        #[derive(Debug, Clone)]
        enum Source {
            $($variant($source),)*
            Trace(trace::Replay),
        }

        /// The models of capacity by name.
        pub fn models() -> &'static Registry<Capacity> {
            static MODELS: LazyLock<Registry<Capacity>> = LazyLock::new(|| {
                Registry::new("model of capacity")
                    $(.insert($name, $about, (), Capacity::$variant))*
                    .insert(TOKEN_BUCKET, "A shaper: a rate, and bursts at a higher one", (), Capacity::TokenBucket)
            });
            &MODELS
        }

        impl Capacity {
            /// The name of its model, or `trace`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::TokenBucket(_) => TOKEN_BUCKET,
                    Self::Trace(_) => "trace",
                }
            }

            /// The mean rate.
            pub fn mean(&self) -> Rate {
                match self {
                    $(Self::$variant(settings) => settings.mean(),)*
                    Self::TokenBucket(settings) => settings.mean,
                    Self::Trace(trace) => trace.mean(),
                }
            }

            /// What makes the opportunities, or the settings of a token bucket, which has none.
            fn source(&self, random: LinkStreams) -> Result<Source, &token_bucket::Config> {
                match self {
                    $(Self::$variant(settings) => Ok(Source::$variant(settings.source(random))),)*
                    Self::TokenBucket(settings) => Err(settings),
                    Self::Trace(trace) => Ok(Source::Trace(trace::Replay::new(Arc::clone(trace)))),
                }
            }
        }

        impl Opportunities {
            /// The next one.
            #[allow(clippy::should_implement_trait, reason = "it never ends, so it returns no option")]
            pub fn next(&mut self) -> Opportunity {
                match &mut self.0 {
                    $(Source::$variant(source) => source.next(),)*
                    Source::Trace(replay) => replay.next(),
                }
            }
        }
    };
}

models! {
    Lte(cellular::Lte, cellular::Cell): "lte", "An LTE cell: shadowing, fading, other users";
    Nr(cellular::Nr, cellular::Cell): "5g", "A 5G cell: the same, with shorter slots that alternate in direction";
    Wifi(wifi::Config, wifi::Station): "wifi", "Wi-Fi: contention, aggregation, shifts of the modulation";
    Starlink(starlink::Config, starlink::Terminal): "starlink", "Satellites in low orbits, with a handover every 15 s";
    Docsis(docsis::Config, docsis::Modem): "docsis", "The upstream of a cable modem: requests and grants";
    TwoState(two_state::Config, two_state::TwoState): "two-state", "A high and a low rate for random times";
}

const TOKEN_BUCKET: &str = "token-bucket";

impl Capacity {
    /// The opportunities of one direction of a link; `None` for a token bucket.
    pub fn opportunities(&self, random: LinkStreams) -> Option<Opportunities> {
        self.source(random).ok().map(Opportunities)
    }

    /// The transmitter of one direction of a link.
    pub(crate) fn transmitter(&self, random: LinkStreams) -> Transmitter {
        match self.source(random) {
            Ok(source) => Transmitter::Scheduled(Box::new(Schedule::new(self.mean(), Opportunities(source)))),
            Err(config) => Transmitter::Shaped(Box::new(Shaper::new(config))),
        }
    }
}

/// Whole bytes of amounts with fractions, which are kept for the next amount.
#[derive(Debug, Clone, Copy, Default)]
struct WholeBytes {
    fraction: f64,
}

impl WholeBytes {
    fn of(&mut self, amount: f64) -> Bytes {
        let sum = self.fraction + amount;
        self.fraction = sum.fract();
        Bytes::new(sum as u64)
    }
}

/// The rates that models can have. Slower links would take long to find a millisecond with a byte in it.
const RATES: std::ops::RangeInclusive<Rate> = Rate::from_bps(1000)..=Rate::from_bps(1_000_000_000_000);

/// Refuses a model without a mean rate.
fn check_mean(mean: Rate) -> Result<(), String> {
    ensure(mean > Rate::ZERO, "a model needs its mean rate: write mean = \"20 Mb/s\"")?;
    ensure(RATES.contains(&mean), format!("`mean` is {mean}: write a rate from {} to {}", RATES.start(), RATES.end()))
}

/// Refuses a span that is outside of `min` and `max`.
fn check_span(key: &str, span: Duration, min: Duration, max: Duration) -> Result<(), String> {
    ensure((min..=max).contains(&span), format!("`{key}` is {span}: write a time from {min} to {max}"))
}

#[cfg(test)]
mod tests;
