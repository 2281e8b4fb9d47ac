//! The tables of a run: tidy, a column an axis first, units in the names of columns.
//!
//! Where an axis has the name of one of a table's own columns, that column is called `its_NAME`.

mod axes;
mod parquet;

use std::path::Path;

use rampmeter_control::Registry;
use rampmeter_scenario::{Outcome, Plan, Scenario, Summary};

use self::axes::AxisColumns;
use self::parquet::{Cell, Kind, Table};
use crate::{Finished, Journal, StudyError};

type Columns = &'static [(&'static str, Kind)];

const RUNS: Columns = &[
    ("world", Kind::Text),
    ("completed", Kind::Whole),
    ("unfinished", Kind::Whole),
    ("response_mean_s", Kind::Number),
    ("response_sd_s", Kind::Number),
    ("response_p50_s", Kind::Number),
    ("response_p99_s", Kind::Number),
    ("fct_or_age_mean_s", Kind::Number),
    ("size_mean_bytes", Kind::Number),
    ("goodput_mean_bps", Kind::Number),
    ("goodput_jain", Kind::Number),
    ("goodput_spread", Kind::Number),
    ("goodput_least_bps", Kind::Number),
    ("goodput_most_bps", Kind::Number),
    ("rate_variation", Kind::Number),
    ("lost_mean_packets", Kind::Number),
    ("just_below_share", Kind::Number),
    ("startup_mean_s", Kind::Number),
    ("stalls_mean", Kind::Number),
    ("stalled_mean_s", Kind::Number),
    ("bitrate_mean_bps", Kind::Number),
    ("switches_mean", Kind::Number),
    ("data_packets", Kind::Whole),
    ("lateness_p99_s", Kind::Number),
];

const LINKS: Columns = &[
    ("link", Kind::Text),
    ("utilization", Kind::Number),
    ("queue_mean_packets", Kind::Number),
    ("queue_mean_bytes", Kind::Number),
    ("queue_sd_bytes", Kind::Number),
    ("queue_p50_packets", Kind::Whole),
    ("queue_p90_packets", Kind::Whole),
    ("queue_p99_packets", Kind::Whole),
    ("queue_max_packets", Kind::Whole),
    ("room_packets", Kind::Whole),
    ("offered_packets", Kind::Whole),
    ("offered_data_packets", Kind::Whole),
    ("dropped_packets", Kind::Whole),
    ("marked_packets", Kind::Whole),
    ("lost_packets", Kind::Whole),
    ("transmitted_packets", Kind::Whole),
    ("transmitted_bytes", Kind::Whole),
];

const FLOWS: Columns = &[
    ("flow", Kind::Whole),
    ("traffic", Kind::Text),
    ("flow_scheme", Kind::Text),
    ("measured", Kind::Truth),
    ("start_s", Kind::Number),
    ("response_s", Kind::Number),
    ("size_bytes", Kind::Whole),
    ("delivered_bytes", Kind::Whole),
    ("goodput_bps", Kind::Number),
    ("sent_packets", Kind::Whole),
    ("retransmitted_packets", Kind::Whole),
    ("just_below_share", Kind::Number),
    ("startup_s", Kind::Number),
    ("stalls", Kind::Whole),
    ("stalled_s", Kind::Number),
    ("bitrate_mean_bps", Kind::Number),
    ("switches", Kind::Whole),
];

const LINK_SERIES: Columns = &[
    ("time_s", Kind::Number),
    ("link", Kind::Text),
    ("queue_packets", Kind::Whole),
    ("queue_bytes", Kind::Whole),
    ("transmitted_bytes", Kind::Whole),
];

const FLOW_SERIES: Columns = &[
    ("time_s", Kind::Number),
    ("flow", Kind::Whole),
    ("window_bytes", Kind::Whole),
    ("rate_bps", Kind::Whole),
    ("delivered_bytes", Kind::Whole),
];

/// Writes every table of a finished run to `folder`, from the journal and in the order of the sweep.
pub(crate) fn write(
    folder: &Path,
    scenario: &Scenario,
    registry: &Registry,
    journal: &Journal,
    results: &[Finished],
) -> Result<(), StudyError> {
    let axes = AxisColumns::of(scenario);
    let create = |name: &str, own| Table::create(&folder.join(format!("{name}.parquet")), &axes.columns(own));
    let (mut runs, mut links, mut flows) = (create("runs", RUNS)?, create("links", LINKS)?, create("flows", FLOWS)?);
    let mut series = None;
    for (point, result) in scenario.points().iter().zip(results) {
        let Some(summary) = result.summary() else { continue };
        let Some(record) = journal.load(point) else {
            return Err(StudyError::file(folder, "completed", &format!("the record of {point} has gone")));
        };
        let (plan, outcome, cells) = (scenario.plan(point, registry)?, record.outcome(), axes.cells(point));
        runs.row(cells.iter().cloned().chain(run_cells(summary, &outcome)))?;
        for link in &outcome.links {
            links.row(cells.iter().cloned().chain(link_cells(&plan, link)))?;
        }
        for flow in &outcome.flows {
            flows.row(cells.iter().cloned().chain(flow_cells(&plan, flow)))?;
        }
        if plan.meters.series_every.is_some() {
            if series.is_none() {
                series = Some((create("link_series", LINK_SERIES)?, create("flow_series", FLOW_SERIES)?));
            }
            let Some((of_links, of_flows)) = &mut series else { continue };
            write_series(&plan, &outcome, &cells, of_links, of_flows)?;
        }
    }
    let (of_links, of_flows) = series.unzip();
    [Some(runs), Some(links), Some(flows), of_links, of_flows].into_iter().flatten().try_for_each(Table::close)
}

