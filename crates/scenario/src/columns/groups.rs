//! Columns of a group of flows: all measured flows of a run, or those of one kind of traffic. A transfer is included if
//! it started between `warmup` and `duration`.

use rampmeter_units::{Bytes, Time};

use super::is_measured;
use super::slowdowns::slowdowns;
use crate::slowdown::BestTimes;
use crate::statistics::{deviation, jain, max, mean, min, quantile, spread, variation};
use crate::{Column, FlowOutcome, Run};

/// A group of flows, with the values that several columns need.
#[derive(Debug, Default)]
pub struct FlowGroup {
    /// The indices of its kinds of traffic in [`crate::Plan::traffic`].
    kinds: Vec<usize>,
    /// Completion times of completed transfers, in ascending order.
    fcts: Vec<f64>,
    /// Ages of unfinished transfers at the run's end.
    ages: Vec<f64>,
    /// Bytes of completed transfers.
    sizes: Vec<f64>,
    /// Sizes and slowdowns of all transfers, in ascending order of the slowdown.
    slowdowns: Vec<(Bytes, f64)>,
    /// Goodputs of long-lived flows; of completed transfers if there are no long-lived flows.
    goodputs: Vec<f64>,
    /// The same goodputs, each over its flow's weight.
    weighted: Vec<f64>,
}

impl FlowGroup {
    /// The flows of these `kinds` of traffic.
    pub(crate) fn of(run: &Run, kinds: Vec<usize>) -> Self {
        let plan = &run.plan;
        let warmup = Time::ZERO + plan.warmup;
        let mut group = Self { kinds, ..Self::default() };
        let (mut of_transfers, mut of_long_lived) = (Vec::new(), Vec::new());
        let (mut fcts, mut ages, mut sizes, mut slowdowns) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut best_times = BestTimes::new(plan);
        for result in group.flows(run) {
            let flow = &plan.flows[result.flow];
            let goodput = result.goodput_bps(plan).map(|bps| (bps, bps / plan.traffic[flow.traffic].weight));
            let Some(bytes) = flow.bytes else {
                of_long_lived.extend(goodput);
                continue;
            };
            if flow.start >= warmup {
                let age = plan.end().since(flow.start);
                let time = result.fct.unwrap_or(age).as_secs_f64();
                // The representation that was sent may be smaller than the one of the plan.
                let sent = if result.fct.is_some() { result.delivered } else { bytes };
                slowdowns.extend(best_times.of(flow, sent).map(|best| (sent, time / best)));
                match result.fct {
                    Some(fct) => {
                        fcts.push(fct.as_secs_f64());
                        sizes.push(result.delivered.as_f64());
                    }
                    None => ages.push(age.as_secs_f64()),
                }
                of_transfers.extend(goodput);
            }
        }
        fcts.sort_by(f64::total_cmp);
        slowdowns.sort_by(|(_, a), (_, b)| f64::total_cmp(a, b));
        let goodputs = if of_long_lived.is_empty() { of_transfers } else { of_long_lived };
        (group.goodputs, group.weighted) = goodputs.into_iter().unzip();
        Self { fcts, ages, sizes, slowdowns, ..group }
    }

    /// The slowdowns of transfers of more than `above` and up to `up_to`, in ascending order.
    pub(super) fn slowdowns_between(&self, above: Bytes, up_to: Bytes) -> Vec<f64> {
        let of_class = self.slowdowns.iter().filter(|(size, _)| above < *size && *size <= up_to);
        of_class.map(|(_, slowdown)| *slowdown).collect()
    }

    /// The results of its flows.
    pub fn flows<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a FlowOutcome> {
        run.outcome.flows.iter().filter(|flow| self.kinds.contains(&flow.traffic))
    }

    /// The mean of a value over the flows that have it.
    pub fn mean(&self, run: &Run, value: impl Fn(&FlowOutcome) -> Option<f64>) -> Option<f64> {
        mean(&self.flows(run).filter_map(value).collect::<Vec<_>>())
    }

