//! What strangers who don't see the packets can't do to a connection, and what a peer that vanishes leaves behind.

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{CloseReason, Config, ConnectionId, Endpoint, EndpointConfig, Event};
use rampmeter_units::{Duration, Ecn, Stream, Time};
use rampmeter_wire::{Kind, Packet, encoded_len};

type Host = Endpoint<AnyController, u32>;

/// Addresses.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const STRANGER: u32 = 3;

const MOST_HALF_OPEN: usize = 8;

fn host(accept: Option<Config>, seed: u64) -> Host {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    let config = EndpointConfig { accept, most_half_open: MOST_HALF_OPEN, ..EndpointConfig::default() };
    Endpoint::new(config, move || factory(Stream::from_seed(1)), Stream::from_seed(seed))
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

/// A client and a server, and no time between them.
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

    /// Carries packets there and back until there are none.
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

    /// Lets the server live on for `span`, with the client or without.
    fn live(&mut self, span: Duration, with_client: bool) {
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
fn a_reset_must_know_a_sequence_number() {
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
fn an_answer_to_a_handshake_must_know_its_sequence_number() {
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
fn nobody_opens_a_connection_who_gets_no_answers() {
    let mut server = host(Some(Config::default()), 1);
    server.receive(Time::ZERO, STRANGER, &syn(5), Ecn::NotEct, Time::ZERO);
    let answer = sent(&mut server, Time::ZERO)[0].1;
    let proof = |acknowledgement| Packet {
        connection: answer.number,
        sequence: 77,
        payload: 100,
        acknowledgement,
        ..Packet::default()
    };
    for guess in 0..1000 {
        assert_eq!(server.receive(Time::ZERO, STRANGER, &proof(guess), Ecn::NotEct, Time::ZERO), None);
    }
    assert_eq!(events(&mut server), []);
    assert!(server.receive(Time::ZERO, STRANGER, &proof(answer.sequence), Ecn::NotEct, Time::ZERO).is_some());
}

#[test]
fn first_sequence_numbers_and_ids_differ_from_connection_to_connection() {
    let syns: Vec<Packet> = (0..20).map(|seed| sent(&mut Two::new(seed).client, Time::ZERO)[0].1).collect();
    let different = |key: fn(&Packet) -> u32| syns.iter().map(key).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!((different(|syn| syn.sequence), different(|syn| syn.number)), (20, 20));
}

#[test]
fn an_unverified_sender_gets_no_more_than_it_sent() {
    let mut server = host(Some(Config::default()), 1);
    let (mut got, mut now) = (0, Time::ZERO);
    let mut given = 0;
    for number in 0..200 {
        let syn = syn(number % 20);
        got += encoded_len(&syn);
        server.receive(now, STRANGER, &syn, Ecn::NotEct, now);
        given += sent(&mut server, now).iter().map(|(_, packet)| encoded_len(packet)).sum::<usize>();
        now += Duration::from_millis(300);
        server.on_deadline(now);
        given += sent(&mut server, now).iter().map(|(_, packet)| encoded_len(packet)).sum::<usize>();
        assert!(given <= got, "{given} bytes for {got}");
    }
}

#[test]
fn a_flood_of_forged_openers_keeps_nobody_out_and_grows_nothing() {
    let mut two = Two::new(1);
    for number in 0..10_000 {
        two.server.receive(two.now, STRANGER + number, &syn(number), Ecn::NotEct, two.now);
        sent(&mut two.server, two.now);
        assert!(two.server.connections() <= MOST_HALF_OPEN);
    }
    two.exchange();
    assert!(events(&mut two.server).iter().any(|event| matches!(event, Event::Accepted(..))));
}

#[test]
fn a_peer_that_vanished_is_given_up_and_one_that_is_idle_is_not() {
    let mut two = Two::connected();
    two.live(Duration::from_secs(3600), true);
    assert_eq!((closed(&mut two.server), closed(&mut two.client)), (vec![], vec![]));
    two.live(Duration::from_secs(3600), false);
    assert_eq!(closed(&mut two.server), [CloseReason::TimedOut]);
    assert_eq!(two.server.connections(), 0);
}
