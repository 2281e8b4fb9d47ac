//! The tables of a run: one column per axis first, then the columns of the [`Schema`].
//!
//! A column of the schema that has the name of an axis is called `its_NAME`.

mod axes;
mod parquet;

use std::path::Path;

use rampmeter_scenario::{Column, Row, Run, Scenario, Schema, Summary, Value};

use self::axes::AxisColumns;
use self::parquet::Table;
use crate::{Finished, Journal, StudyError};

/// Writes all tables of a finished run to `directory`, in the order of the sweep, and returns the summaries. `results`
/// have the runs without their outcomes, which are large and are read from the journal.
pub(crate) fn write(
    directory: &Path,
    scenario: &Scenario,
    schema: &Schema,
    journal: &Journal,
    results: Vec<Finished<(Summary, Run)>>,
) -> Result<Vec<Finished<Summary>>, StudyError> {
    let axes = AxisColumns::of(scenario);
    let [runs, links, flows, link_series, flow_series] = schema.tables();
    let create =
        |(name, own): &(&str, Vec<_>)| Table::create(&directory.join(format!("{name}.parquet")), &axes.columns(own));
    let (mut runs, mut links, mut flows) = (create(&runs)?, create(&links)?, create(&flows)?);
    let mut series = None;
    let mut summaries = Vec::with_capacity(results.len());
    for (point, result) in scenario.points().iter().zip(results) {
        let (summary, run) = match result {
            Ok(kept) => kept,
            Err(skipped) => {
                summaries.push(Err(skipped));
                continue;
            }
        };
        let Some(record) = journal.load(point) else {
            return Err(StudyError::file(directory, "completed", &format!("the record of {point} is missing")));
        };
        let run = Run { outcome: record.outcome, ..run };
        let axes = axes.values(point);
        let values = |row: &Row| row.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        runs.row([axes.clone(), values(&summary.run), values(&summary.flows)].into_iter().flatten())?;
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
        summaries.push(Ok(summary));
    }
    let (of_links, of_flows) = series.unzip();
    [Some(runs), Some(links), Some(flows), of_links, of_flows].into_iter().flatten().try_for_each(Table::close)?;
    Ok(summaries)
}

fn rows<T>(table: &mut Table, axes: &[Value], columns: &[Column<T>], run: &Run, parts: &[T]) -> Result<(), StudyError> {
    parts.iter().try_for_each(|part| {
        table.row(axes.iter().cloned().chain(columns.iter().map(|column| (column.read)(run, part))))
    })
}
