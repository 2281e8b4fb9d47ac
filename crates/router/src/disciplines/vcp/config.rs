//! The router's parameters: the upper part of VCP's Table I, and those that the paper leaves open.

use rampmeter_units::{Bytes, Duration, LoadCodes};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::target;
use crate::disciplines::buffer::Room;
use crate::{Settings, check_range, ensure};

/// `t_q`: the sampling interval of the queue.
pub(super) const QUEUE_INTERVAL: Duration = Duration::from_millis(10);

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
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        for (name, value, usual) in
            [("target", self.target, 0.98), ("transition", self.transition, 0.8), ("goal_step", self.goal_step, 0.01)]
        {
            check_range(name, value, 0.0001..=1.0, &format!("as a share; VCP's is {usual}"))?;
        }
        check_range("queue_weight", self.queue_weight, 0.0..=1000.0, "as a factor; VCP's is 0.5")?;
        ensure(
            self.load_interval >= QUEUE_INTERVAL,
            "load_interval is shorter than 10 ms, in which the queue is sampled; VCP's is \"200 ms\"",
        )?;
        let usual = Self::default();
        for (name, is_usual) in [
            ("goal_step", self.goal_step == usual.goal_step),
            ("goal_interval", self.goal_interval == usual.goal_interval),
        ] {
            let error = format!("{name} has no effect without a goal: write one, for example goal = 0.95");
            ensure(is_usual || self.goal.is_some(), error)?;
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
