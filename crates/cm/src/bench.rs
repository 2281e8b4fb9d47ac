//! What a grant costs: from `cm_request` to `cmapp_send` where the window is open, beside what one round trip over a Unix
//! socket costs on the same machine in the same minute.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rampmeter_units::Duration;
use serde::Serialize;

use crate::client::{Client, Event, Options};
use crate::error::Error;
use crate::time::now;

/// How long something took, over many times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them took less.
    pub median_us: f64,
    /// Nine of ten took less.
    pub p90_us: f64,
    /// Ninety-nine of a hundred took less.
    pub p99_us: f64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// From a request to its grant, one after the other.
    pub grant: Spread,
    /// The same with a pause of a millisecond before each: the daemon sleeps and has to be woken.
    pub grant_after_silence: Spread,
    /// Sixteen flows to as many hosts ask at once: per grant.
    pub each_of_16_hosts: Spread,
    /// A thousand flows to as many hosts ask at once: per grant.
    pub each_of_1000_hosts: Spread,
    /// Sixteen flows to one host ask at once: per grant.
    pub each_of_16_flows: Spread,
    /// A thousand flows to one host ask at once: per grant.
    pub each_of_1000_flows: Spread,
    /// A byte to a thread and back over a Unix socket.
    pub socket_round_trip: Spread,
    /// The median grant over the median round trip.
    pub grant_over_socket: f64,
    /// How often each was measured.
    pub samples: usize,
}

/// Measures with the daemon at `path`, whose controller must leave the window open (`newreno`, for example).
pub fn measure(path: &Path, samples: usize) -> Result<Figures, Error> {
    let samples = samples.max(10);
    let client = Client::connect_to(path)?;
    let to = ([127, 0, 0, 1], 9).into();
    let flow = client.open(to, &Options::default())?;
    let one = || -> Result<Duration, Error> {
        let start = now();
        client.request(flow)?;
        loop {
            match client.next(Some(Duration::from_secs(5)))? {
                Some((_, Event::Send { .. })) => break,
                Some(_) => {}
                None => return Err(Error::Full),
            }
        }
        let span = now().since(start);
        client.notify(flow, 0)?;
        Ok(span)
    };
    for _ in 0..samples / 10 {
        one()?; // both sides learn that it pays to look before sleeping
    }
    let grant = spread((0..samples).map(|_| one()).collect::<Result<_, _>>()?);
    let seldom = samples.min(500);
    let after_silence = (0..seldom).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        one()
    });
    let grant_after_silence = spread(after_silence.collect::<Result<_, _>>()?);
    client.close(flow)?;
    let crowd = |flows: usize, hosts: usize| crowd(&client, flows, hosts, samples / flows);
    let (each_of_16_hosts, each_of_1000_hosts) = (crowd(16, 16)?, crowd(1000, 1000)?);
    let (each_of_16_flows, each_of_1000_flows) = (crowd(16, 1)?, crowd(1000, 1)?);
    let socket_round_trip = socket(samples).map_err(|_| Error::System)?;
    Ok(Figures {
        grant,
        grant_after_silence,
        each_of_16_hosts,
        each_of_1000_hosts,
        each_of_16_flows,
        each_of_1000_flows,
        socket_round_trip,
        grant_over_socket: grant.median_us / socket_round_trip.median_us,
        samples,
    })
}

/// So many flows, spread over so many hosts, ask at once; the time until all have been granted, divided by them.
fn crowd(client: &Client, flows: usize, hosts: usize, rounds: usize) -> Result<Spread, Error> {
    let open = |flow: usize| {
        let [high, low] = (flow % hosts).to_be_bytes()[6..] else { return Err(Error::Invalid) };
        client.open(([127, 0, 1 + high, low], 9).into(), &Options::default())
    };
    let flows: Vec<_> = (0..flows).map(open).collect::<Result<_, _>>()?;
    let mut spans = Vec::new();
    for _ in 0..rounds.max(10) {
        let start = now();
        for flow in &flows {
            client.request(*flow)?;
        }
        let mut left = flows.len() as u64;
        while left > 0 {
            match client.next(Some(Duration::from_secs(5)))? {
                Some((flow, Event::Send { .. })) => {
                    client.notify(flow, 0)?;
                    left -= 1;
                }
                Some(_) => {}
                None => return Err(Error::Full),
            }
        }
        spans.push(now().since(start) / flows.len() as u64);
    }
    for flow in flows {
        client.close(flow)?;
    }
    Ok(spread(spans))
}

fn socket(samples: usize) -> std::io::Result<Spread> {
    let (mut ours, mut theirs) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while theirs.read_exact(&mut byte).and_then(|()| theirs.write_all(&byte)).is_ok() {}
        });
        let mut spans = Vec::new();
        for _ in 0..samples {
            let start = now();
            ours.write_all(&[1])?;
            ours.read_exact(&mut [0])?;
            spans.push(now().since(start));
        }
        drop(ours);
        Ok(spread(spans))
    })
}

fn spread(mut spans: Vec<Duration>) -> Spread {
    spans.sort_unstable();
    let at = |share: f64| {
        let index = ((spans.len() as f64 * share) as usize).min(spans.len() - 1);
        spans[index].as_nanos() as f64 / 1000.0
    };
    Spread { median_us: at(0.5), p90_us: at(0.9), p99_us: at(0.99) }
}
