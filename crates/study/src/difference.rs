//! What differs between the results of two runs by more than chance explains.
//!
//! Runs are compared point by point, seeds aside. A value has changed if Student's t-test of the means over the seeds says
//! so, at a level of 1% for all values together (Bonferroni). One or two seeds do not show what chance explains: there
//! every difference is listed, as one that may be chance.

use rampmeter_scenario::{Point, Row, SEED, Summary};
use serde::Serialize;

use crate::chance::{difference_by_chance, mean};
use crate::overview::by_point;

/// The probability that runs of the same program have a difference that counts.
const LEVEL: f64 = 0.01;

/// The fewest seeds that show what chance explains.
const MIN_SEEDS: usize = 3;

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The point without its seed, as text.
    pub point: String,
    /// What has the value: `flows.fct_mean_s`, `links.bottleneck.utilization`.
    pub path: String,
    /// The mean over the seeds in the first run; `None` if it does not apply there.
    pub before: Option<f64>,
    /// The mean over the seeds in the second run.
    pub now: Option<f64>,
    /// Whether there are too few seeds to tell it from chance.
    pub may_be_chance: bool,
}

/// The comparison of two runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Differences {
    /// The values that differ, in the order of the first run.
    pub changes: Vec<Difference>,
    /// How many values were compared.
    pub compared: usize,
    /// Points of one of the two runs only, seeds aside: `[of the first, of the second]`.
    pub unmatched: [Vec<String>; 2],
}

impl Differences {
    /// Compares the runs `before` and `now`: all values, or those whose paths are or begin with one of `paths`.
    pub fn of(before: &[Summary], now: &[Summary], paths: &[String]) -> Self {
        let [first, second] = [before, now].map(by_point);
        let alone = |these: &[Runs<'_>], those: &[Runs<'_>]| {
            let these = these.iter().filter(|runs| of_point(those, &runs[0].point).is_none());
            these.map(|runs| text(&runs[0].point)).collect()
        };
        let values: Vec<(&Point, Compared)> = first
            .iter()
            .filter_map(|runs| Some((runs, of_point(&second, &runs[0].point)?)))
            .flat_map(|(a, b)| compared(a, b).into_iter().map(|values| (&a[0].point, values)))
            .filter(|(_, values)| paths.is_empty() || paths.iter().any(|path| values.path.starts_with(path.as_str())))
            .collect();
        let level = LEVEL / values.len().max(1) as f64;
        let changes = values.iter().filter_map(|(point, Compared { path, before, now })| {
            let has_few_seeds = before.len().min(now.len()) < MIN_SEEDS;
            let [a, b] = [before, now].map(|values| (!values.is_empty()).then(|| mean(values)));
            let by_chance = if has_few_seeds { 0.0 } else { difference_by_chance(before, now, level) };
            let change =
                Difference { point: text(point), path: path.clone(), before: a, now: b, may_be_chance: has_few_seeds };
            a.zip(b).is_none_or(|(a, b)| (a - b).abs() > by_chance).then_some(change)
        });
        Self {
            changes: changes.collect(),
            compared: values.len(),
            unmatched: [alone(&first, &second), alone(&second, &first)],
        }
    }
}

/// The runs of a point, seeds aside.
type Runs<'a> = Vec<&'a Summary>;

fn of_point<'a, 'r>(all: &'a [Runs<'r>], point: &Point) -> Option<&'a Runs<'r>> {
    all.iter().find(|runs| runs[0].point.is_beside(point, SEED))
}

fn text(point: &Point) -> String {
    let rest = point.iter().filter(|(axis, _)| *axis != SEED);
    rest.map(|(axis, value)| (axis.to_owned(), value.clone())).collect::<Point>().to_string()
}

/// A value that both runs have, for each seed.
struct Compared {
    path: String,
    before: Vec<f64>,
    now: Vec<f64>,
}

impl Compared {
    fn if_any(self) -> Option<Self> {
        Some(self).filter(|values| !(values.before.is_empty() && values.now.is_empty()))
    }
}

