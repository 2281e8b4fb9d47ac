//! A metric: a value of the runs, averaged over all axes except those in `by`.
//!
//! ```text
//!   mean | geometric_mean | median | p90 | min | max | sd = "flows.fct_mean_s"
//!                                            the value, by its path in a run's JSON object; "links.*.utilization" is
//!                                            that of every measured link, "traffic.*.goodput_mean_bps" of every kind
//!                                            of traffic
//!   over = "traffic.far.goodput_mean_bps"    divided by this value of the same run
//!   where = { scheme = "pcp" }               runs at these points; a list matches any of its values
//!   minus = { scheme = "fq" }                minus the same value at the same point with these values
//!   relative_to = { scheme = "fq" }          divided by the same value at these points, minus that of `minus` there
//!   by = ["load"]                            one value for every load; other axes are averaged
//!   in = { RTT = 0.025 }                     divided by this, which is the unit's name
//! ```
//!
//! `relative_to = { world = "simulated" }` divides by the value of the same point in that world.

mod check;
mod worlds;

use rampmeter_scenario::{Point, Row, SEED, Summary};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(super) use self::check::has_values;
pub(crate) use self::check::{Extent, Paths};
use self::worlds::{WORLD, is_at};

/// Stands for all measured links or kinds of traffic in place of a name.
const ALL: &str = "*";

/// The metric of a claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Entry")]
pub struct Metric {
    average: Average,
    path: String,
    over: Option<String>,
    of: Table,
    minus: Option<Table>,
    relative_to: Option<Table>,
    pub(super) by: Vec<String>,
    unit: Option<(String, f64)>,
}

/// The average over the values of several runs.
#[derive(Debug, Clone, Copy)]
enum Average {
    Mean,
    GeometricMean,
    Median,
    /// The smallest value that at least 90% of the values do not exceed.
    P90,
    Min,
    Max,
    /// The standard deviation of a sample.
    Sd,
}

/// The value of a metric for one combination of the values of `by`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The values of the axes in `by`.
    pub at: Table,
    /// The value; `None` if a run does not have it.
    pub value: Option<f64>,
    /// The lowest value that one seed gives; `None` if there is one seed, or if seeds have separate values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The highest value that one seed gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The averages that the value is computed from, if it is not an average itself: here, at `minus`, at
    /// `relative_to`, and at both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<f64>,
    /// The values of the single seeds, in their order; empty if a seed has none, or if seeds have separate values. Not
    /// kept in records.
    #[serde(skip)]
    pub seeds: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    mean: Option<String>,
    geometric_mean: Option<String>,
    median: Option<String>,
    p90: Option<String>,
    min: Option<String>,
    max: Option<String>,
    sd: Option<String>,
    over: Option<String>,
    #[serde(default)]
    r#where: Table,
    relative_to: Option<Table>,
    minus: Option<Table>,
    #[serde(default)]
    by: Vec<String>,
    r#in: Option<Table>,
}

impl TryFrom<Entry> for Metric {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let averages = [
            (Average::Mean, entry.mean),
            (Average::GeometricMean, entry.geometric_mean),
            (Average::Median, entry.median),
            (Average::P90, entry.p90),
            (Average::Min, entry.min),
            (Average::Max, entry.max),
            (Average::Sd, entry.sd),
        ];
        let mut named = averages.into_iter().filter_map(|(average, path)| Some((average, path?)));
        let (Some((average, path)), None) = (named.next(), named.next()) else {
            let averages = "mean, geometric_mean, median, p90, min, max, sd";
            return Err(format!("a metric has one of {averages} = \"flows.fct_mean_s\""));
        };
        let unit = entry.r#in.map(unit).transpose()?;
        let Entry { over, r#where: of, minus, relative_to, by, .. } = entry;
        Ok(Self { average, path, over, of, minus, relative_to, by, unit })
    }
}

fn unit(table: Table) -> Result<(String, f64), String> {
    let mut entries = table.into_iter();
    match (entries.next(), entries.next()) {
        (Some((name, size)), None) if number(&size).is_some_and(|size| size > 0.0) => {
            Ok((name, number(&size).unwrap_or(1.0)))
        }
        _ => Err("`in` names one unit and how much it is, for example { RTT = 0.025 }".into()),
    }
}

impl Metric {
    /// The unit of its values, if it has a name.
    pub fn unit(&self) -> Option<&str> {
        self.unit.as_ref().map(|(name, _)| name.as_str())
    }