fn run_cells(summary: &Summary, outcome: &Outcome) -> impl Iterator<Item = Cell> {
    let flows = &summary.flows;
    [
        Cell::text(&summary.world),
        Cell::whole(flows.completed),
        Cell::whole(flows.unfinished),
        flows.response_mean_s.into(),
        flows.response_sd_s.into(),
        flows.response_p50_s.into(),
        flows.response_p99_s.into(),
        flows.fct_or_age_mean_s.into(),
        flows.size_mean_bytes.into(),
        flows.goodput_mean_bps.into(),
        flows.goodput_jain.into(),
        flows.goodput_spread.into(),
        flows.goodput_least_bps.into(),
        flows.goodput_most_bps.into(),
        flows.rate_variation.into(),
        flows.lost_mean_packets.into(),
        flows.just_below_share.into(),
        flows.startup_mean_s.into(),
        flows.stalls_mean.into(),
        flows.stalled_mean_s.into(),
        flows.bitrate_mean_bps.into(),
        flows.switches_mean.into(),
        Cell::whole(summary.data_packets),
        outcome.lateness.map(|late| late.p99.as_secs_f64()).into(),
    ]
    .into_iter()
}

fn link_cells(plan: &Plan, link: &rampmeter_scenario::LinkOutcome) -> impl Iterator<Item = Cell> {
    let (queue, counts) = (&link.queue, &link.counts);
    [
        Cell::text(&link.name),
        Cell::Number(link.utilization),
        Cell::Number(queue.mean_packets),
        Cell::Number(queue.mean_bytes),
        Cell::Number(queue.sd_bytes),
        Cell::whole(queue.p50_packets),
        Cell::whole(queue.p90_packets),
        Cell::whole(queue.p99_packets),
        Cell::whole(queue.max_packets),
        plan.link(link.link).room.into(),
        Cell::whole(counts.offered),
        Cell::whole(counts.offered_data),
        Cell::whole(counts.dropped),
        Cell::whole(counts.marked),
        Cell::whole(counts.lost),
        Cell::whole(counts.transmitted),
        Cell::whole(counts.transmitted_bytes.as_u64()),
    ]
    .into_iter()
}

fn flow_cells(plan: &Plan, flow: &rampmeter_scenario::FlowOutcome) -> impl Iterator<Item = Cell> {
    let planned = &plan.flows[flow.flow];
    [
        Cell::whole(flow.flow as u64),
        Cell::text(&plan.traffic[flow.traffic].name),
        Cell::text(&plan.schemes[flow.scheme].name),
        Cell::Truth(plan.traffic[flow.traffic].measured),
        Cell::Number(flow.start.as_secs_f64()),
        flow.response.map(rampmeter_units::Duration::as_secs_f64).into(),
        planned.bytes.map(rampmeter_units::Bytes::as_u64).into(),
        Cell::whole(flow.delivered.as_u64()),
        flow.goodput_bps(plan).into(),
        Cell::whole(flow.sent_packets),
        Cell::whole(flow.retransmitted_packets),
        flow.report.just_below_share.into(),
        flow.report.startup_s.into(),
        flow.report.stalls.into(),
        flow.report.stalled_s.into(),
        flow.report.bitrate_mean_bps.into(),
        flow.report.switches.into(),
    ]
    .into_iter()
}

fn write_series(
    plan: &Plan,
    outcome: &Outcome,
    axes: &[Cell],
    links: &mut Table,
    flows: &mut Table,
) -> Result<(), StudyError> {
    for sample in &outcome.series.links {
        links.row(axes.iter().cloned().chain([
            Cell::Number(sample.at.as_secs_f64()),
            Cell::text(&plan.link(sample.link).name),
            Cell::whole(sample.queue.packets),
            Cell::whole(sample.queue.bytes.as_u64()),
            Cell::whole(sample.transmitted.as_u64()),
        ]))?;
    }
    for sample in &outcome.series.flows {
        flows.row(axes.iter().cloned().chain([
            Cell::Number(sample.at.as_secs_f64()),
            Cell::whole(sample.flow as u64),
            sample.window.map(rampmeter_units::Bytes::as_u64).into(),
            sample.rate.map(rampmeter_units::Rate::as_bps).into(),
            Cell::whole(sample.delivered.as_u64()),
        ]))?;
    }
    Ok(())
}
