//! Expectations of claims: a bound for each value, or a shape of all values.
//!
//! A shape is judged by ratios of neighboring values, so every expectation is judged by one number, the worst.

use std::fmt;

use rampmeter_scenario::Axis;
use rampmeter_units::Known;
use serde::Deserialize;
use toml::{Table, Value};

use super::Measured;
use super::metric::{Extent, has_values, number};

/// The names of bounds for each value, and of shapes.
pub(super) const NAMES: [&str; 9] =
    ["at_most", "at_least", "below", "above", "between", "flat_within", "increasing_in", "decreasing_in", "order"];

/// An expectation, as in `expect = { at_most = 1.5 }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Bound {
    /// Every value is this or less.
    AtMost(f64),
    /// Every value is this or more.
    AtLeast(f64),
    /// Every value is less than this.
    Below(f64),
    /// Every value is more than this.
    Above(f64),
    /// Every value is one of these or between them.
    Between(f64, f64),
    /// The maximum is at most this many times the minimum.
    FlatWithin(f64),
    /// Values increase along this axis.
    IncreasingIn(String),
    /// Values decrease along this axis.
    DecreasingIn(String),
    /// Values increase in this order of an axis's values: `order = { scheme = ["fq", "pcp", "tcp"] }`.
    Order(Table),
}

impl TryFrom<Value> for Bound {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let entries: Vec<(String, Value)> = value.as_table().cloned().unwrap_or_default().into_iter().collect();
        let Ok([(name, value)]) = <[_; 1]>::try_from(entries) else {
            return Err(format!("`expect` is a table with one of {}: {{ at_most = 1.5 }}", NAMES.join(", ")));
        };
        let finite = |value: &Value| number(value).filter(|number| number.is_finite());
        let bound = || finite(&value).ok_or_else(|| format!("`{name}` is a number: {{ {name} = 1.5 }}"));
        let axis = || {
            let axis = value.as_str().map(str::to_owned);
            axis.ok_or_else(|| format!("`{name}` is the name of an axis: {{ {name} = \"load\" }}"))
        };
        match name.as_str() {
            "at_most" => bound().map(Self::AtMost),
            "at_least" => bound().map(Self::AtLeast),
            "below" => bound().map(Self::Below),
            "above" => bound().map(Self::Above),
            "flat_within" => bound().map(Self::FlatWithin),
            "increasing_in" => axis().map(Self::IncreasingIn),
            "decreasing_in" => axis().map(Self::DecreasingIn),
            "between" => match value.as_array().map(|ends| ends.iter().map(finite).collect::<Vec<_>>()).as_deref() {
                Some([Some(low), Some(high)]) => Ok(Self::Between(*low, *high)),
                _ => Err("`between` is two numbers: { between = [0.9, 1.1] }".into()),
            },
            "order" => Ok(Self::Order(value.as_table().cloned().unwrap_or_default())),
            _ => Err(format!("`expect` has no `{name}`; {}", Known::near(&name, NAMES))),
        }
    }
}

impl Bound {
    /// Checks that `axes` have the values of an order.
    pub(crate) fn check_values(&self, axes: &[Axis], extent: Extent) -> Result<(), String> {
        let Self::Order(order) = self else { return Ok(()) };
        let mut known = axes.iter().filter_map(|axis| Some((axis, order.get(&axis.name)?)));
        known.try_for_each(|(axis, values)| {
            has_values(axis, values, extent).map_err(|problem| format!("`order`: {problem}"))
        })
    }

    /// Checks that it fits a metric with a separate value for each value of the axes `by`.
    pub(crate) fn check(&self, by: &[String]) -> Result<(), String> {
        let axis = match self {
            Self::IncreasingIn(axis) | Self::DecreasingIn(axis) => axis,
            Self::Order(order) => match (order.len(), order.iter().next()) {
                (1, Some((axis, Value::Array(values)))) if values.len() > 1 => axis,
                _ => return Err("`order` lists values of one axis: { scheme = [\"fq\", \"pcp\", \"tcp\"] }".into()),
            },
            Self::Between(low, high) if low > high => {
                return Err(format!("no value is between {low} and {high}; swap them"));
            }
            _ => return Ok(()),
        };
        if by.contains(axis) {
            Ok(())
        } else {
            Err(format!("the metric has no separate values for `{axis}`; add it to `by`"))
        }
    }

