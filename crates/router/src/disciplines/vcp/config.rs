//! The router's parameters: the upper part of VCP's Table I, and those that the paper leaves open.

use rampmeter_units::{Bytes, Duration, LoadCodes};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::target;
use crate::disciplines::buffer::Room;
use crate::{Settings, check_range, ensure};

/// Settings of a VCP router. Without a limit no packet is dropped.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queues, data and acknowledgements together.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queues, data and acknowledgements together.
    pub bytes: Option<Bytes>,
    /// The interval over which the load is measured: longer than most round trips (`t_rho`, section III-B).
    #[default(Duration::from_millis(200))]
    pub load_interval: Duration,
    /// The sampling interval of the queue (`t_q`).
    #[default(Duration::from_millis(10))]
    pub queue_interval: Duration,
    /// The weight of the previous average in the average queue (`a`, rule R.2).
    #[default(0.875)]
    pub queue_memory: f64,
    /// The fraction of the queue that counts as load, so that it drains (`kappa_q`).
    #[default(0.5)]
    pub queue_weight: f64,
    /// The target utilization, as a share of the link's rate (`gamma`); with a `goal`, its initial value.
    #[default(0.98)]
    pub target: f64,
    /// The load factor from which the load is high; below senders' `beta`, 0.875, so that a decrease after overload
    /// ends in high load and not in low (section III-B).
    #[default(0.8)]
    pub transition: f64,
    /// The code of each load region; the same for all routers and hosts of a network.
    pub codes: LoadCodes,
    /// The utilization to reach by adjusting the target (`gamma*`, eq. 14). `None`: the target is constant, or in
    /// VCP+ the goal is 0.99.
    pub goal: Option<f64>,
    /// The step of an adjustment (`delta gamma`).
    #[default(0.01)]
    pub goal_step: f64,
    /// The interval between adjustments (`T_gamma`), in whole load intervals: much longer than a round trip.
    #[default(Duration::from_secs(10))]
    pub goal_interval: Duration,
    /// Mark with a probability in overload, as RED does, for coexistence with TCP (section VI-C).
    pub probabilistic_marking: bool,
    /// With probabilistic marking: the probability just below `mark_all_from` (RED's `max_p`; 1/50 in Floyd and
    /// Jacobson 1993). It rises linearly from 0 at a load factor of 1.
    #[default(0.02)]
    pub max_mark_probability: f64,
    /// With probabilistic marking: the load factor from which every packet is marked (RED's `max_th`).
    #[default(1.2)]
    pub mark_all_from: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        for (name, value, usual) in [
            ("target", self.target, 0.98),
            ("transition", self.transition, 0.8),
            ("max_mark_probability", self.max_mark_probability, 0.02),
            ("goal_step", self.goal_step, 0.01),
        ] {
            check_range(name, value, 0.0001..=1.0, &format!("as a share; VCP's is {usual}"))?;
        }
        let Self { queue_memory, queue_weight, mark_all_from, .. } = *self;
        ensure(
            (0.0..1.0).contains(&queue_memory),
            format!("queue_memory = {queue_memory}: write a number from 0 to below 1; VCP's is 0.875"),
        )?;
        check_range("queue_weight", queue_weight, 0.0..=1000.0, "as a factor; VCP's is 0.5")?;
        check_range("mark_all_from", mark_all_from, 1.001..=1000.0, "as a load; overload begins at 1")?;
        ensure(
            self.load_interval > Duration::ZERO && self.queue_interval > Duration::ZERO,
            "load_interval and queue_interval cannot be 0; VCP's are \"200 ms\" and \"10 ms\"",
        )?;
        ensure(
            self.queue_interval <= self.load_interval,
            "queue_interval is longer than load_interval: write a fraction of load_interval, for example \"10 ms\"",
        )?;
        let usual = Self::default();
        let (a_goal, marking) =
            ("a goal: write one, for example goal = 0.95", "probabilistic_marking: write probabilistic_marking = true");
        for (name, is_usual, is_used, missing) in [
            ("goal_step", self.goal_step == usual.goal_step, self.goal.is_some(), a_goal),
            ("goal_interval", self.goal_interval == usual.goal_interval, self.goal.is_some(), a_goal),
            (
                "max_mark_probability",
                self.max_mark_probability == usual.max_mark_probability,
                self.probabilistic_marking,
                marking,
            ),
            ("mark_all_from", mark_all_from == usual.mark_all_from, self.probabilistic_marking, marking),
        ] {
            ensure(is_usual || is_used, format!("{name} has no effect without {missing}"))?;
        }
        if let Some(goal) = self.goal {
            let (min, max) = (target::MIN, target::MAX);
            for (name, share) in [("goal", goal), ("target", self.target)] {
                ensure(
                    (min..=max).contains(&share),
                    format!("{name} = {share}: write a number from {min} to {max}, for example 0.98 (with a goal)"),
                )?;
            }
            ensure(
                self.goal_interval >= self.load_interval,
                "goal_interval is shorter than load_interval: write many round trips, for example \"10 s\"",
            )?;
        }
        Room::check(self.packets, self.bytes)
    }
}
