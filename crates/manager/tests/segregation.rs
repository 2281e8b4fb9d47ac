//! Flows that a network treats differently: they are separated when that shows, and merged when it is over.

use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_manager::{Destination, FlowId, Grouping, LossMode, Manager, Report, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);

/// Ten seconds are 1 + 39 * 16 of these round trips: a macroflow that was separated is compared when they end.
const RTT: Duration = Duration::from_millis(16);

/// Flows that lose nothing, and flows that lose too many for chance.
const GOOD: (u64, u64) = (10, 0);
const BAD: (u64, u64) = (10, 3);

struct Host {
    manager: Manager<Cm>,
    now: Time,
    random: Random,
    flows: Vec<FlowId>,
}

impl Host {
    fn new(flows: usize) -> Self {
        let (grouping, scheduling) = (Grouping::PerDestination, Scheduling::RoundRobin);
        Self::with(Sharing { grouping, scheduling, segregation: true, ..Sharing::default() }, flows)
    }

    fn with(sharing: Sharing, flows: usize) -> Self {
        let mut manager = Manager::new(sharing);
        let flows = (0..flows).map(|_| manager.open(Time::ZERO, Destination(1), cm)).collect::<Vec<_>>();
        for &flow in &flows {
            manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
        }
        Self { manager, now: Time::ZERO, random: Random::from_seed(1), flows }
    }

    /// One round trip: the packets of each flow, and how many of them are lost.
    fn feedback(&mut self, outcomes: &[(u64, u64)]) {
        self.now += RTT;
        for (&flow, &(sent, lost)) in self.flows.iter().zip(outcomes) {
            (0..sent).for_each(|_| self.manager.notify(self.now, flow, PACKET));
            let mode = (lost > 0).then_some(LossMode::Transient);
            let (received, lost) = (PACKET * (sent - lost), PACKET * lost);
            self.manager.report(self.now, flow, &Report { received, lost, mode, ..Report::default() });
        }
        self.manager.on_deadline(self.now);
    }

