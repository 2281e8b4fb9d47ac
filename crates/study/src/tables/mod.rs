//! The tables of a run: one column per axis first, then the columns of the [`Schema`].
//!
//! A column of the schema that has the name of an axis is called `its_NAME`. The table of runs has the values of each kind
//! of traffic, too, if there are several, and the scenario's own metrics.

mod axes;
mod parquet;

use std::fs;
use std::path::Path;

use rampmeter_scenario::{Column, Kind, Registries, Row, Run, Scenario, Schema, Summary, Value, abouts};

use self::axes::AxisColumns;
pub(crate) use self::parquet::Table;
use crate::{StudyError, Task};

/// Writes all tables of the `finished` tasks, in their order, to `directory`. Outcomes are large, and are read from the
/// journal one after the other.
pub(crate) fn write<'a>(
    directory: &Path,
    scenario: &Scenario,
    schema: &Schema,
    finished: &[(&'a Task<'a>, &'a Summary)],
    registries: &Registries,
) -> Result<(), StudyError> {
    let axes = AxisColumns::of(scenario);
    let [runs, links, flows, link_series, flow_series] = schema.tables();
    let file = |name: &str| directory.join(format!("{name}.parquet"));
    let create = |(name, own): &(&str, Vec<_>)| Table::create(&file(name), &axes.columns(own));
    let more = More::of(schema, finished);
    let columns: Vec<(String, Kind)> = axes.columns(&runs.1).into_iter().chain(more.columns()).collect();
    let (mut runs, mut links, mut flows) = (Table::create(&file(runs.0), &columns)?, create(&links)?, create(&flows)?);
    let mut series = None;
    for &(task, summary) in finished {
        let Some(run) = task.kept(registries)? else {
            return Err(StudyError::file(directory, "completed", &format!("the record of {} is missing", task.point)));
        };
        let axes = axes.values(task.point);
        let values = |row: &Row| row.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        let own = [axes.clone(), values(&summary.run), values(&summary.flows), more.values(summary)];
        runs.row(own.into_iter().flatten())?;
        for (_, link) in &summary.links {
            links.row(axes.iter().cloned().chain(values(link)))?;
        }
        rows(&mut flows, &axes, &schema.flows, &run, &run.outcome.flows)?;
        if run.plan.meters.series_every.is_some() && series.is_none() {
            series = Some((create(&link_series)?, create(&flow_series)?));
        }
        if let Some((of_links, of_flows)) = &mut series {
            rows(of_links, &axes, &schema.link_series, &run, &run.outcome.series.links)?;
            rows(of_flows, &axes, &schema.flow_series, &run, &run.outcome.series.flows)?;
        }
    }
    if series.is_none() {
        // Those of an earlier version of the scenario.
        for name in [link_series.0, flow_series.0] {
            let path = file(name);
            if path.exists() {
                fs::remove_file(&path).map_err(|error| StudyError::file(&path, "removed", &error))?;
            }
        }
    }
    let (of_links, of_flows) = series.unzip();
    [Some(runs), Some(links), Some(flows), of_links, of_flows].into_iter().flatten().try_for_each(Table::close)
}

/// The columns of runs that depend on the scenario.
struct More {
    /// Kinds of traffic, if there are several, by columns of groups.
    traffic: Vec<(String, &'static str, Kind)>,
    metrics: Vec<String>,
}

impl More {
    fn of(schema: &Schema, finished: &[(&Task<'_>, &Summary)]) -> Self {
        let (mut kinds, mut metrics): (Vec<&String>, Vec<String>) = (Vec::new(), Vec::new());
        for (_, run) in finished {
            let new: Vec<&String> =
                run.traffic.iter().map(|(name, _)| name).filter(|name| !kinds.contains(name)).collect();
            kinds.extend(new);
            if metrics.is_empty() {
                metrics = run.metrics.iter().map(|(name, _)| name.clone()).collect();
            }
        }
        let of_kind = |kind: &String| {
            abouts(&schema.groups).map(|about| (kind.clone(), about.name, about.kind)).collect::<Vec<_>>()
        };
        Self { traffic: kinds.into_iter().flat_map(of_kind).collect(), metrics }
    }

    fn columns(&self) -> impl Iterator<Item = (String, Kind)> {
        let traffic = self.traffic.iter().map(|(kind, column, of)| (format!("traffic.{kind}.{column}"), *of));
        traffic.chain(self.metrics.iter().map(|name| (format!("metrics.{name}"), Kind::Number)))
    }

    fn values(&self, run: &Summary) -> Vec<Value> {
        let group = |kind: &str| run.traffic.iter().find(|(name, _)| name == kind).map(|(_, row)| row);
        let of_traffic =
            self.traffic.iter().map(|(kind, column, _)| group(kind).map_or(Value::Null, |row| row.get(column).clone()));
        of_traffic.chain(run.metrics.iter().map(|(_, value)| value.map_or(Value::Null, Value::Number))).collect()
    }
}

fn rows<T>(table: &mut Table, axes: &[Value], columns: &[Column<T>], run: &Run, parts: &[T]) -> Result<(), StudyError> {
    parts.iter().try_for_each(|part| {
        table.row(axes.iter().cloned().chain(columns.iter().map(|column| (column.read)(run, part))))
    })
}
