//! Round robin by weights.

use rampmeter_units::{Bytes, Time};

use super::{Scheduler, Scheduling};
use crate::flow::Share;

const PACKET: Bytes = Bytes::new(1000);

/// The grants to flows that always have a packet to send.
fn grants(scheduler: &mut Scheduler, flows: &[u32], packets: usize) -> Vec<u32> {
    for flow in flows {
        scheduler.request(Time::ZERO, *flow);
    }
    let next = |_| {
        let flow = scheduler.next(Time::ZERO).unwrap();
        scheduler.sent(PACKET, PACKET);
        scheduler.request(Time::ZERO, flow);
        flow
    };
    (0..packets).map(next).collect()
}

fn count(grants: &[u32], flow: u32) -> usize {
    grants.iter().filter(|granted| **granted == flow).count()
}

fn with(flows: u32) -> Scheduler {
    let mut scheduler = Scheduler::new(Scheduling::RoundRobin);
    (0..flows).for_each(|flow| scheduler.join(flow));
    scheduler
}

#[test]
fn flows_of_equal_weight_take_turns() {
    assert_eq!(grants(&mut with(3), &[0, 1, 2], 6), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn turns_are_in_proportion_to_weights() {
    let mut scheduler = with(3);
    scheduler.share(1, Share { weight: 2.5, ..Share::default() });
    scheduler.share(2, Share { weight: 0.5, ..Share::default() });
    let grants = grants(&mut scheduler, &[0, 1, 2], 4000);
    assert_eq!([0, 1, 2].map(|flow| count(&grants, flow)), [1000, 2500, 500]);
}

#[test]
fn half_packets_get_twice_the_turns() {
    let mut scheduler = with(2);
    for flow in [0, 1] {
        scheduler.request(Time::ZERO, flow);
    }
    let mut turns = [0_u32, 0];
    for _ in 0..300 {
        let flow = scheduler.next(Time::ZERO).unwrap();
        turns[flow as usize] += 1;
        scheduler.sent(PACKET, if flow == 0 { PACKET / 2 } else { PACKET });
        scheduler.request(Time::ZERO, flow);
    }
    assert!(turns[0].abs_diff(200) <= 1, "{turns:?}");
}

#[test]
fn a_class_shares_what_it_has_among_its_flows() {
    let mut scheduler = with(4);
    for (flow, weight, class) in
        [(0, 1.0, Some((7, 3.0))), (1, 2.0, Some((7, 3.0))), (2, 1.0, Some((8, 1.0))), (3, 2.0, None)]
    {
        scheduler.share(flow, Share { weight, class, ..Share::default() });
    }
    let all = grants(&mut scheduler, &[0, 1, 2, 3], 6000);
    assert_eq!([0, 1, 2, 3].map(|flow| count(&all, flow)), [1000, 2000, 1000, 2000]);
    // The other flows share what an idle class does not use.
    scheduler.leave(0);
    scheduler.leave(1);
    let rest = grants(&mut scheduler, &[], 3000);
    assert!([1000, 2000].iter().zip([2, 3]).all(|(turns, flow)| count(&rest, flow).abs_diff(*turns) <= 2));
}

#[test]
fn idle_time_earns_no_credit() {
    let mut scheduler = with(2);
    assert_eq!(count(&grants(&mut scheduler, &[0], 1000), 0), 1000);
    let both = grants(&mut scheduler, &[1], 100);
    assert!(count(&both, 1) <= 51, "{}", count(&both, 1));
}

#[test]
fn one_request_gets_one_grant_and_a_removed_flow_none() {
    let mut scheduler = with(3);
    for flow in [0, 1, 2, 1] {
        scheduler.request(Time::ZERO, flow);
    }
    scheduler.leave(0);
    assert_eq!(
        [scheduler.next(Time::ZERO), scheduler.next(Time::ZERO), scheduler.next(Time::ZERO)],
        [Some(1), Some(2), None]
    );
    assert!(scheduler.is_empty());
    scheduler.join(5);
    scheduler.request(Time::ZERO, 5);
    assert_eq!(scheduler.next(Time::ZERO), Some(5));
}
