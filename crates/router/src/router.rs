//! The interface of a queue discipline: what it sees of a packet and what it may do.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Settings, Time, exact};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::{AnyPacket, ClassDelays};

/// The hosts at the ends of a packet's path, by identifiers such as their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hosts {
    /// The host that sent it.
    pub source: u64,
    /// The host that it goes to.
    pub destination: u64,
}

/// A packet as a router sees it, simulated or real.
pub trait Parcel: Debug + 'static {
    /// Its size, headers included.
    fn bytes(&self) -> Bytes;
    /// An identifier of its flow: the same for all packets of one connection in one direction.
    fn flow(&self) -> u64;
    /// Where it comes from and where it goes.
    fn hosts(&self) -> Hosts;
    /// A number that is the same at all routers of its path and differs from those of other packets. With it routers make
    /// the same choice for a packet (Duffield, Grossglauser, "Trajectory sampling", SIGCOMM 2000). If packets have
    /// readable numbers, the labels of a flow that shares no macroflow are consecutive. `None`: it has no such number.
    fn label(&self) -> Option<u64> {
        None
    }
    /// Whether the packet carries no application data: an acknowledgement, or another control packet.
    fn is_control(&self) -> bool {
        false
    }
    /// Its ECN code.
    fn ecn(&self) -> Ecn;
    /// Rewrites its ECN code.
    fn set_ecn(&mut self, ecn: Ecn);
    /// The feedback that routers have written into it so far.
    fn feedback(&self) -> RouterFeedback {
        RouterFeedback::None
    }
    /// Rewrites the feedback. Has no effect where the packet has no field for it.
    fn set_feedback(&mut self, _feedback: RouterFeedback) {}
    /// A second copy of the packet, as paths make that duplicate packets. `None`: it cannot be duplicated.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// Prefetches the packet's memory: it is the next to leave.
    fn prefetch(&self) {}
}

/// The result of offering a packet to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict<P> {
    /// The packet was queued.
    Queued,
    /// The packet was refused.
    Dropped(P),
    /// The packet was queued, and another packet was dropped to make room. It is not in [`Tally::dropped_from_queue`]; a
    /// router that drops several counts the others there.
    Displaced(P),
}

/// The contents of a router's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Backlog {
    /// Packets waiting, not counting the one being transmitted.
    pub packets: u64,
    /// Their bytes.
    #[serde(with = "exact")]
    pub bytes: Bytes,
}

/// What a router has counted since it was made. Refused packets are in the [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets dropped after they had been queued (for example by CoDel).
    pub dropped_from_queue: u64,
    /// Packets whose ECN code was changed to a congestion signal.
    pub marked: u64,
}

impl Tally {
    /// Marks an ECN-capable `packet` with "congestion experienced" (RFC 3168, section 5). Returns whether the packet is
    /// marked now. A packet that another router has marked is not counted again.
    pub fn mark(&mut self, packet: &mut impl Parcel) -> bool {
        if !packet.ecn().is_capable() {
            return false;
        }
        if packet.ecn() != Ecn::Ce {
            packet.set_ecn(Ecn::Ce);
            self.marked += 1;
        }
        true
    }
}

/// The link that a router feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// The link's rate.
    pub rate: Rate,
    /// The link's propagation delay.
    pub delay: Duration,
}

/// A queue discipline. Without `P` it is one for the packets of every world, as routers of other crates are.
pub trait Router<P: Parcel = AnyPacket>: Debug {
    /// A packet arrives.
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P>;

    /// A packet arrives while the link is free: [`Router::enqueue`], then [`Router::dequeue`]. Returns the packet to
    /// transmit and the result for the packet that arrived. A router may take a shortcut where its queue is empty.
    fn pass(&mut self, now: Time, packet: P) -> (Option<P>, Verdict<P>) {
        let verdict = self.enqueue(now, packet);
        (self.dequeue(now), verdict)
    }

    /// The link is free: returns the packet to transmit next.
    fn dequeue(&mut self, now: Time) -> Option<P>;

    /// Called at the time that [`Router::next_tick`] returned.
    fn tick(&mut self, _now: Time) {}

    /// The time of the next call of [`Router::tick`]; [`Time::MAX`] for none.
    fn next_tick(&self) -> Time {
        Time::MAX
    }

    /// The packets and bytes in the queue.
    fn backlog(&self) -> Backlog;

    /// The router's counts.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// The link's rate has changed.
    fn on_rate(&mut self, _now: Time, _rate: Rate) {}

    /// Measures the delays of packets from now on, if the router has queues of their own for L4S and other packets.
    fn measure_delays(&mut self) {}

    /// How long the packet that left last had been in the queue. `None`: packets leave in the order of their arrival, and
    /// none is dropped from the middle of the queue, so that the link knows.
    fn last_wait(&self) -> Option<Duration> {
        None
    }

    /// The delays of L4S packets and of all others since [`Router::measure_delays`].
    fn delays(&self) -> Option<ClassDelays> {
        None
    }
}

/// A queue discipline that is made from its settings.
pub trait Discipline<P: Parcel = AnyPacket>: Router<P> + Sized + Send {
    /// Its settings.
    type Config: Settings + Default;

    /// An empty router that feeds the link in `environment`, with a random stream of its own.
    fn new(config: &Self::Config, environment: Environment, random: Random) -> Self;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ENVIRONMENT: Environment =
        Environment { rate: Rate::from_bps(8_000_000), delay: Duration::from_millis(10) };

    pub(crate) fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct TestParcel {
        pub(crate) flow: u64,
        pub(crate) hosts: Hosts,
        pub(crate) bytes: Bytes,
        pub(crate) ecn: Ecn,
        pub(crate) feedback: RouterFeedback,
    }

    impl TestParcel {
        pub(crate) const fn new(flow: u64, bytes: u64) -> Self {
            let hosts = Hosts { source: 0, destination: 0 };
            Self { flow, hosts, bytes: Bytes::new(bytes), ecn: Ecn::NotEct, feedback: RouterFeedback::None }
        }

        /// The same packet, ECN-capable.
        pub(crate) fn capable(self) -> Self {
            Self { ecn: Ecn::Ect0, ..self }
        }
    }

    impl Parcel for TestParcel {
        fn bytes(&self) -> Bytes {
            self.bytes
        }
        fn flow(&self) -> u64 {
            self.flow
        }
        fn hosts(&self) -> Hosts {
            self.hosts
        }
        fn label(&self) -> Option<u64> {
            Some(self.flow)
        }
        fn is_control(&self) -> bool {
            self.bytes < Bytes::new(64)
        }
        fn ecn(&self) -> Ecn {
            self.ecn
        }
        fn set_ecn(&mut self, ecn: Ecn) {
            self.ecn = ecn;
        }
        fn feedback(&self) -> RouterFeedback {
            self.feedback
        }
        fn set_feedback(&mut self, feedback: RouterFeedback) {
            self.feedback = feedback;
        }
        fn duplicate(&self) -> Option<Self> {
            Some(*self)
        }
    }

    #[test]
    fn only_capable_packets_are_marked_and_counted_once() {
        let mut tally = Tally::default();
        for (code, marks, after) in [
            (Ecn::NotEct, false, Ecn::NotEct),
            (Ecn::Ect0, true, Ecn::Ce),
            (Ecn::Ect1, true, Ecn::Ce),
            (Ecn::Ce, true, Ecn::Ce),
        ] {
            let mut packet = TestParcel { ecn: code, ..TestParcel::new(1, 1000) };
            assert_eq!((tally.mark(&mut packet), packet.ecn), (marks, after));
        }
        assert_eq!(tally.marked, 2);
    }
}
