//! Tests of the host's manager, in simulated time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use rampmeter_control::Registry;
use rampmeter_manager::{HalfLife, OwnHeader, Scheduling};
use rampmeter_units::{Duration, Rate};
use rampmeter_wire::{CmHeader, CmKind, CmMessage, cm_decode, cm_encode};

use super::*;
use crate::client::Id;
use crate::message::OwnSocket;

mod own_sockets;
mod owners;
mod paths;

const MTU: Bytes = Bytes::new(1472);
const RTT: Duration = Duration::from_millis(20);
const A: u32 = limits::MAX_FLOWS as u32 + 1;
const B: u32 = limits::MAX_FLOWS as u32 + 2;

fn at(millis: u64) -> Time {
    Time::from_nanos(1 + millis * 1_000_000)
}

/// The daemon's default.
const BY_WEIGHT: Sharing = Sharing {
    grouping: Grouping::PerDestination,
    scheduling: Scheduling::RoundRobin,
    half_life: HalfLife::MinRtt,
    segregation: false,
    careful_resume: None,
    bunch: Duration::ZERO,
    first_windows: 1,
    min_rto: Duration::from_millis(200),
    turn: Duration::ZERO,
};

fn host() -> Host {
    sharing(BY_WEIGHT)
}

fn sharing(sharing: Sharing) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let random = Box::new(Random::from_seed(1));
    Host::new(factory, sharing, Limits::default(), &Protocol::default(), random)
}

/// A host that communicates with other daemons.
fn communicating() -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let protocol = Protocol { carriage: Carriage::Udp(2961), address: None, deliver: vec![] };
    Host::new(factory, BY_WEIGHT, Limits::default(), &protocol, Box::new(Random::from_seed(1)))
}

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 2961);

/// A flow of client 1 to `to`.
fn open(host: &mut Host, now: Time, id: u32, to: &str) {
    host.open(now, 1, id, to.parse().unwrap(), Share::default(), MTU).unwrap();
    assert!(matches!(notices(host)[..], [(_, Notice::Opened { mtu: 1472 | 1452, .. })]));
}

fn send(host: &mut Host, now: Time, id: u32, command: Command) {
    host.command(now, 1, id, command, Vec::new());
}

fn notices(host: &mut Host) -> Vec<(u32, Notice)> {
    let notice = |action| match action {
        Action::Notify { id, notice, .. } => Some((id, notice)),
        _ => None,
    };
    std::iter::from_fn(|| host.poll_action()).filter_map(notice).collect()
}

/// The flows that get grants at `now`.
fn grants(host: &mut Host, now: Time) -> Vec<u32> {
    host.advance(now);
    let granted = |(id, notice)| matches!(notice, Notice::Grant { .. }).then_some(id);
    notices(host).into_iter().filter_map(granted).collect()
}

fn request(host: &mut Host, now: Time, id: u32, times: usize) {
    (0..times).for_each(|_| send(host, now, id, Command::Request));
}

fn delivered(packets: u64) -> Command {
    Command::Update(Feedback { received: MTU * packets, rtt: Some(RTT), ..Feedback::default() })
}

fn in_flight_of_all(host: &Host) -> Bytes {
    host.flows().fold(Bytes::ZERO, |sum, flow| sum + host.manager.in_flight(flow.manager_id))
}

fn in_flight(host: &Host) -> Bytes {
    host.manager.query(at(0), host.flows().next().unwrap().manager_id).unwrap().in_flight
}

#[test]
fn each_request_is_granted_once_within_the_window() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    request(&mut host, at(0), A, 30);
    assert_eq!(grants(&mut host, at(0)).len(), 10, "the initial window");
    assert_eq!(in_flight(&host), MTU * 10);
    for _ in 0..10 {
        send(&mut host, at(20), A, Command::Notify { sent: MTU, tag: None });
    }
    send(&mut host, at(20), A, delivered(10));
    assert_eq!(grants(&mut host, at(20)).len(), 20, "slow start doubles it");
    send(&mut host, at(40), A, delivered(20));
    assert!(grants(&mut host, at(40)).is_empty(), "thirty were requested");
}

