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
fn used_slots_and_invalid_destinations_are_refused() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    assert_eq!(host.open(at(0), 1, A, "192.0.2.1:0".parse().unwrap(), Share::default(), MTU), Err(Misuse));
    for wrong in ["0.0.0.0:9", "224.0.0.1:9", "255.255.255.255:9", "[::]:9", "[ff02::1]:9"] {
        host.open(at(0), 1, B, wrong.parse().unwrap(), Share::default(), MTU).unwrap();
        assert_eq!(notices(&mut host), [(B, Notice::Ended(Error::Destination))], "{wrong}");
    }
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
