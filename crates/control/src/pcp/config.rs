//! Every number in PCP, with its section of the paper or the reason for its value.

use rampmeter_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

use super::probe::MOST_PACKETS;
use crate::Settings;

/// Tunables of PCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First probes: packets that one maximum-size packet is divided into (section 3.1, `k`).
    pub chunks: usize,
    /// Later probes: maximum-size packets (section 3.1, `k` again).
    pub train: usize,
    /// Growth of delay over a train that passes as flat, in packet times at the best rate known; 0 is the paper.
    pub noise: f64,
    /// What delays differ by without a queue is measured and taken for no wait and no growth, up to this: beyond it is
    /// traffic, not a host that is late. Zero is the paper.
    pub most_noise: Duration,
    /// The same where the way back says that it is hosts, up to this. Zero is the paper.
    pub most_late: Duration,
    /// Trains take so many times as long as hosts are late, if that takes no more packets than `longest_train`.
    pub outlast: f64,
    /// Most packets of a train that is made longer for that.
    pub longest_train: usize,
    /// Growth of delay over a train that the clocks can't resolve.
    pub resolution: Duration,
    /// Packets of a train that may be lost, or their receipts, for it still to be judged; 0 is the paper.
    pub missing_receipts: usize,
    /// One packet of a train is left out if the others lie so many times closer to a line without it; 0 is the paper.
    pub outlier: f64,
    /// Round trips after its last packet until a train counts as lost; doubled every time nothing at all came back.
    pub patience: f64,
    /// The same, at least: a handshake's round trip says little of a full packet's on a slow link (section 3.3).
    pub least_patience: Duration,
    /// Share of a round trip's packets, beyond four, that may be lost before the rate is halved for it; 1 is the paper.
    pub most_lost: f64,
    /// Compensate for gaps that grow on the way (section 3.2, first mechanism).
    pub gap: bool,
    /// Compensate for delay above its minimum (section 3.2, second mechanism).
    pub delay: bool,
    /// Share of the cut that delay asks for which is made, in \[0, 1\]; 1 is the paper.
    pub permanent: f64,
    /// The same for a gap that grows by no more than `overrun`; 1 is the paper.
    pub gap_gain: f64,
    /// Growth of delay, in seconds a second, that says the link is overrun: from there on gaps are answered in full.
    pub overrun: f64,
    /// Largest cut in one round trip (section 3.2: TCP's).
    pub most_cut: f64,
    /// Share of the lowest delays of a round trip that are dropped (section 3.2).
    pub outliers: f64,
    /// Quantile of a round trip's delays that stands for the queue; the paper's largest, less a tenth, is 0.9.
    pub level: f64,
    /// Queue that a flow lets be, in packet times at the path's capacity, for each e-fold that its rate is less than the
    /// capacity; 0 is the paper.
    pub tolerance: f64,
    /// The most of it, as a share of the queue that was there when packets were lost.
    pub of_buffer: f64,
    /// Time after which a queue that never emptied is cleared away; none is the paper.
    pub clear_after: Option<Duration>,
    /// Share of its rate that a flow keeps while it clears.
    pub clear_share: f64,
    /// Round trips that clearing takes.
    pub clear_rounds: f64,
    /// Round trips for which a cut counts as already made (section 3.2).
    pub settle: f64,
    /// Age at which the least delay is forgotten, for routes that grew longer (section 3.2 names no number).
    pub min_delay_expiry: Duration,
    /// Take round trips for one-way delays, as with a receiver that does not say when packets arrived (section 3.5).
    pub round_trip: bool,
    /// Share of the least round-trip time that stands in for the least one-way delay; 0.5 is a symmetric path.
    pub forward_share: f64,
    /// Compete as TCP would with flows that don't give way.
    pub compete: bool,
    /// Compensate less while compensation does not help (section 3.5).
    pub tit_for_tat: bool,
    /// Round trips without effect until then (section 3.5: "several").
    pub tit_for_tat_after: u32,
    /// What compensation is divided by from then on (section 3.5).
    pub tit_for_tat_divisor: f64,
    /// Least rate a probe asks for, as a share of the base rate (section 3.3).
    pub least_step: f64,
    /// The same in packets a round trip for each flow of the macroflow, but no more than the base rate, and for one flow
    /// where there is none: a hundredth of very little gets nowhere. The paper has no such bound (0).
    pub least_probe: f64,
    /// Close each train with two packets sent together, whose spacing on arrival tells the path's capacity.
    pub pair: bool,
    /// Part of the capacity to which proportionate increase fills the link; none is the paper.
    pub fill: Option<f64>,
    /// Share of what is free that a newcomer may have.
    pub newcomer: f64,
    /// Time a packet waited from which it counts as having met others, in packet times.
    pub met: f64,
    /// Queue from which it, not trains, says how much to ask for, in packet times.
    pub standing: f64,
    /// After a failure, test what the slope of its delays says was left, instead of half.
    pub guided: bool,
    /// Longest interval between probes, in round trips (section 3.3).
    pub longest_backoff: f64,
    /// A macroflow with all flows of its host to a destination that rested for no longer than this goes on where the last
    /// one was (`resume`); none is the paper.
    pub resume: Option<Duration>,
    /// Share of the remembered rate to try first (section 3.4).
    pub first_share: f64,
    /// The rate that every transfer remembers, whatever went before: to see what wrong memories do (section 4.2.3).
    pub rigged: Option<Rate>,
    /// Least trust in the remembered rate, so that it can recover.
    pub least_trust: f64,
    /// Weight of a new rate in the remembered mean and deviation.
    pub history_gain: f64,
    /// A round trip that is shorter counts as this: what happens in less is timers and schedulers, not queues.
    pub shortest: Duration,
    /// Longest time between two packets: the base rate's floor.
    pub slowest: Duration,
    /// Highest rate ever tried.
    pub fastest: Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chunks: 5,
            train: 5,
            noise: 0.5,
            most_noise: Duration::from_micros(100),
            most_late: Duration::from_millis(5),
            outlast: 3.0,
            longest_train: 24,
            resolution: Duration::from_nanos(100),
            missing_receipts: 1,
            outlier: 4.0,
            patience: 2.0,
            least_patience: Duration::from_millis(200),
            most_lost: 0.1,
            gap: true,
            delay: true,
            permanent: 0.15,
            gap_gain: 0.45,
            overrun: 0.3,
            most_cut: 0.5,
            outliers: 0.1,
            level: 0.5,
            tolerance: 10.0,
            of_buffer: 0.25,
            clear_after: Some(Duration::from_millis(2500)),
            clear_share: 0.5,
            clear_rounds: 1.5,
            settle: 1.0,
            min_delay_expiry: Duration::from_secs(10),
            round_trip: false,
            forward_share: 0.5,
            compete: true,
            tit_for_tat: true,
            tit_for_tat_after: 4,
            tit_for_tat_divisor: 10.0,
            least_step: 0.01,
            least_probe: 0.3,
            pair: true,
            fill: Some(1.0),
            newcomer: 0.75,
            met: 0.6,
            standing: 2.0,
            guided: false,
            longest_backoff: 100.0,
            resume: Some(Duration::from_secs(60)),
            first_share: 1.0 / 3.0,
            rigged: None,
            least_trust: 0.5,
            history_gain: 0.25,
            shortest: Duration::from_millis(2),
            slowest: Duration::from_secs(5),
            fastest: Rate::from_bps(100_000_000_000),
        }
    }
}