    /// The round trip in which the macroflows change, counted from 1; none in 5000 of them.
    fn change<const N: usize>(&mut self, mut outcomes: impl FnMut(usize) -> [(u64, u64); N]) -> Option<usize> {
        let before = self.macroflow_sizes();
        let changes = |round: &usize| {
            self.feedback(&outcomes(*round));
            self.manager.segregate(self.now, cm);
            self.macroflow_sizes() != before
        };
        (1..=5000).find(changes)
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
    Cm::new(&Config::default(), Random::from_seed(1))
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

/// In each round trip three packets of the second flow count as lost and arrive after all.
#[test]
fn spurious_losses_separate_no_flows() {
    let mut host = Host::new(2);
    for _ in 0..200 {
        host.feedback(&[GOOD, BAD]);
        let (late, flow) = (PACKET * BAD.1, host.flows[1]);
        host.manager.restore_lost(flow, late);
        host.manager.report(host.now, flow, &Report { received: late, ..Report::default() });
        host.manager.segregate(host.now, cm);
    }
    assert_eq!(host.macroflow_sizes(), [2, 2]);
}

/// Two flows of which one is treated worse, in separate macroflows.
fn separated() -> Host {
    let mut host = Host::new(2);
    assert_eq!(host.change(|_| [GOOD, BAD]), Some(33));
    assert_eq!(host.macroflow_sizes(), [1, 1]);
    host
}

/// The first feedback begins an interval of 16 round trips, and at the end of two of them the flows differ.
#[test]
fn flows_that_differ_twice_in_a_row_are_separated() {
    separated();
    // An interval with losses, then four without them: as 500 packets of each flow do not differ, the count restarts.
    let with_clean = |packets: usize| {
        move |round: usize| match (round - 1) % 80 {
            0..16 => [GOOD, BAD],
            at if at < 16 + packets / 10 => [GOOD, GOOD],
            _ => [GOOD, (0, 0)],
        }
    };
    assert_eq!(Host::new(2).change(with_clean(500)), None);
    assert_eq!(Host::new(2).change(with_clean(490)), Some(80 + 17), "too few packets for an answer");
}

#[test]
fn a_flow_is_compared_when_it_has_thirty_packets() {
    // Packets of the second flow in an interval, half of which are lost.
    let change = |packets: usize| {
        let outcomes = move |round: usize| [(100, 0), if (round - 1) % 16 < packets / 2 { (2, 1) } else { (0, 0) }];
        Host::new(2).change(outcomes)
    };
    assert_eq!(change(30), Some(1 + 2 * 16));
    assert_eq!(change(28), Some(1 + 4 * 16), "after two intervals each, however many packets the other one sends");
}

#[test]
fn each_separation_lasts_twice_as_long_as_the_one_before() {
    let mut host = Host::new(2);
    let mut lasts = || {
        host.change(|_| [GOOD, BAD]).unwrap();
        let since = host.now;
        host.change(|_| [GOOD, GOOD]).unwrap();
        host.now.since(since)
    };
    // The merge is at the next comparison.
    let comparison = |rounds: u64| RTT * (1 + rounds * 16);
    assert_eq!(lasts(), Duration::from_secs(10));
    assert_eq!(lasts(), comparison(79), "20 s");
    assert_eq!(lasts(), comparison(157), "40 s");
}

/// A macroflow of three flows is to be separated from one of them, at a rate of which it has a third.
#[test]
fn a_separate_macroflow_starts_with_its_part_of_the_rate() {
    let mut host = Host::new(3);
    let rate = |host: &Host, flow: usize| host.manager.query(host.now, host.flows[flow]).unwrap().rate.as_bps();
    // Few losses in a row, so that the window remains large.
    (1..=33).for_each(|round| host.feedback(&[GOOD, GOOD, if round % 16 == 12 { (10, 9) } else { GOOD }]));
    let before = rate(&host, 0);
    host.manager.segregate(host.now, cm);
    assert_eq!((host.macroflow_sizes(), rate(&host, 0)), (vec![2, 2, 1], before));
    let packet = Rate::of(PACKET, RTT).as_bps();
    assert!(before > 12 * packet && rate(&host, 2).abs_diff(before / 3) <= packet, "{} of {before}", rate(&host, 2));
}

#[test]
fn later_flows_join_the_macroflow_that_remains() {
    let mut host = separated();
    let closed = host.flows.remove(0);
    host.manager.close(host.now, closed);
    host.run(Duration::from_secs(1), &[0.0]);
    let later = host.manager.open(host.now, Destination(1), cm);
    assert_eq!(host.manager.macroflow_of(later), host.manager.macroflow_of(host.flows[0]));
}

/// Ten packets of each flow every round trip; those of the second flow arrive `times` round trips later than the others,
/// and are reported together in groups of `group` round trips.
fn delayed(host: &mut Host, rounds: usize, times: usize, group: usize) {
    let batch = |host: &mut Host, flow: FlowId, packets: u64| {
        let received = PACKET * packets;
        host.manager.report(host.now, flow, &Report { received, ..Report::default() });
    };
    let (fast, slow) = (host.flows[0], host.flows[1]);
    for round in 1..=rounds {
        for flow in [fast, slow] {
            (0..10).for_each(|_| host.manager.notify(host.now, flow, PACKET));
        }
        host.now += RTT;
        batch(host, fast, 10);
        if round >= times && (round - times).is_multiple_of(group) {
            batch(host, slow, 10 * group as u64);
        }
        host.manager.segregate(host.now, cm);
        host.manager.on_deadline(host.now);
    }
}

#[test]
fn flows_whose_bytes_stay_long_in_flight_are_separated() {
    for (times, group, sizes) in [(8, 1, [1, 1]), (2, 1, [2, 2]), (8, 8, [2, 2])] {
        let mut host = Host::new(2);
        delayed(&mut host, 60, times, group);
        assert_eq!(host.macroflow_sizes(), sizes, "{times} round trips, reports every {group}");
    }
}

#[test]
fn flows_that_are_as_fast_again_are_merged() {
    let mut host = Host::new(2);
    delayed(&mut host, 60, 8, 1);
    assert_eq!(host.macroflow_sizes(), [1, 1]);
    // What is still in flight arrives.
    host.manager.report(host.now, host.flows[1], &Report { received: PACKET * 80, ..Report::default() });
    delayed(&mut host, 700, 1, 1);
    assert_eq!(host.macroflow_sizes(), [2, 2]);
}