    /// The value nearest to violating the bound, or furthest beyond it; for a shape, the worst ratio of neighbors.
    /// `None` if a value is missing.
    pub fn worst(&self, values: &[Measured]) -> Option<f64> {
        let plain = values.iter().map(|measured| measured.value).collect::<Option<Vec<f64>>>()?;
        let max = || plain.iter().copied().max_by(f64::total_cmp);
        let min = || plain.iter().copied().min_by(f64::total_cmp);
        match self {
            Self::AtMost(_) | Self::Below(_) => max(),
            Self::AtLeast(_) | Self::Above(_) => min(),
            Self::Between(low, high) => {
                let beyond = |value: &f64| (low - value).max(value - high);
                plain.iter().copied().max_by(|a, b| beyond(a).total_cmp(&beyond(b)))
            }
            Self::FlatWithin(_) => Some(max()? / min()?),
            Self::IncreasingIn(axis) => ratios(values, |at| number(at.get(axis)?)).min_by(f64::total_cmp),
            Self::DecreasingIn(axis) => ratios(values, |at| number(at.get(axis)?)).max_by(f64::total_cmp),
            Self::Order(order) => {
                let (axis, listed) = order.iter().next()?;
                let index = |value: &Value| listed.as_array()?.iter().position(|other| other == value);
                ratios(values, |at| Some(index(at.get(axis)?)? as f64)).min_by(f64::total_cmp)
            }
        }
    }

    /// The number of a bound for each value; `None` for a range or a shape.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::AtMost(bound) | Self::AtLeast(bound) | Self::Below(bound) | Self::Above(bound) => Some(*bound),
            _ => None,
        }
    }

    /// The ends of a range; `None` for other bounds.
    pub fn range(&self) -> Option<[f64; 2]> {
        match self {
            Self::Between(low, high) => Some([*low, *high]),
            _ => None,
        }
    }

    /// Whether the worst value is a ratio of values, which has no unit.
    pub fn is_shape(&self) -> bool {
        matches!(self, Self::FlatWithin(_) | Self::IncreasingIn(_) | Self::DecreasingIn(_) | Self::Order(_))
    }

    /// Whether `worst` meets the expectation.
    pub fn holds(&self, worst: f64) -> bool {
        match self {
            Self::AtMost(bound) | Self::FlatWithin(bound) => worst <= *bound,
            Self::AtLeast(bound) => worst >= *bound,
            Self::Below(bound) => worst < *bound,
            Self::Above(bound) => worst > *bound,
            Self::Between(low, high) => (*low..=*high).contains(&worst),
            Self::IncreasingIn(_) | Self::Order(_) => worst > 1.0,
            Self::DecreasingIn(_) => worst < 1.0,
        }
    }
}

