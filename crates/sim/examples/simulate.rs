//! scratch
use rampmeter_control::Registry;
use rampmeter_scenario::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let mut s = Scenario::read(std::path::Path::new(&args.next().unwrap())).unwrap();
    for a in args {
        let (k, v) = a.split_once('=').unwrap();
        s.set(k, values(v)).unwrap();
    }
    let r = Registry::default();
    for p in s.points() {
        let plan = match s.plan(&p, &r) {
            Ok(p) => p,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let t = std::time::Instant::now();
        match rampmeter_sim::Simulated.run(&plan, &r) {
            Ok(o) => {
                let w = t.elapsed().as_secs_f64();
                let sm = Summary::of(&plan, &o, "simulated", w);
                let retx: u64 = o.flows.iter().map(|f| f.retransmitted_packets).sum();
                if std::env::var("V").is_ok() {
                    for f in &o.flows {
                        println!(
                            "{} start {} sent {} retx {} meas {}",
                            f.flow, f.start, f.sent_packets, f.retransmitted_packets, f.delivered_measured
                        );
                    }
                }
                println!(
                    "{p} flows {:?} links {:?} data {} retx {retx} wall {w:.3} -> {:.0} pkt/s",
                    sm.flows,
                    sm.links,
                    sm.data_packets,
                    sm.data_packets as f64 / w
                );
            }
            Err(e) => println!("{p}: {e}"),
        }
    }
}
