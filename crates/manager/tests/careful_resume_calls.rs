//! What Careful Resume (RFC 9959) does to departures, and what it reports to the controller.

use rampmeter_control::{Ack, Arrival, Controller, Departure, Loss, Notice, Path, Sent};
use rampmeter_manager::{Destination, FlowId, Manager, Report, Sharing, Update};
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(100);

/// A controller with a window of ten packets, or of a hundred after the first acknowledgement if it `grows`.
#[derive(Debug)]
struct Fixed {
    window: Bytes,
    grows: bool,
    /// As in the last acknowledgement.
    app_limited: bool,
    /// The number of calls.
    unpaced: usize,
    /// The bytes of the last call.
    validated: Option<Bytes>,
}

impl Fixed {
    fn new(grows: bool) -> Self {
        Self { window: PACKET * 10, grows, app_limited: false, unpaced: 0, validated: None }
    }
}

impl Controller for Fixed {
    fn on_path(&mut self, _now: Time, _path: &Path) {}
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}
    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.app_limited = ack.app_limited;
        if self.grows {
            self.window = PACKET * 100;
        }
    }
    fn on_loss(&mut self, _now: Time, _loss: &Loss) {}
    fn on_notice(&mut self, _now: Time, notice: Notice) {
        match notice {
            Notice::Unpaced => self.unpaced += 1,
            Notice::Validated(bytes) => self.validated = Some(bytes),
            _ => {}
        }
    }
    fn window(&self) -> Bytes {
        self.window
    }
    fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: PACKET, feedback: RouterFeedback::None }
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
}

/// A flow of one macroflow, whose packets arrive in the order sent.
struct Test {
    manager: Manager<Fixed>,
    flow: FlowId,
    now: Time,
    sent: u64,
    arrived: u64,
}

impl Test {
    fn new() -> Self {
        let mut manager =
            Manager::new(Sharing { careful_resume: Some(Duration::from_secs(600)), ..Sharing::default() });
        let flow = open(&mut manager, Time::ZERO, true);
        Self { manager, flow, now: Time::ZERO, sent: 0, arrived: 0 }
    }

    /// A flow whose first ten packets have arrived, a minute after a flow with a window of 100 packets.
    fn resumed() -> Self {
        let mut test = Self::new();
        for packets in [10, 100, 100, 100] {
            test.send(packets);
            test.pass(100);
            test.arrive(packets);
        }
        test.manager.close(test.now, test.flow);
        test.pass(60_000);
        (test.flow, test.sent, test.arrived) = (open(&mut test.manager, test.now, false), 0, 0);
        assert_eq!(test.send(100), 10);
        test.pass(100);
        test.arrive(10);
        test
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.manager.on_deadline(self.now);
    }

    /// Sends up to `packets`, and returns how many left.
    fn send(&mut self, packets: u64) -> u64 {
        for sent in 0..packets {
            self.manager.request(self.now, self.flow, false);
            if self.manager.grant(self.now).is_none() {
                return sent;
            }
            self.manager.notify(self.now, self.flow, PACKET);
            self.sent += 1;
        }
        packets
    }

    fn arrive(&mut self, packets: u64) {
        for _ in 0..packets {
            let arrivals = &[Arrival { number: self.arrived, bytes: PACKET, ..Arrival::default() }];
            let (arrived_in_flight, delivered, rtt) = (PACKET, PACKET, Some(RTT));
            let update = Update { arrived_in_flight, delivered, arrivals, rtt, ..Update::default() };
            self.manager.update(self.now, self.flow, &update);
            self.arrived += 1;
        }
    }

    fn controller(&self) -> &Fixed {
        self.manager.controller(self.flow).unwrap()
    }
}

fn open(manager: &mut Manager<Fixed>, now: Time, grows: bool) -> FlowId {
    let flow = manager.open(now, Destination(1), || Fixed::new(grows));
    manager.on_path(now, flow, PACKET, RTT, RouterFeedback::None);
    flow
}

#[test]
fn packets_beyond_the_window_are_spread_over_a_round_trip() {
    // Half of 100 packets in 100 ms, beyond the ten of the controller's own window. After a pause ten are made up for.
    let mut test = Test::resumed();
    let left = [0, 1, 1, 18, 40].map(|millis| {
        test.pass(millis);
        test.send(100)
    });
    assert_eq!(left, [11, 0, 1, 9, 11]);
}

#[test]
fn early_packets_are_reported_to_the_controller_once() {
    let mut test = Test::resumed();
    let mut sent = test.send(100);
    for _ in 0..38 {
        test.pass(2);
        sent += test.send(100);
        assert_eq!((test.controller().unpaced, test.controller().validated), (0, None));
    }
    test.pass(2);
    sent += test.send(1);
    assert_eq!((sent, test.controller().unpaced), (50, 1), "the window is full");
    assert_eq!(test.controller().validated, Some(PACKET * 10), "what was in flight before");
    test.arrive(3);
    assert_eq!((test.controller().validated, test.controller().unpaced), (Some(PACKET * 13), 1));
}

#[test]
fn more_in_flight_than_its_own_window_is_no_application_limit() {
    let mut test = Test::resumed();
    assert_eq!(test.send(11), 11);
    test.pass(2);
    assert_eq!(test.send(1), 1);
    test.pass(8);
    assert!(test.manager.grant(test.now).is_none(), "no request");
    test.pass(90);
    let limited = [0; 2].map(|_| {
        test.arrive(1);
        test.controller().app_limited
    });
    assert_eq!(limited, [false, true], "with 11 and 10 packets in flight");
}

#[test]
fn without_a_jump_an_application_may_limit_more_than_the_window() {
    let mut test = Test::new();
    assert!(test.manager.grant(test.now).is_none(), "no request");
    // Twelve packets leave without a request.
    (0..12).for_each(|_| test.manager.notify(test.now, test.flow, PACKET));
    test.pass(100);
    test.arrive(1);
    assert!(test.controller().app_limited);
}

#[test]
fn a_report_without_packet_numbers_ends_careful_resume() {
    let mut test = Test::resumed();
    test.manager.report(test.now, test.flow, &Report { rtt: Some(RTT), ..Report::default() });
    assert_eq!(test.send(100), 10);
}
