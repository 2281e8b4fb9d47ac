//! Every number in PCP, with its section of the paper or the reason for its value: settings first, then constants.

use rampmeter_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

use crate::Settings;

/// Settings of PCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets of a train (section 3.1, `k`).
    pub train: usize,
    /// Packets in the first round trip, where the path is not known to be idle; as TCP's first window (RFC 6928).
    pub first_window: f64,
    /// Share of the remembered rate to begin with on an idle path (section 3.4).
    pub first_share: f64,
    /// Growth of delay over a train that passes as flat, in packet times at the best rate known; 0 is the paper.
    pub noise: f64,
    /// Queue that a flow aims at, in packet times at the path's capacity, for each e-fold that its rate is below the
    /// capacity; 0 is the paper.
    pub target: f64,
    /// Queue that may stand for some round trips, as a multiple of the target.
    pub ceiling: f64,
    /// Share of the cut that delay asks for which is made, in \[0, 1\]; 1 is the paper.
    pub delay_gain: f64,
    /// The same for gaps that grow.
    pub gap_gain: f64,
    /// Time after which a queue that never emptied is drained, and the interval of the clock at which all flows in
    /// competitive mode drain; without it flows that join never see the path's delay.
    pub drain_after: Option<Duration>,
    /// Age at which the minimum delay is discarded, for routes that grew longer (section 3.2 names no number).
    pub min_delay_expiry: Duration,
    /// Share of a round trip's packets, beyond four, that may be lost before the rate is halved. While more than
    /// this share is lost in the mean, hardly a probe leaves. 1 is the paper.
    pub max_loss: f64,
    /// Compete as CUBIC does with flows that do not give way (section 3.5).
    pub compete: bool,
    /// Take round trips for one-way delays, as with a receiver that does not say when packets arrived (section 3.5).
    pub round_trip: bool,
    /// The rate that every transfer remembers, whatever went before: to see what wrong histories do (section 4.2.3).
    pub rigged: Option<Rate>,
    /// Highest rate ever tried.
    pub fastest: Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            train: 5,
            first_window: 10.0,
            first_share: 1.0 / 3.0,
            noise: 0.5,
            target: 3.0,
            ceiling: 3.3,
            delay_gain: 0.15,
            gap_gain: 0.45,
            drain_after: Some(Duration::from_millis(2500)),
            min_delay_expiry: Duration::from_secs(10),
            max_loss: 0.1,
            compete: true,
            round_trip: false,
            rigged: None,
            fastest: Rate::from_bps(100_000_000_000),
        }
    }
}

/// What delays differ by without a queue is measured and taken for no wait and no growth, up to this: beyond it is
/// traffic, not a clock.
pub(super) const MAX_NOISE: Duration = Duration::from_micros(100);

/// The same where the way back says that it is hosts (`lateness`).
pub(super) const MAX_JITTER: Duration = Duration::from_millis(5);

/// Trains take so many times as long as hosts are late, if that takes no more packets than `MAX_TRAIN`: 3 MB to a host
/// that stalls a third of the time took 1.6 s with it and 2.0 s without.
pub(super) const TRAIN_PER_JITTER: f64 = 3.0;

/// Most packets of a train that is made longer for that.
pub(super) const MAX_TRAIN: usize = 24;

/// Growth of delay over a train that clocks cannot resolve.
pub(super) const RESOLUTION: Duration = Duration::from_nanos(100);

/// Packets of a train that may be lost, or their receipts, for it still to be judged: Figure 11 at 5% loss takes 564 ms
/// with one and 644 with the paper's none.
pub(super) const MISSING_RECEIPTS: usize = 1;

/// One packet of a train is left out if the others lie so many times closer to a line without it.
pub(super) const OUTLIER: f64 = 4.0;

/// Round trips after its last packet until a train counts as lost; doubled every time nothing at all came back.
pub(super) const RECEIPT_TIMEOUT: f64 = 2.0;

/// The same, at least: a handshake's round trip says little of a full packet's on a slow link (section 3.3).
pub(super) const MIN_RECEIPT_TIMEOUT: Duration = Duration::from_millis(200);

/// Growth of delay, in seconds a second, that says the link is overrun: from there on gaps are answered in full.
pub(super) const OVERLOAD_SLOPE: f64 = 0.3;

/// Largest cut in one round trip (section 3.2: TCP's).
pub(super) const MAX_CUT: f64 = 0.5;

/// Share of the lowest delays of a round trip that are dropped (section 3.2).
pub(super) const OUTLIERS: f64 = 0.1;

/// Quantile of a round trip's delays that stands for the queue; the paper's largest, less a tenth, would be 0.9.
pub(super) const LEVEL: f64 = 0.5;

/// Round trips whose lowest level is the standing queue.
pub(super) const STANDING_ROUNDS: u64 = 8;

/// The longest target, as a share of the queue that was there when packets were lost: a buffer of three packets loses
/// 31% on Figure 8's 1 Mb/s without it and 18 with it.
pub(super) const MAX_TARGET_OF_BUFFER: f64 = 0.25;

