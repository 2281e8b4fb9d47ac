//! A trace shows the run that would have been without it, and all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rampmeter_scenario::RunProgress;
use rampmeter_sim::{Plan, Registries, Scenario, Simulated, World};
use rampmeter_trace::{Capture, End, FlowEvent, LinkEvent, Sink, Trace};
use rampmeter_units::Time;

/// Counts of what happened.
#[derive(Debug, Default)]
struct Counts {
    last: Time,
    is_ordered: bool,
    sent: BTreeSet<u32>,
    /// Offsets in the stream of data that left its sender, and of data that arrived.
    left: BTreeSet<u64>,
    arrived: BTreeSet<u64>,
    acknowledged: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    expired: Vec<&'static str>,
    states: Vec<&'static str>,
    own: BTreeSet<&'static str>,
    links: BTreeMap<(u32, &'static str), u64>,
    /// The largest IPv4 length that differs from the packet's own.
    wrong_length: Option<usize>,
}

impl Counts {
    fn at(&mut self, at: Time) {
        self.is_ordered &= at >= self.last;
        self.last = at;
    }
}

impl Sink for Counts {
    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) {
        self.at(at);
        if let (0, End::Server, FlowEvent::Received { packet, offset, .. }) = (flow, end, event) {
            self.arrived.extend((packet.payload > 0).then_some(offset));
        }
        if (flow, end) != (0, End::Client) {
            return;
        }
        match event {
            FlowEvent::Sent { packet, offset, .. } if packet.payload > 0 => {
                assert!(self.sent.insert(packet.number));
                self.left.insert(*offset);
            }
            FlowEvent::Acknowledged(numbers) => numbers.iter().for_each(|&n| assert!(self.acknowledged.insert(n))),
            FlowEvent::Lost { number, .. } => assert!(self.lost.insert(*number)),
            FlowEvent::Timer(timer) if timer.has_expired => self.expired.push(timer.name),
            FlowEvent::State(_, new) => self.states.push(new),
            FlowEvent::Metrics(metrics) => {
                for (name, value) in &metrics.own {
                    assert!(value.is_finite(), "{name} is {value}");
                    self.own.insert(name);
                }
            }
            _ => {}
        }
    }

    fn on_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        self.at(at);
        let name = match event {
            LinkEvent::Offered { .. } => "offered",
            LinkEvent::Dropped => "dropped",
            LinkEvent::Arrived => "arrived",
        };
        *self.links.entry((link, name)).or_default() += 1;
        let mut bytes = Vec::new();
        let length = packet.write(&mut bytes);
        if usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) != length {
            self.wrong_length = Some(length);
        }
    }
}

fn plan(scheme: &str, more: &str) -> Plan {
    let scenario = Scenario::parse(
        "traced.toml",
        &format!(
            r#"
            duration = "4 s"
            hosts = [{{ name = "server", at = "left", rate = "100 Mb/s", delay = "1 ms" }},
                     {{ name = "client", at = "right", rate = "100 Mb/s", delay = "1 ms" }}]
            link = [{{ name = "bottleneck", between = ["left", "right"], rate = "10 Mb/s", delay = "10 ms",
                      router = {{ kind = "drop-tail", packets = 20 }}, measure = true {more} }}]
            scheme.mine = {{ controller = "{scheme}" }}
            traffic = [{{ name = "download", scheme = "mine", from = "server", to = "client", arrivals = {{ count = 2 }} }}]
            "#
        ),
    )
    .unwrap();
    scenario.plan(&scenario.points()[0], &Registries::default()).unwrap()
}

fn traced(plan: &Plan) -> Counts {
    let counts = Arc::new(Mutex::new(Counts { is_ordered: true, ..Counts::default() }));
    let outcome = Simulated.run_traced(plan, &RunProgress::default(), &Trace::new(&counts)).unwrap();
    assert_eq!(outcome, Simulated.run(plan).unwrap(), "the trace changes the run");
    Arc::into_inner(counts).unwrap().into_inner().unwrap()
}

#[test]
fn a_run_with_a_trace_has_the_same_outcome() {
    for (scheme, own) in [
        ("cubic", &["threshold_bytes"][..]),
        ("bbr", &["bandwidth_bps", "inflight_longterm_bytes", "max_bandwidth_bps", "model_min_rtt_s"]),
        ("bbr1", &["max_bandwidth_bps", "model_min_rtt_s"]),
        ("pcp", &["accepted_trains", "base_rate_bps", "queueing_delay_s", "rejected_trains", "test_rate_bps"]),
        ("stable", &["window_packets"]),
        ("copa", &["delta", "queueing_delay_s", "standing_rtt_s"]),
    ] {
        let counts = traced(&plan(scheme, ""));
        assert!(own.iter().all(|name| counts.own.contains(name)), "{scheme}: {:?}", counts.own);
        assert!(counts.is_ordered && counts.wrong_length.is_none(), "{scheme}: {:?}", counts.wrong_length);
        assert!(counts.sent.len() > 500, "{scheme}: {}", counts.sent.len());
    }
}

#[test]
fn each_packet_is_acknowledged_or_lost_or_in_flight() {
    let counts = traced(&plan("newreno", ""));
    let known: BTreeSet<_> = counts.acknowledged.union(&counts.lost).copied().collect();
    assert!(known.is_subset(&counts.sent));
    let in_flight = counts.sent.len() - known.len();
    assert!(in_flight <= 60, "{in_flight} of {} packets are in flight", counts.sent.len());
    assert!(!counts.lost.is_empty());
    assert!(counts.acknowledged.is_disjoint(&counts.lost), "nothing is reordered here");
    assert_eq!(counts.states.first(), Some(&"slow_start"));
    // Both ends call the same bytes by the same offset.
    assert!(counts.arrived.len() > 500 && counts.arrived.is_subset(&counts.left));
}

#[test]
fn each_packet_that_a_link_takes_arrives_or_is_dropped() {
    let counts = traced(&plan("cubic", ""));
    let links: BTreeSet<u32> = counts.links.keys().map(|(link, _)| *link).collect();
    assert_eq!(links.len(), 6, "two directions of three links");
    for link in links {
        let count = |name| counts.links.get(&(link, name)).copied().unwrap_or(0);
        let on_link = count("offered") - count("arrived") - count("dropped");
        assert!(on_link <= 50, "link {link}: {on_link} packets");
    }
    assert!(counts.links.iter().any(|((_, name), &n)| *name == "dropped" && n > 0));
}

#[test]
fn an_outage_shows_timers_that_expire() {
    let counts =
        traced(&plan("newreno", r#", changes = [{ at = "1 s", rate = "0 b/s" }, { at = "3 s", rate = "10 Mb/s" }]"#));
    assert!(counts.expired.iter().filter(|name| **name == "loss_timeout").count() >= 2, "{:?}", counts.expired);
}
