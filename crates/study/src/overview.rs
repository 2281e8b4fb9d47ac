//! The terminal's table of a sweep: the columns of the schema that have a heading.

use std::iter::once;

use rampmeter_scenario::{About, Row, Scenario, Schema, Shown, Summary, Value, abouts};

/// Headings and rows. Each point has a row: its axes, its flows, each measured link, the run. If there are several
/// kinds of measured traffic, a row for the flows of each kind follows.
pub fn overview(schema: &Schema, scenario: &Scenario, summaries: &[&Summary]) -> (Vec<String>, Vec<Vec<String>>) {
    let axes: Vec<&str> = scenario.axes().iter().map(|axis| axis.name.as_str()).collect();
    let several = summaries.iter().any(|run| !run.traffic.is_empty());
    let of_flows = shown(abouts(&schema.groups), || summaries.iter().map(|run| &run.flows));
    let of_links = shown(abouts(&schema.links), || summaries.iter().flat_map(|run| &run.links).map(|(_, link)| link));
    let of_runs = shown(abouts(&schema.runs), || summaries.iter().map(|run| &run.run));

    let mut head: Vec<String> = axes.iter().map(ToString::to_string).collect();
    head.extend(several.then(|| "traffic".to_owned()));
    head.extend(of_flows.iter().map(|(_, shown)| shown.heading.to_owned()));
    let links: Vec<&str> = summaries.first().iter().flat_map(|run| &run.links).map(|(link, _)| link.as_str()).collect();
    match links[..] {
        [_] => head.extend(of_links.iter().map(|(_, shown)| shown.heading.to_owned())),
        _ => head.extend(
            links.iter().flat_map(|link| of_links.iter().map(move |(_, shown)| format!("{link} {}", shown.heading))),
        ),
    }
    head.extend(of_runs.iter().map(|(_, shown)| shown.heading.to_owned()));

    let mut rows = Vec::new();
    for run in summaries {
        let of_axis = |axis: &&str| match run.point.get(axis) {
            Some(toml::Value::String(text)) => text.clone(),
            value => value.map_or_else(String::new, ToString::to_string),
        };
        let point = axes.iter().map(of_axis).chain(several.then(|| "all".to_owned()));
        let links = run.links.iter().flat_map(|(_, link)| cells(&of_links, link));
        rows.push(point.chain(cells(&of_flows, &run.flows)).chain(links).chain(cells(&of_runs, &run.run)).collect());
        for (name, flows) in &run.traffic {
            let no_point = axes.iter().map(|_| String::new());
            rows.push(no_point.chain(once(name.clone())).chain(cells(&of_flows, flows)).collect());
        }
    }
    (head, rows)
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

fn cells(columns: &[(&'static str, Shown)], row: &Row) -> impl Iterator<Item = String> {
    columns.iter().map(|(name, shown)| match row.get(name) {
        Value::Text(text) => text.clone(),
        Value::Truth(truth) => truth.to_string(),
        _ => row.number(name).map_or_else(String::new, |value| format!("{:.*}", shown.digits, value * shown.scale)),
    })
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
        let (head, rows) = overview(&schema, &scenario, &[&one]);
        assert_eq!(head, ["seed", "transfers", "FCT ms"]);
        assert_eq!(rows, [["1", "30", "12.3"]]);
        let traffic = [("web", 10), ("bulk", 20)].map(|(name, completed)| (name.into(), flows(completed)));
        let two = Summary { traffic: traffic.to_vec(), ..one };
        let (_, rows) = overview(&schema, &scenario, &[&two]);
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
            overview(&schema, &scenario, &[&run]).0
        };
        assert_eq!(head(&["wire"]), ["seed", "used %"]);
        assert_eq!(head(&["east", "west"]), ["seed", "east used %", "west used %"]);
    }
}
