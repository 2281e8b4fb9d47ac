//! The size of packets follows what the path carries (RFC 8899).
//!
//! ```text
//!  sender ──── 10 ms, packets of up to `mtu` bytes ────► receiver
//! ```

use std::cell::Cell;
use std::rc::Rc;

use rampmeter_transport::{CloseReason, Config};
use rampmeter_units::{Bytes, Duration, Rate};
use rampmeter_wire::{Packet, Proof, UDP_BYTES, encoded_len};

use crate::common::{Pair, pattern};

const BASE: u64 = 1228;
const MAX: u64 = 1500;

/// A sender of packets of `BASE` to `max` bytes, and the size of its last full packet.
fn pair(controller: &str, max: u64, mtu: u64) -> (Pair, Rc<Cell<u64>>) {
    let config = Config { packet: Bytes::new(BASE), max_packet: Bytes::new(max), ..Config::default() };
    let mut pair = Pair::new(controller, &config, 1);
    pair.mtu = mtu;
    let last = Rc::new(Cell::new(0));
    let seen = Rc::clone(&last);
    pair.filter = Box::new(move |from, packet| {
        let size = encoded_len(packet) + usize::from(packet.payload) + UDP_BYTES;
        if from == 0 && size as u64 >= BASE {
            seen.set(size as u64);
        }
        true
    });
    (pair, last)
}

fn finish(pair: &mut Pair, data: &[u8]) {
    assert!(pair.run(Duration::from_secs(600)), "{:?}", pair.ends[0].endpoint);
    assert!(pair.ends[1].read == data);
    assert_eq!(pair.ends[0].closed.unwrap().0, CloseReason::Finished);
}

#[test]
fn packets_grow_to_the_size_that_the_path_carries() {
    for (controller, mtu) in [("newreno", 1300), ("cubic", 1400), ("pcp", 1492), ("vcp", 1500), ("cm", 9000)] {
        let (mut pair, last) = pair(controller, MAX, mtu);
        let data = pattern(8_000_000, 1);
        pair.send(0, &data);
        pair.bottleneck = Some((Rate::from_bps(20_000_000), Duration::from_millis(50)));
        finish(&mut pair, &data);
        let (expected, found) = (mtu.min(MAX), last.get());
        assert!(found <= expected && expected < found + 16, "{controller}: {found} instead of {expected}");
    }
}

#[test]
fn packets_of_all_controllers_use_the_size() {
    for (name, _) in rampmeter_control::Registry::default().list() {
        let (mut pair, last) = pair(name, 9000, 9000);
        pair.send(0, &pattern(4_000_000, 1));
        pair.run(Duration::from_secs(4));
        // One full packet at least has left since the only probe arrived, of whatever size the controller asks for.
        assert!(last.get() > MAX, "{name}: {}", last.get());
    }
}

/// A probe that is lost is not congestion.
#[test]
fn lost_probes_change_nothing() {
    for controller in ["newreno", "cubic", "pcp", "vcp", "stable"] {
        let run = |max| {
            let (mut pair, last) = pair(controller, max, BASE);
            pair.bottleneck = Some((Rate::from_bps(10_000_000), Duration::from_millis(50)));
            pair.send(0, &pattern(8_000_000, 1));
            pair.run(Duration::from_secs(5));
            assert_eq!(last.get(), BASE);
            let endpoint = &pair.ends[0].endpoint;
            let flow = endpoint.flow(pair.ends[0].connection.unwrap()).unwrap();
            let statistics = endpoint.connection(pair.ends[0].connection.unwrap()).unwrap().statistics();
            (format!("{:?}", endpoint.manager().controller(flow)), statistics)
        };
        let (mut without, with) = (run(BASE), run(MAX));
        // The first probe may take along a proof of arrival that a packet of the stream carries otherwise.
        let proof = Packet { proof: Some(Proof::default()), ..Packet::default() };
        let proof = encoded_len(&proof) - encoded_len(&Packet::default());
        assert!(with.1.acknowledged - without.1.acknowledged <= proof as u64, "{controller}");
        without.1.acknowledged = with.1.acknowledged;
        assert!(without == with, "{controller}: {without:?} {with:?}");
    }
}
