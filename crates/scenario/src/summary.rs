//! An outcome in one JSON object.

use std::collections::BTreeSet;

use rampmeter_units::{Duration, Time};
use rampmeter_workload::Report;
use serde::ser::{Serialize, Serializer};

use crate::{Hindered, LinkOutcome, Outcome, Plan, Point};

/// One run in figures.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Summary {
    /// The values of the sweep's axes.
    pub point: Point,
    /// The world it ran in.
    pub world: String,
    /// Its flows.
    pub flows: FlowSummary,
    /// The flows of each kind of measured traffic by itself, where there are several.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<(String, FlowSummary)>,
    /// Its measured links by name, in the plan's order.
    #[serde(serialize_with = "as_map")]
    pub links: Vec<(String, LinkSummary)>,
    /// Packets with payload that reached their receivers, over the whole run.
    pub data_packets: u64,
    /// Flows whose controllers could not work as their schemes do, by what hindered them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hindered: Vec<HinderedSummary>,
    /// Where time is real: 99% of all packets left the network no later than this after they should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_p99_s: Option<f64>,
    /// Where time is real: the least round trip of its flows, by the delays of the links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_min_s: Option<f64>,
    /// Seconds of real time the run took.
    pub wall_s: f64,
}

/// Flows that the same thing hindered.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct HinderedSummary {
    /// What it was, and what they did about it.
    pub why: String,
    /// The flows' scheme.
    pub scheme: String,
    /// The first of them, from host to host: `source.0 > sink.0`.
    pub first: String,
    /// How many they were.
    pub flows: u64,
}

/// The measured flows. A transfer counts if it started between `warmup` and `duration`; a figure of no flows is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct FlowSummary {
    /// Transfers that ended.
    pub completed: u64,
    /// Transfers that did not end before the run did.
    pub unfinished: u64,
    /// Mean response of completed transfers.
    pub response_mean_s: Option<f64>,
    /// Its standard deviation (of a sample: n - 1).
    pub response_sd_s: Option<f64>,
    /// The least response that half of them did not exceed.
    pub response_p50_s: Option<f64>,
    /// The least response that 99% of them did not exceed.
    pub response_p99_s: Option<f64>,
    /// Mean flow completion time of all transfers, each that did not end counted with its age at the run's end: a mean
    /// that transfers without an end can only raise.
    pub fct_or_age_mean_s: Option<f64>,
    /// Mean size of completed transfers.
    pub size_mean_bytes: Option<f64>,
    /// Mean goodput: of long-lived flows between `warmup` and `duration` if there are any, or else of completed
    /// transfers, bytes over response.
    pub goodput_mean_bps: Option<f64>,
    /// Jain's index of the same goodputs, each over its flow's weight: 1 if all are equal, 1/n if one has everything.
    pub goodput_jain: Option<f64>,
    /// The largest of them over the smallest.
    pub goodput_spread: Option<f64>,
    /// The smallest of them.
    pub goodput_least_bps: Option<f64>,
    /// The largest.
    pub goodput_most_bps: Option<f64>,
    /// Coefficient of variation of long-lived flows' sending rates, as their controllers have them: all flows and samples
    /// (`[meters] series`) between `warmup` and `duration` together.
    pub rate_variation: Option<f64>,
    /// Flows of datagrams: how many did not arrive, over the whole run; mean over flows.
    pub lost_mean_packets: Option<f64>,
    /// Layered audio: the part of its time in the encoding just below its mean share of the macroflow; mean over streams.
    pub just_below_share: Option<f64>,
    /// Video: mean time from a flow's start until playback begins, of those where it did.
    pub startup_mean_s: Option<f64>,
    /// Video: how often playback stalled; mean over players.
    pub stalls_mean: Option<f64>,
    /// Video: how long it stalled for; mean over players.
    pub stalled_mean_s: Option<f64>,
    /// Video: mean bitrate of the segments that arrived; mean over players.
    pub bitrate_mean_bps: Option<f64>,
    /// Video: how often the bitrate changed; mean over players.
    pub switches_mean: Option<f64>,
}

