//! Every number of PCP, with its section of the paper or the reason for its value: settings first, then constants.

use rampmeter_units::settings::check_range;
use rampmeter_units::{Duration, Rate};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::require;

/// Settings of PCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets in a train (section 3.1, `k`).
    #[default(5)]
    pub train: usize,
    /// Packets in the first round trip, unless the path is known to be idle; the same as TCP's initial window (RFC
    /// 6928).
    #[default(10.0)]
    pub first_window: f64,
    /// The growth of delay over a train that counts as flat, in packet times at the best known rate; 0 in the paper.
    #[default(0.5)]
    pub noise: f64,
    /// A flow's target queue, in packet times at the path's capacity, per e-fold of its rate below the capacity; 0 in
    /// the paper.
    #[default(3.0)]
    pub target: f64,
    /// The queue that is accepted for a few round trips, as a multiple of the target.
    #[default(3.3)]
    pub ceiling: f64,
    /// The share of the cut for delay that a flow makes, in \[0, 1\]; 1 in the paper.
    #[default(0.15)]
    pub delay_gain: f64,
    /// The time after which a queue that never emptied is drained, and the clock interval at which all flows in
    /// competitive mode drain. Without drains, flows that join never see the path's own delay.
    #[default(Some(Duration::from_millis(2500)))]
    pub drain_after: Option<Duration>,
    /// The age at which the minimum delay expires, in case the route has become longer (section 3.2 gives no number).
    #[default(Duration::from_secs(10))]
    pub min_delay_expiry: Duration,
    /// Compete as CUBIC does with flows that do not reduce their rates (section 3.5).
    #[default(true)]
    pub compete: bool,
    /// Use round-trip times instead of one-way delays, as with a receiver that does not report arrival times (section
    /// 3.5).
    pub round_trip: bool,
    /// The rate that every flow finds in its history instead of the real one, to measure the effect of a wrong history
    /// (section 4.2.3).
    pub rigged: Option<Rate>,
    /// The maximum rate that is ever tried.
    #[default(Rate::from_bps(100_000_000_000))]
    pub max_rate: Rate,
}

/// The maximum of the noise: jitter that is measured without a queue, and counts neither as waiting nor as growth.
/// Larger differences come from traffic, not from clocks.
pub(super) const MAX_NOISE: Duration = Duration::from_micros(100);

/// The maximum of the host jitter (`host_jitter`).
pub(super) const MAX_JITTER: Duration = Duration::from_millis(5);

/// A train takes this multiple of the host jitter, if `MAX_TRAIN` packets are enough for that. 3 MB to a host that
/// stalls a third of the time took 1.6 s with it and 2.0 s without.
pub(super) const TRAIN_PER_JITTER: f64 = 3.0;

/// The maximum number of packets in a train that is lengthened for host jitter.
pub(super) const MAX_TRAIN: usize = 24;

/// The number of packets or receipts of a train that may be lost without rejecting it: Figure 11 at 5% loss takes 564
/// ms with one, and 644 ms with the paper's zero.
pub(super) const MISSING_RECEIPTS: usize = 1;

/// One packet of a train is ignored if the other delays lie this many times closer to a line without it.
pub(super) const OUTLIER: f64 = 4.0;

/// The delay of this host's timers that packets make up for, as a multiple of the time of a bunch. Without it, a tunnel
/// over 100 Mb/s sends 6 to 11% of the time nothing although a packet is due.
pub(super) const TIMER_SLACK: u64 = 2;

/// The delay that a real host causes itself, as a share of the time of a bunch: 20 us. The first packet after a pause
/// needs some 7 us more to be encrypted and sent than one of many. A flow on 10 Gb/s that took this for waits behind
/// other traffic needed 0.4 s from 50 to 500 Mb/s.
pub(super) const HOST_DELAY: f64 = 0.1;

/// The maximum number of packets in a bunch: at 1500 bytes, what two buffers carry to the kernel.
pub(super) const MAX_BUNCH: u64 = 88;

/// The timeout for a train's receipts, in round trips after its last packet. It doubles with every train without any
/// receipt.
pub(super) const RECEIPT_TIMEOUT: f64 = 2.0;

/// The minimum of this timeout: the handshake's round-trip time is much shorter than a full packet's on a slow link
/// (section 3.3).
pub(super) const MIN_RECEIPT_TIMEOUT: Duration = Duration::from_millis(200);

/// The share of the cut for gaps that grow that a flow makes; 1 in the paper.
pub(super) const GAP_GAIN: f64 = 0.45;

/// The share of the remembered rate with which a flow starts on an idle path (section 3.4).
pub(super) const FIRST_SHARE: f64 = 1.0 / 3.0;

/// The share of a round trip's packets, beyond four packets, whose loss halves the rate. While the average loss is
/// above this share, almost no probe is sent. 1 in the paper.
pub(super) const MAX_LOSS: f64 = 0.1;

/// The growth of delay, in seconds per second, that shows an overloaded link. Above it the cut for gaps is made in full.
pub(super) const OVERLOAD_SLOPE: f64 = 0.3;

/// The maximum cut in one round trip (section 3.2: the same as TCP's).
pub(super) const MAX_CUT: f64 = 0.5;

/// The share of a round trip's lowest delays, and of its highest, that is discarded (section 3.2).
pub(super) const OUTLIERS: f64 = 0.1;

/// The number of round trips whose lowest level is the standing queue.
pub(super) const STANDING_ROUNDS: u64 = 8;

