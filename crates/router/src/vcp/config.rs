//! The router's numbers: the upper part of VCP's Table I, and what the paper leaves to choose.

use rampmeter_units::{Bytes, Duration, LoadCodes};
use serde::{Deserialize, Serialize};

use super::target;
use crate::{Settings, buffer};

/// Tunables of a VCP router. Without a limit nothing is ever dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait, data and acknowledgements together.
    pub packets: Option<u64>,
    /// Most bytes that may wait, data and acknowledgements together.
    pub bytes: Option<Bytes>,
    /// Over what time the load is measured: longer than most round trips (`t_rho`, section III-B).
    pub load_interval: Duration,
    /// How often the queue is sampled (`t_q`).
    pub queue_interval: Duration,
    /// The weight of what was known of the queue before a sample (`a`, rule R.2).
    pub queue_memory: f64,
    /// How much of the queue counts as load, so that it drains (`kappa_q`).
    pub queue_weight: f64,
    /// The share of the link's rate that counts as full (`gamma`); where there is a `goal`, the first one.
    pub target: f64,
    /// The load factor from which the load is high; below senders' `beta`, 0.875, so that a cut from overload ends in high
    /// load and not in low (section III-B).
    pub transition: f64,
    /// Which code stands for which region; the same for all routers and hosts of a network.
    pub codes: LoadCodes,
    /// The utilization to reach by adjusting the target (`gamma*`, eq. 14). `None`: the target stays as it is.
    pub goal: Option<f64>,
    /// How far one adjustment goes (`delta gamma`).
    pub goal_step: f64,
    /// How often the target is adjusted (`T_gamma`), in whole load intervals: much longer than a round trip.
    pub goal_interval: Duration,
    /// Mark by chance in overload, as RED does, for the sake of TCP (section VI-C).
    pub mark_by_chance: bool,
    /// Then: the chance just below `mark_all_from` (RED's `max_p`; 1/50 in Floyd and Jacobson 1993). It rises evenly from 0
    /// at a load factor of 1.
    pub mark_most: f64,
    /// Then: the load factor from which every packet is marked (RED's `max_th`).
    pub mark_all_from: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: None,
            bytes: None,
            load_interval: Duration::from_millis(200),
            queue_interval: Duration::from_millis(10),
            queue_memory: 0.875,
            queue_weight: 0.5,
            target: 0.98,
            transition: 0.8,
            codes: LoadCodes::Ect1Low,
            goal: None,
            goal_step: 0.01,
            goal_interval: Duration::from_secs(10),
            mark_by_chance: false,
            mark_most: 0.02,
            mark_all_from: 1.2,
        }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let share = |name: &str, value: f64, usual: f64| {
            let fits = value > 0.0 && value <= 1.0;
            if fits {
                Ok(())
            } else {
                Err(format!("{name} = {value} is no share: above 0, at most 1; VCP's is {usual}"))
            }
        };
        share("target", self.target, 0.98)?;
        share("transition", self.transition, 0.8)?;
        share("mark_most", self.mark_most, 0.02)?;
        share("goal_step", self.goal_step, 0.01)?;
        if let Some(goal) = self.goal {
            share("goal", goal, 0.98)?;
        }
        if !(0.0..1.0).contains(&self.queue_memory) {
            return Err(format!("queue_memory = {}: 0 or more, below 1; VCP's is 0.875", self.queue_memory));
        }
        if !(0.0..=1000.0).contains(&self.queue_weight) {
            return Err(format!("queue_weight = {}: 0 or more; VCP's is 0.5", self.queue_weight));
        }
        if self.mark_all_from.is_nan() || self.mark_all_from <= 1.0 {
            return Err(format!("mark_all_from = {}: above 1, where overload begins", self.mark_all_from));
        }
        if self.load_interval == Duration::ZERO || self.queue_interval == Duration::ZERO {
            return Err("load_interval and queue_interval can't be 0; VCP's are \"200 ms\" and \"10 ms\"".into());
        }
        if self.queue_interval > self.load_interval {
            return Err("queue_interval is longer than load_interval: the queue is sampled several times in one".into());
        }
        let usual = Self::default();
        let (no_goal, no_chance) = (self.goal.is_none(), !self.mark_by_chance);
        let (a_goal, chance) = ("a goal: give one, for example 0.95", "mark_by_chance: say mark_by_chance = true");
        for (name, given, in_vain, lacks) in [
            ("goal_step", self.goal_step != usual.goal_step, no_goal, a_goal),
            ("goal_interval", self.goal_interval != usual.goal_interval, no_goal, a_goal),
            ("mark_most", self.mark_most != usual.mark_most, no_chance, chance),
            ("mark_all_from", self.mark_all_from != usual.mark_all_from, no_chance, chance),
        ] {
            if given && in_vain {
                return Err(format!("{name} does nothing without {lacks}"));
            }
        }
        let reached = |share: f64| (target::LEAST..=target::MOST).contains(&share);
        for (name, share) in [("goal", self.goal.unwrap_or(target::MOST)), ("target", self.target)] {
            if self.goal.is_some() && !reached(share) {
                let (least, most) = (target::LEAST, target::MOST);
                return Err(format!("{name} = {share}: with a goal the target moves between {least} and {most}"));
            }
        }
        if self.goal.is_some() && self.goal_interval < self.load_interval {
            return Err("goal_interval is shorter than load_interval: much longer than a round trip, \"10 s\"".into());
        }
        buffer::Config { packets: self.packets, bytes: self.bytes }.check()
    }
}
