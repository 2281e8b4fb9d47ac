//! The paths of a question's runs in a line each: the rate and the buffer of the measured link, and the round trip.

use rampmeter_scenario::{ConditionFacts, Plan, Point, Registries, Scenario};
use rampmeter_units::Rate;
use serde_json::{Map, Value};

/// The paths of the points of a scenario.
#[derive(Debug)]
pub(super) struct Paths<'a> {
    of_points: Vec<(Point, String)>,
    /// Axes that do not change a path.
    same: &'a [&'a str],
}

impl<'a> Paths<'a> {
    /// Those of `scenario`. The axes `same` do not change a path, so that only their first values count.
    pub(super) fn of(scenario: &Scenario, same: &'a [&'a str], registries: &Registries) -> Self {
        let axes = scenario.axes().iter().filter(|axis| same.contains(&axis.name.as_str()));
        let first: Vec<_> = axes.map(|axis| (axis.name.as_str(), axis.values.first())).collect();
        let points = scenario.points().into_iter();
        let points = points.filter(|point| first.iter().all(|(axis, value)| point.get(axis) == *value));
        let paths = points.filter_map(|point| {
            let path = path(&scenario.plan(&point, registries).ok()?)?;
            Some((point, path))
        });
        Self { of_points: paths.collect(), same }
    }

    /// The path at the place `at`, given by values of axes; empty if there are several.
    pub(super) fn at(&self, at: &Map<String, Value>) -> String {
        let is_at = |point: &Point| {
            let own = at.iter().filter(|(axis, _)| !self.same.contains(&axis.as_str()));
            let mut own = own.filter_map(|(axis, value)| Some((point.get(axis)?, value)));
            own.all(|(own, value)| serde_json::to_value(own).is_ok_and(|own| own == *value))
        };
        let paths = self.of_points.iter().filter(|(point, _)| is_at(point)).map(|(_, path)| path);
        let mut paths: Vec<&String> = paths.collect();
        paths.dedup();
        if let [path] = paths[..] { path.clone() } else { String::new() }
    }
}

/// `20 Mb/s, round trip 40 ms, buffer 400 ms`; `None` if no link is measured.
fn path(plan: &Plan) -> Option<String> {
    let link = plan.links.iter().find(|link| link.measured)?;
    let milliseconds = ConditionFacts::milliseconds;
    let capacity = link.capacity.as_ref().map(|capacity| format!(" on average ({})", capacity.kind()));
    let round_trip = plan.min_round_trip().map(|round_trip| format!(", round trip {}", milliseconds(round_trip)));
    let changes = (!link.changes.is_empty()).then(|| ", at first".to_owned());
    let room = link.room.filter(|_| link.config.rate < Rate::MAX);
    let buffer = room.map(|room| link.config.rate.time_to_send(plan.packet * room));
    let buffer = buffer.map(|buffer| format!(", buffer {}", milliseconds(buffer)));
    Some(
        link.config.rate.to_string() + &[capacity, round_trip, changes, buffer].map(Option::unwrap_or_default).concat(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"
duration = "1 s"
[axes]
scheme = ["tcp", "cubic"]
path = [{ name = "shallow", buffer = "10 ms" }, { name = "deep", buffer = "400 ms" }]
[[link]]
name = "bottleneck"
between = ["left", "right"]
rate = "20 Mb/s"
delay = "19 ms"
router = { kind = "drop-tail", packets = { time = "$path.buffer" } }
measure = true
[[hosts]]
name = "source"
at = "left"
rate = "unlimited"
delay = "0.5 ms"
[[hosts]]
name = "sink"
at = "right"
rate = "unlimited"
delay = "0.5 ms"
[scheme.tcp]
controller = "newreno"
[scheme.cubic]
controller = "cubic"
[[traffic]]
name = "bulk"
scheme = "$scheme"
from = "source"
to = "sink"
arrivals = { count = 1 }
"#;

    #[test]
    fn each_place_has_the_path_of_its_runs() {
        let paths = |text: &str| {
            let scenario = Scenario::parse("x.toml", text).unwrap();
            Paths::of(&scenario, &["scheme"], &Registries::default())
        };
        let at = |place: Value| place.as_object().unwrap().clone();
        let alone = paths(TEXT);
        let shallow = "20 Mb/s, round trip 40 ms, buffer 9.6 ms";
        assert_eq!(alone.at(&at(json!({ "path": "shallow", "scheme": "cubic" }))), shallow);
        assert_eq!(alone.at(&at(json!({ "path": "deep" }))), "20 Mb/s, round trip 40 ms, buffer 400 ms");
        assert_eq!(alone.at(&at(json!({}))), "", "there are two");
        let changed = paths(&TEXT.replace("measure", "changes = [{ at = \"0.5 s\", rate = \"2 Mb/s\" }]\nmeasure"));
        let deep = changed.at(&at(json!({ "path": "deep" })));
        assert_eq!(deep, "20 Mb/s, round trip 40 ms, at first, buffer 400 ms");
    }
}
