//! A trace shows the run that would have been without it, and all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rampmeter_scenario::RunProgress;
use rampmeter_sim::{Plan, Registries, Scenario, Simulated, World};
use rampmeter_trace::{ApplicationEvent, Capture, End, FlowEvent, Grant, LinkEvent, Sink, Trace};
use rampmeter_units::{Ecn, Time};

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
    ecn: Vec<&'static str>,
    own: BTreeSet<&'static str>,
    links: BTreeMap<(u32, &'static str), u64>,
    /// Codes before and after, and packets in the queue.
    marks: Vec<(Ecn, Ecn, u64)>,
    /// Of all flows: grants, and what applications did at each end.
    grants: Vec<Grant>,
    applications: Vec<(u32, End, ApplicationEvent)>,
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
        match event {
            FlowEvent::Granted(grant) => self.grants.push(*grant),
            FlowEvent::Application(event) => self.applications.push((flow, end, *event)),
            _ => {}
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
            FlowEvent::EcnState(_, new) => self.ecn.push(new.name()),
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
            LinkEvent::Marked { from, to, queued } => {
                self.marks.push((from, to, queued));
                "marked"
            }
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
        ("pcp", &["capacity_bps", "evidence", "queueing_delay_s", "target_queue_s", "variation_s"]),
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

/// A run of `scheme` over a router, with this traffic more.
fn traced_with(scheme: &str, router: &str, traffic: &str) -> (Counts, Plan) {
    let text = format!(
        r#"
        duration = "4 s"
        hosts = [{{ name = "server", at = "left", rate = "100 Mb/s", delay = "1 ms" }},
                 {{ name = "client", at = "right", rate = "100 Mb/s", delay = "1 ms" }}]
        link = [{{ name = "bottleneck", between = ["left", "right"], rate = "10 Mb/s", delay = "10 ms",
                  router = {router}, measure = true }}]
        scheme.mine = {scheme}
        traffic = [{{ name = "it", scheme = "mine", from = "server", to = "client", {traffic} }}]
        "#
    );
    let scenario = Scenario::parse("traced.toml", &text).unwrap();
    let plan = scenario.plan(&scenario.points()[0], &Registries::default()).unwrap();
    (traced(&plan), plan)
}

#[test]
fn each_mark_that_a_router_counts_is_in_the_trace() {
    for (scheme, router, codes) in [
        ("{ controller = \"dctcp\" }", "{ kind = \"step-marking\", threshold = 10 }", vec![(Ecn::Ect0, Ecn::Ce)]),
        ("{ controller = \"dctcp\" }", "{ kind = \"codel\", ecn = true }", vec![(Ecn::Ect0, Ecn::Ce)]),
        ("{ controller = \"vcp\" }", "{ kind = \"vcp\" }", Vec::new()),
    ] {
        let (counts, plan) = traced_with(scheme, router, "arrivals = { count = 2 }");
        assert!(!counts.marks.is_empty(), "{router}");
        let known: BTreeSet<_> = counts.marks.iter().map(|(from, to, _)| (from.bits(), to.bits())).collect();
        if let [(from, to)] = codes[..] {
            assert!(known.iter().eq([&(from.bits(), to.bits())]), "{router}: {known:?}");
            let marked: u64 = Simulated.run(&plan).unwrap().links.iter().map(|link| link.counts.marked).sum();
            assert!(counts.marks.iter().any(|(.., queued)| *queued > 0), "{router}");
            assert!(marked > 0 && counts.marks.len() as u64 >= marked, "{router}: {} {marked}", counts.marks.len());
        } else {
            assert!(known.len() > 1, "low to high load and to overload: {known:?}");
        }
    }
}

#[test]
fn what_is_known_about_ecn_is_in_the_trace() {
    for (scheme, more, states) in [
        ("dctcp", "", &["capable"][..]),
        ("dctcp", r#", ecn = "not-ect""#, &["failed"]),
        ("dctcp", r#", changes = [{ at = "1 s", ecn = "ect1" }]"#, &["capable", "failed"]),
        ("newreno", r#", ecn = "ce""#, &[]),
        ("vcp", r#", ecn = "not-ect""#, &[]),
    ] {
        assert_eq!(traced(&plan(scheme, more)).ecn, states, "{scheme}{more}");
    }
}

#[test]
fn a_shared_macroflow_shows_whom_it_grants() {
    let (counts, _) = traced_with(
        "{ controller = \"newreno\", macroflow = \"destination\" }",
        "{ kind = \"drop-tail\", packets = 50 }",
        "arrivals = { count = 3 }",
    );
    assert!(counts.grants.iter().all(|grant| grant.flows > 1 && grant.waiting < grant.flows));
    assert!(counts.grants.iter().any(|grant| grant.flows == 3 && grant.waiting == 2), "all wait for the window");
    let alone = traced(&plan("newreno", ""));
    assert!(alone.grants.is_empty(), "each flow has a macroflow of its own");
}

#[test]
fn messages_of_applications_are_in_the_trace() {
    let (counts, _) = traced_with(
        "{ controller = \"newreno\" }",
        "{ kind = \"drop-tail\", packets = 50 }",
        "web = {}, arrivals = { count = 1 }",
    );
    let of = |end| {
        let events = counts.applications.iter().filter(move |(_, at, _)| *at == end);
        events.map(|(.., event)| *event).collect::<Vec<_>>()
    };
    let (client, server) = (of(End::Client), of(End::Server));
    assert!(client.contains(&ApplicationEvent::Opened) && server.contains(&ApplicationEvent::Opened));
    let written = |event: &ApplicationEvent| match *event {
        ApplicationEvent::Wrote { offset, length } => Some((offset, length?)),
        _ => None,
    };
    let received = |event: &ApplicationEvent| match *event {
        ApplicationEvent::Received { offset, length, .. } => Some((offset, length)),
        _ => None,
    };
    // Requests go one way, objects the other, and each arrives as it was written.
    for (writer, reader) in [(&client, &server), (&server, &client)] {
        let written: Vec<_> = writer.iter().filter_map(written).collect();
        let read: Vec<_> = reader.iter().filter_map(received).collect();
        assert!(!written.is_empty() && written.starts_with(&read) && written.len() - read.len() < 20, "{written:?}");
    }
    let is_completed = |event: &ApplicationEvent| matches!(event, ApplicationEvent::Completed { .. });
    assert!(client.iter().chain(&server).any(is_completed), "{server:?}");
}