#[test]
fn flows_of_several_processes_share_one_window() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:1000");
    host.open(at(0), 2, A, "192.0.2.1:2000".parse().unwrap(), Share { weight: 4.0, ..Share::default() }, MTU).unwrap();
    request(&mut host, at(0), A, 20);
    (0..20).for_each(|_| host.command(at(0), 2, A, Command::Request, Vec::new()));
    notices(&mut host);
    host.advance(at(0));
    let second = |action: &Action| matches!(action, Action::Notify { client: 2, notice: Notice::Grant { .. }, .. });
    let actions: Vec<_> = std::iter::from_fn(|| host.poll_action()).collect();
    assert_eq!((actions.len(), actions.iter().filter(|action| second(action)).count()), (10, 8));
    host.remove_client(at(1), 2);
    assert_eq!(grants(&mut host, at(1)).len(), 8, "the grants of ended processes go to others");
}

#[test]
fn the_unused_part_of_a_grant_is_returned_at_once() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    request(&mut host, at(0), A, 12);
    assert_eq!(grants(&mut host, at(0)).len(), 10);
    send(&mut host, at(1), A, Command::Notify { sent: Bytes::ZERO, tag: None });
    assert_eq!(in_flight(&host), MTU * 9);
    assert_eq!(grants(&mut host, at(1)).len(), 1);
    send(&mut host, at(2), A, Command::Notify { sent: Bytes::new(100), tag: None });
    assert_eq!(in_flight(&host), MTU * 9 + Bytes::new(100));
}

#[test]
fn packets_sent_without_a_grant_are_counted() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    (0..9).for_each(|_| send(&mut host, at(0), A, Command::Notify { sent: MTU, tag: None }));
    request(&mut host, at(0), B, 5);
    assert_eq!(grants(&mut host, at(0)), [B], "other flows get the rest");
}

#[test]
fn reports_of_more_bytes_than_were_sent_are_cut() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    let rate = |host: &Host| host.manager.query(at(0), host.flows().next().unwrap().manager_id).unwrap().window;
    let before = rate(&host);
    send(&mut host, at(0), A, delivered(1_000_000));
    assert_eq!(rate(&host), before);
}

#[test]
fn unanswered_grants_are_revoked_and_then_the_flow_is_closed() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    send(&mut host, at(0), A, Command::Notify { sent: MTU, tag: None });
    send(&mut host, at(20), A, delivered(1)); // now the round-trip time is measured
    request(&mut host, at(20), A, 11);
    assert_eq!(grants(&mut host, at(20)).len(), 10);
    request(&mut host, at(21), B, 1);
    assert!(grants(&mut host, at(119)).is_empty());
    assert_eq!(host.deadline(), at(120));
    host.advance(at(120));
    let sent = notices(&mut host);
    assert!(sent.contains(&(A, Notice::Ended(Error::Unanswered))), "{sent:?}");
    assert!(sent.iter().any(|(id, notice)| *id == B && matches!(notice, Notice::Grant { .. })), "{sent:?}");
    // Its later commands were sent before it got the notice.
    send(&mut host, at(121), A, Command::Request);
    assert!(grants(&mut host, at(121)).is_empty());
}

#[test]
fn a_few_unanswered_grants_do_not_close_a_flow() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    request(&mut host, at(0), A, 7);
    assert_eq!(grants(&mut host, at(0)).len(), 7);
    let later = at(2000); // two round trips of an unmeasured path
    host.advance(later);
    assert_eq!(in_flight(&host), Bytes::ZERO);
    request(&mut host, later, A, 1);
    assert_eq!(grants(&mut host, later), [A]);
    // An answer to a revoked grant counts as a packet sent without a grant.
    (0..2).for_each(|_| send(&mut host, later, A, Command::Notify { sent: MTU, tag: None }));
    assert_eq!(in_flight(&host), MTU * 2);
}

#[test]
fn an_idle_flow_is_closed_but_not_a_waiting_one() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.2:0");
    request(&mut host, at(0), B, 12);
    for _ in grants(&mut host, at(0)) {
        send(&mut host, at(0), B, Command::Notify { sent: MTU, tag: None });
    }
    host.advance(at(600_000));
    let over = notices(&mut host).into_iter().filter(|(_, notice)| matches!(notice, Notice::Ended(_)));
    assert_eq!(over.collect::<Vec<_>>(), [(A, Notice::Ended(Error::Silent))]);
}