    /// The sending rates of its long-lived flows' controllers, in all samples between `warmup` and `duration`.
    fn sending_rates(&self, run: &Run) -> Vec<f64> {
        let samples = run.outcome.series.flows.iter().filter(|sample| {
            let flow = &run.plan.flows[sample.flow];
            is_measured(&run.plan, sample.at) && flow.bytes.is_none() && self.kinds.contains(&flow.traffic)
        });
        samples.filter_map(|sample| Some(sample.sender.rate?.as_bps_f64())).collect()
    }
}

type Of = Column<FlowGroup>;

pub(crate) fn groups() -> Vec<Column<FlowGroup>> {
    let mut columns = vec![
        Of::whole(
            "completed",
            "transfers of measured traffic that started between `warmup` and `duration` and completed",
            |_, group| group.fcts.len() as u64,
        )
        .unit("transfers")
        .shown("transfers", 1.0, 0),
        Of::whole("unfinished", "the same, but not completed by `duration + drain`", |_, group| {
            group.ages.len() as u64
        })
        .unit("transfers")
        .shown("unfinished", 1.0, 0),
        Of::number(
            "fct_mean_s",
            "mean flow completion time of completed transfers: from opening the connection to the receiver's last byte",
            |_, group| mean(&group.fcts),
        )
        .shown("FCT ms", 1e3, 1),
        Of::number(
            "fct_sd_s",
            "standard deviation of these completion times (n - 1); null for fewer than two",
            |_, group| deviation(&group.fcts),
        )
        .shown("FCT sd ms", 1e3, 1),
        Of::number(
            "fct_p50_s",
            "median of these completion times: the smallest that 50% of them do not exceed",
            |_, group| quantile(&group.fcts, 0.50),
        ),
        Of::number(
            "fct_p95_s",
            "95th percentile of these completion times: the smallest that 95% of them do not exceed",
            |_, group| quantile(&group.fcts, 0.95),
        ),
        Of::number(
            "fct_p99_s",
            "99th percentile of these completion times: the smallest that 99% of them do not exceed",
            |_, group| quantile(&group.fcts, 0.99),
        ),
        Of::number(
            "fct_or_age_mean_s",
            "mean flow completion time of completed and unfinished transfers; an unfinished one counts with its age at \
             `duration + drain`. `fct_mean_s` omits unfinished transfers and so favors schemes that have some",
            |_, group| mean(&[&group.fcts[..], &group.ages[..]].concat()),
        ),
        Of::number("size_mean_bytes", "mean size of completed transfers", |_, group| mean(&group.sizes)),
        Of::number(
            "goodput_mean_bps",
            "mean goodput: of measured long-lived flows between `warmup` and `duration`; without such flows, of \
             completed transfers, size divided by flow completion time",
            |_, group| mean(&group.goodputs),
        )
        .shown("goodput Mb/s", 1e-6, 3),
        Of::number("goodput_sum_bps", "the sum of the same goodputs", |_, group| {
            (!group.goodputs.is_empty()).then(|| group.goodputs.iter().sum::<f64>())
        }),
        Of::number(
            "goodput_jain",
            "Jain's index of the same goodputs, each divided by the `weight` of its flow: 1 if all are equal, 1/n if \
             one of n gets everything",
            |_, group| jain(&group.weighted),
        )
        .shown("Jain", 1.0, 3),
        Of::number(
            "goodput_spread",
            "the maximum of these weighted goodputs divided by the minimum; null if one is zero",
            |_, group| spread(&group.weighted),
        ),
        Of::number("goodput_min_bps", "the minimum of the goodputs, without weights", |_, group| min(&group.goodputs)),
        Of::number("goodput_max_bps", "the maximum of the goodputs, without weights", |_, group| max(&group.goodputs)),
        Of::number(
            "retransmitted_share",
            "packets that retransmitted stream bytes divided by packets sent, of all flows together in the whole run: \
             the loss rate of TCP, with the packets that it retransmitted needlessly",
            |run, group| {
                let sum = |packets: fn(&FlowOutcome) -> u64| group.flows(run).map(packets).sum::<u64>();
                let (retransmitted, sent) = (sum(|flow| flow.retransmitted_packets), sum(|flow| flow.sent_packets));
                (sent > 0).then(|| retransmitted as f64 / sent as f64)
            },
        )
        .unit("fraction"),
        Of::number(
            "rate_variation",
            "coefficient of variation of measured long-lived flows' sending rates: standard deviation (n - 1) over \
             mean of `rate_bps` in `flow_series`, over all flows and samples between `warmup` and `duration` together; \
             null without `[meters] series`, and for controllers without a rate",
            |run, group| variation(&group.sending_rates(run)),
        ),
    ];
    columns.extend(slowdowns());
    columns.extend(of_applications());
    columns
}

