//! What both directions of a link share: outages, satellites and bursts of loss in time. The links are those of both
//! worlds: each of them makes its links from the plan.

mod common;

use common::{SMALL, plan};
use rampmeter_router::capacity::Opportunity;
use rampmeter_router::{Hosts, Offered, Parcel};
use rampmeter_scenario::{LinkId, Plan};
use rampmeter_units::{Bytes, Duration, Ecn, Time};

/// The links `wire` and `wire.reverse`, then those of another one.
const FORWARD: usize = 0;
const REVERSE: usize = 1;
const OTHER: usize = 2;

/// Two links, one after the other, with these keys instead of a constant rate of 8 Mb/s.
fn two_links(rate: &str, more: &str) -> Plan {
    let link = |name: &str, ends: &str| {
        let router = "{ kind = \"drop-tail\", packets = 10 }";
        let start = format!("[[link]]\nname = \"{name}\"\nbetween = {ends}\nrate = {rate}\ndelay = \"10 ms\"\n");
        format!("{start}router = {router}\n{more}\n")
    };
    let start = SMALL.find("[[link]]").unwrap();
    let end = SMALL.find("[[hosts]]").unwrap();
    let links = link("wire", "[\"a\", \"m\"]") + &link("other", "[\"m\", \"b\"]");
    plan(&format!("{}{links}{}arrivals = {{ count = 1 }}\n", &SMALL[..start], &SMALL[end..]))
}

/// What the link may send in a minute.
fn opportunities(plan: &Plan, link: usize) -> Vec<Opportunity> {
    let mut opportunities = plan.opportunities(LinkId(link)).unwrap();
    let all = std::iter::from_fn(move || Some(opportunities.next()));
    all.take_while(|it| it.at < Time::ZERO + Duration::from_secs(60)).collect()
}

/// The pauses of a link that otherwise sends each millisecond.
fn outages(plan: &Plan, link: usize) -> Vec<(Time, Time)> {
    let found = opportunities(plan, link);
    let pauses = found.windows(2).filter(|pair| pair[1].at.since(pair[0].at) > Duration::from_millis(1));
    pauses.map(|pair| (pair[0].at, pair[1].at)).collect()
}

/// A packet of 500 bytes with its number.
#[derive(Debug)]
struct Numbered(u64);

impl Parcel for Numbered {
    fn bytes(&self) -> Bytes {
        Bytes::new(500)
    }
    fn flow(&self) -> u64 {
        self.0
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: 0, destination: 1 }
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _: Ecn) {}
}

/// Which packets the link delivers of those that enter it, one each millisecond, for a minute.
fn delivered(plan: &Plan, link: usize) -> Vec<u64> {
    let mut link = plan.make_links::<Numbered>().remove(link);
    let mut delivered = Vec::new();
    for n in 0..60_000 {
        let now = Time::ZERO + Duration::from_millis(1) * n;
        assert!(matches!(link.offer(now, &mut Some(Numbered(n)), Time::ZERO), Offered::Queued));
        delivered.extend(std::iter::from_fn(|| link.arrive(now)).map(|packet| packet.0));
    }
    delivered
}

#[test]
fn both_directions_of_a_link_have_the_same_outages() {
    let plan = two_links("{ model = \"two-state\", mean = \"8 Mb/s\", low = 0, length = \"100 ms\" }", "");
    let forward = outages(&plan, FORWARD);
    assert!(forward.len() > 80);
    assert_eq!(forward, outages(&plan, REVERSE));
    assert!(outages(&plan, OTHER).iter().all(|outage| !forward.contains(outage)));
}

#[test]
fn both_directions_of_a_link_have_the_same_satellite() {
    let rate = "{ model = \"starlink\", mean = \"80 Mb/s\" }";
    let plan = two_links(rate, "reverse = { rate = { model = \"starlink\", mean = \"8 Mb/s\" } }");
    let delays = |link| {
        let mut delays: Vec<Duration> = opportunities(&plan, link).iter().map(|it| it.delay).collect();
        delays.dedup();
        delays
    };
    let forward = delays(FORWARD);
    assert_eq!((forward.len(), &forward), (5, &delays(REVERSE)));
    assert!(delays(OTHER).iter().all(|delay| !forward.contains(delay)));
}

#[test]
fn both_directions_of_a_link_have_the_same_bursts_in_time() {
    let losses = |length: &str| {
        let plan = two_links("\"8 Mb/s\"", &format!("loss = {{ burst = {{ share = 0.1, length = {length} }} }}"));
        [FORWARD, REVERSE, OTHER].map(|link| delivered(&plan, link))
    };
    let [forward, reverse, other] = losses("\"20 ms\"");
    assert!((0.87..0.93).contains(&(forward.len() as f64 / 60_000.0)), "{}", forward.len());
    assert!(forward == reverse && forward != other);
    // The state of bursts in packets changes with the packets of a direction.
    let [forward, reverse, other] = losses("20");
    assert!(forward != reverse && forward != other && reverse != other);
}

#[test]
fn a_seed_decides_what_both_directions_share() {
    let rate = "{ model = \"two-state\", mean = \"8 Mb/s\", low = 0, length = \"100 ms\" }";
    let (one, mut other) = (two_links(rate, ""), two_links(rate, ""));
    assert_eq!(opportunities(&one, REVERSE), opportunities(&other, REVERSE));
    other.seed = 2;
    assert_ne!(outages(&one, REVERSE), outages(&other, REVERSE));
    assert_eq!(outages(&other, FORWARD), outages(&other, REVERSE));
}

#[test]
fn access_links_know_their_reverse_direction() {
    let plan = two_links("\"8 Mb/s\"", "");
    for (n, link) in plan.links.iter().enumerate() {
        let expected = link.name.ends_with(".reverse").then(|| LinkId(n - 1));
        assert_eq!(link.reverse_of, expected, "{}", link.name);
        if let Some(LinkId(forward)) = expected {
            let forward = &plan.links[forward];
            assert_eq!((forward.from, forward.to), (link.to, link.from));
        }
    }
}
