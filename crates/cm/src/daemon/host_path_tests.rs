//! What the host's manager makes of paths: of silence, and of flows that are treated differently.

use std::collections::BTreeMap;

use super::*;

fn share(host: &Host, now: Time) -> Rate {
    host.manager().query(now, host.flows().next().unwrap().manager_id).unwrap().rate
}

#[test]
fn what_nobody_reports_is_given_back_and_the_rate_ages() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    say(&mut host, at(0), A, Command::Notify { sent: MTU });
    say(&mut host, at(20), A, arrived(1)); // the round trip is known now
    ask(&mut host, at(20), A, 10);
    for _ in grants(&mut host, at(20)) {
        say(&mut host, at(20), A, Command::Notify { sent: MTU });
    }
    let before = share(&host, at(20));
    host.advance(at(1019));
    assert_eq!((in_flight(&host), share(&host, at(1019))), (MTU * 10, before), "not within a second");
    host.advance(at(1020));
    assert_eq!(in_flight(&host), Bytes::ZERO);
    assert!(share(&host, at(1020)) <= before.scale(0.5));
    assert!(share(&host, at(1100)) < before.scale(0.1));
    // What is told of late still counts.
    say(&mut host, at(1500), A, arrived(10));
    assert_eq!(in_flight(&host), Bytes::ZERO);
    assert!(share(&host, at(1500)) > before.scale(0.1));
    say(&mut host, at(1500), A, arrived(1000));
    assert_eq!(in_flight(&host), Bytes::ZERO, "nobody is believed twice");
}

#[test]
fn news_of_a_sibling_keep_the_rate_of_a_flow_that_reports_nothing() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    for now in 0..4000 {
        say(&mut host, at(now), A, Command::Notify { sent: Bytes::new(100) });
        if now % 2 == 0 {
            say(&mut host, at(now), B, Command::Notify { sent: MTU });
            say(&mut host, at(now), B, arrived(1));
        }
        host.advance(at(now));
        assert!(in_flight(&host) < Bytes::new(110_000), "at {now}");
    }
    assert!(share(&host, at(4000)) > Rate::from_bps(5_000_000), "{}", share(&host, at(4000)));
}

#[test]
fn what_was_given_back_twice_is_believed_twice() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    let late = |host: &Host| host.flows().next().unwrap().late;
    say(&mut host, at(0), A, Command::Notify { sent: MTU * 10 });
    host.advance(at(10_000));
    assert_eq!(late(&host), MTU * 10);
    say(&mut host, at(10_000), A, Command::Notify { sent: MTU * 5 });
    host.advance(at(20_000));
    assert_eq!((late(&host), in_flight(&host)), (MTU * 15, Bytes::ZERO));
    say(&mut host, at(20_000), A, arrived(12));
    assert_eq!(late(&host), MTU * 3);
}

/// Two flows to one host, of which the first loses every fifth packet and the second none. Tells which share a macroflow.
fn treated_differently(segregation: bool) -> (Option<u32>, Option<u32>, usize) {
    let mut host = sharing(Sharing { segregation, ..BY_WEIGHT });
    open(&mut host, at(0), A, "192.0.2.1:1");
    open(&mut host, at(0), B, "192.0.2.1:2");
    for round in 0..500 {
        let now = at(20 * round);
        (0..10).for_each(|_| say(&mut host, now, A, Command::Notify { sent: MTU }));
        (0..10).for_each(|_| say(&mut host, now, B, Command::Notify { sent: MTU }));
        let lossy = Feedback { received: MTU * 8, lost: MTU * 2, mode: Some(LossMode::Transient), rtt: Some(RTT) };
        say(&mut host, at(20 * round + 19), A, Command::Update(lossy));
        say(&mut host, at(20 * round + 19), B, arrived(10));
        host.advance(at(20 * round + 19));
    }
    let macroflow = |id: u32| {
        let flow = host.flows().find(|flow| flow.id == id).unwrap();
        host.manager().macroflow_of(flow.manager_id)
    };
    let status = crate::daemon::status::describe(&host, at(10_000), "newreno", &BTreeMap::new(), 0);
    (macroflow(A), macroflow(B), status.macroflows.len())
}

#[test]
fn flows_that_are_treated_worse_get_a_macroflow_of_their_own_where_that_is_wanted() {
    let (lossy, other, told) = treated_differently(true);
    assert!(lossy != other && told == 2, "{told}");
    let (lossy, other, told) = treated_differently(false);
    assert!(lossy == other && told == 1, "{told}");
}

/// A daemon's host, with the paper's controller.
fn paced() -> Host {
    let factory = Registry::default().factory("cm", &toml::Table::new()).unwrap();
    Host::new(factory, BY_WEIGHT, Limits::default(), &Protocol::default(), Box::new(Stream::from_seed(1)))
}

/// A program that keeps a path of 8 Mb/s and a round trip busy with packets of so many bytes. A queue of 40 ms drops what
/// does not fit.
struct Busy {
    packet: Bytes,
    now: Time,
    free: Time,
    /// What is going to be known when: when the packet left, and whether it arrived.
    news: VecDeque<(Time, Time, bool)>,
    delivered: Bytes,
}

impl Busy {
    fn begin(host: &mut Host, packet: u64) -> Self {
        open(host, at(0), A, "192.0.2.1:0");
        ask(host, at(0), A, 64);
        Self { packet: Bytes::new(packet), now: at(0), free: at(0), news: VecDeque::new(), delivered: Bytes::ZERO }
    }

