//! Programs that send from sockets of their own to a host with a daemon: 10 ms each way, packets of 1000 bytes.

use std::ops::Range;

use super::*;
use crate::inner_udp::{UDP, write_header};

mod refusals;

const FAR: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9)), 2961);
const PROGRAM: SocketAddr = SocketAddr::new(PEER.ip(), 4000);
const DATA: usize = 1000;
const WHOLE: u64 = DATA as u64 + OWN_HEADERS.as_u64();

/// The packet of a program.
pub(super) fn packet(socket: &OwnSocket, number: u32) -> Vec<u8> {
    let OwnSocket { header, .. } = *socket;
    let sequence = header.first.wrapping_add(number);
    let mut bytes = Vec::new();
    let cm = CmHeader { kind: CmKind::Data, protocol: UDP, sequence, flow: header.flow };
    cm_encode(&CmMessage::Header(cm), &mut bytes);
    write_header(5000, DATA, header.tag, &mut bytes);
    bytes.extend([7; DATA]);
    bytes
}

struct Pair {
    sender: Host,
    receiver: Host,
    now: u64,
    /// Arrival, whether to the receiver, sender's address, message, ECN code.
    in_transit: VecDeque<(u64, bool, SocketAddr, Vec<u8>, Ecn)>,
    /// The contents of the program's headers.
    socket: Option<OwnSocket>,
    numbers: u32,
    /// Which of the program's packets are lost: every nth.
    loses: u32,
    lost: u64,
    delivered: u64,
}

impl Pair {
    /// A flow whose receiver has answered the handshake.
    fn new() -> Self {
        let (mut sender, mut receiver) = (communicating(), communicating());
        receiver.listen(1, 5000, true).unwrap();
        open(&mut sender, at(0), A, "192.0.2.9:5000");
        send(&mut sender, at(0), A, Command::Header { token: 1 });
        let mut pair = Self {
            sender,
            receiver,
            now: 0,
            in_transit: VecDeque::new(),
            socket: None,
            numbers: 0,
            loses: 0,
            lost: 0,
            delivered: 0,
        };
        pair.run(30);
        let first = pair.socket.expect("the receiver has answered");
        assert_eq!(first.peer, FAR);
        pair
    }

