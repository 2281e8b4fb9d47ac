//! The paper's statements on whole flows, checked on the [`Model`].

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::Config;
use super::model::Model;
use crate::History;

const RTT: Duration = Duration::from_millis(25);
const FOREVER: u64 = u64::MAX / 2;

fn secs(n: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(n)
}

/// Long flows that start within ten seconds. Returns utilization, Jain's index and mean queue from 20 s to 60 s, and
/// the loss from the start.
fn long_flows(config: &Config, flows: u32, seed: u64) -> (f64, f64, f64, f64) {
    long_flows_with_clocks(config, Duration::ZERO, flows, seed)
}

/// The same with senders whose clocks differ by up to `max_offset`.
fn long_flows_with_clocks(config: &Config, max_offset: Duration, flows: u32, seed: u64) -> (f64, f64, f64, f64) {
    let mut model = Model::figure_4(config, seed);
    model.max_offset = max_offset;
    for i in 0..flows {
        model.add(secs(f64::from(i) * 10.0 / f64::from(flows)), RTT, FOREVER, None);
    }
    model.run(secs(20.0));
    let (queue, packets) = (model.queue, model.packets);
    let before: Vec<u64> = model.flows.iter().map(|flow| flow.delivered).collect();
    model.run(secs(60.0));
    let shares: Vec<f64> = model.flows.iter().zip(&before).map(|(flow, b)| (flow.delivered - b) as f64).collect();
    let jain = shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * shares.iter().map(|s| s * s).sum::<f64>());
    let used = model.utilization(before.iter().sum(), Duration::from_secs(40));
    (used, jain, (model.queue - queue) / (model.packets - packets) as f64, model.loss())
}

/// Figure 4: 250 kB transfers, Poisson arrivals, 100 pairs of hosts with their histories. Returns the mean flow
/// completion time in milliseconds, the mean queue and the loss.
fn transfers(config: &Config, load: f64, seconds: f64, seed: u64) -> (f64, f64, f64) {
    let mut model = Model::figure_4(config, seed);
    let mut random = model.random("arrivals");
    let mut histories: Vec<Option<History>> = vec![None; 100];
    let (mut pairs, mut fcts, mut at) = (Vec::new(), Vec::new(), 0.0);
    while at < seconds {
        at += random.exponential(1.0 / (load * 20.0));
        while let Some(id) = model.run(secs(at)) {
            let pair: usize = pairs[id];
            model.remember(id, &mut histories[pair]);
            fcts.push((at, model.flows[id].fct.unwrap().as_secs_f64()));
        }
        let pair = random.below(100) as usize;
        pairs.push(pair);
        let rtt = Duration::from_secs_f64((15.0 + 20.0 * pair as f64 / 99.0) / 1e3);
        model.add(secs(at), rtt, 250_000, histories[pair]);
    }
    let warm: Vec<f64> = fcts.iter().filter(|(at, _)| *at > seconds / 3.0).map(|(_, r)| r * 1e3).collect();
    (warm.iter().sum::<f64>() / warm.len() as f64, model.mean_queue(), model.loss())
}

#[test]
fn ten_flows_share_a_link_although_their_clocks_differ() {
    let (used, jain, queue, loss) = long_flows_with_clocks(&Config::default(), Duration::from_secs(3600), 10, 1);
    assert!(used > 0.95 && jain > 0.95 && queue < 20.0 && loss < 0.01, "{used} {jain} {queue} {loss}");
}

#[test]
fn fifty_flows_whose_clocks_differ_exit_competitive_mode() {
    // They do not drain together. Excess loss that lasts ends the mode; without that rule they fill the buffer of 100
    // packets, and lose a sixth of all that they send.
    let (used, jain, queue, loss) = long_flows_with_clocks(&Config::default(), Duration::from_secs(10), 50, 1);
    assert!(used > 0.95 && jain > 0.9 && queue < 40.0 && loss < 0.05, "{used} {jain} {queue} {loss}");
}

#[test]
fn a_lone_flow_fills_the_link_in_10_rtts_or_5_with_history() {
    // Theory: the first probe's pair shows the capacity. Then each round trip's packets, none of which waits, permit a
    // factor of up to n + 2. With history: a third; twice that, because six packets saw an idle link; almost all.
    let reach = |history| {
        let mut model = Model::figure_4(&Config::default(), 1);
        model.add(Time::ZERO, RTT, FOREVER, history);
        let opened = Time::ZERO + RTT;
        (1..100).find(|n| {
            model.run(opened + RTT * *n);
            model.base(0) >= Rate::from_bps(36_000_000)
        })
    };
    let (cold, warm) = (reach(None).unwrap(), reach(Some(warm())).unwrap());
    println!("0.9 of the link after {cold} round trips, {warm} with history");
    assert!(cold <= 10 && warm <= 5, "{cold} {warm}");
}

