//! Careful Resume (RFC 9959) with a TCP: a later transfer starts with half of the window of an earlier one.

use std::collections::VecDeque;

use rampmeter_control::copa::Copa;
use rampmeter_control::newreno::NewReno;
use rampmeter_control::{Algorithm, Arrival, LossKind};
use rampmeter_manager::{Destination, FlowId, LossMode, Manager, Report, Sharing, Update, UpdateLoss};
use rampmeter_units::{Bytes, Duration, Random, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_micros(50);

fn manager<C: Algorithm>(careful_resume: Option<Duration>) -> Manager<C> {
    Manager::new(Sharing { careful_resume, ..Sharing::default() })
}

fn make<C: Algorithm>() -> C {
    C::new(&C::Config::default(), Random::from_seed(1))
}

/// The packet `number` arrives, and reveals `loss`.
fn arrive<C: Algorithm>(manager: &mut Manager<C>, now: Time, flow: FlowId, number: u64, loss: Option<UpdateLoss>) {
    let sent_at = now - RTT;
    let arrivals = &[Arrival { number, bytes: PACKET, sent_at, received_at: now, ..Arrival::default() }];
    let lost = loss.map_or(Bytes::ZERO, |_| PACKET);
    let (arrived_in_flight, delivered, rtt) = (PACKET, PACKET, Some(RTT));
    manager.update(now, flow, &Update { arrived_in_flight, lost, delivered, arrivals, rtt, loss, ..Update::default() });
}

/// A transfer of `packets` over a path without a limit, from `start` on. Returns the number of packets that leave in each
/// round trip.
fn transfer<C: Algorithm>(manager: &mut Manager<C>, start: Time, packets: usize) -> Vec<usize> {
    let flow = manager.open(start, Destination(1), make);
    manager.on_path(start, flow, PACKET, RTT, RouterFeedback::None);
    let (mut now, mut left, mut in_flight, mut sent) = (start, packets, VecDeque::new(), Vec::new());
    while left > 0 || !in_flight.is_empty() {
        while let Some(&(_, number)) = in_flight.front().filter(|(sent_at, _)| *sent_at + RTT <= now) {
            in_flight.pop_front();
            arrive(manager, now, flow, number, None);
        }
        manager.on_deadline(now);
        while left > 0 {
            manager.request(now, flow, false);
            let Some(grant) = manager.grant(now) else { break };
            manager.notify(now, flow, PACKET);
            in_flight.push_back((now, grant.number));
            left -= 1;
            let round_trip = (now.since(start).as_nanos() / RTT.as_nanos()) as usize;
            sent.resize(round_trip + 1, 0);
            sent[round_trip] += 1;
        }
        now += STEP;
    }
    manager.close(now, flow);
    sent
}

#[test]
fn a_later_transfer_starts_with_half_of_the_window() {
    // Slow start sends 10, 20, 40 ... packets. In its best round trip 1280 arrive.
    let mut manager = manager::<NewReno>(Some(Duration::from_secs(600)));
    let first = transfer(&mut manager, Time::ZERO, 3000);
    assert_eq!(first[..8], [10, 20, 40, 80, 160, 320, 640, 1280]);
    let second = transfer(&mut manager, Time::ZERO + Duration::from_secs(60), 3000);
    assert_eq!(second[0], 10);
    assert!((630..=650).contains(&second[1]), "{second:?}");
    assert!(second.len() <= 5, "{second:?}");
}

#[test]
fn the_packets_of_the_jump_do_not_delay_a_paced_controller() {
    // At Copa's own rate at the jump, 40 packets in a round trip, its 290 packets would take seven round trips more.
    let mut manager = manager::<Copa>(Some(Duration::from_secs(600)));
    transfer(&mut manager, Time::ZERO, 3000);
    let second = transfer(&mut manager, Time::ZERO + Duration::from_secs(60), 3000);
    assert!(second[1] > 250 && second.len() <= 6, "{second:?}");
}

#[test]
fn a_jump_with_all_data_retreats_to_half_of_what_has_arrived() {
    // 20 packets are in flight before the jump and 100 arrive. The application has no more data, but it did not limit what
    // was in flight: Copa's own window is 120 packets, too, also after a loss.
    let mut manager = manager::<Copa>(Some(Duration::from_secs(600)));
    transfer(&mut manager, Time::ZERO, 3000);
    let start = Time::ZERO + Duration::from_secs(60);
    let flow = manager.open(start, Destination(1), make);
    manager.on_path(start, flow, PACKET, RTT, RouterFeedback::None);
    let (mut now, mut in_flight) = (start, VecDeque::new());
    for sent in 0..330 {
        if sent == 10 {
            now += RTT;
            in_flight.drain(..).for_each(|number| arrive(&mut manager, now, flow, number, None));
        }
        manager.request(now, flow, false);
        while manager.grant(now).inspect(|grant| in_flight.push_back(grant.number)).is_none() {
            now += STEP;
            manager.on_deadline(now);
        }
        manager.notify(now, flow, PACKET);
    }
    now += RTT / 100;
    assert!(manager.grant(now).is_none(), "no request");
    in_flight.drain(..100).for_each(|number| arrive(&mut manager, now, flow, number, None));
    assert_eq!(
        manager.query(now, flow).unwrap().window,
        PACKET * 378,
        "299 when the first of the jump arrives, then 79"
    );
    let lost =
        UpdateLoss { kind: LossKind::Transient, number: in_flight[0], recovering: false, repeated_timeout: false };
    arrive(&mut manager, now, flow, in_flight[3], Some(lost));
    assert_eq!(manager.query(now, flow).unwrap().window, PACKET * 60);
}

#[test]
fn without_the_setting_slow_start_begins_again() {
    let mut manager = manager::<NewReno>(None);
    let first = transfer(&mut manager, Time::ZERO, 600);
    assert_eq!(transfer(&mut manager, Time::ZERO + Duration::from_secs(60), 600), first);
}

#[test]
fn an_old_window_is_not_used() {
    let mut manager = manager::<NewReno>(Some(Duration::from_secs(600)));
    let first = transfer(&mut manager, Time::ZERO, 600);
    assert_eq!(transfer(&mut manager, Time::ZERO + Duration::from_secs(700), 600), first);
}

#[test]
fn feedback_without_packet_numbers_never_resumes() {
    let mut manager = manager::<NewReno>(Some(Duration::from_secs(600)));
    transfer(&mut manager, Time::ZERO, 2550);
    let start = Time::ZERO + Duration::from_secs(60);
    let flow = manager.open(start, Destination(1), make);
    manager.on_path(start, flow, PACKET, RTT, RouterFeedback::None);
    let send_all = |manager: &mut Manager<NewReno>, now| {
        let mut sent = 0;
        loop {
            manager.request(now, flow, false);
            if manager.grant(now).is_none() {
                return sent;
            }
            manager.notify(now, flow, PACKET);
            sent += 1;
        }
    };
    assert_eq!(send_all(&mut manager, start), 10);
    let report = Report { received: PACKET * 10, rtt: Some(RTT), mode: None::<LossMode>, ..Report::default() };
    manager.report(start + RTT, flow, &report);
    assert_eq!(send_all(&mut manager, start + RTT), 20);
}
