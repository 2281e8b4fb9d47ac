//! What untrusted peers that do not see the packets cannot do to a connection, and the state after a peer disappears.

use proptest::prelude::*;
use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{CloseReason, Config, ConnectionId, Endpoint, EndpointConfig, Event};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::{Kind, Packet, RouterFeedback, encoded_len};

type Host = Endpoint<AnyController, u32>;

/// Addresses.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const UNTRUSTED: u32 = 3;

const MAX_HALF_OPEN: usize = 8;

fn host(accept: Option<Config>, seed: u64) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept, max_half_open: MAX_HALF_OPEN, ..EndpointConfig::default() };
    Endpoint::new(config, move || factory(Random::from_seed(1)), Random::from_seed(seed))
}

fn sent(host: &mut Host, now: Time) -> Vec<(u32, Packet)> {
    std::iter::from_fn(|| host.poll_transmit(now)).map(|transmit| (transmit.to, transmit.packet)).collect()
}

fn events(host: &mut Host) -> Vec<Event> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

fn closed(host: &mut Host) -> Vec<CloseReason> {
    let reason = |event| if let Event::Closed(_, reason, _) = event { Some(reason) } else { None };
    events(host).into_iter().filter_map(reason).collect()
}

/// A client and a server without delay between them.
struct Two {
    now: Time,
    client: Host,
    server: Host,
    opened: Option<ConnectionId>,
}

impl Two {
    fn new(seed: u64) -> Self {
        let config = Config::default();
        let (mut client, server) = (host(None, seed), host(Some(config.clone()), seed + 1));
        let opened = client.open(Time::ZERO, SERVER, &config);
        Self { now: Time::ZERO, client, server, opened }
    }

    fn connected() -> Self {
        let mut two = Self::new(1);
        two.exchange();
        assert!(matches!(events(&mut two.client)[..], [Event::Opened(..)]));
        assert!(matches!(events(&mut two.server)[..], [Event::Accepted(..)]));
        two
    }

    /// Carries packets in both directions until there are none.
    fn exchange(&mut self) {
        loop {
            let (there, back) = (sent(&mut self.client, self.now), sent(&mut self.server, self.now));
            if there.is_empty() && back.is_empty() {
                return;
            }
            for (_, packet) in there {
                self.server.receive(self.now, CLIENT, &packet, Ecn::NotEct, self.now);
            }
            for (_, packet) in back.into_iter().filter(|(to, _)| *to == CLIENT) {
                self.client.receive(self.now, SERVER, &packet, Ecn::NotEct, self.now);
            }
        }
    }

    /// Lets `span` pass at the server, and at the client if `with_client`.
    fn run(&mut self, span: Duration, with_client: bool) {
        let end = self.now + span;
        while self.now < end {
            let client = if with_client { self.client.deadline() } else { Time::MAX };
            self.now = self.server.deadline().min(client).clamp(self.now, end);
            self.server.on_deadline(self.now);
            if with_client {
                self.client.on_deadline(self.now);
                self.exchange();
            } else {
                sent(&mut self.server, self.now);
            }
        }
    }
}

fn syn(number: u32) -> Packet {
    Packet { kind: Kind::Syn, number, sequence: 77, window: 10_000, ..Packet::default() }
}

#[test]
fn a_reset_needs_a_sequence_number() {
    let mut two = Two::connected();
    let id = two.opened.unwrap();
    for sequence in 0..1000 {
        let forged = Packet { kind: Kind::Reset, connection: id.number(), sequence, ..Packet::default() };
        two.client.receive(two.now, SERVER, &forged, Ecn::NotEct, two.now);
    }
    assert_eq!(closed(&mut two.client), []);
    two.client.abort(two.now, id);
    two.exchange();
    assert_eq!(closed(&mut two.server), [CloseReason::Reset]);
}

