//! How the host's manager treats paths without feedback, and flows that the network treats differently.

use super::*;

fn share(host: &Host, now: Time) -> Rate {
    host.manager.query(now, host.flows().next().unwrap().manager_id).unwrap().rate
}

#[test]
fn unreported_bytes_are_removed_and_the_rate_ages() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    send(&mut host, at(0), A, Command::Notify { sent: MTU, tag: None });
    send(&mut host, at(20), A, delivered(1)); // now the round-trip time is measured
    request(&mut host, at(20), A, 10);
    for _ in grants(&mut host, at(20)) {
        send(&mut host, at(20), A, Command::Notify { sent: MTU, tag: None });
    }
    let before = share(&host, at(20));
    host.advance(at(1019));
    assert_eq!((in_flight(&host), share(&host, at(1019))), (MTU * 10, before), "not within a second");
    host.advance(at(1020));
    assert_eq!(in_flight(&host), Bytes::ZERO);
    assert!(share(&host, at(1020)) <= before.scale(0.5));
    assert!(share(&host, at(1100)) < before.scale(0.1));
    // Late reports still count.
    send(&mut host, at(1500), A, delivered(10));
    assert_eq!(in_flight(&host), Bytes::ZERO);
    assert!(share(&host, at(1500)) > before.scale(0.1));
    send(&mut host, at(1500), A, delivered(1000));
    assert_eq!(in_flight(&host), Bytes::ZERO, "bytes count only once");
}

/// A daemon's host with the paper's controller.
fn paced() -> Host {
    let factory = Registry::default().factory("cm", &toml::Table::new()).unwrap();
    Host::new(factory, BY_WEIGHT, Limits::default(), &Protocol::default(), Box::new(Random::from_seed(1)))
}

/// A program that keeps a path of 8 Mb/s and one round-trip time busy with packets of one size. A queue of 40 ms drops
/// what does not fit.
struct Busy {
    packet: Bytes,
    now: Time,
    free: Time,
    /// Future feedback: its time, when the packet was sent, and whether it is delivered.
    feedback: VecDeque<(Time, Time, bool)>,
    delivered: Bytes,
}

impl Busy {
    fn begin(host: &mut Host, packet: u64) -> Self {
        open(host, at(0), A, "192.0.2.1:0");
        request(host, at(0), A, 64);
        Self { packet: Bytes::new(packet), now: at(0), free: at(0), feedback: VecDeque::new(), delivered: Bytes::ZERO }
    }

    /// Runs for `millis` milliseconds. Returns the measured rate and the reported one.
    fn run_for(&mut self, host: &mut Host, millis: u64) -> (Rate, Rate) {
        self.delivered = Bytes::ZERO;
        for _ in 0..millis * 10 {
            self.now += Duration::from_micros(100);
            self.report(host);
            while self.send(host) {}
        }
        (Rate::of(self.delivered, Duration::from_millis(millis)), share(host, self.now))
    }

    fn report(&mut self, host: &mut Host) {
        while let Some((_, sent_at, arrived)) = self.feedback.front().copied().filter(|feedback| feedback.0 <= self.now)
        {
            self.feedback.pop_front();
            let feedback = if arrived {
                self.delivered += self.packet;
                Feedback { received: self.packet, rtt: Some(self.now.since(sent_at)), ..Feedback::default() }
            } else {
                Feedback { lost: self.packet, mode: Some(LossMode::Transient), ..Feedback::default() }
            };
            send(host, self.now, A, Command::Update(feedback));
        }
    }

    fn send(&mut self, host: &mut Host) -> bool {
        let granted = grants(host, self.now).into_iter().filter(|id| *id == A).count();
        for _ in 0..granted {
            let arrived = self.free.since(self.now) < Duration::from_millis(40);
            if arrived {
                self.free = self.free.max(self.now) + Rate::from_bps(8_000_000).time_to_send(self.packet);
            }
            self.feedback.push_back((self.free + RTT, self.now, arrived));
            send(host, self.now, A, Command::Notify { sent: self.packet, tag: None });
            send(host, self.now, A, Command::Request);
        }
        granted > 0
    }
}

#[test]
fn a_huge_notify_slows_other_flows_for_a_second_at_most() {
    for (leaves, min_mbps) in [(true, 7), (false, 4)] {
        let mut host = paced();
        let mut victim = Busy::begin(&mut host, 1472);
        victim.run_for(&mut host, 2000);
        open(&mut host, victim.now, B, "192.0.2.1:0");
        // As from a program that ignores the limit; and a thousand packets of the maximum size.
        send(&mut host, victim.now, B, Command::Notify { sent: Bytes::new(i32::MAX as u64), tag: None });
        (0..1000).for_each(|_| send(&mut host, victim.now, B, Command::Notify { sent: Bytes::new(65_507), tag: None }));
        assert_eq!(host.manager.query(victim.now, host.flows().next().unwrap().manager_id).unwrap().flows, 2);
        if leaves {
            send(&mut host, victim.now, B, Command::Close);
        }
        let (rate, _) = victim.run_for(&mut host, 3000);
        assert!(rate > Rate::from_bps(min_mbps * 1_000_000), "{rate}");
    }
}

#[test]
fn small_packets_fill_a_path_as_large_ones_do() {
    for size in [1472, 1000, 200] {
        let mut host = paced();
        let mut program = Busy::begin(&mut host, size);
        program.run_for(&mut host, 4000);
        let (rate, reported) = program.run_for(&mut host, 6000);
        assert!(rate > Rate::from_bps(7_000_000), "{size} bytes: {rate}");
        assert!(reported < Rate::from_bps(10_000_000), "{size} bytes: reported {reported}");
    }
}

#[test]
fn repeated_persistent_loss_slows_a_flow_to_a_packet_a_second() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    let short = Duration::from_micros(169);
    send(&mut host, at(0), A, Command::Notify { sent: MTU, tag: None });
    send(&mut host, at(1), A, Command::Update(Feedback { received: MTU, rtt: Some(short), ..Feedback::default() }));
    let nothing = Feedback { lost: MTU, mode: Some(LossMode::Persistent), ..Feedback::default() };
    for now in (2..3000).step_by(10) {
        send(&mut host, at(now), A, Command::Notify { sent: MTU, tag: None });
        send(&mut host, at(now), A, Command::Update(nothing));
        host.advance(at(now));
        assert!(now > 200 || share(&host, at(now)) > Rate::from_bps(1_000_000), "at {now}: a few reports are no proof");
    }
    assert_eq!(share(&host, at(3000)), Rate::of(MTU, Duration::from_secs(1)));
    let reported = notices(&mut host).into_iter().rev().find_map(|(_, notice)| match notice {
        Notice::Change(state) => Some(state.rate),
        _ => None,
    });
    assert!(reported.unwrap() < Rate::from_bps(15_000), "{reported:?}");
    send(&mut host, at(3000), A, Command::Notify { sent: MTU, tag: None });
    send(&mut host, at(3001), A, delivered(1));
    assert!(share(&host, at(3001)) > Rate::from_bps(100_000), "a delivered packet ends that");
}
