//! The axes of a sweep as columns, with types derived from their values.

use rampmeter_scenario::{About, Axis, Kind, Point, Scenario, Value};

pub(crate) struct AxisColumns(Vec<(String, Kind)>);

impl AxisColumns {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self(scenario.axes().iter().map(|axis| (axis.name.clone(), kind(axis))).collect())
    }

    /// The columns of a table: the axes, followed by `own`.
    pub(crate) fn columns(&self, own: &[&About]) -> Vec<(String, Kind)> {
        let taken = |name: &str| self.0.iter().any(|(axis, _)| axis == name);
        let rename = |name: &str| if taken(name) { format!("its_{name}") } else { name.to_owned() };
        self.0.iter().cloned().chain(own.iter().map(|own| (rename(own.name), own.kind))).collect()
    }

    pub(crate) fn values(&self, point: &Point) -> Vec<Value> {
        self.0.iter().map(|(axis, kind)| point.get(axis).map_or(Value::Null, |of_axis| value(of_axis, *kind))).collect()
    }
}

/// The type of an axis: whole numbers, numbers or booleans; text if the types of the values differ.
fn kind(axis: &Axis) -> Kind {
    let all = |kind: fn(&toml::Value) -> bool| axis.values.iter().all(kind);
    if all(toml::Value::is_integer) {
        Kind::Whole
    } else if all(|value| value.is_integer() || value.is_float()) {
        Kind::Number
    } else if all(toml::Value::is_bool) {
        Kind::Truth
    } else {
        Kind::Text
    }
}

fn value(of_axis: &toml::Value, kind: Kind) -> Value {
    match (of_axis, kind) {
        (toml::Value::Integer(value), Kind::Whole) => Value::Whole(*value),
        (toml::Value::Integer(value), Kind::Number) => Value::Number(*value as f64),
        (toml::Value::Float(value), Kind::Number) => Value::Number(*value),
        (toml::Value::Boolean(value), Kind::Truth) => Value::Truth(*value),
        (toml::Value::String(value), _) => Value::Text(value.clone()),
        (value, _) => Value::Text(value.to_string()),
    }
}
