//! Columns of measured links, between `warmup` and `duration`, and of their samples.

use rampmeter_router::{ClassDelays, DelaySummary};

use super::is_measured;
use crate::statistics::variation;
use crate::{Column, LinkOutcome, LinkSample, Run};

type Of = Column<LinkOutcome>;

pub(crate) fn links() -> Vec<Column<LinkOutcome>> {
    let mut columns = vec![
        Of::text("link", "the link's name", |_, link| link.name.clone()),
        Of::number(
            "utilization",
            "bytes sent divided by the bytes that the rate allowed, 0 to 1: an outage allows none, so it does not count; 0 if \
             the rate is unlimited",
            |_, link| link.utilization,
        )
        .unit("fraction")
        .shown("used %", 1e2, 1),
        Of::number("queue_mean_packets", "queued packets, mean over time", |_, link| link.queue.mean_packets).shown(
            "queue packets",
            1.0,
            1,
        ),
        Of::number("queue_mean_bytes", "queued bytes, mean over time", |_, link| link.queue.mean_bytes),
        Of::number(
            "queue_sd_bytes",
            "standard deviation of the queued bytes over time; divided by the link's rate, that of the queueing delay",
            |_, link| link.queue.sd_bytes,
        ),
        Of::whole("queue_p50_packets", "the queue had at most this length for 50% of the time", |_, link| {
            link.queue.p50_packets
        }),
        Of::whole("queue_p90_packets", "the queue had at most this length for 90% of the time", |_, link| {
            link.queue.p90_packets
        }),
        Of::whole("queue_p99_packets", "the queue had at most this length for 99% of the time", |_, link| {
            link.queue.p99_packets
        }),
        Of::whole("queue_max_packets", "the maximum queue", |_, link| link.queue.max_packets),
        Of::number(
            "queue_mean_share",
            "`queue_mean_packets` divided by `buffer_packets`; null without that limit",
            |run, link| of_buffer(run, link, link.queue.mean_packets),
        )
        .unit("fraction"),
        Of::number(
            "queue_p90_share",
            "`queue_p90_packets` divided by `buffer_packets`; null without that limit",
            |run, link| of_buffer(run, link, link.queue.p90_packets as f64),
        )
        .unit("fraction"),
        Of::whole(
            "buffer_packets",
            "maximum number of packets in the queue, the router's `packets`; null without that limit",
            |run, link| run.plan.queue_limit(link.id),
        ),
        Of::whole("offered_packets", "packets that arrived at the router", |_, link| link.counts.offered),
        Of::whole("offered_data_packets", "packets with payload of these", |_, link| link.counts.offered_data),
        Of::whole("dropped_packets", "packets that the router dropped, on arrival or from the queue", |_, link| {
            link.counts.dropped
        }),
        Of::number("drop_rate", "packets dropped divided by packets offered, without random losses", |_, link| {
            share(link.counts.dropped, link.counts.offered)
        })
        .unit("fraction")
        .shown("dropped %", 1e2, 3),
        Of::whole("marked_packets", "packets that the router marked instead of dropping them", |_, link| {
            link.counts.marked
        }),
        Of::number("mark_rate", "packets marked divided by packets offered", |_, link| {
            share(link.counts.marked, link.counts.offered)
        })
        .unit("fraction"),
        Of::number(
            "data_mark_rate",
            "packets marked divided by packets with payload offered: acknowledgements are never marked",
            |_, link| share(link.counts.marked, link.counts.offered_data),
        )
        .unit("fraction")
        .shown("marked %", 1e2, 3)
        .unless_zero(),
        Of::number(
            "unmarked_per_mark",
            "packets with payload that were not marked per packet marked: `(1 - p) / p` where `p` is `data_mark_rate`; \
             null if none was marked",
            |_, link| {
                let unmarked = link.counts.offered_data.saturating_sub(link.counts.marked) as f64;
                (link.counts.marked > 0).then(|| unmarked / link.counts.marked as f64)
            },
        ),
        Of::whole("lost_packets", "packets lost at random on the link (`loss`), after they were sent", |_, link| {
            link.counts.lost
        }),
        Of::whole("transmitted_packets", "packets sent", |_, link| link.counts.transmitted),
        Of::whole("transmitted_bytes", "bytes sent", |_, link| link.counts.transmitted_bytes.as_u64()),
        Of::number(
            "throughput_variation",
            "coefficient of variation of the throughput between samples from `warmup` to `duration`; null without \
             `[meters] series`",
            |run, link| variation(&rates(run, link)),
        ),
    ];
    columns.extend(packet_delays());
    columns.extend(class_delays());
    columns
}