    /// Goes on for so many milliseconds. Tells the rate that it had and the one that it was told.
    fn go_on(&mut self, host: &mut Host, millis: u64) -> (Rate, Rate) {
        self.delivered = Bytes::ZERO;
        for _ in 0..millis * 10 {
            self.now += Duration::from_micros(100);
            self.hear(host);
            while self.send(host) {}
        }
        (Rate::of(self.delivered, Duration::from_millis(millis)), share(host, self.now))
    }

    fn hear(&mut self, host: &mut Host) {
        while let Some((_, sent_at, arrived)) = self.news.front().copied().filter(|news| news.0 <= self.now) {
            self.news.pop_front();
            let feedback = if arrived {
                self.delivered += self.packet;
                Feedback { received: self.packet, rtt: Some(self.now.since(sent_at)), ..Feedback::default() }
            } else {
                Feedback { lost: self.packet, mode: Some(LossMode::Transient), ..Feedback::default() }
            };
            say(host, self.now, A, Command::Update(feedback));
        }
    }

    fn send(&mut self, host: &mut Host) -> bool {
        let granted = grants(host, self.now).into_iter().filter(|id| *id == A).count();
        for _ in 0..granted {
            let arrived = self.free.since(self.now) < Duration::from_millis(40);
            if arrived {
                self.free = self.free.max(self.now) + Rate::from_bps(8_000_000).time_to_send(self.packet);
            }
            self.news.push_back((self.free + RTT, self.now, arrived));
            say(host, self.now, A, Command::Notify { sent: self.packet });
            say(host, self.now, A, Command::Request);
        }
        granted > 0
    }
}

#[test]
fn a_victim_beside_a_big_notify_loses_a_second_at_most() {
    for (leaves, least) in [(true, 7), (false, 4)] {
        let mut host = paced();
        let mut victim = Busy::begin(&mut host, 1472);
        victim.go_on(&mut host, 2000);
        open(&mut host, victim.now, B, "192.0.2.1:0");
        // As it comes from a program that does not believe the limit; and a thousand times what may be.
        say(&mut host, victim.now, B, Command::Notify { sent: Bytes::new(i32::MAX as u64) });
        (0..1000).for_each(|_| say(&mut host, victim.now, B, Command::Notify { sent: Bytes::new(65_507) }));
        assert_eq!(host.manager().query(victim.now, host.flows().next().unwrap().manager_id).unwrap().flows, 2);
        if leaves {
            say(&mut host, victim.now, B, Command::Close);
        }
        let (rate, _) = victim.go_on(&mut host, 3000);
        assert!(rate > Rate::from_bps(least * 1_000_000), "{rate}");
    }
}

#[test]
fn small_packets_fill_a_path_as_large_ones_do() {
    for size in [1472, 1000, 200] {
        let mut host = paced();
        let mut program = Busy::begin(&mut host, size);
        program.go_on(&mut host, 4000);
        let (rate, told) = program.go_on(&mut host, 6000);
        assert!(rate > Rate::from_bps(7_000_000), "{size} bytes: {rate}");
        assert!(told < Rate::from_bps(10_000_000), "{size} bytes: told {told}");
    }
}

#[test]
fn who_says_again_and_again_that_nothing_comes_back_is_slowed_down_to_a_packet_a_second() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    let short = Duration::from_micros(169);
    say(&mut host, at(0), A, Command::Notify { sent: MTU });
    say(&mut host, at(1), A, Command::Update(Feedback { received: MTU, rtt: Some(short), ..Feedback::default() }));
    let nothing = Feedback { lost: MTU, mode: Some(LossMode::Persistent), ..Feedback::default() };
    for now in (2..3000).step_by(10) {
        say(&mut host, at(now), A, Command::Notify { sent: MTU });
        say(&mut host, at(now), A, Command::Update(nothing));
        host.advance(at(now));
        assert!(now > 200 || share(&host, at(now)) > Rate::from_bps(1_000_000), "at {now}: once is no proof");
    }
    assert_eq!(share(&host, at(3000)), Rate::of(MTU, Duration::from_secs(1)));
    let told = notices(&mut host).into_iter().rev().find_map(|(_, notice)| match notice {
        Notice::Change(state) => Some(state.rate),
        _ => None,
    });
    assert!(told.unwrap() < Rate::from_bps(15_000), "{told:?}");
    say(&mut host, at(3000), A, Command::Notify { sent: MTU });
    say(&mut host, at(3001), A, arrived(1));
    assert!(share(&host, at(3001)) > Rate::from_bps(100_000), "and whatever arrives ends that");
}

#[test]
fn a_path_at_rest_is_remembered_with_its_round_trip() {
    let mut host = paced();
    Busy::begin(&mut host, 1472).go_on(&mut host, 1000);
    let before = host.manager().query(at(1000), host.flows().next().unwrap().manager_id).unwrap();
    host.forget(at(1000), 1);
    host.advance(at(30_000));
    notices(&mut host);
    open(&mut host, at(30_000), B, "192.0.2.1:0");
    let after = host.manager().query(at(30_000), host.flows().next().unwrap().manager_id).unwrap();
    assert_eq!((after.smoothed_rtt, after.min_rtt), (before.smoothed_rtt, before.min_rtt));
    assert!(after.rate > before.rate.scale(0.9), "{} and {}", after.rate, before.rate);
}
