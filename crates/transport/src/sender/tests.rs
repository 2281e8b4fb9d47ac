//! What late receipts report and undo, what leaves again, and windows that open slowly.

use rampmeter_wire::{Receipt, Sack};

use super::*;

const PAYLOAD: u16 = 1000;
const RTT: Duration = Duration::from_millis(20);

/// A sender. Each packet and each acknowledgement takes a millisecond.
struct Test {
    sender: Sender,
    now: Time,
    number: u64,
    /// The time of each packet.
    sent: Vec<Time>,
}

impl Test {
    fn new(recovery: Recovery) -> Self {
        let mut sender = Sender::new(&Config { recovery, tail_loss_probe: false, proofs: false, ..Config::default() });
        sender.on_handshake(RTT, 1 << 20);
        sender.write(1 << 20);
        Self { sender, now: Time::ZERO, number: 0, sent: Vec::new() }
    }

    /// Sends `packets` and returns the number of the first one.
    fn send(&mut self, packets: u64) -> u64 {
        for _ in 0..packets {
            let piece = self.sender.next_piece(PAYLOAD).unwrap();
            self.sender.sent(self.now, piece, 1054, self.number, 0);
            self.number += 1;
            self.sent.push(self.now);
            self.now += Duration::from_millis(1);
        }
        self.number - packets
    }

    /// The feedback of an acknowledgement of `acknowledged` packets of the stream, with a receipt for packet `number`,
    /// and with the packets of the stream that `sack` names.
    fn acknowledge(&mut self, acknowledged: u32, number: u64, sack: Option<(u32, u32)>) -> PacketFeedback {
        let mut packet =
            Packet { acknowledgement: acknowledged * u32::from(PAYLOAD), window: 1 << 20, ..Packet::default() };
        packet.receipts.push(Receipt { number: number as u32, received_at: self.now, ..Receipt::default() });
        if let Some((start, end)) = sack {
            let [start, end] = [start, end].map(|packet| packet * u32::from(PAYLOAD));
            packet.sacks.push(Sack { start, end });
        }
        self.now += Duration::from_millis(1);
        let mut feedback = PacketFeedback::default();
        assert!(self.sender.on_packet(self.now, &packet, self.now, &mut feedback));
        feedback
    }
}

#[test]
fn late_receipts_undo_the_episode_of_their_losses_only() {
    let mut test = Test::new(Recovery::Sack);
    test.send(10);
    test.now = test.sender.timer;
    let (feedback, _) = test.sender.on_timer(test.now);
    assert_eq!(feedback.change.lost_packets, 10);
    // Everything is sent again and arrives, and then ten new packets, of which the first one seems lost.
    let repaired = test.send(10);
    test.acknowledge(10, repaired + 9, None);
    let new = test.send(10);
    for packet in 1..=3 {
        let lost = test.acknowledge(10, new + packet, Some((11, 11 + packet as u32))).loss;
        assert_eq!(lost.is_some(), packet == 3);
    }
    // The first transmissions arrive after all. They were lost by the timeout, not in this episode.
    for packet in 0..10 {
        let feedback = test.acknowledge(10, packet, Some((11, 14)));
        assert_eq!((feedback.change.spurious, feedback.is_undone), (1, false), "packet {packet}");
    }
    let feedback = test.acknowledge(14, new, None);
    assert_eq!((feedback.change.spurious, feedback.is_undone), (1, true));
}

/// Ten packets are sent, and the timer expires twice. Each time one of them is sent again.
fn timed_out_twice(recovery: Recovery) -> Test {
    let mut test = Test::new(recovery);
    test.send(10);
    for _ in 0..2 {
        test.now = test.sender.timer;
        let (feedback, _) = test.sender.on_timer(test.now);
        assert_eq!(feedback.change.restored, Bytes::ZERO);
        test.send(1);
    }
    test
}

#[test]
fn the_first_arrival_shows_whether_timeouts_were_spurious() {
    for recovery in [Recovery::Sack, Recovery::NewReno, Recovery::Reno] {
        for (number, is_spurious) in [(0, true), (10, false), (11, false)] {
            let mut test = timed_out_twice(recovery);
            assert_eq!(test.sender.scoreboard.in_flight, Bytes::new(1054));
            let feedback = test.acknowledge(1, number, None);
            let in_flight = if is_spurious { 9 * 1054 } else { 0 };
            assert_eq!((feedback.is_undone, test.sender.scoreboard.in_flight), (is_spurious, Bytes::new(in_flight)));
            assert_eq!(feedback.change.restored, Bytes::new(in_flight), "{recovery:?}, packet {number}");
            let rtt = test.now.since(Time::ZERO + Duration::from_millis(number));
            // A packet that waited for the path keeps the timer from expiring again, and is no measurement.
            assert_eq!(feedback.rtt, (!is_spurious).then(|| test.now.since(test.sent[number as usize])));
            assert!(!is_spurious || test.sender.timeout() >= rtt * 3 / 2, "{recovery:?}, packet {number}");
            // An original that comes later changes nothing more.
            assert!(!test.acknowledge(2, 1, None).is_undone);
        }
    }
}