    /// The unit of its values: `s`, `b/s`, `bytes`, `packets`, `transfers`, `fraction`, `ratio`, `Jain's index`, the name
    /// of a unit of its own, or empty for other numbers.
    pub fn quantity(&self) -> &str {
        let column = self.path.rsplit('.').next().unwrap_or_default();
        let suffixes = [
            ("_s", "s"),
            ("_bps", "b/s"),
            ("_bytes", "bytes"),
            ("_packets", "packets"),
            ("_rate", "fraction"),
            ("_share", "fraction"),
            ("utilization", "fraction"),
            ("completed", "transfers"),
            ("unfinished", "transfers"),
            ("_spread", "ratio"),
            ("_variation", "ratio"),
            ("_jain", "Jain's index"),
        ];
        let of_column = suffixes.iter().find(|(suffix, _)| column.ends_with(suffix)).map_or("", |(_, unit)| *unit);
        match self.unit() {
            Some(unit) => unit,
            None if self.relative_to.is_some() || self.over.is_some() => "ratio",
            None => of_column,
        }
    }

    /// The axes whose values select its runs.
    pub(super) fn axes(&self) -> impl Iterator<Item = &String> {
        let compared = self.minus.iter().chain(&self.relative_to).flat_map(Table::keys);
        self.of.keys().chain(compared).chain(&self.by).filter(|axis| *axis != WORLD)
    }