fn compared(before: &[&Summary], now: &[&Summary]) -> Vec<Compared> {
    let mut values: Vec<Compared> = Vec::new();
    for (part, row) in parts(before[0]) {
        for (column, _) in row.iter() {
            let path = if part.is_empty() { column.to_owned() } else { format!("{part}.{column}") };
            let of = |runs: &[&Summary]| runs.iter().filter_map(|run| value(run, &part, column)).collect::<Vec<_>>();
            values.extend(Compared { path, before: of(before), now: of(now) }.if_any());
        }
    }
    for (name, _) in &before[0].metrics {
        let metric = |run: &&Summary| run.metrics.iter().find(|(other, _)| other == name)?.1;
        let of = |runs: &[&Summary]| runs.iter().filter_map(metric).collect::<Vec<_>>();
        values.extend(Compared { path: format!("metrics.{name}"), before: of(before), now: of(now) }.if_any());
    }
    values
}

/// The rows of a run by their places in its JSON object.
fn parts(run: &Summary) -> Vec<(String, &Row)> {
    let own = [(String::new(), &run.run), ("flows".to_owned(), &run.flows)];
    let traffic = run.traffic.iter().map(|(name, row)| (format!("traffic.{name}"), row));
    let links = run.links.iter().map(|(name, row)| (format!("links.{name}"), row));
    own.into_iter().chain(traffic).chain(links).collect()
}

fn value(run: &Summary, part: &str, column: &str) -> Option<f64> {
    parts(run).into_iter().find(|(name, _)| name == part)?.1.number(column)
}

#[cfg(test)]
mod tests {
    use rampmeter_scenario::Value;

    use super::*;

    fn runs(scheme: &str, fcts: &[f64]) -> Vec<Summary> {
        let run = |(seed, fct): (usize, &f64)| {
            let axes = [("scheme".to_owned(), scheme.into()), ("seed".to_owned(), (seed as i64).into())];
            let flows = Row::from([("fct_mean_s", Value::Number(*fct))]);
            Summary { point: axes.into_iter().collect(), flows, ..Summary::default() }
        };
        fcts.iter().enumerate().map(run).collect()
    }

    #[test]
    fn only_what_chance_does_not_explain_has_changed() {
        let before = runs("pcp", &[1.0, 1.1, 0.9, 1.0]);
        assert_eq!(Differences::of(&before, &runs("pcp", &[1.0, 1.2, 0.8, 1.1]), &[]).changes, []);
        let slower = Differences::of(&before, &runs("pcp", &[2.0, 2.1, 1.9, 2.0]), &[]);
        assert_eq!(slower.compared, 1);
        let [change] = &slower.changes[..] else { panic!("{slower:?}") };
        assert_eq!((change.point.as_str(), change.path.as_str()), (r#"scheme = "pcp""#, "flows.fct_mean_s"));
        assert_eq!((change.before, change.now, change.may_be_chance), (Some(1.0), Some(2.0), false));
    }

    #[test]
    fn only_the_values_that_are_asked_for_are_compared() {
        let (before, now) = (runs("pcp", &[1.0]), runs("pcp", &[2.0]));
        assert_eq!(Differences::of(&before, &now, &["flows.fct".into()]).compared, 1);
        assert_eq!(Differences::of(&before, &now, &["links".into()]).compared, 0);
    }

    #[test]
    fn a_value_that_vanishes_has_changed() {
        let before = runs("pcp", &[1.0, 1.1, 0.9]);
        let mut now = before.clone();
        for run in &mut now {
            run.flows = Row::from([("fct_mean_s", Value::Null)]);
        }
        let [change] = &Differences::of(&before, &now, &[]).changes[..] else { panic!() };
        assert!((change.before.unwrap() - 1.0).abs() < 1e-9 && change.now.is_none(), "{change:?}");
    }

    #[test]
    fn with_one_seed_every_difference_may_be_chance() {
        let same = Differences::of(&runs("pcp", &[1.0]), &runs("pcp", &[1.0]), &[]);
        assert_eq!(same.changes, []);
        let other = Differences::of(&runs("pcp", &[1.0]), &runs("pcp", &[1.01]), &[]);
        assert!(other.changes[0].may_be_chance);
    }

    #[test]
    fn points_of_one_run_are_listed() {
        let both = Differences::of(&runs("pcp", &[1.0]), &runs("tcp", &[1.0]), &[]);
        assert_eq!(
            (both.compared, both.unmatched),
            (0, [vec![r#"scheme = "pcp""#.into()], vec![r#"scheme = "tcp""#.into()]])
        );
    }
}
