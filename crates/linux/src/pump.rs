//! The router: carries packets between the two TUN devices through the plan's network, in real time.
//!
//! One thread owns both devices and all links. It sleeps until a packet comes or one is due. A sleeper wakes tens of
//! microseconds late, so it asks to be woken earlier by what the most punctual wake-ups were late, and [`SPIN`] more; it
//! stays awake for the rest, but never longer than it has slept before, because a thread that only spins is throttled by
//! the kernel and starves the hosts it serves.

use std::io;
use std::os::fd::AsFd;

use rampmeter_net::WakeupLatency;
use rampmeter_scenario::HostJitter;
use rampmeter_units::{Duration, Time};

use crate::clock::{Clock, sleep};
use crate::host::Host;
use crate::lateness::Delays;
use crate::network::{Exit, Network, Seen};
use crate::priority::{self, Priority};
use crate::sides::Side;
use crate::stage::Stage;

/// How long before a packet is due it stays awake, if it is woken as punctually as can be.
const SPIN: Duration = Duration::from_micros(15);

/// How long it stays awake before it looks for packets from the hosts again.
const GLANCE: Duration = Duration::from_micros(5);

/// The most sleep it can save up to stay awake for later.
const MAX_REST: Duration = Duration::from_millis(10);

/// Packets it takes from one device before it looks at the clock again.
const BATCH: usize = 32;

/// Runs until the run is over. Packets from the hosts have at most `mtu` bytes.
pub(crate) fn pump(mut network: Network<'_>, stage: &Stage<'_>, mtu: usize) -> io::Result<(Seen, Option<HostJitter>)> {
    let (hosts, clock) = (stage.hosts, stage.clock);
    // Without leave for this it runs all the same, later; the host jitter tells.
    let _ = priority::raise(Priority::Router);
    let mut late = Delays::default();
    let mut waiter = Waiter { clock, rest: Duration::ZERO, punctuality: WakeupLatency::default() };
    loop {
        // Asked first: what was due when the run ended is still done, the end of the measurement above all.
        let over = stage.is_over();
        network.run(clock.now());
        while let Some(exit) = network.exit() {
            late.record(clock.now().since(exit.due));
            deliver(&mut network, hosts, exit)?;
        }
        if over {
            return Ok((network.into_seen(), late.summary()));
        }
        if collect(&mut network, hosts, mtu, clock)? == 0 {
            waiter.wait(hosts, network.next_event())?;
        }
    }
}

fn deliver(network: &mut Network<'_>, hosts: [&Host; 2], exit: Exit) -> io::Result<()> {
    hosts[exit.side as usize].tun.send(exit.packet.as_bytes())?;
    network.recycle(exit.packet.into_bytes());
    Ok(())
}

/// Takes what the hosts have sent; how many packets.
fn collect(network: &mut Network<'_>, hosts: [&Host; 2], mtu: usize, clock: Clock) -> io::Result<usize> {
    let mut taken = 0;
    for side in Side::BOTH {
        for _ in 0..BATCH {
            let mut buffer = network.buffer();
            buffer.resize(mtu, 0);
            let Some(bytes) = hosts[side as usize].tun.receive(&mut buffer)? else {
                network.recycle(buffer);
                break;
            };
            buffer.truncate(bytes);
            network.enter(clock.now(), buffer);
            taken += 1;
        }
    }
    Ok(taken)
}

/// Waits for packets, awake or asleep.
struct Waiter {
    clock: Clock,
    /// Time slept that it has not yet spent awake.
    rest: Duration,
    punctuality: WakeupLatency,
}

impl Waiter {
    /// Waits until a packet comes or `next` is reached, or for a while.
    fn wait(&mut self, hosts: [&Host; 2], next: Time) -> io::Result<()> {
        let began = self.clock.now();
        let left = next.since(began);
        let awake = SPIN + self.punctuality.expected();
        if left > awake || self.rest == Duration::ZERO {
            let span = left.saturating_sub(awake);
            let in_time = sleep(hosts.map(|host| host.tun.as_fd()), span)?;
            let slept = self.clock.now().since(began);
            if in_time && span > Duration::ZERO {
                self.punctuality.on_wakeup(slept.saturating_sub(span));
            }
            self.rest = (self.rest + slept).min(MAX_REST);
        } else {
            let until = next.min(began + GLANCE);
            while self.clock.now() < until {
                std::hint::spin_loop();
            }
            self.rest = self.rest.saturating_sub(self.clock.now().since(began));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    use super::*;
    use crate::network::tests::plan;
    use crate::probe::probe;
    use crate::sides::Sides;

    /// One packet a millisecond from A to B, 5 ms and its own 41 us away.
    #[test]
    fn packets_arrive_when_they_should() {
        if let Err(reason) = probe().emulation() {
            eprintln!("skipped packets_arrive_when_they_should: {reason}");
            return;
        }
        let plan = plan();
        let sides = Sides::of(&plan).unwrap();
        let hosts = Side::BOTH.map(|side| Host::new(side, 1000).unwrap());
        let (over, pending) = (AtomicBool::new(false), AtomicUsize::new(0));
        let stage = Stage::new(&plan, &sides, hosts.each_ref(), &over, &pending);
        let socket = |flow_end| {
            let address = (sides.address(flow_end), 7);
            stage.host(sides.side(flow_end)).namespace.inside(|| UdpSocket::bind(address)).unwrap()
        };
        let (from, to) = (socket(plan.flows[0].from), socket(plan.flows[0].to));
        let network = Network::new(&plan, &sides).unwrap();
        let mut delays = Delays::default();
        let router = thread::scope(|scope| {
            let router = scope.spawn(|| pump(network, &stage, 1000).unwrap());
            scope.spawn(|| {
                let _ = priority::raise(Priority::Hosts);
                for _ in 0..500 {
                    thread::sleep(std::time::Duration::from_millis(1));
                    let now = stage.clock.now().as_nanos();
                    from.send_to(&now.to_be_bytes(), to.local_addr().unwrap()).unwrap();
                }
            });
            let _ = priority::raise(Priority::Hosts);
            for _ in 0..500 {
                let mut sent = [0; 8];
                to.recv(&mut sent).unwrap();
                let due = Time::from_nanos(u64::from_be_bytes(sent)) + Duration::from_micros(5036);
                delays.record(stage.clock.now().since(due));
            }
            stage.end();
            router.join().unwrap()
        });
        eprintln!("end to end {:?}, router {:?}", delays.summary(), router.1);
        let late = delays.summary().unwrap();
        assert!(late.p50 < Duration::from_millis(1), "{late:?}");
    }
}