#[test]
fn queued_data_is_sent_one_packet_per_grant() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:9");
    for n in 0..15 {
        host.command(at(0), 1, A, Command::Send { length: 1000 }, vec![n; 1000]);
    }
    host.advance(at(0));
    let actions: Vec<_> = std::iter::from_fn(|| host.poll_action()).collect();
    let sent: Vec<u8> = actions
        .iter()
        .filter_map(|action| if let Action::Transmit { data, .. } = action { Some(data[0]) } else { None })
        .collect();
    assert!(sent.len() >= 10 && sent.len() < 15, "the initial window, in bytes: {sent:?}");
    assert!(sent.is_sorted());
    assert_eq!(in_flight(&host), Bytes::new(1000) * sent.len() as u64);
}

#[test]
fn the_next_flow_starts_with_the_history_of_its_path() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    for round in 0..4 {
        request(&mut host, at(20 * round), A, 200);
        let granted = grants(&mut host, at(20 * round)).len() as u64;
        (0..granted).for_each(|_| send(&mut host, at(20 * round), A, Command::Notify { sent: MTU, tag: None }));
        send(&mut host, at(20 * round + 19), A, delivered(granted));
    }
    host.remove_client(at(80), 1);
    let state = |host: &mut Host, id: u32, to: &str| {
        host.open(at(81), 1, id, to.parse().unwrap(), Share::default(), MTU).unwrap();
        match notices(host)[..] {
            [(_, Notice::Opened { state, .. })] => state,
            ref other => panic!("{other:?}"),
        }
    };
    let with_history = state(&mut host, A, "192.0.2.1:0");
    let without_history = state(&mut host, B, "192.0.2.77:0");
    assert_eq!(with_history.srtt, RTT);
    assert!(
        with_history.rate > without_history.rate.scale(100.0),
        "{} and {}",
        with_history.rate,
        without_history.rate
    );
    assert!(without_history.rate > Rate::ZERO);
}

#[test]
fn used_slots_and_invalid_destinations_are_refused() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    assert_eq!(host.open(at(0), 1, A, "192.0.2.1:0".parse().unwrap(), Share::default(), MTU), Err(Misuse));
    for wrong in ["0.0.0.0:9", "224.0.0.1:9", "255.255.255.255:9", "[::]:9", "[ff02::1]:9"] {
        host.open(at(0), 1, B, wrong.parse().unwrap(), Share::default(), MTU).unwrap();
        assert_eq!(notices(&mut host), [(B, Notice::Ended(Error::Destination))], "{wrong}");
    }
}

fn put(host: &mut Host, now: Time, client: u32, id: u32, to: Macroflow) -> Result<(), Error> {
    host.command(now, client, id, Command::SetMacroflow { token: 7, to }, Vec::new());
    match notices(host)[..] {
        [(_, Notice::Done { token: 7, result })] => result,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_puts_only_its_own_flows_into_macroflows() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.2:0");
    let id = |id: u32| Id::from_c(id as i32).unwrap();
    assert_eq!(put(&mut host, at(0), 1, A, Macroflow::Of(id(B))), Err(Error::OtherDestination));
    assert_eq!(put(&mut host, at(0), 1, A, Macroflow::Of(id(A + 7))), Err(Error::Closed));
    // Another process, whose flow has the same id.
    host.open(at(0), 2, A, "192.0.2.1:0".parse().unwrap(), Share::default(), MTU).unwrap();
    notices(&mut host);
    assert_eq!(
        put(&mut host, at(0), 2, A, Macroflow::Of(id(B))),
        Err(Error::Closed),
        "that flow is of the other process"
    );
    assert_eq!(put(&mut host, at(0), 2, A, Macroflow::New), Ok(()));
    let macroflows = || host.flows().map(|flow| (flow.client, flow.id, host.manager.macroflow_of(flow.manager_id)));
    let of = |client, id| macroflows().find(|flow| (flow.0, flow.1) == (client, id)).unwrap().2;
    assert_ne!(of(1, A), of(2, A));
    let before = of(1, A);
    host.command(at(0), 2, B, Command::SetMacroflow { token: 7, to: Macroflow::New }, Vec::new());
    assert_eq!(notices(&mut host), [], "it has no such flow");
    assert_eq!(host.manager.macroflow_of(host.flows().next().unwrap().manager_id), before);
}

#[test]
fn grants_of_the_old_macroflow_are_answered_there() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    request(&mut host, at(0), A, 30);
    assert_eq!(grants(&mut host, at(0)).len(), 10);
    assert_eq!(put(&mut host, at(0), 1, A, Macroflow::New), Ok(()));
    request(&mut host, at(0), B, 30);
    let next = grants(&mut host, at(1));
    assert!(next.iter().all(|id| *id == A), "the window of the old macroflow is full: {next:?}");
    // The process uses a part of each old grant: the other flow may send what was not used.
    for _ in 0..10 {
        send(&mut host, at(2), A, Command::Notify { sent: MTU / 2, tag: None });
    }
    let next = grants(&mut host, at(2));
    assert!(next.contains(&B), "{next:?}");
}

