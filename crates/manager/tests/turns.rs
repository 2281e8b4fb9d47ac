//! Turns: how long a flow sends before it is the turn of the next one.

use rampmeter_control::Algorithm;
use rampmeter_control::newreno::{Config, NewReno};
use rampmeter_manager::{Destination, Grouping, Manager, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Random, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(20);

#[test]
fn a_turn_is_what_the_macroflow_sends_in_that_time() {
    // Ten packets in 20 ms: three in 6 ms.
    for (turn, expected) in [(0, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), (6, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1])] {
        let turn = Duration::from_millis(turn);
        let (grouping, scheduling) = (Grouping::PerDestination, Scheduling::RoundRobin);
        let mut manager = Manager::new(Sharing { grouping, scheduling, turn, ..Sharing::default() });
        let flows = [0; 2].map(|_| {
            let make = || NewReno::new(&Config::default(), Random::from_seed(1));
            manager.open(Time::ZERO, Destination(1), make)
        });
        for flow in flows {
            manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
            manager.request(Time::ZERO, flow, false);
        }
        let granted = expected.map(|_| {
            let flow = manager.grant(Time::ZERO).unwrap().flow;
            manager.notify(Time::ZERO, flow, PACKET);
            manager.request(Time::ZERO, flow, false);
            usize::from(flow == flows[1])
        });
        assert_eq!(granted, expected, "{turn}");
    }
}
