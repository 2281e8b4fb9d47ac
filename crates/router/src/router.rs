//! The seam: what a queue discipline sees and what it does.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;
use serde::de::DeserializeOwned;

use crate::AnyPacket;

/// A packet as a router sees it, simulated or real.
pub trait Parcel: Debug + 'static {
    /// Its size, headers included.
    fn bytes(&self) -> Bytes;
    /// What tells its flow from others: the same for all packets of one connection in one direction.
    fn flow(&self) -> u64;
    /// Whether it brings an application nothing: an acknowledgement, or another packet that only controls.
    fn is_control(&self) -> bool;
    /// Its ECN code.
    fn ecn(&self) -> Ecn;
    /// Rewrites its ECN code.
    fn set_ecn(&mut self, ecn: Ecn);
    /// What routers have written into it so far.
    fn feedback(&self) -> RouterFeedback;
    /// Rewrites that. Ignored where the packet has no room for it.
    fn set_feedback(&mut self, feedback: RouterFeedback);
    /// It is next: what it has elsewhere in memory will be read soon.
    fn prefetch(&self) {}
}

/// What became of a packet offered to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict<P> {
    /// It waits.
    Queued,
    /// It was refused.
    Dropped(P),
    /// It waits, and another packet was thrown out for it.
    Displaced(P),
}

/// What waits in a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Packets waiting, not counting the one being transmitted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

/// What a router has done since it was made, beyond passing packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets thrown away after they had been queued (for example by CoDel); refusals are in the [`Verdict`].
    pub dropped_later: u64,
    /// Packets whose ECN code was changed to a congestion signal.
    pub marked: u64,
}

impl Tally {
    /// Marks `packet` with "congestion experienced" if its sender said that it would understand (RFC 3168, section 5), and
    /// says whether it did. A packet that another router has marked stays so and is not counted again.
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

/// What a router is told of where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// The rate of the link it feeds.
    pub rate: Rate,
    /// That link's propagation delay.
    pub delay: Duration,
}

/// A queue discipline. Without `P` it is one for the packets of every world, as routers of other crates are.
pub trait Router<P: Parcel = AnyPacket>: Debug {
    /// A packet arrives.
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P>;

    /// A packet arrives and the link is free: as [`Router::enqueue`] and then [`Router::dequeue`]. Gives what to transmit
    /// and what became of the packet. A router may do better where nothing waits.
    fn pass(&mut self, now: Time, packet: P) -> (Option<P>, Verdict<P>) {
        let verdict = self.enqueue(now, packet);
        (self.dequeue(now), verdict)
    }

    /// The link is free: the packet to transmit next.
    fn dequeue(&mut self, now: Time) -> Option<P>;

    /// The time given by [`Router::next_tick`] has come.
    fn tick(&mut self, _now: Time) {}

    /// When [`Router::tick`] wants to be called; [`Time::MAX`] for never.
    fn next_tick(&self) -> Time {
        Time::MAX
    }

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// What it has done.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// The link's rate has changed.
    fn on_rate(&mut self, _now: Time, _rate: Rate) {}
}

/// A router's tunables, as they stand in a scenario file.
pub trait Settings: DeserializeOwned + Default + Debug + Clone + Send + Sync + 'static {
    /// Refuses values that make no sense, saying which and what would be right.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A router that can be made from its settings.
pub trait Discipline<P: Parcel = AnyPacket>: Router<P> + Sized + Send {
    /// Its tunables.
    type Config: Settings;

    /// An empty router that stands at `environment`, with a random stream of its own.
    fn new(config: &Self::Config, environment: Environment, random: Stream) -> Self;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ENVIRONMENT: Environment =
        Environment { rate: Rate::from_bps(8_000_000), delay: Duration::from_millis(10) };

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct TestParcel {
        pub(crate) flow: u64,
        pub(crate) bytes: Bytes,
        pub(crate) ecn: Ecn,
        pub(crate) feedback: RouterFeedback,
    }

    impl TestParcel {
        pub(crate) const fn new(flow: u64, bytes: u64) -> Self {
            Self { flow, bytes: Bytes::new(bytes), ecn: Ecn::NotEct, feedback: RouterFeedback::None }
        }

        /// The same from a sender that understands marks.
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
    }

    #[test]
    fn only_packets_of_capable_senders_are_marked_and_each_once() {
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
