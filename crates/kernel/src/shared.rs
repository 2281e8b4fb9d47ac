//! What the BPF program and the daemon share: the layouts of `bpf/shared.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The maximum number of sockets with a controller. Others decide by themselves, as Reno.
pub(crate) const MAX_SOCKETS: usize = 4096;

/// What an [`Event`] reports, if it is more than its counters: an acknowledgement is 2.
pub(crate) mod kind {
    #[cfg(test)]
    pub(crate) const OPEN: u8 = 1;
    #[cfg(test)]
    pub(crate) const ACK: u8 = 2;
    /// The retransmission timer expired.
    pub(crate) const TIMEOUT: u8 = 3;
    /// There is data to send again, and nothing was in flight.
    #[cfg(test)]
    pub(crate) const BUSY: u8 = 4;
    pub(crate) const CLOSE: u8 = 5;
}

const APP_LIMITED: u8 = 1;
const RECOVERING: u8 = 2;

/// What a socket reports. Counters count packets from its beginning, so that lost events lose nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    /// `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) bytes_acked: u64,
    /// Its place in the array of sockets.
    pub(crate) socket: u32,
    pub(crate) generation: u32,
    /// Of this event, at this socket.
    pub(crate) number: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) pad: [u8; 2],
    /// Packets of data, retransmissions included.
    pub(crate) sent: u32,
    pub(crate) delivered: u32,
    pub(crate) marked: u32,
    pub(crate) lost: u32,
    pub(crate) in_flight: u32,
    pub(crate) unacked: u32,
    /// Payload of a full packet, in bytes.
    pub(crate) mss: u32,
    /// The round-trip time of the last packet that was acknowledged; -1 for none.
    pub(crate) rtt_us: i32,
    pub(crate) smoothed_rtt_us: u32,
    pub(crate) min_rtt_us: u32,
}

impl Event {
    /// The application had nothing more to send when the acknowledged packets left.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    /// The socket repairs losses.
    pub(crate) fn is_recovering(&self) -> bool {
        self.flags & RECOVERING != 0
    }

    /// The event in a record of the ring buffer; `None` if its size is another.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the record has the size of an `Event`, of which every bit pattern is valid.
        (bytes.len() == size_of::<Self>()).then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

/// A socket's place.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Place {
    decision: AtomicU64,
    rate: AtomicU64,
    generation: AtomicU32,
    family: AtomicU32,
    remote: [AtomicU32; 4],
    local: [AtomicU32; 4],
    remote_port: AtomicU32,
    local_port: AtomicU32,
}

/// What a controller decides for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) generation: u32,
    /// The number of the event that it answers.
    pub(crate) answers: u32,
    /// In packets.
    pub(crate) window: u32,
    /// Bytes of payload in a second.
    pub(crate) rate: u64,
}

/// The largest window, and the number of events before their numbers repeat, as they have 24 bits.
pub(crate) const MAX_WINDOW: u32 = 0xff_ffff;

impl Place {
    pub(crate) fn decide(&self, decision: &Decision) {
        let window = decision.window.clamp(1, MAX_WINDOW);
        let word = u64::from(decision.generation & 0xffff) << 48
            | u64::from(decision.answers & 0xff_ffff) << 24
            | u64::from(window);
        self.rate.store(decision.rate.max(1), Ordering::Relaxed);
        self.decision.store(word, Ordering::Release);
    }

    /// The addresses of both ends. An IPv4 address within an IPv6 one is that address.
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        let is_v4 = self.family.load(Ordering::Relaxed) == 2;
        let address = |words: &[AtomicU32; 4]| {
            let mut bytes = [0; 16];
            for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            let [a, b, c, d, ..] = bytes;
            if is_v4 { Ipv4Addr::new(a, b, c, d).into() } else { IpAddr::from(Ipv6Addr::from(bytes)).to_canonical() }
        };
        [(&self.local, &self.local_port), (&self.remote, &self.remote_port)]
            .map(|(words, port)| SocketAddr::new(address(words), port.load(Ordering::Relaxed) as u16))
    }
}

/// What concerns all sockets.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// When the daemon was last alive; `CLOCK_MONOTONIC`.
    pub(crate) alive_ns: AtomicU64,
    /// Whether the daemon polls by itself, so that events need not wake it.
    pub(crate) polls: AtomicU64,
    pub(crate) acks: AtomicU64,
    pub(crate) fallback_acks: AtomicU64,
    pub(crate) lost_events: AtomicU64,
    pub(crate) without_place: AtomicU64,
    /// Connections that exist go from one controller to the other; how many have.
    pub(crate) from: [AtomicU8; NAME],
    pub(crate) to: [AtomicU8; NAME],
    pub(crate) changed: AtomicU64,
}

/// The maximum length of a controller's name in the kernel, with a zero at its end.
pub(crate) const NAME: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Event>(), size_of::<Place>(), size_of::<Control>()), (72, 64, 88));
    }

    #[test]
    fn a_decision_is_one_word() {
        let place = Place::default();
        place.decide(&Decision { generation: 0x1_0002, answers: 0x0100_0003, window: u32::MAX, rate: 0 });
        assert_eq!(place.decision.load(Ordering::Relaxed), 0x0002_0000_03ff_ffff);
        assert_eq!(place.rate.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn addresses_of_mapped_sockets_are_those_of_ipv4() {
        let place = Place::default();
        place.remote_port.store(443, Ordering::Relaxed);
        for (family, words) in [(2, [0x0102_0304, 0, 0, 0]), (10, [0, 0, 0xffff, 0x0102_0304])] {
            place.family.store(family, Ordering::Relaxed);
            for (word, value) in place.remote.iter().zip(words) {
                word.store(u32::to_be(value), Ordering::Relaxed);
            }
            assert_eq!(place.addresses()[1], "1.2.3.4:443".parse().unwrap());
        }
    }

    #[test]
    fn records_of_another_size_are_no_events() {
        assert!(Event::from_bytes(&[0; 71]).is_none());
        assert!(Event::from_bytes(&[0; 72]).is_some_and(|event| event.kind == 0));
    }
}
