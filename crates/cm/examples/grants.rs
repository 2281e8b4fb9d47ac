//! What a grant costs: the latency from `cm_request` to `cmapp_send` with an open window, beside a round trip over a Unix
//! socket. The daemon's controller must keep the window open:
//!
//! ```text
//! rampmeter cm daemon --controller newreno --port 0 --socket /tmp/cm/socket &
//! cargo run --release -p rampmeter-cm --example grants -- /tmp/cm/socket
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use rampmeter_cm::{Client, Event, Id, Options};
use rampmeter_units::Duration;

const SAMPLES: usize = 50_000;
const FLOWS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).ok_or("give the daemon's socket")?;
    let client = Client::connect_to(Path::new(&socket))?;
    let open = || client.open(([127, 0, 0, 1], 9).into(), &Options::default());
    let flow = open()?;
    let one = || grants(&client, &[flow]);
    for _ in 0..SAMPLES / 10 {
        one()?; // both sides adapt their spin times
    }
    println!("microseconds                                   median     90%     99%");
    report("request to grant", SAMPLES, one)?;
    let after_silence = || {
        std::thread::sleep(std::time::Duration::from_millis(1));
        one()
    };
    report("request to grant, both processes sleeping", 500, after_silence)?;
    client.close(flow)?;
    let flows = (0..FLOWS).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    report("per grant, 1000 flows to one host", SAMPLES / FLOWS, || grants(&client, &flows))?;
    let (mut ours, mut theirs) = UnixStream::pair()?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while theirs.read_exact(&mut byte).and_then(|()| theirs.write_all(&byte)).is_ok() {}
    });
    report("round trip over a Unix socket", SAMPLES, || {
        let start = Instant::now();
        ours.write_all(&[1])?;
        ours.read_exact(&mut [0])?;
        Ok(micros(start))
    })
}

/// All `flows` send requests at once; the time until they have their grants, for each.
fn grants(client: &Client, flows: &[Id]) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for flow in flows {
        client.request(*flow)?;
    }
    let mut granted = None;
    for _ in flows {
        if let Some(flow) = granted.take() {
            client.notify(flow, 0)?;
        }
        while granted.is_none() {
            let (flow, event) = client.next(Some(Duration::from_secs(5)))?.ok_or("no grant: is the window open?")?;
            granted = Some(flow).filter(|_| matches!(event, Event::Send { .. }));
        }
    }
    let span = micros(start) / flows.len() as f64;
    granted.map_or(Ok(()), |flow| client.notify(flow, 0))?;
    Ok(span)
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64 / 1000.0
}

fn report(what: &str, samples: usize, one: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let mut all = std::iter::repeat_with(one).take(samples).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(f64::total_cmp);
    let [median, p90, p99] = [50, 90, 99].map(|share| all[all.len() * share / 100]);
    println!("{what:<45} {median:>7.2} {p90:>7.2} {p99:>7.2}");
    Ok(())
}
