//! Flows that a network treats differently: they are separated when that shows, and merged when it is over.

use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_manager::{Destination, FlowId, Grouping, LossMode, Manager, Report, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Stream, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(20);

struct Host {
    manager: Manager<Cm>,
    now: Time,
    random: Stream,
    flows: Vec<FlowId>,
}

impl Host {
    fn new(flows: usize) -> Self {
        let sharing = Sharing {
            grouping: Grouping::PerDestination,
            scheduling: Scheduling::RoundRobin,
            segregation: true,
            ..Sharing::default()
        };
        let mut manager = Manager::new(sharing);
        let flows = (0..flows).map(|_| manager.open(Time::ZERO, Destination(1), cm)).collect::<Vec<_>>();
        for &flow in &flows {
            manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
        }
        Self { manager, now: Time::ZERO, random: Stream::from_seed(1), flows }
    }

    /// Ten packets of every flow each round trip, of which these shares are lost.
    fn run(&mut self, span: Duration, loss: &[f64]) {
        let end = self.now + span;
        while self.now < end {
            for &flow in &self.flows {
                (0..10).for_each(|_| self.manager.notify(self.now, flow, PACKET));
            }
            self.now += RTT;
            for (&flow, &loss) in self.flows.iter().zip(loss) {
                let lost = (0..10).filter(|_| self.random.chance(loss)).count() as u64;
                let mode = (lost > 0).then_some(LossMode::Transient);
                let (received, lost) = (PACKET * (10 - lost), PACKET * lost);
                self.manager.report(self.now, flow, &Report { received, lost, mode, ..Report::default() });
            }
            self.manager.segregate(self.now, cm);
            self.manager.on_deadline(self.now);
        }
    }

    /// The number of flows in each flow's macroflow.
    fn macroflow_sizes(&self) -> Vec<usize> {
        self.flows.iter().map(|&flow| self.manager.query(self.now, flow).unwrap().flows).collect()
    }
}

fn cm() -> Cm {
    Cm::new(&Config::default(), Stream::from_seed(1))
}

#[test]
fn flows_with_high_loss_are_separated_and_merged_again() {
    let mut host = Host::new(3);
    host.run(Duration::from_secs(10), &[0.001, 0.1, 0.001]);
    assert_eq!(host.macroflow_sizes(), [2, 1, 2]);
    assert_eq!(host.manager.query(host.now, host.flows[1]).unwrap().in_flight, Bytes::ZERO);
    host.run(Duration::from_secs(30), &[0.001, 0.1, 0.001]);
    assert_eq!(host.macroflow_sizes(), [2, 1, 2], "as long as the loss differs");
    host.run(Duration::from_secs(30), &[0.01, 0.01, 0.01]);
    assert_eq!(host.macroflow_sizes(), [3, 3, 3]);
}

#[test]
fn chance_separates_no_flows() {
    let mut host = Host::new(4);
    host.run(Duration::from_secs(120), &[0.02; 4]);
    assert_eq!(host.macroflow_sizes(), [4; 4]);
}

#[test]
fn a_flow_may_close_while_it_is_separate() {
    let mut host = Host::new(2);
    host.run(Duration::from_secs(10), &[0.001, 0.1]);
    assert_eq!(host.macroflow_sizes(), [1, 1]);
    let closed = host.flows.pop().unwrap();
    host.manager.close(host.now, closed);
    host.run(Duration::from_secs(20), &[0.001]);
    assert_eq!(host.macroflow_sizes(), [1]);
}
