//! The axes of a sweep as columns, typed by their values.

use rampmeter_scenario::{Axis, Point, Scenario};
use toml::Value;

use super::Columns;
use super::parquet::{Cell, Kind};

/// A column for every axis.
pub(crate) struct AxisColumns(Vec<(String, Kind)>);

impl AxisColumns {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self(scenario.axes().iter().map(|axis| (axis.name.clone(), kind(axis))).collect())
    }

    /// The columns of a table that has `own` after the axes.
    pub(crate) fn columns(&self, own: Columns) -> Vec<(String, Kind)> {
        let taken = |name: &str| self.0.iter().any(|(axis, _)| axis == name);
        let rename = |name: &str| if taken(name) { format!("its_{name}") } else { name.to_owned() };
        self.0.iter().cloned().chain(own.iter().map(|(name, kind)| (rename(name), *kind))).collect()
    }

    pub(crate) fn cells(&self, point: &Point) -> Vec<Cell> {
        self.0.iter().map(|(axis, kind)| point.get(axis).map_or(Cell::Empty, |value| cell(value, *kind))).collect()
    }
}

/// Whole numbers, numbers, true or false; text as soon as values differ in kind.
fn kind(axis: &Axis) -> Kind {
    let all = |kind: fn(&Value) -> bool| axis.values.iter().all(kind);
    if all(Value::is_integer) {
        Kind::Whole
    } else if all(|value| value.is_integer() || value.is_float()) {
        Kind::Number
    } else if all(Value::is_bool) {
        Kind::Truth
    } else {
        Kind::Text
    }
}

fn cell(value: &Value, kind: Kind) -> Cell {
    match (value, kind) {
        (Value::Integer(value), Kind::Whole) => Cell::Whole(*value),
        (Value::Integer(value), Kind::Number) => Cell::Number(*value as f64),
        (Value::Float(value), Kind::Number) => Cell::Number(*value),
        (Value::Boolean(value), Kind::Truth) => Cell::Truth(*value),
        (Value::String(value), _) => Cell::text(value),
        (value, _) => Cell::text(&value.to_string()),
    }
}