/// Columns of values that applications report: datagrams, audio, video and media.
fn of_applications() -> Vec<Column<FlowGroup>> {
    vec![
        Of::number(
            "lost_mean_packets",
            "datagram flows: datagrams that did not arrive in the whole run, mean of all flows",
            |run, group| group.mean(run, |flow| Some(flow.lost_datagrams(&run.plan)? as f64)),
        ),
        Of::number(
            "just_below_share",
            "layered audio: fraction of time in the highest encoding below the flow's mean share of the macroflow, \
             mean over flows",
            |run, group| group.mean(run, |flow| flow.report.just_below_share),
        ),
        Of::number(
            "main_encoding_bps",
            "layered audio: the encoding used for most of the time, mean over flows",
            |run, group| group.mean(run, |flow| flow.report.main_encoding_bps),
        ),
        Of::number(
            "main_encoding_share",
            "layered audio: fraction of time in that encoding, mean over flows",
            |run, group| group.mean(run, |flow| flow.report.main_encoding_share),
        )
        .unit("fraction"),
        Of::number(
            "startup_mean_s",
            "video: time from a flow's start until playback begins, mean over players whose playback began",
            |run, group| group.mean(run, |flow| flow.report.startup_s),
        ),
        Of::number("stalls_mean", "video: number of stalls after playback began, mean over players", |run, group| {
            group.mean(run, |flow| flow.report.stalls.map(|stalls| stalls as f64))
        }),
        Of::number("stalled_mean_s", "video: time in stalls, mean over players", |run, group| {
            group.mean(run, |flow| flow.report.stalled_s)
        }),
        Of::number(
            "bitrate_mean_bps",
            "video: mean bitrate of the segments that arrived, mean over players",
            |run, group| group.mean(run, |flow| flow.report.bitrate_mean_bps),
        ),
        Of::number(
            "switches_mean",
            "video: number of changes of bitrate between segments, mean over players",
            |run, group| group.mean(run, |flow| flow.report.switches.map(|switches| switches as f64)),
        ),
        Of::number(
            "late_share",
            "media: share of the frames that arrived after the deadline, or not at all, mean over flows",
            |run, group| group.mean(run, |flow| flow.report.late_share),
        )
        .unit("fraction")
        .shown("late %", 1e2, 1),
        Of::number(
            "frame_delay_p50_mean_s",
            "media: median of the delays of frames from capture to complete arrival, mean over flows",
            |run, group| group.mean(run, |flow| flow.report.frame_delay_p50_s),
        )
        .shown("frame p50 ms", 1e3, 0),
        Of::number(
            "frame_delay_p99_mean_s",
            "media: 99th percentile of these delays, mean over flows",
            |run, group| group.mean(run, |flow| flow.report.frame_delay_p99_s),
        )
        .shown("frame p99 ms", 1e3, 0),
    ]
}