#[test]
fn late_reports_are_kept_if_a_move_is_refused() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    send(&mut host, at(0), A, Command::Notify { sent: MTU, tag: None });
    send(&mut host, at(20), A, delivered(1)); // now the round-trip time is measured
    send(&mut host, at(20), A, Command::Notify { sent: MTU, tag: None });
    // A grant without an answer in each macroflow, while the second packet times out.
    request(&mut host, at(985), A, 1);
    assert_eq!(grants(&mut host, at(985)), [A]);
    assert_eq!(put(&mut host, at(990), 1, A, Macroflow::New), Ok(()));
    request(&mut host, at(995), A, 1);
    assert_eq!(grants(&mut host, at(995)), [A]);
    host.advance(at(1020));
    notices(&mut host);
    let late_reports = |host: &Host| host.flows().next().unwrap().late_reports;
    assert_eq!((late_reports(&host), in_flight_of_all(&host)), (MTU, MTU * 2));
    assert_eq!(put(&mut host, at(1021), 1, A, Macroflow::New), Err(Error::StillInFlight));
    assert_eq!(late_reports(&host), MTU);
    (0..2).for_each(|_| send(&mut host, at(1022), A, Command::Notify { sent: Bytes::ZERO, tag: None }));
    assert_eq!(put(&mut host, at(1023), 1, A, Macroflow::New), Ok(()));
    assert_eq!(late_reports(&host), Bytes::ZERO, "they would count in the new macroflow");
}

/// The messages of `host` to other daemons, and the number of datagrams that it forwards.
fn messages_of(host: &mut Host) -> (Vec<(Vec<u8>, Ecn)>, usize) {
    let (mut messages, mut delivered) = (Vec::new(), 0);
    while let Some(action) = host.poll_action() {
        match action {
            Action::SendMessage { message, ecn, .. } => messages.push((message, ecn)),
            Action::Deliver { .. } => delivered += 1,
            _ => {}
        }
    }
    (messages, delivered)
}