/// A measured link between `warmup` and `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct LinkSummary {
    /// Bytes transmitted over what its rate allowed.
    pub utilization: f64,
    /// Mean packets waiting.
    pub queue_mean_packets: f64,
    /// Mean bytes waiting.
    pub queue_mean_bytes: f64,
    /// Standard deviation of the bytes waiting.
    pub queue_sd_bytes: f64,
    /// The length it stayed at or below for 90% of the time.
    pub queue_p90_packets: u64,
    /// The same for 99%.
    pub queue_p99_packets: u64,
    /// The most packets that ever waited.
    pub queue_max_packets: u64,
    /// Mean packets waiting over the most that may wait, if that is limited in packets.
    pub queue_mean_share: Option<f64>,
    /// The same of the length it stayed at or below for 90% of the time.
    pub queue_p90_share: Option<f64>,
    /// Packets dropped; random losses are not among them.
    pub dropped_packets: u64,
    /// Packets dropped over packets offered.
    pub drop_rate: f64,
    /// Packets marked over packets offered.
    pub mark_rate: f64,
    /// Packets marked over packets with payload offered: what has none is never marked.
    pub data_mark_rate: f64,
    /// Packets with payload that were not marked for each that was, `(1 - p) / p`.
    pub unmarked_per_mark: Option<f64>,
    /// Coefficient of variation of its rate from sample to sample (`[meters] series`) between `warmup` and `duration`.
    pub rate_variation: Option<f64>,
}

impl Summary {
    /// The summary of `outcome`, which came from running `plan` in the world called `world` for `wall_s` seconds.
    pub fn of(plan: &Plan, outcome: &Outcome, world: &str, wall_s: f64) -> Self {
        let links = outcome.links.iter().map(|link| (link.name.clone(), LinkSummary::of(plan, outcome, link)));
        let measured = plan.traffic.iter().enumerate().filter(|(_, traffic)| traffic.measured);
        let several = measured.clone().count() > 1;
        let traffic = measured
            .filter(|_| several)
            .map(|(kind, traffic)| (traffic.name.clone(), FlowSummary::of(plan, outcome, |of| of == kind)));
        Self {
            point: plan.point.clone(),
            world: world.to_owned(),
            flows: FlowSummary::of(plan, outcome, |kind| plan.traffic[kind].measured),
            traffic: traffic.collect(),
            links: links.collect(),
            data_packets: outcome.data_packets,
            hindered: HinderedSummary::all(plan, outcome),
            lateness_p99_s: outcome.lateness.map(|late| late.p99.as_secs_f64()),
            rtt_min_s: outcome.lateness.and_then(|_| plan.least_round_trip()).map(Duration::as_secs_f64),
            wall_s,
        }
    }

    /// Whether packets were so late that it says more about a busy machine than about its schemes: 99% by up to more
    /// than 2 ms, or than a tenth of the least round trip.
    pub fn is_late(&self) -> bool {
        self.lateness_p99_s.is_some_and(|late| late > 2e-3 || self.rtt_min_s.is_some_and(|rtt| late > 0.1 * rtt))
    }
}

impl HinderedSummary {
    /// Those of `outcome`, which came from running `plan`.
    pub fn all(plan: &Plan, outcome: &Outcome) -> Vec<Self> {
        let mut summaries: Vec<Self> = Vec::new();
        let mut seen = BTreeSet::new();
        for Hindered { flow, why } in outcome.hindered.iter().filter(|one| seen.insert((one.flow, &one.why))) {
            let planned = &plan.flows[*flow];
            let scheme = &plan.schemes[planned.scheme].name;
            match summaries.iter_mut().find(|one| one.why == *why && one.scheme == *scheme) {
                Some(summary) => summary.flows += 1,
                None => summaries.push(Self {
                    why: why.clone(),
                    scheme: scheme.clone(),
                    first: format!("{} > {}", plan.nodes[planned.from.0].name, plan.nodes[planned.to.0].name),
                    flows: 1,
                }),
            }
        }
        summaries
    }
}

