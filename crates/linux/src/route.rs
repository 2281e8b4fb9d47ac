//! The router: carries packets between the two TUN devices through the plan's network, in real time.
//!
//! One thread owns both devices and all links. It sleeps until a packet arrives or is due. A sleeping thread wakes up
//! tens of microseconds late, so its timer expires earlier, by the smallest usual wake-up latency plus [`SPIN`]. It
//! spins for the rest, but never longer than it has slept before: the kernel throttles a thread that only spins, and
//! such a thread starves the hosts.

use std::io;
use std::os::fd::AsFd;

use rampmeter_net::WakeupLatency;
use rampmeter_router::Delays;
use rampmeter_scenario::HostJitter;
use rampmeter_units::{Duration, Time};

use crate::clock::{Clock, sleep};
use crate::emulation::{Emulation, Measured};
use crate::host::Host;
use crate::priority::{self, Priority};
use crate::run_state::RunState;
use crate::sides::Side;

/// Time that the thread spins before a packet is due, after a wake-up with the smallest usual latency.
const SPIN: Duration = Duration::from_micros(15);

/// Time that the thread spins between reads of the devices.
const POLL_INTERVAL: Duration = Duration::from_micros(5);

/// The maximum time slept that counts towards later spinning.
const MAX_SPIN_CREDIT: Duration = Duration::from_millis(10);

/// The maximum number of packets read from one device at a time.
const BATCH: usize = 32;

/// Carries packets until the end of the run. Packets from the hosts have at most `mtu` bytes.
pub(crate) fn route(
    mut network: Emulation<'_>,
    run: &RunState<'_>,
    mtu: usize,
) -> io::Result<(Measured, Option<HostJitter>)> {
    let (hosts, clock) = (run.hosts, run.clock);
    // If this is refused, packets leave later; the host jitter shows it.
    let _ = priority::raise(Priority::Router);
    let mut late = Delays::default();
    let mut waiter = Waiter { clock, spin_credit: Duration::ZERO, latency: WakeupLatency::default() };
    loop {
        // Tested first, so that events that were due at the end of the run, such as the end of the measurement, still
        // run.
        let over = run.is_over();
        network.run(clock.now());
        while let Some(exit) = network.exit() {
            late.add(clock.now().since(exit.due));
            hosts[exit.side as usize].tun.send(exit.packet.as_bytes())?;
            network.recycle(exit.packet.into_bytes());
        }
        if over {
            return Ok((network.finish(), jitter(&late)));
        }
        if collect(&mut network, hosts, mtu, clock)? == 0 {
            waiter.wait(hosts, network.next_event())?;
        }
    }
}

/// How late packets left: whether a busy machine disturbed the run. `None` without packets.
fn jitter(late: &Delays) -> Option<HostJitter> {
    let (summary, max) = (late.summary(), late.max());
    let delay = |seconds| Duration::from_secs_f64(seconds).min(max);
    (summary.packets > 0).then(|| HostJitter { p50: delay(summary.p50_s), p99: delay(summary.p99_s), max })
}

/// Reads the packets that the hosts have sent, and returns their number.
fn collect(network: &mut Emulation<'_>, hosts: [&Host; 2], mtu: usize, clock: Clock) -> io::Result<usize> {
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

/// Waits for packets: sleeps or spins.
struct Waiter {
    clock: Clock,
    /// Time slept minus time spent spinning.
    spin_credit: Duration,
    latency: WakeupLatency,
}

impl Waiter {
    /// Waits until a packet arrives or `next`, but at most for a short time.
    fn wait(&mut self, hosts: [&Host; 2], next: Time) -> io::Result<()> {
        let started = self.clock.now();
        let left = next.since(started);
        let margin = SPIN + self.latency.expected();
        if left > margin || self.spin_credit == Duration::ZERO {
            let span = left.saturating_sub(margin);
            let in_time = sleep(hosts.map(|host| host.tun.as_fd()), span)?;
            let slept = self.clock.now().since(started);
            if in_time && span > Duration::ZERO {
                self.latency.on_wakeup(slept.saturating_sub(span));
            }
            self.spin_credit = (self.spin_credit + slept).min(MAX_SPIN_CREDIT);
        } else {
            let until = next.min(started + POLL_INTERVAL);
            while self.clock.now() < until {
                std::hint::spin_loop();
            }
            self.spin_credit = self.spin_credit.saturating_sub(self.clock.now().since(started));
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
    use crate::emulation::tests::plan;
    use crate::probe::probe;
    use crate::sides::Sides;

    /// One packet a millisecond from A to B, 5 ms and its own 41 us away.
    #[test]
    fn packets_arrive_on_time() {
        if let Err(reason) = probe().emulation() {
            eprintln!("skipped packets_arrive_on_time: {reason}");
            return;
        }
        let plan = plan();
        let sides = Sides::of(&plan, None).unwrap();
        let hosts = Side::BOTH.map(|side| Host::new(side, 1000).unwrap());
        let (over, pending) = (AtomicBool::new(false), AtomicUsize::new(0));
        let run = RunState::new(&plan, &sides, hosts.each_ref(), &over, &pending);
        let socket = |flow_end| {
            let address = (sides.address(flow_end), 7);
            run.host(sides.side(flow_end)).namespace.inside(|| UdpSocket::bind(address)).unwrap()
        };
        let (from, to) = (socket(plan.flows[0].from), socket(plan.flows[0].to));
        let network = Emulation::new(&plan, &sides, None, None).unwrap();
        let mut delays = Delays::default();
        let router = thread::scope(|scope| {
            let router = scope.spawn(|| route(network, &run, 1000).unwrap());
            scope.spawn(|| {
                let _ = priority::raise(Priority::Hosts);
                for _ in 0..500 {
                    thread::sleep(std::time::Duration::from_millis(1));
                    let now = run.clock.now().as_nanos();
                    from.send_to(&now.to_be_bytes(), to.local_addr().unwrap()).unwrap();
                }
            });
            let _ = priority::raise(Priority::Hosts);
            for _ in 0..500 {
                let mut sent = [0; 8];
                to.recv(&mut sent).unwrap();
                let due = Time::from_nanos(u64::from_be_bytes(sent)) + Duration::from_micros(5036);
                delays.add(run.clock.now().since(due));
            }
            run.end();
            router.join().unwrap()
        });
        let late = jitter(&delays).unwrap();
        eprintln!("end to end {late:?}, router {:?}", router.1);
        assert!(late.p50 < Duration::from_millis(1), "{late:?}");
    }
}
