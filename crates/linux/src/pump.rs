//! The router: carries packets between the two TUN devices through the plan's network, in real time.
//!
//! One thread owns both devices and all links. It sleeps until a packet comes or one is due, and for the last
//! [`SPIN`] it stays awake, because a sleeper wakes some 20 us late. It never stays awake longer: a thread that only
//! spins is throttled by the kernel and starves the hosts it serves.

use std::io;
use std::os::fd::AsFd;

use rampmeter_scenario::Lateness;
use rampmeter_units::{Duration, Time};

use crate::clock::{Clock, sleep};
use crate::host::Host;
use crate::lateness::Delays;
use crate::network::{Exit, Network, Seen};
use crate::priority::{self, Priority};
use crate::sides::Side;
use crate::stage::Stage;

/// How long before a packet is due it stays awake.
const SPIN: Duration = Duration::from_micros(20);

/// Packets it takes from one device before it looks at the clock again.
const BATCH: usize = 32;

/// Runs until the run is over. Packets from the hosts have at most `mtu` bytes.
pub(crate) fn pump(
    mut network: Network<'_>,
    stage: &Stage<'_>,
    mtu: usize,
) -> io::Result<(Seen, Option<Lateness>)> {
    let (hosts, clock) = (stage.hosts, stage.clock);
    // Without leave for this it runs all the same, later; the lateness tells.
    let _ = priority::raise(Priority::Router);
    let mut late = Delays::default();
    while !stage.is_over() {
        network.run(clock.now());
        while let Some(exit) = network.exit() {
            late.record(clock.now().since(exit.due));
            deliver(&mut network, hosts, exit)?;
        }
        if collect(&mut network, hosts, mtu, clock)? == 0 {
            wait(hosts, clock, network.next_event())?;
        }
    }
    Ok((network.into_seen(), late.summary()))
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

/// Sleeps until a packet comes or `next` is near.
fn wait(hosts: [&Host; 2], clock: Clock, next: Time) -> io::Result<()> {
    let span = clock.until(next).saturating_sub(SPIN);
    if span == Duration::ZERO {
        std::hint::spin_loop();
        return Ok(());
    }
    sleep(hosts.map(|host| host.tun.as_fd()), span)
}