impl FlowSummary {
    /// Of the kinds of traffic, by their places in the plan, for which `counts` is true.
    fn of(plan: &Plan, outcome: &Outcome, counts: impl Fn(usize) -> bool) -> Self {
        let results = outcome.flows.iter().filter(|flow| counts(flow.traffic));
        let warmup = Time::ZERO + plan.warmup;
        let (mut responses, mut ages, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        // Each with the weight that it was to have.
        let (mut of_transfers, mut of_long_lived) = (Vec::new(), Vec::new());
        for result in results.clone() {
            let flow = &plan.flows[result.flow];
            let goodput = result.goodput_bps(plan).map(|bps| (bps, plan.traffic[flow.traffic].weight));
            if flow.bytes.is_none() {
                of_long_lived.extend(goodput);
            } else if flow.start >= warmup {
                match result.response {
                    Some(response) => {
                        responses.push(response.as_secs_f64());
                        sizes.push(result.delivered.as_f64());
                    }
                    None => ages.push(plan.end().since(flow.start).as_secs_f64()),
                }
                of_transfers.extend(goodput);
            }
        }
        let reported = |figure: fn(&Report) -> Option<f64>| {
            mean(&results.clone().filter_map(|result| figure(&result.report)).collect::<Vec<f64>>())
        };
        let losses: Vec<f64> =
            results.clone().filter_map(|result| result.lost_datagrams(plan)).map(|lost| lost as f64).collect();
        responses.sort_by(f64::total_cmp);
        let goodputs = if of_long_lived.is_empty() { of_transfers } else { of_long_lived };
        let weighted: Vec<f64> = goodputs.iter().map(|(bps, weight)| bps / weight).collect();
        let goodputs: Vec<f64> = goodputs.into_iter().map(|(bps, _)| bps).collect();
        Self {
            completed: responses.len() as u64,
            unfinished: ages.len() as u64,
            response_mean_s: mean(&responses),
            response_sd_s: deviation(&responses),
            response_p50_s: quantile(&responses, 0.50),
            response_p99_s: quantile(&responses, 0.99),
            fct_or_age_mean_s: mean(&[&responses[..], &ages[..]].concat()),
            size_mean_bytes: mean(&sizes),
            goodput_mean_bps: mean(&goodputs),
            goodput_jain: jain(&weighted),
            goodput_spread: spread(&weighted),
            goodput_least_bps: goodputs.iter().copied().min_by(f64::total_cmp),
            goodput_most_bps: goodputs.iter().copied().max_by(f64::total_cmp),
            rate_variation: variation(&sending_rates(plan, outcome, &counts)),
            lost_mean_packets: mean(&losses),
            just_below_share: reported(|report| report.just_below_share),
            startup_mean_s: reported(|report| report.startup_s),
            stalls_mean: reported(|report| report.stalls.map(|stalls| stalls as f64)),
            stalled_mean_s: reported(|report| report.stalled_s),
            bitrate_mean_bps: reported(|report| report.bitrate_mean_bps),
            switches_mean: reported(|report| report.switches.map(|switches| switches as f64)),
        }
    }
}

impl LinkSummary {
    fn of(plan: &Plan, outcome: &Outcome, link: &LinkOutcome) -> Self {
        let (queue, counts) = (&link.queue, &link.counts);
        let share = |part: u64, of: u64| if part == 0 { 0.0 } else { part as f64 / of as f64 };
        let of_room = |packets: f64| plan.link(link.link).room.map(|room| packets / room as f64);
        let unmarked = counts.offered_data.saturating_sub(counts.marked) as f64;
        let samples = outcome.series.links.iter();
        let samples: Vec<(f64, f64)> = samples
            .filter(|sample| sample.link == link.link && is_measured(plan, sample.at))
            .map(|sample| (sample.at.as_secs_f64(), sample.transmitted.as_f64()))
            .collect();
        let rates: Vec<f64> =
            samples.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect();
        Self {
            utilization: link.utilization,
            queue_mean_packets: queue.mean_packets,
            queue_mean_bytes: queue.mean_bytes,
            queue_sd_bytes: queue.sd_bytes,
            queue_p90_packets: queue.p90_packets,
            queue_p99_packets: queue.p99_packets,
            queue_max_packets: queue.max_packets,
            queue_mean_share: of_room(queue.mean_packets),
            queue_p90_share: of_room(queue.p90_packets as f64),
            dropped_packets: counts.dropped,
            drop_rate: share(counts.dropped, counts.offered),
            mark_rate: share(counts.marked, counts.offered),
            data_mark_rate: share(counts.marked, counts.offered_data),
            unmarked_per_mark: (counts.marked > 0).then(|| unmarked / counts.marked as f64),
            rate_variation: variation(&rates),
        }
    }
}

/// What controllers of long-lived flows would send at, at all samples of theirs that count.
fn sending_rates(plan: &Plan, outcome: &Outcome, counts: impl Fn(usize) -> bool) -> Vec<f64> {
    let counting = outcome.series.flows.iter().filter(|sample| {
        let flow = &plan.flows[sample.flow];
        is_measured(plan, sample.at) && flow.bytes.is_none() && counts(flow.traffic)
    });
    counting.filter_map(|sample| Some(sample.rate?.as_bps_f64())).collect()
}

/// Whether a sample of that time counts.
fn is_measured(plan: &Plan, at: Time) -> bool {
    (Time::ZERO + plan.warmup..=Time::ZERO + plan.duration).contains(&at)
}

/// Standard deviation over mean.
fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(deviation(values)? / mean)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Nearest rank: the least of `sorted` that at least `share` of them do not exceed.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// (Σx)² / (n Σx²)
fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The largest over the smallest; none if one has nothing.
fn spread(values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().min_by(f64::total_cmp).filter(|least| *least > 0.0)?;
    values.iter().copied().max_by(f64::total_cmp).map(|most| most / least)
}

fn as_map<S: Serializer>(links: &[(String, impl Serialize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(links.iter().map(|(name, link)| (name, link)))
}
