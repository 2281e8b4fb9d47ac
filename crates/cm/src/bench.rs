//! The latency of a grant, from `cm_request` to `cmapp_send` with an open window, and for comparison the round-trip
//! time over a Unix socket on the same machine.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rampmeter_units::Duration;
use serde::Serialize;

use crate::client::{Client, Event, Id, Options};
use crate::error::Error;
use crate::time::now;

/// The distribution of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// The results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measurements {
    /// From a request to its grant, one after the other.
    pub grant: Spread,
    /// The same with an idle time of one millisecond before each: the daemon sleeps and has to be woken.
    pub grant_after_silence: Spread,
    /// Sixteen flows to different hosts send requests at once: per grant.
    pub each_of_16_hosts: Spread,
    /// A thousand flows to different hosts send requests at once: per grant.
    pub each_of_1000_hosts: Spread,
    /// Sixteen flows to one host send requests at once: per grant.
    pub each_of_16_flows: Spread,
    /// A thousand flows to one host send requests at once: per grant.
    pub each_of_1000_flows: Spread,
    /// The round trip of a byte over a Unix socket to a thread.
    pub socket_round_trip: Spread,
    /// The median grant latency divided by the median round-trip time of the socket.
    pub grant_over_socket: f64,
    /// The number of samples.
    pub samples: usize,
}

/// Measures with the daemon at `path`, whose controller must keep the window open (`newreno`, for example).
pub fn measure(path: &Path, samples: usize) -> Result<Measurements, Error> {
    let samples = samples.max(10);
    let client = Client::connect_to(path)?;
    let to = ([127, 0, 0, 1], 9).into();
    let flow = client.open(to, &Options::default())?;
    let one = || -> Result<Duration, Error> {
        let start = now();
        client.request(flow)?;
        await_grant(&client)?;
        let span = now().since(start);
        client.notify(flow, 0)?;
        Ok(span)
    };
    for _ in 0..samples / 10 {
        one()?; // both sides adapt their spin times
    }
    let grant = spread((0..samples).map(|_| one()).collect::<Result<_, _>>()?);
    let few = samples.min(500);
    let after_silence = (0..few).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        one()
    });
    let grant_after_silence = spread(after_silence.collect::<Result<_, _>>()?);
    client.close(flow)?;
    let concurrent = |flows: usize, hosts: usize| concurrent(&client, flows, hosts, samples / flows);
    let (each_of_16_hosts, each_of_1000_hosts) = (concurrent(16, 16)?, concurrent(1000, 1000)?);
    let (each_of_16_flows, each_of_1000_flows) = (concurrent(16, 1)?, concurrent(1000, 1)?);
    let socket_round_trip = socket(samples).map_err(|_| Error::System)?;
    Ok(Measurements {
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

/// `flows` flows to `hosts` hosts send requests at once; the time until all have their grants, divided by `flows`.
fn concurrent(client: &Client, flows: usize, hosts: usize, rounds: usize) -> Result<Spread, Error> {
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
        for _ in &flows {
            client.notify(await_grant(client)?, 0)?;
        }
        spans.push(now().since(start) / flows.len() as u64);
    }
    for flow in flows {
        client.close(flow)?;
    }
    Ok(spread(spans))
}

/// The flow that gets the next grant.
fn await_grant(client: &Client) -> Result<Id, Error> {
    loop {
        match client.next(Some(Duration::from_secs(5)))? {
            Some((flow, Event::Send { .. })) => return Ok(flow),
            Some(_) => {}
            None => return Err(Error::Full),
        }
    }
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