#[test]
fn a_peer_whose_reset_was_lost_gets_it_again() {
    let mut two = Two::connected();
    let id = two.opened.unwrap();
    two.client.abort(two.now, id);
    let lost = sent(&mut two.client, two.now);
    assert!(matches!(lost[..], [(SERVER, Packet { kind: Kind::Reset, .. })]), "{lost:?}");
    let data = Packet { connection: id.number(), ..Packet::default() };
    two.client.receive(two.now, UNTRUSTED, &data, Ecn::NotEct, two.now);
    assert_eq!(sent(&mut two.client, two.now), [], "another peer learns nothing");
    two.client.receive(two.now, SERVER, &data, Ecn::NotEct, two.now);
    two.exchange();
    assert_eq!(closed(&mut two.server), [CloseReason::Reset]);
}

#[test]
fn a_silent_peer_whose_reset_was_lost_gets_it_again() {
    let mut two = Two::connected();
    let id = two.opened.unwrap();
    two.client.abort(two.now, id);
    for lost in [1, 2] {
        assert_eq!(sent(&mut two.client, two.now).len(), 1, "copy {lost}");
        assert_eq!(closed(&mut two.server), []);
        two.now = two.client.deadline();
        two.client.on_deadline(two.now);
    }
    two.exchange();
    assert_eq!(closed(&mut two.server), [CloseReason::Reset]);
}

#[test]
fn an_answer_to_a_handshake_needs_its_sequence_number() {
    let mut two = Two::new(1);
    let syn = sent(&mut two.client, two.now)[0].1;
    let mut forged = Packet { kind: Kind::SynAck, connection: syn.number, number: 9, sequence: 9, ..Packet::default() };
    for acknowledgement in 0..1000 {
        forged.acknowledgement = acknowledgement;
        two.client.receive(two.now, SERVER, &forged, Ecn::NotEct, two.now);
    }
    assert_eq!(events(&mut two.client), []);
    forged.acknowledgement = syn.sequence;
    two.client.receive(two.now, SERVER, &forged, Ecn::NotEct, two.now);
    assert!(matches!(events(&mut two.client)[..], [Event::Opened(..)]));
}

#[test]
fn a_forged_opener_cannot_complete_the_handshake() {
    let mut server = host(Some(Config::default()), 1);
    server.receive(Time::ZERO, UNTRUSTED, &syn(5), Ecn::NotEct, Time::ZERO);
    let answer = sent(&mut server, Time::ZERO)[0].1;
    let proof = |acknowledgement| Packet {
        connection: answer.number,
        sequence: 77,
        payload: 100,
        acknowledgement,
        ..Packet::default()
    };
    for guess in 0..1000 {
        assert_eq!(server.receive(Time::ZERO, UNTRUSTED, &proof(guess), Ecn::NotEct, Time::ZERO), None);
    }
    assert_eq!(events(&mut server), []);
    assert!(server.receive(Time::ZERO, UNTRUSTED, &proof(answer.sequence), Ecn::NotEct, Time::ZERO).is_some());
}

#[test]
fn first_sequence_numbers_and_ids_differ_by_connection() {
    let syns: Vec<Packet> = (0..20).map(|seed| sent(&mut Two::new(seed).client, Time::ZERO)[0].1).collect();
    let different = |key: fn(&Packet) -> u32| syns.iter().map(key).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!((different(|syn| syn.sequence), different(|syn| syn.number)), (20, 20));
}

proptest! {
    /// This also holds for a sender that has guessed the server's id for the connection.
    #[test]
    fn an_unverified_sender_gets_no_more_than_it_sent(
        // For each packet: its kind, whether it requests router feedback, and the milliseconds since the last one.
        packets in proptest::collection::vec((0u32..20, 0usize..4, any::<bool>(), 0u64..3000), 1..200),
        answers_wait: bool,
    ) {
        let mut server = host(Some(Config::default()), 1);
        let (mut now, mut got, mut given, mut connection) = (Time::ZERO, 0, 0, 0);
        for (number, kind, requests, pause) in packets {
            let kind = [Kind::Syn, Kind::SynAck, Kind::Data, Kind::Reset][kind];
            let share = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };
            let feedback = if requests { share } else { RouterFeedback::None };
            let packet = Packet { kind, connection, feedback, ..syn(number) };
            // Only these are answered; other packets must not compensate for an answer that is too long.
            got += if kind == Kind::Syn { encoded_len(&packet) } else { 0 };
            server.receive(now, UNTRUSTED, &packet, Ecn::NotEct, now);
            now += Duration::from_millis(pause);
            server.on_deadline(now);
            let answers = if answers_wait && pause % 2 == 0 { vec![] } else { sent(&mut server, now) };
            for (_, answer) in answers {
                given += encoded_len(&answer);
                connection = answer.number;
            }
            prop_assert!(given <= got, "{} bytes for {}", given, got);
        }
    }
}

