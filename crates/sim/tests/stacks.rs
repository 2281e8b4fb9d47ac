//! Another transport's stack as hosts: packets of its own format, no controller of ours.

mod common;

use std::collections::VecDeque;

use common::{Dumbbell, run};
use rampmeter_scenario::port::{Event, Host, Opening, PacketHost, Sent};
use rampmeter_scenario::stack::{Datagram, Peer, Setup, Stack, StackHost};
use rampmeter_scenario::{FlowOutcome, Outcome, Plan, Registries, Scenario, SenderState, World};
use rampmeter_sim::Simulated;
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_workload::{End, Path};

/// What it sends at, in datagrams of [`SIZE`] bytes of UDP payload, of which eight are its header.
const RATE: Rate = Rate::from_bps(4_000_000);
const SIZE: usize = 1000;
const DATA: u64 = SIZE as u64 - 8;

/// Sends a flow's stream at a constant rate, and repeats nothing. Its header is the offset of the data. The peer answers
/// the first packet; then the flow is open.
#[derive(Debug, Default)]
struct ConstantRate {
    flow: u32,
    path: Peer,
    is_open: bool,
    written: u64,
    sent: u64,
    packets: u64,
    next: Option<Time>,
    arrived: u64,
    answer: Option<Peer>,
    events: VecDeque<Event<u32>>,
}

impl Host for ConstantRate {
    type Id = u32;
    type Address = Peer;

    fn open(&mut self, now: Time, opening: &Opening<Peer>) -> Option<u32> {
        (self.flow, self.path, self.next) = (opening.flow, opening.to, Some(now));
        Some(opening.flow)
    }

    fn write(&mut self, _: Time, _: u32, bytes: u64) {
        self.written += bytes;
    }

    fn finish(&mut self, _: Time, _: u32) {}

    fn stop(&mut self, _: Time, _: u32) {
        self.written = self.sent;
    }

    fn read(&mut self, _: Time, _: u32, _: Bytes) -> Option<(Bytes, bool)> {
        Some((Bytes::new(self.arrived), false))
    }

    fn path(&self, _: Time, _: u32) -> Path {
        Path::default()
    }

    fn poll_event(&mut self) -> Option<Event<u32>> {
        self.events.pop_front()
    }

    fn state(&self, _: u32) -> Option<SenderState> {
        Some(SenderState { rate: Some(RATE), ..SenderState::default() })
    }

    fn sent(&self, _: u32) -> Option<Sent> {
        Some(Sent { packets: self.packets, ..Sent::default() })
    }
}

impl PacketHost for ConstantRate {
    type Packet = Datagram;
    type Shared = ();

    fn receive(&mut self, _: Time, datagram: Datagram, (): &mut ()) {
        let Datagram { flow, peer, contents, .. } = datagram;
        if contents.is_empty() {
            self.is_open = true;
            self.events.push_back(Event::Opened(flow));
            return;
        }
        let offset = u64::from_be_bytes(contents[..8].try_into().unwrap());
        if offset == 0 {
            self.answer = Some(peer);
            self.flow = flow;
            self.events.push_back(Event::Accepted(flow, flow));
        }
        self.arrived += (contents.len() as u64) - 8;
        self.events.push_back(Event::Readable(flow, End::Receiver));
    }

    fn transmit(&mut self, now: Time, (): &mut ()) -> Option<Datagram> {
        let datagram = |flow, peer, contents, payload| Datagram { flow, peer, contents, payload, ecn: Ecn::NotEct };
        if let Some(peer) = self.answer.take() {
            return Some(datagram(self.flow, peer, Vec::new(), 0));
        }
        let next = self.next.filter(|next| *next <= now)?;
        let data = DATA.min(self.written - self.sent);
        if data == 0 {
            self.next = None;
            return None;
        }
        let mut contents = self.sent.to_be_bytes().to_vec();
        contents.resize(8 + data as usize, 0);
        (self.sent, self.packets) = (self.sent + data, self.packets + 1);
        self.next = Some(next + RATE.time_to_send(Bytes::new(SIZE as u64)));
        Some(datagram(self.flow, self.path, contents, data as u16))
    }

