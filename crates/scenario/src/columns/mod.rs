//! The built-in columns of results.

mod groups;
mod links;
mod slowdowns;

use rampmeter_units::{Bytes, Duration, Rate, Time};

pub use groups::FlowGroup;
pub(crate) use groups::groups;
pub(crate) use links::{link_series, links};

use crate::{Column, FlowOutcome, FlowSample, Plan};

type Of = Column<FlowOutcome>;

/// Whether a sample at this time is between `warmup` and `duration`.
fn is_measured(plan: &Plan, at: Time) -> bool {
    (Time::ZERO + plan.warmup..=Time::ZERO + plan.duration).contains(&at)
}

pub(crate) fn runs() -> Vec<Column<()>> {
    vec![
        Column::text("world", "the world that ran it, `simulated` or `emulated`", |run, ()| run.world.to_owned()),
        Column::whole(
            "data_packets",
            "packets with payload that reached their receivers, of all flows, in the whole run",
            |run, ()| run.outcome.data_packets,
        ),
        Column::number(
            "host_jitter_p99_s",
            "emulated only: 99th percentile of the delay of packets behind their planned departure from the network",
            |run, ()| run.outcome.host_jitter.map(|jitter| jitter.p99.as_secs_f64()),
        ),
        Column::number(
            "rtt_min_s",
            "emulated only: the minimum round-trip time of the run's flows, from the delays of the links",
            |run, ()| run.outcome.host_jitter.and_then(|_| run.plan.min_round_trip()).map(Duration::as_secs_f64),
        ),
    ]
}

pub(crate) fn flows() -> Vec<Column<FlowOutcome>> {
    vec![
        Of::whole("flow", "the flow's index in the plan, the same for all schemes with the same seed", |_, flow| {
            flow.flow as u64
        }),
        Of::text("traffic", "the name of its `[[traffic]]`", |run, flow| run.plan.traffic[flow.traffic].name.clone()),
        Of::text("flow_scheme", "the name of the flow's `[scheme.NAME]`", |run, flow| {
            run.plan.schemes[flow.scheme].name.clone()
        }),
        Of::truth(
            "measured",
            "whether its traffic is measured (`measure`); also true for flows that started during the warm-up",
            |run, flow| run.plan.traffic[flow.traffic].measured,
        ),
        Of::number("start_s", "time at which its connection opened", |_, flow| flow.start.as_secs_f64()),
        Of::number(
            "fct_s",
            "flow completion time: from `start_s` to the receiver's last byte; null if the flow did not complete",
            |_, flow| flow.fct.map(Duration::as_secs_f64),
        ),
        Of::whole("size_bytes", "bytes to transfer; null if the flow is long-lived", |run, flow| {
            run.plan.flows[flow.flow].bytes.map(Bytes::as_u64)
        }),
        Of::whole("delivered_bytes", "bytes delivered to the receiver's application in the whole run", |_, flow| {
            flow.delivered.as_u64()
        }),
        Of::number(
            "goodput_bps",
            "goodput. Of a transfer: size divided by flow completion time, null if it did not complete. Of a \
             long-lived flow: bytes delivered between `warmup` and `duration`, divided by the part of that time in \
             which it was active",
            |run, flow| flow.goodput_bps(&run.plan),
        ),
        Of::whole("sent_packets", "packets with payload sent, retransmissions included", |_, flow| flow.sent_packets),
        Of::whole(
            "retransmitted_packets",
            "packets of these that were retransmissions; with other transports' stacks, those that were declared lost",
            |_, flow| flow.retransmitted_packets,
        ),
        Of::number(
            "receive_window_share",
            "part of the time with data to send or in flight in which only the peer's receive window kept data from being \
             sent; null for datagrams. Above 0.5 the flow is `degraded`, and above 0.1 if the window is smaller than the \
             bandwidth-delay product",
            |_, flow| flow.limits.receive_window_share(),
        )
        .unit("fraction"),
        Of::number(
            "timeout_share",
            "part of the same time that retransmission timeouts took, each from the last departure or delivery on; null \
             for datagrams and kernel TCP. Above 0.5 the flow is `degraded`",
            |run, flow| flow.limits.timeout_share().filter(|_| run.plan.schemes[flow.scheme].ours().is_some()),
        )
        .unit("fraction"),
        Of::number(
            "without_receipt_share",
            "part of the delivered bytes whose packets were reported without an arrival time, because the acknowledgement \
             with their receipts was lost; null for datagrams and kernel TCP. Above 0.1 the flow is `degraded`, if its \
             controller needs receipts",
            |_, flow| flow.limits.without_receipt_share(),
        )
        .unit("fraction"),
        Of::number(
            "just_below_share",
            "layered audio: fraction of time in the highest encoding below the flow's mean share of the macroflow",
            |_, flow| flow.report.just_below_share,
        ),
        Of::number("startup_s", "video: time from the flow's start until playback begins", |_, flow| {
            flow.report.startup_s
        }),
        Of::whole("stalls", "video: number of stalls after playback began", |_, flow| flow.report.stalls),
        Of::number("stalled_s", "video: time in stalls", |_, flow| flow.report.stalled_s),
        Of::number("bitrate_mean_bps", "video: mean bitrate of the segments that arrived", |_, flow| {
            flow.report.bitrate_mean_bps
        }),
        Of::whole("switches", "video: number of changes of bitrate between segments", |_, flow| flow.report.switches),
        Of::whole("frames", "media: number of frames that arrived or are late", |_, flow| flow.report.frames),
        Of::number(
            "late_share",
            "media: share of these frames that arrived after the deadline, or not at all",
            |_, flow| flow.report.late_share,
        )
        .unit("fraction"),
        Of::number(
            "frame_delay_p50_s",
            "media: median of the delays of these frames from capture to complete arrival; one that has not arrived \
             counts with its age",
            |_, flow| flow.report.frame_delay_p50_s,
        ),
        Of::number("frame_delay_p99_s", "media: 99th percentile of these delays", |_, flow| {
            flow.report.frame_delay_p99_s
        }),
    ]
}

