//! Metrics that compare worlds: `relative_to = { world = "simulated" }` of a claim with `world = "emulated"`.
//!
//! The world of a run is like one more axis, which only these metrics have.

use rampmeter_scenario::{Summary, Value as Cell};
use toml::{Table, Value};

use super::{Metric, matches};

/// The name of this axis.
pub(super) const WORLD: &str = "world";

const WORLDS: [&str; 2] = ["simulated", "emulated"];

impl Metric {
    /// The world that it is relative to, if it compares worlds.
    pub(in crate::claims) fn other_world(&self) -> Option<&str> {
        self.relative_to.as_ref()?.get(WORLD)?.as_str()
    }

    /// The metric of a claim about runs in `world`.
    pub(in crate::claims) fn in_world(mut self, world: &str) -> Result<Self, String> {
        let Some(other) = self.relative_to.as_ref().and_then(|values| values.get(WORLD)) else { return Ok(self) };
        if !WORLDS.iter().any(|known| *known != world && other.as_str() == Some(known)) {
            let wrong = format!("the world of `relative_to` is {other}, and that of the claim \"{world}\"");
            return Err(format!("{wrong}; write world = \"emulated\" and relative_to = {{ world = \"simulated\" }}"));
        }
        self.of.insert(WORLD.into(), world.into());
        Ok(self)
    }
}

/// Whether `run` is at `place`, which may name a world.
pub(super) fn is_at(run: &Summary, place: &Table) -> bool {
    let in_world = |world: &str| matches!(run.run.get(WORLD), Cell::Text(name) if name == world);
    place.get(WORLD).and_then(Value::as_str).is_none_or(in_world) && matches(&run.point, place)
}