    fn deadline(&self) -> Time {
        self.next.unwrap_or(Time::MAX)
    }

    fn on_deadline(&mut self, _: Time) {}
}

/// The stack of these hosts; its only controller is `constant`.
#[derive(Debug)]
struct ConstantRates;

impl Stack for ConstantRates {
    fn about(&self) -> &'static str {
        "a constant rate"
    }

    fn controllers(&self) -> Vec<&str> {
        vec!["constant"]
    }

    fn host(&self, _: &str, _: Setup) -> Box<StackHost> {
        Box::new(ConstantRate::default())
    }
}

const SCHEME: &str = r#"controller = "rates:constant""#;

fn registries() -> Registries {
    Registries::default().stack("rates", ConstantRates)
}

/// A transfer of `size` over a bottleneck of this rate.
fn transfer(bottleneck: &'static str) -> (Plan, FlowOutcome, Outcome) {
    let traffic = r#"size = "992 kB", arrivals = { count = 1 }"#;
    let plan =
        Dumbbell { bottleneck, traffic, scheme: SCHEME, drain: "10 s", ..Dumbbell::default() }.plan_with(&registries());
    let outcome = run(&plan);
    (plan, outcome.flows[0], outcome)
}

#[test]
fn a_constant_rate_sender_takes_the_time_of_its_packets() {
    let (_, flow, outcome) =
        transfer(r#"rate = "8 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 20 }"#);
    assert_eq!((flow.delivered, flow.sent_packets, outcome.data_packets), (Bytes::new(992_000), 1000, 1000));
    // 999 gaps of 2 ms; the last packet takes 10 ms, and 1028 bytes at 8 Mb/s.
    let expected = Duration::from_millis(1998 + 10) + Duration::from_micros(1028);
    assert_eq!(flow.fct, Some(expected));
}

#[test]
fn a_bottleneck_of_half_the_rate_drops_half_of_the_packets() {
    let (plan, flow, outcome) =
        transfer(r#"rate = "2 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 20 }"#);
    assert_eq!(flow.fct, None, "it repeats nothing");
    let share = flow.delivered.as_f64() / 992_000.0;
    // Of 1028 bytes a packet; the queue of 20 packets is emptied after the last.
    assert!((share - (1000.0 / 1028.0 / 2.0 + 0.02)).abs() < 0.005, "{share}");
    let counts = outcome.links[0].counts;
    assert_eq!(counts.offered_data, 1000);
    assert_eq!(Bytes::new((1000 - counts.dropped) * DATA), flow.delivered);
    assert_eq!(run(&plan), outcome, "the same plan gives the same outcome");
}

#[test]
fn a_foreign_flow_is_measured_and_stopped_like_any_other() {
    let plan = Dumbbell {
        duration: "4 s",
        warmup: "1 s",
        scheme: SCHEME,
        bottleneck: r#"rate = "8 Mb/s", delay = "8 ms", router = { kind = "codel" }"#,
        traffic: r#"arrivals = { count = 1 }, duration = "3 s""#,
        more: "[meters]\nseries = \"1 s\"",
        ..Dumbbell::default()
    }
    .plan_with(&registries());
    let outcome = run(&plan);
    let measured = outcome.flows[0].delivered_measured.as_f64();
    assert!((measured / (2.0 * 500.0 * DATA as f64) - 1.0).abs() < 0.01, "two seconds at 500 packets: {measured}");
    assert_eq!(outcome.series.flows.last().map(|sample| sample.sender.rate), Some(Some(RATE)));
}

/// One of our flows beside one of the stack's.
fn beside() -> String {
    let text = r#"
        duration = "5 s"
        hosts = [{ name = "source", at = "left", rate = "unlimited", delay = "1 ms" },
                 { name = "sink", at = "right", rate = "unlimited", delay = "1 ms" }]
        link = [{ name = "bottleneck", between = ["left", "right"], rate = "10 Mb/s", delay = "8 ms",
                  router = { kind = "drop-tail", packets = 20 }, measure = true }]
        scheme.theirs = { controller = "rates:constant" }
        scheme.ours = { controller = "newreno" }
        traffic = [{ name = "a", scheme = "theirs", from = "source", to = "sink", arrivals = { count = 1 } },
                   { name = "b", scheme = "ours", from = "source", to = "sink", arrivals = { count = 1 } }]
    "#;
    text.to_owned()
}

#[test]
fn a_stack_sends_beside_our_transport() {
    let scenario = Scenario::parse("beside.toml", &beside()).unwrap();
    let plan = scenario.plan(&scenario.points()[0], &registries()).unwrap();
    let outcome = Simulated.run(&plan).unwrap();
    let [theirs, ours] = [0, 1].map(|flow| outcome.flows[flow].delivered.as_f64() * 8.0 / 5e6);
    assert!((3.0..4.1).contains(&theirs) && (5.0..6.5).contains(&ours), "{theirs} and {ours} Mb/s");
}

#[test]
fn a_stack_that_cannot_be_used_is_refused_with_the_remedy() {
    for (from, to, wrong) in [
        ("rates:", "rats:", "no stack is called `rats`; did you mean `rates`?"),
        (":constant", ":cubic", "no controller of stack `rates` is called `cubic`; there is constant"),
        (
            "constant\" }",
            "constant\", kernel = \"cubic\" }",
            "has a `controller` and a `kernel`; remove one of the two",
        ),
        ("constant\" }", "constant\", macroflow = \"flow\" }", "remove it: the stack takes no settings here"),
    ] {
        let text = beside().replace(from, to);
        let scenario = Scenario::parse("beside.toml", &text);
        let error = scenario.and_then(|scenario| scenario.plan(&scenario.points()[0], &registries()).map(drop));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("beside.toml:7: ") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_stack_with_its_controller_is_a_scheme_without_definition() {
    let defined = beside();
    let outcome = |text: &str| {
        let scenario = Scenario::parse("beside.toml", text).unwrap();
        let outcome = Simulated.run(&scenario.plan(&scenario.points()[0], &registries()).unwrap()).unwrap();
        (outcome.flows.iter().map(|flow| flow.delivered).collect::<Vec<_>>(), outcome.links)
    };
    let expected = outcome(&defined);
    let named = defined.replace(r#"scheme = "theirs""#, r#"scheme = "rates:constant""#);
    let unnamed = named.replace("scheme.theirs = { controller = \"rates:constant\" }\n", "");
    for text in [named, unnamed] {
        assert!(text != defined && outcome(&text) == expected, "{text}");
    }
}

#[test]
fn a_wrong_name_of_a_stack_is_refused_where_it_stands() {
    let none = Registries::default();
    for (scheme, registries, wrong) in [
        ("rats:constant", &registries(), "no stack is called `rats`; did you mean `rates`?"),
        (
            "rates:constnt",
            &registries(),
            "no controller of stack `rates` is called `constnt`; did you mean `constant`?",
        ),
        ("rates:constant", &none, "no stack is called `rates`: this command has none; use the `rampmeter` command"),
    ] {
        let traffic = beside().replace(r#"scheme = "theirs""#, &format!("scheme = \"{scheme}\""));
        let definition = beside().replace(r#"controller = "newreno""#, &format!("controller = \"{scheme}\""));
        // A definition in the file is checked, too, though nothing uses it.
        let traffic = traffic.replace("scheme.theirs = { controller = \"rates:constant\" }", "");
        let definition = definition.replace("scheme.theirs = { controller = \"rates:constant\" }", "");
        let definition = definition.replace(r#"scheme = "theirs""#, r#"scheme = "ours""#);
        for (line, text) in [(9, traffic), (8, definition)] {
            let scenario = Scenario::parse("beside.toml", &text).unwrap();
            let error = scenario.plan(&scenario.points()[0], registries).map(drop).unwrap_err().to_string();
            assert!(error.starts_with(&format!("beside.toml:{line}: ")) && error.contains(wrong), "{error}");
        }
    }
}
