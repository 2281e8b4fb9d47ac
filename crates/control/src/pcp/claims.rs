//! What the paper says of whole flows, on the [`Model`]; `cargo test -p rampmeter-control --release pcp::claims::table
//! -- --ignored --nocapture` prints the figures that chose the defaults.

use rampmeter_units::{Duration, Time};

use super::Config;
use super::model::Model;
use crate::History;

const RTT: Duration = Duration::from_millis(25);
const FOREVER: u64 = u64::MAX / 2;

fn secs(n: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(n)
}

/// Ten long flows, one a second; measured from 20 s to 60 s: utilisation, Jain's index, mean queue, loss.
fn long_flows(config: &Config, flows: u32, seed: u64) -> (f64, f64, f64, f64) {
    let mut model = Model::figure_4(config, seed);
    for i in 0..flows {
        model.add(secs(f64::from(i) * 10.0 / f64::from(flows)), RTT, FOREVER, None);
    }
    model.run(secs(20.0));
    let before: Vec<u64> = model.flows.iter().map(|flow| flow.delivered).collect();
    model.run(secs(60.0));
    let shares: Vec<f64> = model.flows.iter().zip(&before).map(|(flow, b)| (flow.delivered - b) as f64).collect();
    let jain = shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * shares.iter().map(|s| s * s).sum::<f64>());
    let used = model.utilisation(before.iter().sum(), Duration::from_secs(40));
    (used, jain, model.mean_queue(), model.loss())
}

/// Figure 4: 250 kB transfers, Poisson, 100 pairs with their histories; mean response in ms, mean queue, loss.
fn transfers(config: &Config, load: f64, seconds: f64, seed: u64) -> (f64, f64, f64) {
    let mut model = Model::figure_4(config, seed);
    let mut random = model.random("arrivals");
    let mut histories: Vec<Option<History>> = vec![None; 100];
    let (mut pairs, mut responses, mut at) = (Vec::new(), Vec::new(), 0.0);
    while at < seconds {
        at += random.exponential(1.0 / (load * 20.0));
        while let Some(id) = model.run(secs(at)) {
            let pair: usize = pairs[id];
            model.remember(id, &mut histories[pair]);
            responses.push((at, model.flows[id].response.unwrap().as_secs_f64()));
        }
        let pair = random.below(100) as usize;
        pairs.push(pair);
        let rtt = Duration::from_secs_f64((15.0 + 20.0 * pair as f64 / 99.0) / 1e3);
        model.add(secs(at), rtt, 250_000, histories[pair]);
    }
    let warm: Vec<f64> = responses.iter().filter(|(at, _)| *at > seconds / 3.0).map(|(_, r)| r * 1e3).collect();
    (warm.iter().sum::<f64>() / warm.len() as f64, model.mean_queue(), model.loss())
}

#[test]
#[ignore = "prints a table"]
fn table() {
    let base = Config::default;
    let overrides = std::env::var("PCP").unwrap_or_default();
    let config = |text: &str| toml::from_str::<Config>(&format!("{overrides}\n{text}")).unwrap();
    let variants: Vec<(String, Config)> = std::env::var("VARIANTS")
        .map(|list| list.split(';').map(|text| (text.to_owned(), config(&text.replace(',', "\n")))).collect())
        .unwrap_or_else(|_| vec![("default".to_owned(), base())]);
    for (name, config) in variants {
        let (used, jain, queue, loss) = long_flows(&config, 10, 1);
        print!("{name:40} 10 long: {used:.3} jain {jain:.2} q {queue:5.1} loss {:.3}%  ", loss * 100.0);
        for load in [0.15, 0.6, 0.9] {
            let (response, queue, loss) = transfers(&config, load, 60.0, 1);
            print!("| {load}: {response:6.0} ms q {queue:4.1} loss {:.3}% ", loss * 100.0);
        }
        println!();
    }
}