#[test]
fn the_back_off_stays_until_a_round_trip_is_measured() {
    let mut test = timed_out_twice(Recovery::Sack);
    let (timeout, now) = (test.sender.timeout(), test.now + Duration::from_millis(1));
    let mut packet = Packet { acknowledgement: u32::from(PAYLOAD), window: 1 << 20, ..Packet::default() };
    assert!(test.sender.on_packet(now, &packet, now, &mut PacketFeedback::default()));
    assert_eq!((test.sender.timeouts, test.sender.timeout()), (0, timeout), "which transmission arrived is not known");
    packet.acknowledgement += u32::from(PAYLOAD);
    packet.receipts.push(Receipt { number: 1, ..Receipt::default() });
    assert!(test.sender.on_packet(now, &packet, now, &mut PacketFeedback::default()));
    let rtt = now.since(Time::ZERO + Duration::from_millis(1));
    assert_eq!(test.sender.timeout(), timeout.max(rtt * 3 / 2), "it was spurious: the packet has waited");
    // The next packet is sent since then, and shows that the path is as before.
    test.now = now;
    let number = test.send(1);
    test.acknowledge(11, number, None);
    assert!(test.sender.timeout() < timeout / 2, "{}", test.sender.timeout());
}

#[test]
fn no_recovery_is_undone_without_sack() {
    for recovery in [Recovery::Reno, Recovery::NewReno] {
        let mut test = Test::new(recovery);
        let first = test.send(10);
        for packet in 1..=3 {
            test.acknowledge(0, first + packet, None);
        }
        assert!(test.sender.recover.is_some());
        let feedback = test.acknowledge(10, first, None);
        assert_eq!((feedback.change.spurious, feedback.is_undone), (1, false), "{recovery:?}");
    }
}

#[test]
fn a_window_that_opens_by_single_bytes_causes_no_small_packets() {
    let mut test = Test::new(Recovery::Sack);
    (test.sender.window_end, test.sender.max_window) = (0, 0);
    for window in 1..10_000 {
        let packet = Packet { window, ..Packet::default() };
        assert!(test.sender.on_packet(test.now, &packet, test.now, &mut PacketFeedback::default()));
        while test.sender.wants_to_send() {
            test.send(1);
        }
    }
    // One byte, because nothing was in flight, and pieces that double up to half a packet: half of the largest window.
    assert!(test.number <= 10 + 10_000 / 625, "{} packets", test.number);
}

#[test]
fn an_overtaken_receipt_is_reported_once() {
    let mut test = Test::new(Recovery::Sack);
    let first = test.send(3);
    assert_eq!(test.acknowledge(3, first + 2, None).change.delivered, Bytes::new(3 * 1054));
    for (number, reported) in [(first + 1, 1), (first, 1), (first + 1, 0)] {
        let feedback = test.acknowledge(3, number, None);
        assert_eq!(feedback.change.arrivals.len(), reported, "packet {number}");
        assert!(feedback.change.arrivals.iter().all(|arrival| arrival.number == number));
        assert_eq!((feedback.change.delivered, feedback.rtt, feedback.is_new()), (Bytes::ZERO, None, reported > 0));
    }
}

#[test]
fn lost_packets_leave_again_in_order_and_in_smaller_pieces() {
    let mut test = Test::new(Recovery::Sack);
    test.send(10);
    test.acknowledge(1, 9, Some((6, 10))); // 1 to 5 are lost
    let mut again = Vec::new();
    for space in [600, 600, PAYLOAD, 400, PAYLOAD, PAYLOAD, PAYLOAD] {
        let piece = test.sender.next_piece(space).unwrap();
        test.sender.sent(test.now, piece, 1054, test.number, 0);
        test.number += 1;
        assert!(piece.is_retransmission);
        again.push((piece.start, piece.payload));
    }
    assert_eq!(again, [(1000, 600), (1600, 400), (2000, 1000), (3000, 400), (3400, 600), (4000, 1000), (5000, 1000)]);
    assert!(!test.sender.next_piece(PAYLOAD).unwrap().is_retransmission);
}