#[test]
fn data_is_sent_with_ect_and_a_mark_halves_the_window() {
    let far = SocketAddr::from(([192, 0, 2, 9], 2961));
    let (mut sender, mut receiver) = (communicating(), communicating());
    receiver.listen(1, 5000, true).unwrap();
    open(&mut sender, at(0), A, "192.0.2.9:5000");
    let (mut in_transit, mut delivered, mut windows) = (Vec::<(bool, Vec<u8>, Ecn)>::new(), 0, Vec::new());
    for now in 0..600 {
        for (there, message, ecn) in std::mem::take(&mut in_transit) {
            let (host, from, to) = if there { (&mut receiver, PEER, far) } else { (&mut sender, far, PEER) };
            let ecn = if ecn == Ecn::Ect0 && now == 500 { Ecn::Ce } else { ecn };
            host.receive(at(now), from, to.ip(), ecn, &message);
        }
        sender.command(at(now), 1, A, Command::Send { length: 1000 }, vec![0; 1000]);
        for (host, there) in [(&mut sender, true), (&mut receiver, false)] {
            host.advance(at(now));
            let (messages, forwarded) = messages_of(host);
            delivered += forwarded;
            for (message, ecn) in messages {
                let is_data =
                    matches!(cm_decode(&message), Ok((CmMessage::Header(header), _)) if header.kind == CmKind::Data);
                assert_eq!(ecn == Ecn::Ect0, is_data);
                in_transit.push((there, message, ecn));
            }
        }
        windows.push(sender.manager.query(at(now), sender.flows().next().unwrap().manager_id).unwrap().window);
    }
    assert!(delivered > 400, "{delivered} of 600");
    assert!(windows[520] * 3 < windows[499] * 2, "{} and {}", windows[520], windows[499]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any commands in any order nothing panics, and the bytes in flight are those of the flows.
    #[test]
    fn any_order_of_commands(
        communicates: bool,
        moves: bool,
        steps in prop::collection::vec((0..15_u8, 0..3_u32, 0..3_u32, 0..5000_u64, 0..3000_u64), 1..200),
    ) {
        let mut host = if communicates { communicating() } else { host() };
        let mut messages: Vec<Vec<u8>> = Vec::new();
        let mut now = at(0);
        for (what, client, flow, amount, wait) in steps {
            now += Duration::from_micros(wait * wait);
            let id = A + flow;
            let command = match what {
                0 => {
                    let to: SocketAddr = ([192, 0, 2, amount as u8 % 4], 9).into();
                    let _ = host.open(now, client, id, to, Share::default(), MTU);
                    continue;
                }
                1 => Command::Close,
                2 | 3 => Command::Request,
                4 => Command::Notify { sent: Bytes::new(amount), tag: None },
                5 => Command::Update(Feedback { received: Bytes::new(amount), rtt: Some(RTT), ..Feedback::default() }),
                6 => {
                    let mode = [LossMode::Persistent, LossMode::Transient, LossMode::Ecn][amount as usize % 3];
                    let lost = Bytes::new(amount);
                    Command::Update(Feedback { lost, mode: Some(mode), ..Feedback::default() })
                }
                7 => Command::Send { length: amount as u32 },
                9 | 10 if !messages.is_empty() => {
                    // Peers answer anything: a message they received, or one that is similar.
                    let mut bytes = messages[amount as usize % messages.len()].clone();
                    host.receive(now, PEER, [192, 0, 2, 9].into(), Ecn::Ce, &bytes);
                    if let Ok((CmMessage::Header(header), _)) = cm_decode(&bytes) {
                        let kind = [CmKind::SynAck, CmKind::Reset, CmKind::Probe][client as usize];
                        let protocol = flow as u8 * 17;
                        bytes.clear();
                        let socket = OwnSocket { peer: PEER, header: OwnHeader { flow, first: 1, tag: 1 } };
                        let data = own_sockets::packet(&socket, client);
                        host.receive(now, ([192, 0, 2, 1], 4000).into(), [192, 0, 2, 9].into(), Ecn::Ce, &data);
                        cm_encode(&CmMessage::Header(CmHeader { kind, protocol, ..header }), &mut bytes);
                        host.receive(now, PEER, [192, 0, 2, 9].into(), Ecn::Ce, &bytes);
                    }
                    continue;
                }
                11 if moves => {
                    let other = Id::from_c((A + amount as u32 % 3) as i32).unwrap();
                    let to = [Macroflow::New, Macroflow::Default, Macroflow::Of(other)][amount as usize / 3 % 3];
                    Command::SetMacroflow { token: amount, to }
                }
                12 => Command::Header { token: amount },
                13 => {
                    // The right tag of any flow, or another one.
                    let of = host.flows().nth(flow as usize).and_then(|flow| host.agent.own_header(flow.manager_id));
                    let tag = of.map(|header| header.tag.wrapping_add(amount as u32 % 2));
                    Command::Notify { sent: Bytes::new(amount), tag: Some(tag.unwrap_or_default()) }
                }
                8 => Command::Share(Share { weight: amount as f64 + 0.5, class: Some((flow, 1.0)), curve: None }),
                _ => Command::Query { token: amount },
            };
            host.command(now, client, id, command, vec![0; amount as usize]);
            if amount % 2 == 0 {
                host.advance(now);
                while let Some(action) = host.poll_action() {
                    if let Action::SendMessage { message, .. } = action {
                        messages.push(message);
                    }
                }
            }
        }
        for flow in host.flows() {
            let own = host.manager.in_flight(flow.manager_id);
            let is_agent = flow.feedback_source == FeedbackSource::Agent;
            prop_assert!(flow.in_flight <= own && (is_agent || flow.in_flight == own));
        }
        // Bytes that a flow has left in another macroflow are in flight there.
        let of = |flow: &DaemonFlow| (host.manager.macroflow_of(flow.manager_id), host.manager.query(now, flow.manager_id));
        let macroflows: BTreeMap<_, _> = host.flows().map(of).collect();
        let in_flight = macroflows.values().flatten().fold(Bytes::ZERO, |sum, status| sum + status.in_flight);
        prop_assert!(in_flight <= in_flight_of_all(&host) && (moves || in_flight == in_flight_of_all(&host)));
        for client in 0..3 {
            host.remove_client(now, client);
        }
        prop_assert_eq!(host.flows().count(), 0);
        // A macroflow without flows ends unless bytes are in flight there.
        host.manager.on_deadline(now + Duration::from_secs(3600));
        prop_assert_eq!(host.manager.deadline(), Time::MAX);
    }
}
