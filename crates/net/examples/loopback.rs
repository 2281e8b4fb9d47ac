//! Measures this crate over loopback: the accuracy of pacing, and the throughput of one core.
//!
//! ```text
//! cargo run --release -p rampmeter-net --example loopback
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex};

use rampmeter_control::fixed_rate::{Config as FixedConfig, FixedRate};
use rampmeter_control::{Ack, Algorithm, AnyController, Arrival, Controller, Departure, Loss, Path, Registry, Sent};
use rampmeter_net::{EndReason, Event, EventLoop, Host, HostId, Limits, Socket};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig, Statistics};
use rampmeter_units::{Bytes, Duration, Random, Rate, Time};

type AnyError = Box<dyn Error>;

/// A fixed-rate controller that records the lateness of each departure and the arrival times.
#[derive(Debug)]
struct Recorder {
    inner: FixedRate,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    late: Vec<Duration>,
    arrivals: Vec<Arrival>,
}

impl Controller for Recorder {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.inner.on_path(now, path);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if let Ok(mut log) = self.log.lock() {
            log.late.push(now.since(self.inner.departure().at));
        }
        self.inner.on_sent(now, sent);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if let Ok(mut log) = self.log.lock() {
            log.arrivals.extend(ack.arrivals);
        }
        self.inner.on_ack(now, ack);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        self.inner.on_loss(now, loss);
    }

    fn window(&self) -> Bytes {
        self.inner.window()
    }

    fn departure(&self) -> Departure {
        self.inner.departure()
    }

    fn rate(&self) -> Option<Rate> {
        self.inner.rate()
    }
}

/// Two hosts in one loop: one listens, the other sends `len` bytes to it. Returns the duration and the sender's
/// statistics.
fn transfer(
    len: u64,
    packet: u64,
    make: impl FnMut() -> AnyController + Send + 'static,
) -> Result<(Duration, Statistics), AnyError> {
    let transport = Config { packet: Bytes::new(packet), ..Config::default() };
    let mut net: EventLoop<AnyController> = EventLoop::new(packet as usize)?;
    let registry = Registry::default().factory("newreno", &toml::Table::new())?;
    let accept = EndpointConfig { accept: Some(transport.clone()), ..EndpointConfig::default() };
    let listener = Endpoint::new(accept, move || registry(Random::from_seed(1)), Random::from_seed(2));
    let socket = Socket::bind("127.0.0.1:0".parse()?)?;
    let address = socket.local_address()?;
    let to = net.add(Host::in_clear(listener, socket, Limits::default()))?;

    let sender = Endpoint::new(EndpointConfig::default(), make, Random::from_seed(3));
    let mut host = Host::in_clear(sender, Socket::connect(address)?, Limits::default());
    let started_at = net.now();
    let connection = host.open_in_clear(started_at, address, &transport).ok_or("no room")?;
    let from = net.add(host)?;

    let (mut written, mut sink) = (0, Vec::new());
    let block = vec![0; 64 * 1024];
    loop {
        net.run_once(net.now() + Duration::from_secs(1))?;
        while let Some((host, event)) = net.poll_event() {
            let now = net.now();
            match event {
                Event::Opened(..) | Event::Writable(_) => fill(&mut net, from, connection, &block, &mut written, len),
                Event::Readable(id) => {
                    let Some(receiver) = net.host_mut(to) else { continue };
                    sink.clear();
                    receiver.read(now, id, &mut sink);
                    if receiver.is_read_to_end(id) {
                        receiver.finish(now, id);
                    }
                }
                Event::Closed(_, EndReason::Finished, statistics) if host == from => {
                    return Ok((now.since(started_at), statistics));
                }
                Event::Degraded(_, reason) => eprintln!("degraded: {reason}"),
                Event::Closed(..)
                | Event::Accepted(..)
                | Event::Datagram(..)
                | Event::Key(..)
                | Event::Moved(_)
                | Event::SessionEnded(..) => {}
                Event::SocketError(error) => return Err(error.into()),
            }
        }
        let sending = net.host(from).and_then(|host| host.endpoint().connection(connection));
        if let Some(sending) = sending.filter(|sending| sending.is_delivered()) {
            return Ok((net.now().since(started_at), sending.statistics()));
        }
    }
}