pub(crate) fn flow_series() -> Vec<Column<FlowSample>> {
    vec![
        Column::number("time_s", "time at which the sample was taken", |_, sample| sample.at.as_secs_f64()),
        Column::whole("flow", "the flow's index in `flows`", |_, sample| sample.flow as u64),
        Column::whole(
            "window_bytes",
            "the controller's window; null if only a rate limits the flow, as with `fixed-rate`",
            |_, sample| sample.sender.window.map(Bytes::as_u64),
        ),
        Column::whole(
            "rate_bps",
            "the controller's rate; null if only a window limits the flow, as with NewReno. For kernel TCP its pacing \
             rate, null if it does not pace",
            |_, sample| sample.sender.rate.map(Rate::as_bps),
        ),
        Column::whole("in_flight_bytes", "bytes in flight; null for datagrams", |_, sample| {
            sample.sender.in_flight.map(Bytes::as_u64)
        }),
        Column::number("smoothed_rtt_s", "smoothed round-trip time; null before the first measurement", |_, sample| {
            sample.sender.smoothed_rtt.map(Duration::as_secs_f64)
        }),
        Column::whole(
            "lost_packets",
            "packets that counted as lost since the flow started; for kernel TCP, retransmissions",
            |_, sample| sample.sender.lost,
        ),
        Column::whole(
            "timeouts",
            "retransmission timeouts since the flow started; null for kernel TCP",
            |_, sample| sample.sender.timeouts,
        ),
        Column::whole(
            "delivered_bytes",
            "bytes delivered to the receiver's application since the flow started",
            |_, sample| sample.delivered.as_u64(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{About, Schema};

    #[test]
    fn runs_and_links_can_be_joined_without_equal_names() {
        let schema = Schema::default();
        let [(_, runs), (_, links), ..] = schema.tables();
        assert!(!runs.iter().any(|run| links.iter().any(|link| link.name == run.name)));
    }

    #[test]
    fn names_are_unique_and_end_with_their_units() {
        for (table, columns) in Schema::default().tables() {
            let names: BTreeSet<_> = columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), columns.len(), "{table}");
            for About { name, unit, .. } in columns {
                let suffix = match *unit {
                    "s" => "_s",
                    "b/s" => "_bps",
                    "bytes" => "_bytes",
                    "packets" => "_packets",
                    "transfers" | "fraction" | "" => "",
                    other => panic!("{name}: unit {other}"),
                };
                assert!(name.ends_with(suffix), "{name} is in {unit}");
            }
        }
    }
}
