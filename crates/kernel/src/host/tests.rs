use proptest::prelude::*;
use rampmeter_control::Registry;
use toml::Table;

use super::*;

const SERVER: &str = "10.0.0.1:80";
const CLIENT: &str = "10.0.0.2:40000";

fn host(controller: &str, sharing: Sharing) -> Host {
    let make = Registry::default().factory(controller, &Table::new()).unwrap();
    Host::new(make, Random::from_seed(1), sharing)
}

/// A socket on a path of 20 ms, as the kernel reports it.
struct Kernel {
    event: Event,
    /// What has arrived in order.
    acked: u32,
}

impl Kernel {
    fn new(socket: u32) -> Self {
        let event = Event {
            time_ns: 1_000_000_000,
            socket,
            generation: 1,
            mss: 1448,
            rtt_us: 20_000,
            smoothed_rtt_us: 20_000,
            min_rtt_us: 20_000,
            ..Event::default()
        };
        Self { event, acked: 0 }
    }

    fn report(&mut self, host: &mut Host, kind: u8) {
        self.event.kind = kind;
        self.event.number += 1;
        self.event.time_ns += 1_000_000;
        self.event.in_flight = self.event.sent - self.event.delivered - self.event.lost;
        self.event.unacked = self.event.sent - self.acked;
        host.on_event(&self.event, || [SERVER, CLIENT].map(|address| address.parse().unwrap()));
    }

    /// Packets arrive and others leave.
    fn ack(&mut self, host: &mut Host, delivered: u32, sent: u32) {
        self.event.delivered += delivered;
        self.acked += if self.event.lost > 0 { 0 } else { delivered };
        self.event.sent += sent;
        self.report(host, kind::ACK);
    }

    fn open(&mut self, host: &mut Host) {
        self.report(host, kind::OPEN);
        self.event.sent += 10;
        self.report(host, kind::BUSY);
    }
}

/// The last decision for a socket.
fn decision(host: &mut Host, socket: u32) -> Decision {
    host.decisions().filter(|(place, _)| *place == socket).last().unwrap().1
}

#[test]
fn a_window_doubles_in_slow_start_and_halves_after_a_loss() {
    let (mut host, mut kernel) = (host("newreno", Sharing::Socket), Kernel::new(3));
    kernel.open(&mut host);
    assert_eq!(decision(&mut host, 3).window, 10);
    kernel.ack(&mut host, 10, 20); // one acknowledgement, as of many packets at once
    let answer = decision(&mut host, 3);
    assert_eq!((answer.window, answer.answers, answer.generation), (20, 3, 1));
    // Twice the window in a round trip: 20 packets of 1448 bytes in 20 ms.
    assert_eq!(answer.rate, 2 * 20 * 1448 * 50);
    kernel.event.lost += 1;
    kernel.ack(&mut host, 5, 0);
    assert_eq!(decision(&mut host, 3).window, 10);
}

#[test]
fn a_timeout_leaves_one_packet() {
    let (mut host, mut kernel) = (host("newreno", Sharing::Socket), Kernel::new(0));
    kernel.open(&mut host);
    kernel.event.lost += 10;
    kernel.report(&mut host, kind::TIMEOUT);
    assert_eq!(decision(&mut host, 0).window, 1);
}

#[test]
fn lost_events_lose_nothing() {
    let (mut host, mut kernel) = (host("newreno", Sharing::Socket), Kernel::new(0));
    kernel.event.sent = 10; // neither its beginning nor its first packets were reported
    kernel.ack(&mut host, 4, 4);
    kernel.ack(&mut host, 10, 0);
    assert_eq!(host.len(), 1);
    let mut next = Kernel::new(0);
    next.event.generation = 2;
    next.open(&mut host); // nor its end
    assert_eq!(host.len(), 1);
    assert_eq!(decision(&mut host, 0).generation, 2);
}

#[test]
fn connections_to_one_address_share_a_window() {
    let mut host = host("newreno", Sharing::Destination);
    let [mut first, mut second] = [0, 1].map(Kernel::new);
    first.open(&mut host);
    first.ack(&mut host, 10, 20);
    assert_eq!(decision(&mut host, 0).window, 20);
    second.open(&mut host);
    second.ack(&mut host, 5, 5);
    let windows: Vec<_> = host.decisions().map(|(place, decision)| (place, decision.window)).collect();
    let [a, b] = [0, 1].map(|socket| windows.iter().rfind(|(place, _)| *place == socket).unwrap().1);
    assert!(a == b && (10..=15).contains(&a), "{windows:?}");
    second.report(&mut host, kind::CLOSE);
    assert!(decision(&mut host, 0).window >= 20, "the other one has all of it");
}

#[test]
fn a_connection_that_ends_is_reported_with_what_it_carried() {
    let (mut host, mut kernel) = (host("cubic", Sharing::Socket), Kernel::new(0));
    kernel.open(&mut host);
    kernel.event.bytes_acked = 14_480;
    kernel.ack(&mut host, 10, 0);
    kernel.report(&mut host, kind::CLOSE);
    let closed = host.closed.pop().unwrap();
    assert_eq!((closed.bytes, closed.sent, closed.lost), (Bytes::new(14_480), 10, 0));
    assert_eq!((closed.remote, host.len()), (CLIENT.parse().unwrap(), 0));
}

proptest! {
    /// Whatever sockets report, in any order: nobody panics, and every decision is a window and a rate.
    #[test]
    fn no_report_breaks_the_host(
        controller in prop::sample::select(vec!["newreno", "cubic", "bbr", "copa", "pcp", "vegas"]),
        shares in any::<bool>(),
        events in prop::collection::vec(
            (0u32..3, 1u32..3, 0u8..7, any::<u8>(), (0u32..200, 0u32..200, 0u32..20, 0u32..20), any::<(u32, i32, u32, u32)>()),
            1..200,
        ),
    ) {
        let mut host = host(controller, if shares { Sharing::Destination } else { Sharing::Socket });
        let mut counts = [0u32; 4];
        for (number, (socket, generation, kind, flags, changes, (mss, rtt_us, smoothed, in_flight))) in events.into_iter().enumerate() {
            for (count, change) in counts.iter_mut().zip([changes.0, changes.1, changes.2, changes.3]) {
                *count = count.wrapping_add(change);
            }
            let event = Event {
                time_ns: number as u64 * 3_000_000, socket, generation, number: number as u32, kind, flags,
                sent: counts[0], delivered: counts[1], lost: counts[2], marked: counts[3],
                mss, rtt_us, smoothed_rtt_us: smoothed, min_rtt_us: smoothed / 2, in_flight: in_flight % 1000, ..Event::default()
            };
            host.on_event(&event, || [SERVER, CLIENT].map(|address| address.parse().unwrap()));
            host.on_deadline(Time::from_nanos(number as u64 * 3_000_000));
            for (_, decision) in host.decisions() {
                prop_assert!(decision.window >= 1);
            }
        }
        prop_assert!(host.len() <= 3);
    }
}