/// The delays of all packets.
fn packet_delays() -> Vec<Column<LinkOutcome>> {
    vec![
        Of::number(
            "delay_mean_s",
            "time from a packet's arrival until it leaves the queue, mean over the packets that were sent; null if none was, \
             and where an aggregate enters an island",
            |_, link| waits(link).map(|waits| waits.mean_s),
        )
        .shown("delay ms", 1e3, 1),
        Of::number("delay_p50_s", "50% of these packets waited at most so long, within 3%; null as before", |_, link| {
            waits(link).map(|waits| waits.p50_s)
        }),
        Of::number("delay_p95_s", "95% of these packets waited at most so long, within 3%; null as before", |_, link| {
            waits(link).map(|waits| waits.p95_s)
        }),
        Of::number("delay_p99_s", "99% of these packets waited at most so long, within 3%; null as before", |_, link| {
            waits(link).map(|waits| waits.p99_s)
        })
        .shown("delay p99 ms", 1e3, 1),
    ]
}

/// Delays where L4S packets have a queue of their own.
fn class_delays() -> Vec<Column<LinkOutcome>> {
    vec![
        Of::number(
            "l4s_delay_mean_s",
            "time from a packet's arrival to the start of its transmission, mean over the packets of the L4S queue that \
             were sent; null where the router has no such queue",
            |_, link| delays(link, |delays| delays.l4s).map(|delays| delays.mean_s),
        ),
        Of::number("l4s_delay_p99_s", "99% of them waited at most so long, within 3%; null as before", |_, link| {
            delays(link, |delays| delays.l4s).map(|delays| delays.p99_s)
        }),
        Of::number(
            "classic_delay_mean_s",
            "the mean time in the queue of all other packets; null as before",
            |_, link| delays(link, |delays| delays.classic).map(|delays| delays.mean_s),
        ),
        Of::number(
            "classic_delay_p99_s",
            "99% of them waited at most so long, within 3%; null as before",
            |_, link| delays(link, |delays| delays.classic).map(|delays| delays.p99_s),
        ),
    ]
}

pub(crate) fn link_series() -> Vec<Column<LinkSample>> {
    vec![
        Column::number("time_s", "time at which the sample was taken", |_, sample| sample.at.as_secs_f64()),
        Column::text("link", "the link's name", |run, sample| run.plan.queue_name(sample.id).to_owned()),
        Column::whole("queue_packets", "packets queued at this instant", |_, sample| sample.queue.packets),
        Column::whole("queue_bytes", "bytes queued at this instant", |_, sample| sample.queue.bytes.as_u64()),
        Column::whole("transmitted_bytes", "bytes sent since the start of the run", |_, sample| {
            sample.transmitted.as_u64()
        }),
    ]
}

fn delays(link: &LinkOutcome, class: fn(ClassDelays) -> DelaySummary) -> Option<DelaySummary> {
    link.delays.map(class).filter(|delays| delays.packets > 0)
}

fn waits(link: &LinkOutcome) -> Option<DelaySummary> {
    link.waits.filter(|waits| waits.packets > 0)
}

fn share(part: u64, of: u64) -> f64 {
    if part == 0 { 0.0 } else { part as f64 / of as f64 }
}

fn of_buffer(run: &Run, link: &LinkOutcome, packets: f64) -> Option<f64> {
    run.plan.queue_limit(link.id).map(|buffer| packets / buffer as f64)
}

/// The rates at which the link sent between samples.
fn rates(run: &Run, link: &LinkOutcome) -> Vec<f64> {
    let samples: Vec<(f64, f64)> = run
        .outcome
        .series
        .links
        .iter()
        .filter(|sample| sample.id == link.id && is_measured(&run.plan, sample.at))
        .map(|sample| (sample.at.as_secs_f64(), sample.transmitted.as_f64()))
        .collect();
    samples.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect()
}