/// Share of its rate that a flow keeps while it drains a queue that never emptied, and for how many round trips.
pub(super) const DRAIN_SHARE: f64 = 0.1;
pub(super) const DRAIN_ROUNDS: f64 = 1.5;

/// Share of the minimum round-trip time that stands in for the minimum one-way delay: a symmetric path's.
pub(super) const FORWARD_SHARE: f64 = 0.5;

/// Minimum rate a probe asks for, as a share of the base rate (section 3.3).
pub(super) const MIN_STEP: f64 = 0.01;

/// The same in packets a round trip for each flow of the macroflow, but no more than the base rate: a hundredth of very
/// little gets nowhere. Figure 4 at 0.90 takes 5.0 s without it and 1.3 s with it.
pub(super) const MIN_PROBE: f64 = 0.3;

/// The most that one probe is granted, as a share of the path's capacity: two flows that find a path idle in the same
/// round trip then overrun it by a third and not by a whole. Without a bound Figure 4 loses 0.02 to 0.1% at every load.
pub(super) const MAX_JUMP: f64 = 1.0 / 3.0;

/// Time a packet waited from which it counts as having met others, in packet times.
pub(super) const BUSY_WAIT: f64 = 0.6;

/// Queue from which it, not trains, says how much to ask for, in packet times.
pub(super) const STANDING: f64 = 2.0;

/// Longest interval between probes, in round trips (section 3.3).
pub(super) const MAX_BACKOFF: f64 = 100.0;

/// A macroflow with all flows of its host to a destination that rested for no longer than this goes on in competitive
/// mode where the last one was (`start`).
pub(super) const RESUME_WITHIN: Duration = Duration::from_secs(60);

/// Minimum trust in the remembered rate, so that it can recover.
pub(super) const MIN_TRUST: f64 = 0.5;

/// Weight of a new rate in the remembered mean and deviation.
pub(super) const HISTORY_GAIN: f64 = 0.25;

/// A round trip that is shorter counts as this: what happens in less is timers and schedulers, not queues.
pub(super) const MIN_ROUND_TRIP: Duration = Duration::from_millis(2);

/// Longest time between two packets: the base rate's floor.
pub(super) const MAX_GAP: Duration = Duration::from_secs(10);

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, min: f64, max: f64| {
            let fits = (min..=max).contains(&value);
            if fits { Ok(()) } else { Err(format!("{name} is {value}; it must be in [{min}, {max}]")) }
        };
        let some = |name: &str, span: Duration| match span {
            Duration::ZERO => Err(format!("{name} is zero; use for example \"1 s\"")),
            _ => Ok(()),
        };
        if !(4..=MAX_TRAIN).contains(&self.train) {
            return Err(format!("train is {} packets: use 4 to {MAX_TRAIN}", self.train));
        }
        within("first_window", self.first_window, 1.0, 1e3)?;
        within("first_share", self.first_share, 1e-6, 1.0)?;
        within("noise", self.noise, 0.0, 100.0)?;
        within("target", self.target, 0.0, 1e3)?;
        within("ceiling", self.ceiling, 1.0, 1e3)?;
        within("delay_gain", self.delay_gain, 0.0, 1.0)?;
        within("gap_gain", self.gap_gain, 0.0, 1.0)?;
        within("max_loss", self.max_loss, 0.0, 1.0)?;
        some("drain_after", self.drain_after.unwrap_or(Duration::from_secs(1)))?;
        some("min_delay_expiry", self.min_delay_expiry)?;
        if self.rigged == Some(Rate::ZERO) {
            return Err("rigged is no rate; use for example \"40 Mb/s\"".into());
        }
        if self.fastest == Rate::ZERO || self.fastest > Rate::from_bps(1_000_000_000_000) {
            return Err(format!("fastest is {}; use for example \"100 Gb/s\", at most 1000 Gb/s", self.fastest));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_trade_offs_marks_these_defaults() {
        let study: toml::Table = toml::from_str(include_str!("../../../../studies/pcp/tradeoffs.toml")).unwrap();
        let drawn = study["axes"]["settings"][0].as_table().unwrap();
        let defaults = toml::Table::try_from(Config::default()).unwrap();
        assert_eq!(drawn["name"].as_str(), Some("default"));
        for (setting, value) in drawn.iter().filter(|(setting, _)| *setting != "name") {
            assert_eq!(Some(value), defaults.get(setting), "{setting}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        for (text, word) in [
            ("train = 3", "train"),
            ("first_window = 0.5", "first_window"),
            ("noise = nan", "noise"),
            ("target = -1.0", "target"),
            ("ceiling = 0.9", "ceiling"),
            ("delay_gain = 1.5", "delay_gain"),
            ("max_loss = 1.5", "max_loss"),
            ("drain_after = '0 s'", "drain_after"),
            ("rigged = '0 Mb/s'", "rigged"),
            ("fastest = 'unlimited'", "fastest"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn there_are_fifteen_settings() {
        assert_eq!(toml::Table::try_from(Config::default()).unwrap().len(), 14, "and `rigged`, which is not set");
    }
}