    /// Sends a packet, with a header if there is one.
    fn send_packet(&mut self) {
        let tag = self.socket.map(|socket| socket.header.tag);
        if let Some(socket) = &self.socket {
            self.numbers += 1;
            if self.loses > 0 && self.numbers.is_multiple_of(self.loses) {
                self.lost += 1;
            } else {
                let bytes = packet(socket, self.numbers - 1);
                self.in_transit.push_back((self.now + 10, true, PROGRAM, bytes, Ecn::NotEct));
            }
        }
        send(&mut self.sender, at(self.now), A, Command::Notify { sent: Bytes::new(DATA as u64), tag });
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += 1;
            let now = at(self.now);
            while self.in_transit.front().is_some_and(|packet| packet.0 <= self.now) {
                let Some((_, there, from, bytes, ecn)) = self.in_transit.pop_front() else { break };
                let (host, to) = if there { (&mut self.receiver, FAR) } else { (&mut self.sender, PEER) };
                host.receive(now, from, to.ip(), ecn, &bytes);
            }
            self.sender.advance(now);
            self.receiver.advance(now);
            while let Some(action) = self.sender.poll_action() {
                match action {
                    Action::SendMessage { to, message, ecn } => {
                        assert_eq!(to, FAR);
                        self.in_transit.push_back((self.now + 10, true, PEER, message, ecn));
                    }
                    Action::Notify { notice: Notice::Header(socket), .. } => {
                        (self.socket, self.numbers) = (socket, 0);
                    }
                    Action::Notify { notice: Notice::Grant { bytes }, .. } => {
                        assert!(bytes as usize >= DATA);
                        self.send_packet();
                    }
                    _ => {}
                }
            }
            while let Some(action) = self.receiver.poll_action() {
                match action {
                    Action::SendMessage { to, message, ecn } => {
                        assert_eq!(to, PEER, "answers go to the daemon");
                        self.in_transit.push_back((self.now + 10, false, FAR, message, ecn));
                    }
                    Action::Deliver { to, data } => {
                        assert_eq!((to, &data[..]), ((FAR.ip(), 5000).into(), &[7; DATA][..]));
                        self.delivered += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Requests one packet each millisecond.
    fn request_for(&mut self, millis: u64) {
        for _ in 0..millis {
            request(&mut self.sender, at(self.now), A, 1);
            self.run(1);
        }
    }

    /// Bytes that arrived and that were lost, as the sender's daemon knows.
    fn outcomes(&self) -> (u64, u64) {
        let peer = self.sender.agent.peers().next().unwrap();
        (peer.outcomes.0.as_u64(), peer.outcomes.1.as_u64())
    }

    /// Opens flow B in a macroflow of its own. The daemon sends its datagrams.
    fn open_other(&mut self) {
        open(&mut self.sender, at(self.now), B, "192.0.2.9:5000");
        send(&mut self.sender, at(self.now), B, Command::SetMacroflow { token: 2, to: Macroflow::New });
        self.send_other();
        self.run(100);
    }

    fn send_other(&mut self) {
        let command = Command::Send { length: DATA as u32 };
        self.sender.command(at(self.now), 1, B, command, vec![7; DATA]);
    }
}

#[test]
fn the_daemon_finds_the_loss_rate_of_the_path() {
    let mut pair = Pair::new();
    pair.loses = 20;
    pair.request_for(5000);
    // The outcome of the last few is open until later packets arrive.
    pair.loses = 0;
    pair.run(1000);
    assert!(pair.lost > 30, "{}", pair.lost);
    assert_eq!(pair.outcomes(), (pair.delivered * WHOLE, pair.lost * WHOLE));
    assert_eq!(in_flight(&pair.sender), Bytes::ZERO);
}

#[test]
fn a_daemon_behind_a_nat_is_answered_at_its_port() {
    let mut receiver = communicating();
    receiver.listen(1, 5000, true).unwrap();
    let nat = SocketAddr::from((PEER.ip(), 40_000));
    let syn = CmHeader { flow: 7, ..CmHeader::control(CmKind::Syn, 100) };
    let mut bytes = Vec::new();
    cm_encode(&CmMessage::Header(syn), &mut bytes);
    receiver.receive(at(0), nat, FAR.ip(), Ecn::NotEct, &bytes);
    let Some(Action::SendMessage { to, message, .. }) = receiver.poll_action() else { panic!("no answer") };
    let answer = CmMessage::Header(CmHeader::control(CmKind::SynAck, 100));
    assert_eq!((to, cm_decode(&message)), (nat, Ok((answer, &[][..]))), "without the secret");
    // Its data, which has no tag.
    let header = rampmeter_manager::OwnHeader { flow: 1, first: 101, tag: 0 };
    let data = packet(&OwnSocket { peer: FAR, header }, 0);
    receiver.receive(at(1), nat, FAR.ip(), Ecn::NotEct, &data);
    let delivery = Action::Deliver { to: (FAR.ip(), 5000).into(), data: vec![7; DATA] };
    assert_eq!(receiver.poll_action(), Some(delivery));
}

#[test]
fn a_handshake_from_a_programs_port_changes_nothing() {
    let mut pair = Pair::new();
    pair.request_for(100);
    let before = pair.delivered;
    let mut syn = Vec::new();
    cm_encode(&CmMessage::Header(CmHeader { flow: 1, ..CmHeader::control(CmKind::Syn, 77) }), &mut syn);
    pair.receiver.receive(at(pair.now), PROGRAM, FAR.ip(), Ecn::NotEct, &syn);
    let answer = pair.receiver.poll_action();
    assert!(matches!(answer, Some(Action::SendMessage { to: PROGRAM, .. })), "{answer:?}");
    pair.request_for(100);
    pair.run(100);
    assert!(pair.delivered > before + 50, "{before}, {}", pair.delivered);
    assert_eq!(pair.outcomes(), (pair.delivered * WHOLE, 0));
}

/// Client 2 opens a flow for each of `ids`. Returns what it may write into its headers.
fn open_others(pair: &mut Pair, ids: Range<u32>) -> Vec<OwnSocket> {
    let now = at(pair.now);
    for id in ids {
        pair.sender.open(now, 2, id, (FAR.ip(), 5000).into(), Share::default(), MTU).unwrap();
        pair.sender.command(now, 2, id, Command::Header { token: 1 }, vec![]);
    }
    let socket = |action| match action {
        Action::Notify { client: 2, notice: Notice::Header(socket), .. } => socket,
        _ => None,
    };
    std::iter::from_fn(|| pair.sender.poll_action()).filter_map(socket).collect()
}

#[test]
fn packets_of_closed_flows_cost_others_nothing() {
    let mut pair = Pair::new();
    let mut closed = Vec::new();
    for id in B..B + 300 {
        closed.extend(open_others(&mut pair, id..id + 1));
        pair.sender.command(at(pair.now), 2, id, Command::Close, vec![]);
    }
    assert_eq!(closed.len(), 300);
    send(&mut pair.sender, at(pair.now), A, Command::SetMacroflow { token: 2, to: Macroflow::New });
    for number in 0..200 {
        pair.send_packet();
        pair.run(5);
        for socket in &closed {
            let forged = (pair.now + 10, true, SocketAddr::new(PEER.ip(), 7000), packet(socket, number), Ecn::NotEct);
            pair.in_transit.push_back(forged);
        }
        pair.run(5);
    }
    pair.run(500);
    assert_eq!(pair.outcomes(), (200 * WHOLE, 0));
}

#[test]
fn a_free_name_goes_to_a_flow_that_waits() {
    let mut pair = Pair::new();
    assert_eq!(open_others(&mut pair, B..B + 203).len(), 203, "all that one owner may have");
    assert_eq!(open_others(&mut pair, B + 203..B + 204).len(), 0, "too many");
    send(&mut pair.sender, at(pair.now), A, Command::Close);
    assert_eq!(open_others(&mut pair, 0..0).len(), 1);
}

#[test]
fn a_reported_round_trip_delays_no_probes_of_others() {
    let mut pair = Pair::new();
    let (id, now) = (B + 1, at(pair.now));
    open(&mut pair.sender, now, id, "192.0.2.9:5000");
    send(&mut pair.sender, now, A, Command::SetMacroflow { token: 2, to: Macroflow::New });
    let to = Macroflow::Of(Id::from_c(A as i32).unwrap());
    send(&mut pair.sender, now, id, Command::SetMacroflow { token: 3, to });
    let report = Feedback { rtt: Some(Duration::from_secs(600)), ..Feedback::default() };
    (0..50).for_each(|_| send(&mut pair.sender, now, id, Command::Update(report)));
    pair.run(1);
    pair.open_other();
    for _ in 0..1000 {
        pair.send_other();
        pair.run(1);
    }
    assert!(pair.delivered > 500, "{}", pair.delivered);
}

#[test]
fn a_packet_that_is_counted_before_its_report_is_not_lost() {
    for delay in [0, 1, 2, 20] {
        let mut pair = Pair::new();
        pair.open_other();
        let run = |pair: &mut Pair, millis| {
            for _ in 0..millis {
                pair.send_other();
                pair.run(1);
            }
        };
        for number in 0..200 {
            let socket = pair.socket.unwrap();
            pair.in_transit.push_back((pair.now + 10, true, PROGRAM, packet(&socket, number), Ecn::NotEct));
            run(&mut pair, delay);
            let sent = Command::Notify { sent: Bytes::new(DATA as u64), tag: Some(socket.header.tag) };
            send(&mut pair.sender, at(pair.now), A, sent);
            run(&mut pair, 37 - delay);
        }
        pair.run(300);
        assert_eq!(pair.outcomes().1, 0, "reported {delay} ms later");
    }
}

#[test]
fn packets_with_a_guessed_tag_have_no_effect() {
    let mut pair = Pair::new();
    pair.request_for(100);
    pair.run(100);
    let (delivered, counted, socket) = (pair.delivered, pair.outcomes(), pair.socket.unwrap());
    for guess in 1..1000 {
        let header = rampmeter_manager::OwnHeader { tag: socket.header.tag.wrapping_add(guess), ..socket.header };
        let forged = packet(&OwnSocket { header, ..socket }, pair.numbers + 100);
        pair.receiver.receive(at(pair.now), PROGRAM, FAR.ip(), Ecn::Ce, &forged);
        let unknown = SocketAddr::from(([192, 0, 2, 77], 4000));
        pair.receiver.receive(at(pair.now), unknown, FAR.ip(), Ecn::Ce, &forged);
    }
    assert_eq!(pair.receiver.poll_action(), None, "no answer, no delivery");
    assert_eq!(pair.receiver.garbage, 2 * 999);
    // As from the daemon: the program's number does not continue the daemon's sequence.
    let intact = packet(&socket, pair.numbers + 100);
    pair.receiver.receive(at(pair.now), PEER, FAR.ip(), Ecn::Ce, &intact);
    let reset = pair.receiver.poll_action();
    let Some(Action::SendMessage { to: PEER, message, .. }) = reset else { panic!("{reset:?}") };
    pair.in_transit.push_back((pair.now + 10, false, FAR, message, Ecn::NotEct));
    pair.run(200);
    assert_eq!((pair.delivered, pair.outcomes(), pair.socket), (delivered, counted, Some(socket)));
    pair.request_for(100);
    pair.run(100);
    assert_eq!(pair.outcomes(), (pair.delivered * WHOLE, 0), "nor did they hide or invent a loss");
}