fn fill(net: &mut EventLoop<AnyController>, host: HostId, id: ConnectionId, block: &[u8], written: &mut u64, len: u64) {
    let now = net.now();
    let Some(host) = net.host_mut(host) else { return };
    while *written < len {
        let piece = &block[..(len - *written).min(block.len() as u64) as usize];
        let count = host.write(now, id, piece);
        *written += count as u64;
        if count < piece.len() {
            return;
        }
    }
    host.finish(now, id);
}

/// Prints the quantiles of `values`, in microseconds.
fn quantiles(name: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    print!("  {name:<34}");
    for q in [0.01, 0.05, 0.5, 0.95, 0.99, 0.999] {
        let at = ((values.len() - 1) as f64 * q).round() as usize;
        print!(" p{:<4} {:>7.1}", q * 100.0, values[at] / 1e3);
    }
    println!("  us");
}

fn pacing(rate: &str, len: u64) -> Result<(), AnyError> {
    let log = Arc::new(Mutex::new(Log::default()));
    let config = FixedConfig { rate: rate.parse()? };
    let (gap, logged) = (config.rate.time_to_send(Bytes::new(1250)), Arc::clone(&log));
    let make = move || {
        let inner = FixedRate::new(&config, Random::from_seed(4));
        AnyController::External(Box::new(Recorder { inner, log: Arc::clone(&logged) }))
    };
    let before = cpu()?;
    let (time, statistics) = transfer(len, 1250, make)?;
    let busy = (cpu()?.as_secs_f64() - before.as_secs_f64()) / time.as_secs_f64() * 100.0;
    let log = log.lock().map_err(|_| "poisoned")?;
    println!(
        "fixed-rate at {rate}, 1250 B packets, one each {gap}: {} packets in {time}, {busy:.0}% of a core for both ends",
        statistics.data_packets
    );
    let mut late: Vec<f64> = log.late.iter().map(|d| d.as_nanos() as f64).collect();
    quantiles("left later than planned", &mut late);
    let stamps: Vec<f64> = log.arrivals.iter().map(|a| a.received_at.as_nanos() as f64).collect();
    let mut error: Vec<f64> = stamps.windows(2).map(|w| w[1] - w[0] - gap.as_nanos() as f64).collect();
    quantiles("gap between arrivals minus planned", &mut error);
    let mut delay: Vec<f64> = log.arrivals.iter().map(|a| a.one_way_delay() as f64).collect();
    quantiles("planned to leave until stamped", &mut delay);
    Ok(())
}

/// The processor time of this thread.
fn cpu() -> Result<std::time::Duration, AnyError> {
    Ok(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}

fn goodput(packet: u64, len: u64) -> Result<(), AnyError> {
    let factory = Registry::default().factory("newreno", &toml::Table::new())?;
    let before = cpu()?;
    let (time, statistics) = transfer(len, packet, move || factory(Random::from_seed(5)))?;
    let seconds = time.as_secs_f64();
    let busy = cpu()?.as_secs_f64() - before.as_secs_f64();
    println!(
        "newreno, {packet} B packets, both ends in one thread: {:.0} MB/s; per second of its core {:.0} MB, {:.0} data \
         packets and as many answers; {} retransmitted, {} timeouts",
        len as f64 / seconds / 1e6,
        len as f64 / busy / 1e6,
        statistics.data_packets as f64 / busy,
        statistics.retransmitted,
        statistics.timeouts,
    );
    Ok(())
}

fn main() -> Result<(), AnyError> {
    if std::env::args().any(|arg| arg == "--urgent") {
        rampmeter_net::set_realtime_priority()?;
    }
    pacing("40 Mb/s", 25_000_000)?;
    pacing("400 Mb/s", 100_000_000)?;
    for _ in 0..3 {
        goodput(1250, 200_000_000)?;
    }
    goodput(9000, 500_000_000)
}