    /// A text that differs between metrics whose values differ. A key that is missing leaves no trace in it, so a new
    /// key changes no text of a metric without it.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.insert(format!("{:?}", self.average), self.path.clone().into());
        let tables =
            [("where", Some(&self.of)), ("minus", self.minus.as_ref()), ("relative_to", self.relative_to.as_ref())];
        let tables = tables.into_iter().filter_map(|(key, table)| Some((key, Value::Table(table?.clone()))));
        let over = self.over.iter().map(|path| ("over", path.as_str().into()));
        let unit = self.unit.iter().map(|(_, size)| ("in", (*size).into()));
        let by = std::iter::once(("by", Value::from(self.by.clone())));
        table.extend(tables.chain(over).chain(unit).chain(by).map(|(key, value)| (key.to_owned(), value)));
        table.to_string()
    }

    /// Whether it uses `point`, in any world.
    pub(crate) fn needs(&self, point: &Point) -> bool {
        let divisor = self.relative_to.as_ref().map(|values| overridden(&self.of, values));
        std::iter::once(self.of.clone()).chain(divisor).any(|place| {
            let less = self.minus.as_ref().map(|values| overridden(&place, values));
            matches(point, &place) || less.is_some_and(|less| matches(point, &less))
        })
    }

    /// Its values, in the order in which their points first occur in `runs`.
    pub fn values(&self, runs: &[&Summary]) -> Vec<Measured> {
        let mut places: Vec<Table> = Vec::new();
        for run in runs.iter().filter(|run| is_at(run, &self.of)) {
            let of = |axis: &String| Some((axis.clone(), run.point.get(axis)?.clone()));
            let place: Table = self.by.iter().filter_map(of).collect();
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.into_iter().map(|at| self.measured(at, runs)).collect()
    }

    fn measured(&self, at: Table, runs: &[&Summary]) -> Measured {
        let (value, terms) = self.value(&at, runs).unzip();
        let terms = terms.filter(|_| self.minus.is_some() || self.relative_to.is_some() || self.unit.is_some());
        let seeds = if self.by.iter().any(|axis| axis == SEED) { Vec::new() } else { seeds(runs) };
        let of_seed = |seed: &Value| {
            let own: Vec<&Summary> = runs.iter().copied().filter(|run| run.point.get(SEED) == Some(seed)).collect();
            self.value(&at, &own).map(|(value, _)| value)
        };
        let of_seeds: Vec<f64> = seeds.iter().map(of_seed).collect::<Option<_>>().unwrap_or_default();
        let extreme = |pick: fn(f64, f64) -> f64| of_seeds.iter().copied().reduce(pick).filter(|_| of_seeds.len() > 1);
        let (min, max) = (extreme(f64::min), extreme(f64::max));
        Measured { at, value, min, max, terms: terms.unwrap_or_default(), seeds: of_seeds }
    }

    /// The value at `place`, and the averages that it is computed from.
    fn value(&self, place: &Table, runs: &[&Summary]) -> Option<(f64, Vec<f64>)> {
        let here = overridden(&self.of, place);
        let mut terms = Vec::new();
        let value = self.difference(&here, runs, &mut terms)?;
        let value = match &self.relative_to {
            None => value,
            Some(other) => value / self.difference(&overridden(&here, other), runs, &mut terms)?,
        };
        let value = value / self.unit.as_ref().map_or(1.0, |(_, size)| *size);
        value.is_finite().then_some((value, terms))
    }

    /// The value at `place`, minus that at the point of `minus`.
    fn difference(&self, place: &Table, runs: &[&Summary], terms: &mut Vec<f64>) -> Option<f64> {
        let value = self.averaged(place, runs)?;
        terms.push(value);
        let Some(other) = &self.minus else { return Some(value) };
        let less = self.averaged(&overridden(place, other), runs)?;
        terms.push(less);
        Some(value - less)
    }

    /// The values of one run; `None` if there are none.
    fn of_run(&self, run: &Summary) -> Option<Vec<f64>> {
        let mut values = values_at(run, &self.path)?;
        if let Some(over) = &self.over {
            let divisor = values_at(run, over)?.first().copied().filter(|divisor| *divisor != 0.0)?;
            for value in &mut values {
                *value /= divisor;
            }
        }
        Some(values)
    }

    /// The average at `place`; `None` if there is no run, or one without this value.
    fn averaged(&self, place: &Table, runs: &[&Summary]) -> Option<f64> {
        let at_place = runs.iter().filter(|run| is_at(run, place));
        let mut values = at_place.map(|run| self.of_run(run)).collect::<Option<Vec<_>>>()?.concat();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        match self.average {
            _ if n == 0 => None,
            Average::Mean => Some(mean(&values)),
            Average::GeometricMean => Some((values.iter().map(|value| value.ln()).sum::<f64>() / n as f64).exp()),
            Average::P90 => values.get((9 * n).div_ceil(10) - 1).copied(),
            Average::Median => Some(f64::midpoint(values[(n - 1) / 2], values[n / 2])),
            Average::Min => values.first().copied(),
            Average::Max => values.last().copied(),
            Average::Sd if n == 1 => None,
            Average::Sd => {
                let squares: f64 = values.iter().map(|value| (value - mean(&values)).powi(2)).sum();
                Some((squares / (n - 1) as f64).sqrt())
            }
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The seeds of `runs`, each once.
fn seeds(runs: &[&Summary]) -> Vec<Value> {
    let mut seeds: Vec<Value> = Vec::new();
    for seed in runs.iter().filter_map(|run| run.point.get(SEED)) {
        if !seeds.contains(seed) {
            seeds.push(seed.clone());
        }
    }
    seeds
}

/// `place` with its values replaced by those of `other`.
fn overridden(place: &Table, other: &Table) -> Table {
    place.iter().chain(other).map(|(axis, value)| (axis.clone(), value.clone())).collect()
}

/// Whether `point` is at `place`, in any world.
pub(super) fn matches(point: &Point, place: &Table) -> bool {
    place.iter().filter(|(axis, _)| *axis != WORLD).all(|(axis, wanted)| {
        point.get(axis).is_some_and(|value| match wanted {
            Value::Array(several) => several.iter().any(|wanted| is_equal(value, wanted)),
            wanted => is_equal(value, wanted),
        })
    })
}

/// Whether two values of an axis are equal; 1 and 1.0 are.
pub(super) fn is_equal(value: &Value, wanted: &Value) -> bool {
    match (number(value), number(wanted)) {
        (Some(value), Some(wanted)) => value == wanted,
        _ => value == wanted,
    }
}

pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}

/// Values by their path in the run's JSON object: one, or that of every link or kind of traffic, whose names may
/// contain dots. `None` if there is no such value.
fn values_at(run: &Summary, path: &str) -> Option<Vec<f64>> {
    let (part, rest) = path.split_once('.').unwrap_or(("", path));
    let rows: &[(String, Row)] = match part {
        "" => return Some(vec![run.run.number(rest)?]),
        "flows" => return Some(vec![run.flows.number(rest)?]),
        "links" => &run.links,
        _ => &run.traffic,
    };
    let (name, column) = rest.rsplit_once('.')?;
    match name {
        ALL => rows.iter().map(|(_, row)| row.number(column)).collect(),
        name => Some(vec![rows.iter().find(|(known, _)| known == name)?.1.number(column)?]),
    }
}

/// The value of a run at a path that names one; `None` if there is no such value.
pub(crate) fn value_at(run: &Summary, path: &str) -> Option<f64> {
    values_at(run, path)?.first().copied()
}

#[cfg(test)]
mod tests;
