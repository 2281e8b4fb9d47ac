//! The terminal's table of a sweep: the columns of the schema that have a heading, as means over the seeds.

use std::iter::once;

use rampmeter_scenario::{About, Row, SEED, Scenario, Schema, Shown, Summary, Value, abouts};

use crate::chance::mean_and_half_interval;

/// Headings and rows. Each point has a row: its axes, its flows, each measured link, the run. Runs that differ in their
/// seeds only have one together, with means and half of their 95% confidence intervals (Student's t), unless `each` has a
/// row. If there are several kinds of measured traffic, a row for the flows of each kind follows.
pub fn overview(
    schema: &Schema,
    scenario: &Scenario,
    summaries: &[&Summary],
    each: bool,
) -> (Vec<String>, Vec<Vec<String>>) {
    let several_seeds = scenario.axes().iter().any(|axis| axis.name == SEED && axis.values.len() > 1);
    let means = several_seeds && !each;
    let axes: Vec<&str> = scenario.axes().iter().map(|axis| axis.name.as_str()).collect();
    let axes: Vec<&str> = axes.into_iter().filter(|axis| !(means && *axis == SEED)).collect();
    let several = summaries.iter().any(|run| !run.traffic.is_empty());
    let of_flows = shown(abouts(&schema.groups), || summaries.iter().map(|run| &run.flows));
    let of_links = shown(abouts(&schema.links), || summaries.iter().flat_map(|run| &run.links).map(|(_, link)| link));
    let of_runs = shown(abouts(&schema.runs), || summaries.iter().map(|run| &run.run));

    let mut head: Vec<String> = axes.iter().map(ToString::to_string).collect();
    head.extend(means.then(|| "seeds".to_owned()));
    head.extend(several.then(|| "traffic".to_owned()));
    head.extend(of_flows.iter().map(|(_, shown)| shown.heading.to_owned()));
    head.extend(summaries.first().iter().flat_map(|run| &run.metrics).map(|(name, _)| name.clone()));
    let links: Vec<&str> = summaries.first().iter().flat_map(|run| &run.links).map(|(link, _)| link.as_str()).collect();
    match links[..] {
        [_] => head.extend(of_links.iter().map(|(_, shown)| shown.heading.to_owned())),
        _ => head.extend(
            links.iter().flat_map(|link| of_links.iter().map(move |(_, shown)| format!("{link} {}", shown.heading))),
        ),
    }
    head.extend(of_runs.iter().map(|(_, shown)| shown.heading.to_owned()));

    let mut rows = Vec::new();
    let each_run = || summaries.iter().map(|run| vec![*run]).collect();
    for runs in if means { by_point(summaries.iter().copied()) } else { each_run() } {
        let first = runs[0];
        let of_axis = |axis: &&str| match first.point.get(axis) {
            Some(toml::Value::String(text)) => text.clone(),
            value => value.map_or_else(String::new, ToString::to_string),
        };
        let all = |part: &dyn Fn(&Summary) -> Option<&Row>| -> Vec<&Row> {
            runs.iter().filter_map(|run| part(run)).collect()
        };
        let mut row: Vec<String> = axes.iter().map(of_axis).collect();
        row.extend(means.then(|| runs.len().to_string()));
        row.extend(several.then(|| "all".to_owned()));
        row.extend(cells(&of_flows, &all(&|run| Some(&run.flows))));
        for metric in 0..first.metrics.len() {
            row.push(of_metric(&runs.iter().filter_map(|run| run.metrics.get(metric)?.1).collect::<Vec<_>>()));
        }
        for link in 0..first.links.len() {
            row.extend(cells(&of_links, &all(&|run| run.links.get(link).map(|(_, link)| link))));
        }
        row.extend(cells(&of_runs, &all(&|run| Some(&run.run))));
        rows.push(row);
        for (kind, (name, _)) in first.traffic.iter().enumerate() {
            let no_point = vec![String::new(); axes.len() + usize::from(means)];
            let flows = all(&|run| run.traffic.get(kind).map(|(_, flows)| flows));
            rows.push(no_point.into_iter().chain(once(name.clone())).chain(cells(&of_flows, &flows)).collect());
        }
    }
    (head, rows)
}

/// The runs of each point, seeds aside, in the order of the first ones.
pub(crate) fn by_point<'a>(summaries: impl IntoIterator<Item = &'a Summary>) -> Vec<Vec<&'a Summary>> {
    let mut points: Vec<Vec<&Summary>> = Vec::new();
    for run in summaries {
        match points.iter_mut().find(|known| known[0].point.is_beside(&run.point, SEED)) {
            Some(known) => known.push(run),
            None => points.push(vec![run]),
        }
    }
    points
}