#[test]
fn with_history_a_transfer_takes_two_rtts_over_fair_queueing() {
    // Fair queueing: handshake 25 ms, 200 packets of 250 us, path 25 ms: about 100 ms. PCP adds about two round trips.
    let mut model = Model::figure_4(&Config::default(), 1);
    let id = model.add(Time::ZERO, RTT, 250_000, Some(warm()));
    model.run(secs(5.0));
    let fct = model.flows[id].fct.unwrap();
    println!("250 kB in {fct}");
    assert!(fct < Duration::from_millis(160), "{fct}");
    assert_eq!(model.drops, 0);
}

#[test]
fn ten_long_flows_keep_the_link_busy_and_the_queue_short() {
    let (used, jain, queue, loss) = long_flows(&Config::default(), 10, 1);
    println!("utilization {used:.3}, Jain {jain:.2}, queue {queue:.1} packets, loss {:.3}%", loss * 100.0);
    // Flows that join without history overshoot once, in slow start. Other flows take them for TCP until the next
    // drain. The queue of a round trip is what its lowest delays show, so the mean is longer.
    assert!(used >= 0.95 && jain >= 0.9 && queue <= 16.0 && loss <= 0.0075, "{used} {queue} {loss}");
}

#[test]
fn a_lone_flow_finds_its_rate_from_10_kbps_to_10_gbps() {
    let ms = Duration::from_millis;
    let paths = [
        ("10 kb/s", ms(50), 1200.0),
        ("100 kb/s", ms(1000), 300.0),
        ("40 Mb/s", Duration::from_micros(100), 2.0),
        ("100 Mb/s", ms(1000), 60.0),
        ("10 Gb/s", Duration::from_micros(100), 0.05),
        ("10 Gb/s", ms(20), 0.6),
    ];
    for (link, rtt, seconds) in paths {
        let link: Rate = link.parse().unwrap();
        let buffer = (link.bytes_in(rtt)).max(Bytes::new(12_500));
        let mut model = Model::new(&Config::default(), link, buffer, 1);
        model.add(Time::ZERO, rtt, FOREVER, None);
        model.run(secs(seconds / 2.0));
        let before = model.delivered();
        model.run(secs(seconds));
        let used = model.utilization(before, Duration::from_secs_f64(seconds / 2.0));
        println!("{link:9} {rtt:7} utilization {used:.3}, queue {:.1}, loss {}", model.mean_queue(), model.loss());
        assert!(used > 0.8, "{link} {rtt}: {used}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || long_flows(&Config::default(), 3, 7);
    assert_eq!(run(), run());
}

fn warm() -> History {
    let link = Rate::from_bps(40_000_000);
    History { capacity: link, ..History::new(link, RTT) }
}

/// Settings come from `PCP_TABLE`: rows are separated by `;`, the settings of a row by `,`. Prints means over five
/// seeds with the standard error of the mean: two rows differ if they differ by several standard errors.
#[test]
#[ignore = "prints the table that chose the defaults"]
fn table() {
    let rows = std::env::var("PCP_TABLE").unwrap_or_default();
    for row in rows.split(';') {
        let config: Config = toml::from_str(&row.replace(',', "\n")).unwrap();
        let figure = |values: &[f64], places: usize| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            format!("{mean:.places$} ({:.places$})", (variance / n).sqrt())
        };
        let long: Vec<_> = (1..=5).map(|seed| long_flows(&config, 10, seed)).collect();
        let of = |pick: fn(&(f64, f64, f64, f64)) -> f64| long.iter().map(pick).collect::<Vec<_>>();
        println!("{row}");
        println!(
            "  ten long flows: utilization {}, Jain {}, queue {}, loss {} %",
            figure(&of(|r| r.0), 3),
            figure(&of(|r| r.1), 2),
            figure(&of(|r| r.2), 1),
            figure(&of(|r| r.3 * 100.0), 3),
        );
        for load in [0.15, 0.6, 0.9] {
            let runs: Vec<_> = (1..=5).map(|seed| transfers(&config, load, 60.0, seed)).collect();
            let of = |pick: fn(&(f64, f64, f64)) -> f64| runs.iter().map(pick).collect::<Vec<_>>();
            println!(
                "  load {load}: flow completion time {} ms, queue {}, loss {} %",
                figure(&of(|r| r.0), 0),
                figure(&of(|r| r.1), 1),
                figure(&of(|r| r.2 * 100.0), 3),
            );
        }
    }
}