impl Config {
    /// The paper's text as it stands, wherever it says something.
    pub fn paper() -> Self {
        Self {
            noise: 0.0,
            missing_receipts: 0,
            outlier: 0.0,
            most_noise: Duration::ZERO,
            most_late: Duration::ZERO,
            most_lost: 1.0,
            permanent: 1.0,
            gap_gain: 1.0,
            level: 0.9,
            tolerance: 0.0,
            clear_after: None,
            compete: false,
            least_probe: 0.0,
            pair: false,
            shortest: Duration::from_nanos(1),
            fill: None,
            resume: None,
            least_trust: 1.0 / 64.0,
            ..Self::default()
        }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let count = |name: &str, value: usize| match value {
            3..=MOST_PACKETS => Ok(()),
            _ => Err(format!("{name} is {value} packets: a line's slope and error take 3, and 64 are enough")),
        };
        let within = |name: &str, value: f64, least: f64, most: f64| {
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(format!("{name} is {value}; it must be in [{least}, {most}]")) }
        };
        let some = |name: &str, span: Duration| match span {
            Duration::ZERO => Err(format!("{name} is zero; use for example \"1 s\"")),
            _ => Ok(()),
        };
        count("chunks", self.chunks)?;
        count("train", self.train)?;
        count("longest_train", self.longest_train)?;
        if self.missing_receipts + 3 > self.chunks.min(self.train) {
            return Err(format!("missing_receipts is {}: 3 must remain of a train", self.missing_receipts));
        }
        within("outlier", self.outlier, 0.0, 1e6)?;
        if self.longest_train < self.train.max(self.chunks) {
            return Err(format!("longest_train is {} packets, less than train or chunks", self.longest_train));
        }
        within("outlast", self.outlast, 1.0, 100.0)?;
        within("most_late in seconds", self.most_late.as_secs_f64(), 0.0, 1.0)?;
        within("most_lost", self.most_lost, 0.0, 1.0)?;
        within("noise", self.noise, 0.0, 100.0)?;
        within("patience", self.patience, 1.0, 1e3)?;
        within("permanent", self.permanent, 0.0, 1.0)?;
        within("most_cut", self.most_cut, 0.0, 0.9)?;
        within("outliers", self.outliers, 0.0, 0.45)?;
        within("level", self.level, 0.0, 1.0)?;
        within("gap_gain", self.gap_gain, 0.0, 1.0)?;
        within("overrun", self.overrun, 0.0, 1e3)?;
        within("tolerance", self.tolerance, 0.0, 1e3)?;
        within("of_buffer", self.of_buffer, 0.0, 1e3)?;
        within("clear_share", self.clear_share, 0.01, 1.0)?;
        within("clear_rounds", self.clear_rounds, 0.5, 10.0)?;
        within("fill", self.fill.unwrap_or(1.0), 0.1, 4.0)?;
        within("newcomer", self.newcomer, 0.01, 1.0)?;
        within("met", self.met, 0.0, 100.0)?;
        within("standing", self.standing, 0.0, 1e3)?;
        within("settle", self.settle, 0.1, 10.0)?;
        within("forward_share", self.forward_share, 0.01, 1.0)?;
        within("tit_for_tat_divisor", self.tit_for_tat_divisor, 1.0, 1e6)?;
        within("least_step", self.least_step, 1e-6, 1.0)?;
        within("least_probe", self.least_probe, 0.0, 100.0)?;
        within("longest_backoff", self.longest_backoff, 1.0, 1e6)?;
        within("first_share", self.first_share, 1e-6, 1.0)?;
        within("least_trust", self.least_trust, 1e-9, 1.0)?;
        within("history_gain", self.history_gain, 1e-6, 1.0)?;
        some("least_patience", self.least_patience)?;
        some("min_delay_expiry", self.min_delay_expiry)?;
        some("clear_after", self.clear_after.unwrap_or(Duration::from_secs(1)))?;
        some("shortest", self.shortest)?;
        some("slowest", self.slowest)?;
        if self.slowest > Duration::from_secs(3600) {
            return Err("slowest is over an hour: nothing would seem to move; use for example \"5 s\"".into());
        }
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
    fn nonsense_is_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        for (text, word) in [
            ("train = 2", "train"),
            ("noise = nan", "noise"),
            ("most_late = '2 s'", "most_late"),
            ("most_lost = 1.5", "most_lost"),
            ("longest_train = 4", "longest_train"),
            ("outlast = 0", "outlast"),
            ("permanent = 1.5", "permanent"),
            ("missing_receipts = 3", "missing_receipts"),
            ("fill = 0.0", "fill"),
            ("clear_after = '0 s'", "clear_after"),
            ("slowest = '0 s'", "slowest"),
            ("rigged = '0 Mb/s'", "rigged"),
            ("fastest = 'unlimited'", "fastest"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