#[test]
fn a_flood_during_a_handshake_excludes_only_slow_openers() {
    for forged_meanwhile in [MAX_HALF_OPEN - 1, MAX_HALF_OPEN] {
        let mut two = Two::new(1);
        let mut flood = 0..;
        let mut forge = |server: &mut Host, packets: usize| {
            for number in flood.by_ref().take(packets) {
                server.receive(Time::ZERO, UNTRUSTED + number, &syn(number), Ecn::NotEct, Time::ZERO);
            }
        };
        forge(&mut two.server, 10_000);
        let opener = sent(&mut two.client, two.now)[0].1;
        two.server.receive(two.now, CLIENT, &opener, Ecn::NotEct, two.now);
        forge(&mut two.server, forged_meanwhile);
        two.exchange();
        let accepted = events(&mut two.server).iter().any(|event| matches!(event, Event::Accepted(..)));
        assert_eq!(accepted, forged_meanwhile < MAX_HALF_OPEN, "{forged_meanwhile} forged meanwhile");
    }
}

#[test]
fn a_flood_of_one_peer_replaces_its_own_openers() {
    let mut two = Two::new(1);
    let opener = sent(&mut two.client, two.now)[0].1;
    two.server.receive(two.now, CLIENT, &opener, Ecn::NotEct, two.now);
    for number in 0..10_000 {
        two.server.receive(two.now, UNTRUSTED, &syn(number), Ecn::NotEct, two.now);
    }
    two.exchange();
    assert!(events(&mut two.server).iter().any(|event| matches!(event, Event::Accepted(..))));
}

#[test]
fn a_vanished_peer_times_out_after_the_last_probe() {
    let mut two = Two::connected();
    let config = Config::default();
    // The wait doubles with each probe: 0.2 s (the round trip is zero), 0.4 s, ... 60 s at most.
    let wait = |n: u32| (config.min_rto * (1 << n)).min(Duration::from_secs(60));
    let probes = (0..config.max_timeouts).map(wait).fold(Duration::ZERO, |sum, wait| sum + wait);
    let timed_out = config.keep_alive.unwrap() + probes;
    two.run(timed_out - Duration::from_millis(1), false);
    assert_eq!(closed(&mut two.server), []);
    two.run(Duration::from_millis(1), false);
    assert_eq!(closed(&mut two.server), [CloseReason::TimedOut]);
    assert_eq!(two.server.connections(), 0);
}

#[test]
fn events_that_nobody_reads_are_bounded() {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept: Some(Config::default()), max_connections: 4, ..EndpointConfig::default() };
    let mut server: Host = Endpoint::new(config, move || factory(Random::from_seed(1)), Random::from_seed(1));
    let now = Time::ZERO;
    let mut open_and_reset = |number| {
        server.receive(now, CLIENT, &syn(number), Ecn::NotEct, now);
        let Some((_, answer)) = sent(&mut server, now).pop() else { return };
        let header = Packet { connection: answer.number, sequence: 77, ..Packet::default() };
        let proof = Packet { acknowledgement: answer.sequence, ..header };
        server.receive(now, CLIENT, &proof, Ecn::NotEct, now);
        server.receive(now, CLIENT, &Packet { kind: Kind::Reset, ..header }, Ecn::NotEct, now);
    };
    (0..10_000).for_each(&mut open_and_reset);
    assert_eq!(events(&mut server).len(), 12);
    // Read events make room.
    server.receive(now, CLIENT, &syn(1), Ecn::NotEct, now);
    assert_eq!(sent(&mut server, now).len(), 1);
}