/// The names and formats of the columns that the table shows: those of which one of the `rows` has a value.
fn shown<'a, R: Iterator<Item = &'a Row>>(
    columns: impl Iterator<Item = &'a About>,
    rows: impl Fn() -> R,
) -> Vec<(&'static str, Shown)> {
    let is_zero = |name| !rows().any(|row| row.number(name).is_some_and(|value| value != 0.0));
    let is_empty = |name| !rows().any(|row| !matches!(row.get(name), Value::Null));
    let shown = columns.filter_map(|about| Some((about.name, about.shown?)));
    shown.filter(|(name, _)| !is_empty(name)).filter(|(name, shown)| !(shown.unless_zero && is_zero(name))).collect()
}

/// The values of `rows`, which have the same columns.
fn cells(columns: &[(&'static str, Shown)], rows: &[&Row]) -> Vec<String> {
    let cell = |(name, shown): &(&'static str, Shown)| {
        let texts = rows.iter().filter_map(|row| match row.get(name) {
            Value::Text(text) => Some(text.clone()),
            Value::Truth(truth) => Some(truth.to_string()),
            _ => None,
        });
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        let numbers: Vec<f64> = rows.iter().filter_map(|row| row.number(name)).collect();
        let scaled = |value: f64| format!("{:.*}", shown.digits, value * shown.scale);
        match mean_and_half_interval(&numbers) {
            _ if numbers.is_empty() => texts.join(", "),
            (mean, None) => scaled(mean),
            (mean, Some(half)) => format!("{} ± {}", scaled(mean), scaled(half)),
        }
    };
    columns.iter().map(cell).collect()
}

/// A metric of the scenario's own, with four significant digits.
fn of_metric(values: &[f64]) -> String {
    let (mean, half) = mean_and_half_interval(values);
    match half {
        _ if values.is_empty() => String::new(),
        None => significant(mean),
        Some(half) => format!("{} ± {half:.*}", significant(mean), digits(mean)),
    }
}

/// A number with four significant digits.
pub fn significant(value: f64) -> String {
    format!("{value:.*}", digits(value))
}

/// The digits after the point of a number with four significant ones.
fn digits(value: f64) -> usize {
    (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 12.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "1 s"
[[link]]
name = "wire"
between = ["left", "right"]
rate = "1 Mb/s"
delay = "1 ms"
router = { kind = "drop-tail" }
"#;

    #[test]
    fn each_kind_of_traffic_has_a_row_below_all_traffic() {
        let (schema, scenario) = (Schema::default(), Scenario::parse_network("x.toml", TEXT).unwrap());
        let flows = |n| Row::from([("completed", Value::Whole(n)), ("fct_mean_s", Value::Number(0.0123))]);
        let one = Summary { point: scenario.points()[0].clone(), flows: flows(30), ..Summary::default() };
        let (head, rows) = overview(&schema, &scenario, &[&one], false);
        assert_eq!(head, ["seed", "transfers", "FCT ms"]);
        assert_eq!(rows, [["1", "30", "12.3"]]);
        let traffic = [("web", 10), ("bulk", 20)].map(|(name, completed)| (name.into(), flows(completed)));
        let two = Summary { traffic: traffic.to_vec(), ..one };
        let (_, rows) = overview(&schema, &scenario, &[&two], false);
        let starts: Vec<&[String]> = rows.iter().map(|row| &row[..3]).collect();
        assert_eq!(starts, [["1", "all", "30"], ["", "web", "10"], ["", "bulk", "20"]]);
    }

    #[test]
    fn headings_have_the_name_of_the_link_if_there_are_several() {
        let (schema, scenario) = (Schema::default(), Scenario::parse_network("x.toml", TEXT).unwrap());
        let head = |links: &[&str]| {
            let links = links.iter().map(|&link| (link.into(), Row::from([("utilization", Value::Number(0.5))])));
            let point = scenario.points()[0].clone();
            let run = Summary { point, links: links.collect(), ..Summary::default() };
            overview(&schema, &scenario, &[&run], false).0
        };
        assert_eq!(head(&["wire"]), ["seed", "used %"]);
        assert_eq!(head(&["east", "west"]), ["seed", "east used %", "west used %"]);
    }

    #[test]
    fn seeds_are_means_with_intervals() {
        let text = format!("axes = {{ seed = [1, 2, 3] }}{TEXT}");
        let (schema, scenario) = (Schema::default(), Scenario::parse_network("x.toml", &text).unwrap());
        let runs: Vec<Summary> = (scenario.points().into_iter().zip([0.01, 0.02, 0.03]))
            .map(|(point, fct)| {
                let flows = Row::from([("completed", Value::Whole(10)), ("fct_mean_s", Value::Number(fct))]);
                Summary { point, flows, ..Summary::default() }
            })
            .collect();
        let runs: Vec<&Summary> = runs.iter().collect();
        let (head, rows) = overview(&schema, &scenario, &runs, false);
        assert_eq!(head, ["seeds", "transfers", "FCT ms"]);
        assert_eq!(rows, [["3", "10 ± 0", "20.0 ± 24.8"]]);
        let (head, rows) = overview(&schema, &scenario, &runs, true);
        assert_eq!((head[0].as_str(), rows.len(), rows[2][2].as_str()), ("seed", 3, "30.0"));
    }
}
