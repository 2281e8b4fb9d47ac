//! A state in Prometheus's text format.
//!
//! Paths have a label for the network of the other host and one for the controller. There are
//! [`MAX_PATHS`](super::MAX_PATHS) paths at most; those of one network and controller are one series: rates, windows,
//! bytes and counts are sums, round trips, queueing delays and degraded paths are maxima, and minimum round trips are
//! minima. `path_state` has another label for the state of the controller, and counts the paths in each state. A state
//! in which no path is has no sample.

use std::collections::BTreeMap;
use std::fmt::Write;

use rampmeter_session::shares::network;

use super::{PathStatus, Snapshot};

/// How the values of several paths become one.
type Fold = fn(f64, f64) -> f64;

/// A metric of paths: name, type, description, value, how values are combined.
type PathMetric = (&'static str, &'static str, &'static str, fn(&PathStatus) -> f64, Fold);

fn sum(a: f64, b: f64) -> f64 {
    a + b
}

const PATHS: [PathMetric; 12] = [
    ("path_rate_bits_per_second", "gauge", "Permitted rate.", |path| path.rate_bps as f64, sum),
    ("path_window_bytes", "gauge", "Congestion window; infinite if only a rate applies.", window, sum),
    ("path_in_flight_bytes", "gauge", "Bytes in flight.", |path| path.in_flight_bytes as f64, sum),
    ("path_rtt_seconds", "gauge", "Smoothed round-trip time.", |path| path.rtt_s, f64::max),
    ("path_min_rtt_seconds", "gauge", "Minimal round-trip time.", |path| path.min_rtt_s, f64::min),
    ("path_queue_delay_seconds", "gauge", "Round-trip time above the minimum.", |path| path.queue_delay_s, f64::max),
    ("path_degraded", "gauge", "1 if the controller cannot work as designed.", degraded, f64::max),
    ("path_flows", "gauge", "Flows that share congestion control.", |path| path.flows as f64, sum),
    ("path_sent_bytes", "gauge", "Bytes sent since congestion control began.", |path| path.sent_bytes as f64, sum),
    ("path_delivered_bytes", "gauge", "Bytes of them that arrived.", |path| path.delivered_bytes as f64, sum),
    ("path_lost_bytes", "gauge", "Bytes of them that were lost.", |path| path.lost_bytes as f64, sum),
    ("path_marked_packets", "gauge", "Packets that arrived with a mark.", |path| path.marked_packets as f64, sum),
];

fn window(path: &PathStatus) -> f64 {
    path.window_bytes.map_or(f64::INFINITY, |window| window as f64)
}

fn degraded(path: &PathStatus) -> f64 {
    f64::from(u8::from(path.degraded.is_some()))
}

fn value(number: f64) -> String {
    if number == f64::INFINITY { "+Inf".to_owned() } else { number.to_string() }
}

/// Appends a metric, whose samples have labels and values.
pub fn metric(out: &mut String, name: &str, kind: &str, help: &str, samples: &[(String, f64)]) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP rampmeter_{name} {help}\n# TYPE rampmeter_{name} {kind}");
    for (labels, number) in samples {
        let _ = writeln!(out, "rampmeter_{name}{labels} {}", value(*number));
    }
}

/// Appends what a process does, and since when.
pub fn process(out: &mut String, role: &str, uptime_s: f64) {
    let role = format!("{{role=\"{role}\",version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    metric(out, "info", "gauge", "What this process does.", &[(role, 1.0)]);
    metric(out, "uptime_seconds", "gauge", "Time since the start.", &[(String::new(), uptime_s)]);
}

/// Appends the metrics of paths, and the number of those without.
pub fn paths(out: &mut String, paths: &[PathStatus], omitted: usize) {
    let help = "Paths without metrics: those with the lowest rates.";
    metric(out, "paths_omitted", "gauge", help, &[(String::new(), omitted as f64)]);
    for (name, kind, help, number, fold) in PATHS {
        let samples = paths.iter().map(|path| (format!("{{{}}}", labels(path)), number(path)));
        metric(out, name, kind, help, &series(samples, fold));
    }
    let samples = paths.iter().map(|path| (format!("{{{},state=\"{}\"}}", labels(path), path.state), 1.0));
    metric(out, "path_state", "gauge", "Paths whose controller is in this state.", &series(samples, sum));
}

fn labels(path: &PathStatus) -> String {
    let (network, bits) = network(path.peer);
    format!("network=\"{network}/{bits}\",controller=\"{}\"", path.controller)
}

/// Combines the samples with the same labels.
fn series(samples: impl Iterator<Item = (String, f64)>, fold: Fold) -> Vec<(String, f64)> {
    let mut series = BTreeMap::new();
    for (labels, number) in samples {
        series.entry(labels).and_modify(|folded| *folded = fold(*folded, number)).or_insert(number);
    }
    series.into_iter().collect()
}

/// The state as text.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let (status, mut out) = (&snapshot.status, String::new());
    process(&mut out, &snapshot.role, snapshot.uptime_s);
    for (name, kind, help, number) in [
        ("sessions", "gauge", "Open sessions, and those that are being opened.", status.sessions as f64),
        ("streams", "gauge", "Open connections.", status.streams as f64),
        ("received_bytes_total", "counter", "UDP payload received.", status.received_bytes as f64),
        ("sent_bytes_total", "counter", "UDP payload sent.", status.sent_bytes as f64),
    ] {
        metric(&mut out, name, kind, help, &[(String::new(), number)]);
    }
    let openers = &status.openers;
    let results = [
        ("accepted", openers.accepted),
        ("cookie", openers.cookies),
        ("over_rate", openers.over_rate),
        ("other_key", openers.other_key),
        ("not_authorized", openers.not_authorized),
        ("busy", openers.busy),
        ("displaced", openers.displaced),
    ];
    let samples: Vec<_> =
        results.iter().map(|(result, number)| (format!("{{result=\"{result}\"}}"), *number as f64)).collect();
    metric(&mut out, "openers_total", "counter", "Handshakes of other hosts, by what became of them.", &samples);
    paths(&mut out, &status.paths, status.other_paths);
    out
}
