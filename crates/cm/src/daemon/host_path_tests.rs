//! What the host's manager makes of paths: of silence, and of flows that are treated differently.

use std::collections::BTreeMap;

use super::*;

fn share(host: &Host, now: Time) -> Rate {
    host.manager().query(now, host.flows().next().unwrap().manager_id).unwrap().rate
}

#[test]
fn what_nobody_reports_is_given_back_and_the_rate_ages() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    say(&mut host, at(0), A, Command::Notify { sent: MTU });
    say(&mut host, at(20), A, arrived(1)); // the round trip is known now
    ask(&mut host, at(20), A, 10);
    for _ in grants(&mut host, at(20)) {
        say(&mut host, at(20), A, Command::Notify { sent: MTU });
    }
    let before = share(&host, at(20));
    host.advance(at(1019));
    assert_eq!((outstanding(&host), share(&host, at(1019))), (MTU * 10, before), "not within a second");
    host.advance(at(1020));
    assert_eq!(outstanding(&host), Bytes::ZERO);
    assert!(share(&host, at(1020)) <= before.scale(0.5));
    assert!(share(&host, at(1100)) < before.scale(0.1));
    // What is told of late still counts.
    say(&mut host, at(1500), A, arrived(10));
    assert_eq!(outstanding(&host), Bytes::ZERO);
    assert!(share(&host, at(1500)) > before.scale(0.1));
    say(&mut host, at(1500), A, arrived(1000));
    assert_eq!(outstanding(&host), Bytes::ZERO, "nobody is believed twice");
}

#[test]
fn news_of_a_sibling_keep_the_rate_of_a_flow_that_reports_nothing() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    for now in 0..4000 {
        say(&mut host, at(now), A, Command::Notify { sent: Bytes::new(100) });
        if now % 2 == 0 {
            say(&mut host, at(now), B, Command::Notify { sent: MTU });
            say(&mut host, at(now), B, arrived(1));
        }
        host.advance(at(now));
        assert!(outstanding(&host) < Bytes::new(110_000), "at {now}");
    }
    assert!(share(&host, at(4000)) > Rate::from_bps(5_000_000), "{}", share(&host, at(4000)));
}

#[test]
fn what_was_given_back_twice_is_believed_twice() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    let late = |host: &Host| host.flows().next().unwrap().late;
    say(&mut host, at(0), A, Command::Notify { sent: MTU * 10 });
    host.advance(at(10_000));
    assert_eq!(late(&host), MTU * 10);
    say(&mut host, at(10_000), A, Command::Notify { sent: MTU * 5 });
    host.advance(at(20_000));
    assert_eq!((late(&host), outstanding(&host)), (MTU * 15, Bytes::ZERO));
    say(&mut host, at(20_000), A, arrived(12));
    assert_eq!(late(&host), MTU * 3);
}

/// Two flows to one host, of which the first loses every fifth packet and the second none. Tells which share a macroflow.
fn treated_differently(segregation: bool) -> (Option<u32>, Option<u32>, usize) {
    let mut host = sharing(Sharing { segregation, ..BY_WEIGHT });
    open(&mut host, at(0), A, "192.0.2.1:1");
    open(&mut host, at(0), B, "192.0.2.1:2");
    for round in 0..500 {
        let now = at(20 * round);
        (0..10).for_each(|_| say(&mut host, now, A, Command::Notify { sent: MTU }));
        (0..10).for_each(|_| say(&mut host, now, B, Command::Notify { sent: MTU }));
        let lossy = Feedback { received: MTU * 8, lost: MTU * 2, kind: Some(LossKind::Transient), rtt: Some(RTT) };
        say(&mut host, at(20 * round + 19), A, Command::Update(lossy));
        say(&mut host, at(20 * round + 19), B, arrived(10));
        host.advance(at(20 * round + 19));
    }
    let macroflow = |id: u32| {
        let flow = host.flows().find(|flow| flow.id == id).unwrap();
        host.manager().macroflow_of(flow.manager_id)
    };
    let status = crate::daemon::status::describe(&host, at(10_000), "newreno", &BTreeMap::new(), 0);
    (macroflow(A), macroflow(B), status.macroflows.len())
}

#[test]
fn flows_that_are_treated_worse_get_a_macroflow_of_their_own_where_that_is_wanted() {
    let (lossy, other, told) = treated_differently(true);
    assert!(lossy != other && told == 2, "{told}");
    let (lossy, other, told) = treated_differently(false);
    assert!(lossy == other && told == 1, "{told}");
}
