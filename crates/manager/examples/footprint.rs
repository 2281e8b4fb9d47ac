//! The cost of flows and macroflows: bytes of memory each, and nanoseconds per grant. `make bench` prints it.
//!
//! A grant is a request, the grant, a notification and, every tenth time, a report of received bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_manager::{Destination, FlowId, Grouping, Manager, Report, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Random, Time};
use rampmeter_wire::RouterFeedback;

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it calls the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PACKET: Bytes = Bytes::new(1500);

fn host(flows: u32, destinations: u32) -> (Manager<Cm>, Vec<FlowId>) {
    let sharing =
        Sharing { grouping: Grouping::PerDestination, scheduling: Scheduling::RoundRobin, ..Sharing::default() };
    let mut manager = Manager::new(sharing);
    let open = |n: u32| {
        let make =
            || Cm::new(&Config { initial_window: 1 << 20, shape: false, ..Config::default() }, Random::from_seed(1));
        let flow = manager.open(Time::ZERO, Destination((n % destinations).into()), make);
        manager.on_path(Time::ZERO, flow, PACKET, Duration::from_millis(20), RouterFeedback::None);
        manager.request(Time::ZERO, flow, false);
        flow
    };
    let flows = (0..flows).map(open).collect();
    (manager, flows)
}

fn bytes_of(flows: u32, destinations: u32) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    let host = host(flows, destinations);
    let bytes = IN_USE.load(Ordering::Relaxed) - before;
    drop(host);
    bytes
}

/// Nanoseconds per grant, the median of nine runs.
fn nanos_of(flows: u32, destinations: u32) -> f64 {
    let (mut manager, _) = host(flows, destinations);
    let run = || {
        let (began, grants) = (Instant::now(), 100_000);
        for n in 0..grants {
            let now = Time::from_nanos(n);
            let Some(grant) = manager.grant(now) else { break };
            manager.notify(now, grant.flow, grant.bytes);
            manager.request(now, grant.flow, false);
            if n % 10 == 0 {
                let received = grant.bytes * 10;
                manager.report(now, grant.flow, &Report { received, ..Report::default() });
            }
        }
        began.elapsed().as_nanos() as f64 / grants as f64
    };
    let mut runs: Vec<f64> = std::iter::repeat_with(run).take(9).collect();
    runs.sort_by(f64::total_cmp);
    runs[4]
}

fn main() {
    let (one, many) = (bytes_of(1, 1), 1000);
    println!("memory: {} bytes a flow of a macroflow", (bytes_of(many, 1) - one) / (many as usize - 1));
    println!("        {} bytes a macroflow with one flow", (bytes_of(many, many) - one) / (many as usize - 1));
    let cost = [(10, 1), (many, 1), (10, 10), (many, many)].map(|(flows, hosts)| nanos_of(flows, hosts));
    println!(
        "a grant with 10 and {many} flows to one host: {:.0}, {:.0} ns ({:.2})",
        cost[0],
        cost[1],
        cost[1] / cost[0]
    );
    println!(
        "        with 10 and {many} hosts:             {:.0}, {:.0} ns ({:.2})",
        cost[2],
        cost[3],
        cost[3] / cost[2]
    );
}