/// The ratio of each value to the previous one in `rank`, among values whose points differ in no other axis. Points
/// without a rank are omitted.
fn ratios(values: &[Measured], rank: impl Fn(&Table) -> Option<f64>) -> impl Iterator<Item = f64> {
    let mut ranked: Vec<(f64, &Measured)> = values.iter().filter_map(|value| Some((rank(&value.at)?, value))).collect();
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut ratios = Vec::new();
    for (index, (rank, value)) in ranked.iter().enumerate() {
        let differ_in_one = |other: &Measured| {
            let differing = value.at.iter().filter(|(axis, here)| other.at.get(*axis) != Some(here));
            differing.count() == 1
        };
        let before = ranked[..index].iter().rev().find(|(other, measured)| other < rank && differ_in_one(measured));
        if let Some((_, before)) = before {
            ratios.extend(value.value.zip(before.value).map(|(here, before)| here / before));
        }
    }
    ratios.into_iter()
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "at most {bound}"),
            Self::AtLeast(bound) => write!(f, "at least {bound}"),
            Self::Below(bound) => write!(f, "below {bound}"),
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::FlatWithin(bound) => write!(f, "flat within {bound}"),
            Self::IncreasingIn(axis) => write!(f, "grows with {axis}"),
            Self::DecreasingIn(axis) => write!(f, "shrinks with {axis}"),
            Self::Order(order) => {
                let values = order.values().filter_map(Value::as_array).flatten();
                let names: Vec<String> =
                    values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
                f.write_str(&names.join(" < "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Bound {
        let table: Table = text.parse().unwrap();
        table["expect"].clone().try_into().unwrap()
    }

    fn by(axis: &str, values: &[(Value, f64)]) -> Vec<Measured> {
        let measured = |(at, value): &(Value, f64)| Measured {
            at: std::iter::once((axis.to_owned(), at.clone())).collect(),
            value: Some(*value),
            ..Measured::default()
        };
        values.iter().map(measured).collect()
    }

    #[test]
    fn the_worst_value_decides() {
        let values = by("load", &[(0.1.into(), 1.2), (0.2.into(), 0.8), (0.3.into(), 1.9)]);
        for (text, worst, holds) in [
            ("expect = { at_most = 1.9 }", 1.9, true),
            ("expect = { below = 1.9 }", 1.9, false),
            ("expect = { at_least = 0.9 }", 0.8, false),
            ("expect = { above = 0.7 }", 0.8, true),
            ("expect = { between = [0.5, 1.5] }", 1.9, false),
            ("expect = { between = [0.0, 2.0] }", 1.9, true),
            ("expect = { flat_within = 2.5 }", 1.9 / 0.8, true),
            ("expect = { increasing_in = 'load' }", 0.8 / 1.2, false),
            ("expect = { decreasing_in = 'load' }", 1.9 / 0.8, false),
        ] {
            let bound = bound(text);
            assert_eq!(bound.worst(&values), Some(worst), "{text}");
            assert_eq!(bound.holds(worst), holds, "{text}");
        }
    }

    #[test]
    fn a_wrong_expectation_says_what_is_possible() {
        for (text, advice) in [
            ("expect = {}", "`expect` is a table with one of at_most, at_least, below, above, between, "),
            ("expect = 1.5", "`expect` is a table with one of at_most, "),
            ("expect = { at_most = 1, at_least = 0 }", "`expect` is a table with one of at_most, "),
            ("expect = { atmost = 1 }", "`expect` has no `atmost`; did you mean `at_most`?"),
            ("expect = { at_most = 'x' }", "`at_most` is a number: { at_most = 1.5 }"),
            ("expect = { below = nan }", "`below` is a number: { below = 1.5 }"),
            ("expect = { between = [1] }", "`between` is two numbers: { between = [0.9, 1.1] }"),
            ("expect = { increasing_in = 3 }", "`increasing_in` is the name of an axis: "),
        ] {
            let table: Table = text.parse().unwrap();
            let refused = Bound::try_from(table["expect"].clone()).unwrap_err();
            assert!(refused.starts_with(advice), "{text}: {refused}");
        }
    }

    #[test]
    fn schemes_have_an_order_at_every_load() {
        let order = bound("expect = { order = { scheme = ['fq', 'pcp', 'tcp'] } }");
        assert_eq!(order.to_string(), "fq < pcp < tcp");
        let schemes = |tcp| by("scheme", &[("tcp".into(), tcp), ("pcp".into(), 0.2), ("fq".into(), 0.1)]);
        assert!(order.holds(order.worst(&schemes(0.3)).unwrap()));
        assert!(!order.holds(order.worst(&schemes(0.15)).unwrap()));
        assert!(order.check(&["load".into()]).unwrap_err().contains("add it to `by`"));
    }

    #[test]
    fn a_missing_value_leaves_a_claim_unjudged() {
        let mut values = by("load", &[(0.1.into(), 1.2), (0.2.into(), 0.8)]);
        values[1].value = None;
        assert_eq!(bound("expect = { at_most = 2 }").worst(&values), None);
    }
}