/// The maximum target, as a share of the longest queue seen while packets were lost: a buffer of three packets loses
/// 31% on Figure 8's 1 Mb/s without it, and 18% with it.
pub(super) const MAX_TARGET_OF_BUFFER: f64 = 0.25;

/// The share of its rate that a flow keeps while it drains a queue that never emptied, and the length of that drain in
/// round trips.
pub(super) const DRAIN_SHARE: f64 = 0.1;
pub(super) const DRAIN_ROUNDS: f64 = 1.5;

/// The share of the minimum round-trip time that replaces the unknown minimum one-way delay, as on a symmetric path.
pub(super) const FORWARD_SHARE: f64 = 0.5;

/// The minimum test rate, as a share of the base rate (section 3.3).
pub(super) const MIN_STEP: f64 = 0.01;

/// The same in packets per round trip for each flow of the macroflow, but no more than the base rate. A hundredth of a
/// very low rate does not help: Figure 4 at 0.90 takes 5.0 s without this rule and 1.3 s with it.
pub(super) const MIN_PROBE: f64 = 0.3;

/// The maximum that one probe is granted, as a share of the path's capacity. Two flows that find a path idle in the
/// same round trip then overload it by a third, not by a whole link. Without a maximum Figure 4 loses 0.02 to 0.1% at
/// every load.
pub(super) const MAX_JUMP: f64 = 1.0 / 3.0;

/// The wait, in packet times, from which a packet counts as delayed by other flows; below 1 (`growth`).
pub(super) const BUSY_WAIT: f64 = 0.6;

/// The queue, in packet times, from which the queue and not the trains determines the test rate.
pub(super) const STANDING: f64 = 2.0;

/// The maximum interval between probes, in round trips (section 3.3).
pub(super) const MAX_BACKOFF: f64 = 100.0;

/// A macroflow with all flows of its host to a destination resumes competitive mode if the previous one ended in it no
/// longer ago than this (`start`).
pub(super) const RESUME_WITHIN: Duration = Duration::from_secs(60);

/// The minimum trust in the remembered rate, so that it can recover.
pub(super) const MIN_TRUST: f64 = 0.5;

/// The weight of a new rate in the remembered mean and deviation.
pub(super) const HISTORY_GAIN: f64 = 0.25;

/// The minimum round-trip time: shorter ones depend on timers and schedulers, not on queues.
pub(super) const MIN_ROUND_TRIP: Duration = Duration::from_millis(2);

/// The maximum time between two packets, which sets the minimum base rate.
pub(super) const MAX_GAP: Duration = Duration::from_secs(10);

/// Unanswered packets from which an expiry of the retransmission timer means that no feedback arrives. With fewer each
/// loss is a single loss.
pub(crate) const MAX_UNANSWERED: u64 = 3;

/// The maximum round-trip time and the maximum wait for a probe. So a flow acts within minutes, whatever is measured.
pub(crate) const MAX_RTT: Duration = Duration::from_secs(60);

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let some =
            |name: &str, span| require(span > Duration::ZERO, || format!("{name} is zero; use for example \"1 s\""));
        let train = self.train;
        require((4..=MAX_TRAIN).contains(&train), || format!("train is {train} packets: use 4 to {MAX_TRAIN}"))?;
        check_range("first_window", self.first_window, 1.0..=1e3, "packets")?;
        check_range("noise", self.noise, 0.0..=100.0, "packet times")?;
        check_range("target", self.target, 0.0..=1e3, "packet times")?;
        check_range("ceiling", self.ceiling, 1.0..=1e3, "times the target")?;
        check_range("delay_gain", self.delay_gain, 0.0..=1.0, "of the cut")?;
        some("drain_after", self.drain_after.unwrap_or(Duration::from_secs(1)))?;
        some("min_delay_expiry", self.min_delay_expiry)?;
        require(self.rigged != Some(Rate::ZERO), || "rigged is zero; use for example \"40 Mb/s\"".into())?;
        let error = || format!("max_rate is {}; use for example \"100 Gb/s\", at most 1000 Gb/s", self.max_rate);
        require(self.max_rate > Rate::ZERO && self.max_rate <= Rate::from_bps(1_000_000_000_000), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_tradeoffs_marks_these_defaults() {
        let study: toml::Table = toml::from_str(include_str!("../../../../../studies/pcp/tradeoffs.toml")).unwrap();
        let drawn = study["axes"]["settings"][0].as_table().unwrap();
        let defaults = toml::Table::try_from(Config::default()).unwrap();
        assert_eq!(drawn["name"].as_str(), Some("default"));
        for (setting, value) in drawn.iter().filter(|(setting, _)| *setting != "name") {
            assert_eq!(Some(value), defaults.get(setting), "{setting}");
        }
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        for (text, word) in [
            ("train = 3", "train"),
            ("first_window = 0.5", "first_window"),
            ("noise = nan", "noise"),
            ("target = -1.0", "target"),
            ("ceiling = 0.9", "ceiling"),
            ("delay_gain = 1.5", "delay_gain"),
            ("drain_after = '0 s'", "drain_after"),
            ("rigged = '0 Mb/s'", "rigged"),
            ("max_rate = 'unlimited'", "max_rate"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn there_are_twelve_settings() {
        assert_eq!(toml::Table::try_from(Config::default()).unwrap().len(), 11, "and `rigged`, which is not set");
    }
}
