//! First windows: a macroflow starts with one for each active flow, as TCP connections do.

use rampmeter_control::newreno::NewReno;
use rampmeter_control::{Controller, LossKind};
use rampmeter_manager::{FlowId, Grouping, Manager, Scheduling, Sharing, Update, UpdateLoss};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::common::newreno;
use crate::common::recorder::{Call, HERE, PACKET, RTT, Recorder, calls};

const MIN_RTO: Duration = Duration::from_millis(200);

/// Flows of one macroflow over a path without a limit.
struct Test<C> {
    manager: Manager<C>,
    flows: Vec<FlowId>,
    now: Time,
}

impl Test<NewReno> {
    fn new(first_windows: usize, flows: u32) -> Self {
        Self::with(first_windows, flows, newreno)
    }
}

impl<C: Controller> Test<C> {
    fn with(first_windows: usize, flows: u32, make: impl Fn() -> C) -> Self {
        let sharing = Sharing {
            grouping: Grouping::PerDestination,
            scheduling: Scheduling::RoundRobin,
            first_windows,
            min_rto: MIN_RTO,
            ..Sharing::default()
        };
        let (mut manager, now) = (Manager::new(sharing), Time::ZERO);
        let flows: Vec<_> = (0..flows).map(|_| manager.open(now, HERE, &make)).collect();
        for &flow in &flows {
            manager.on_path(now, flow, PACKET, RTT, RouterFeedback::None);
        }
        Self { manager, flows, now }
    }

    /// The packets that leave if the first `active` flows have data without end.
    fn send(&mut self, active: usize) -> u64 {
        let mut sent = 0;
        for &flow in &self.flows[..active] {
            self.manager.request(self.now, flow, false);
        }
        while let Some(grant) = self.manager.grant(self.now) {
            self.manager.notify(self.now, grant.flow, PACKET);
            self.manager.request(self.now, grant.flow, false);
            sent += 1;
        }
        sent
    }

    /// A round trip later everything has arrived, or one packet of the first flow is lost.
    fn arrive(&mut self, loss: bool) {
        self.now += RTT;
        for (index, &flow) in self.flows.iter().enumerate() {
            let bytes = self.manager.in_flight(flow);
            let lost = if loss && index == 0 { PACKET } else { Bytes::ZERO };
            let kind = LossKind::Transient;
            let loss = UpdateLoss { kind, number: 1, recovering: false, repeated_timeout: false };
            let (delivered, loss) = (bytes - lost, (lost > Bytes::ZERO).then_some(loss));
            let (arrived_in_flight, rtt) = (delivered, Some(RTT));
            let update = Update { arrived_in_flight, lost, delivered, rtt, loss, ..Update::default() };
            self.manager.update(self.now, flow, &update);
        }
        // What the flows have requested is not sent.
        while let Some(grant) = self.manager.grant(self.now) {
            self.manager.notify(self.now, grant.flow, Bytes::ZERO);
        }
    }
}

#[test]
fn active_flows_have_a_first_window_each_up_to_the_maximum() {
    for (first_windows, active, packets) in [(6, 1, 10), (6, 2, 20), (6, 6, 60), (6, 8, 60), (1, 8, 10), (0, 8, 10)] {
        assert_eq!(Test::new(first_windows, 8).send(active), packets, "{first_windows} {active}");
    }
}

#[test]
fn a_flow_that_becomes_active_later_adds_its_first_window() {
    let mut test = Test::new(3, 4);
    assert_eq!((test.send(1), test.send(2), test.send(4)), (10, 10, 10));
}

#[test]
fn after_a_loss_there_are_no_more_first_windows() {
    let mut test = Test::new(6, 6);
    test.send(2);
    test.arrive(true);
    let window = test.send(2);
    assert!(window <= 20, "{window}");
    assert_eq!(test.send(6), 0);
}

#[test]
fn an_idle_time_shorter_than_the_minimum_changes_nothing() {
    let mut test = Test::new(6, 6);
    test.send(6);
    test.arrive(false);
    test.now += MIN_RTO - RTT * 2;
    let window = test.send(1);
    assert!(window >= 60, "{window}");
}

#[test]
fn after_an_idle_time_active_flows_have_first_windows_again() {
    let mut test = Test::new(6, 6);
    test.send(6);
    test.arrive(false);
    test.now += MIN_RTO * 2;
    assert_eq!((test.send(1), test.send(6)), (10, 50));
}

#[test]
fn more_active_flows_than_before_are_reported_once() {
    let reported = |loss| {
        let mut test = Test::with(3, 4, || Recorder { window: PACKET * 100, ..Recorder::default() });
        for active in [2, 2, 4] {
            test.send(active);
            test.arrive(loss);
        }
        let flows = |call| if let Call::FirstWindows(flows) = call { Some(flows) } else { None };
        calls(&test.manager, test.flows[0]).into_iter().filter_map(flows).collect::<Vec<_>>()
    };
    assert_eq!(reported(false), [2, 3], "up to the maximum");
    assert_eq!(reported(true), [2], "not after a loss");
}
