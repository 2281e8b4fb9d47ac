//! Routers of other crates.
//!
//! A router of another crate is called through a pointer, so it needs one packet type for all worlds: [`AnyPacket`].
//! [`External`] converts packets on their way in and out. That costs one allocation a packet.

use std::any::Any;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;

use delegate::delegate;
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::{Backlog, ClassDelays, Discipline, Environment, Hosts, Parcel, Router, Tally, Verdict};

/// A packet of any world: what a router of another crate queues.
#[derive(Debug)]
pub struct AnyPacket(Box<dyn Erased>);

/// A packet whose type is found again when it leaves.
trait Erased: Parcel + Send {
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<P: Parcel + Send> Erased for P {
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl AnyPacket {
    /// `packet`, without its type.
    pub fn new(packet: impl Parcel + Send) -> Self {
        Self(Box::new(packet))
    }

    /// The packet with its type, which must be the one it was made of.
    fn into_packet<P: 'static>(self) -> P {
        *self.0.into_any().downcast().expect("a router gives back only packets that it was given")
    }
}

impl Parcel for AnyPacket {
    delegate! {
        to self.0 {
            fn bytes(&self) -> Bytes;
            fn flow(&self) -> u64;
            fn hosts(&self) -> Hosts;
            fn label(&self) -> Option<u64>;
            fn is_control(&self) -> bool;
            fn ecn(&self) -> Ecn;
            fn set_ecn(&mut self, ecn: Ecn);
            fn feedback(&self) -> RouterFeedback;
            fn set_feedback(&mut self, feedback: RouterFeedback);
        }
    }
}

/// A router of another crate, for packets of type `P`.
#[derive(Debug)]
pub struct External<P> {
    router: Box<dyn Router + Send>,
    packets: PhantomData<fn() -> P>,
}

fn converted<P: 'static>(verdict: Verdict<AnyPacket>) -> Verdict<P> {
    match verdict {
        Verdict::Queued => Verdict::Queued,
        Verdict::Dropped(packet) => Verdict::Dropped(packet.into_packet()),
        Verdict::Displaced(packet) => Verdict::Displaced(packet.into_packet()),
    }
}

impl<P: Parcel + Send> Router<P> for External<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        converted(self.router.enqueue(now, AnyPacket::new(packet)))
    }

    fn pass(&mut self, now: Time, packet: P) -> (Option<P>, Verdict<P>) {
        let (next, verdict) = self.router.pass(now, AnyPacket::new(packet));
        (next.map(AnyPacket::into_packet), converted(verdict))
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.router.dequeue(now).map(AnyPacket::into_packet)
    }

    delegate! {
        to self.router {
            fn tick(&mut self, now: Time);
            fn next_tick(&self) -> Time;
            fn backlog(&self) -> Backlog;
            fn tally(&self) -> Tally;
            fn on_rate(&mut self, now: Time, rate: Rate);
            fn last_wait(&self) -> Option<Duration>;
            fn measure_delays(&mut self);
            fn delays(&self) -> Option<ClassDelays>;
        }
    }
}

/// Makes routers of another crate from settings that were read and checked.
#[derive(Clone)]
pub struct ExternalConfig(Arc<dyn Fn(Environment, Random) -> Box<dyn Router + Send> + Send + Sync>);

impl Debug for ExternalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExternalConfig(..)")
    }
}

impl ExternalConfig {
    pub(crate) fn new<R: Discipline + 'static>(config: R::Config) -> Self {
        Self(Arc::new(move |environment, random| Box::new(R::new(&config, environment, random))))
    }

    pub(crate) fn make<P>(&self, environment: Environment, random: Random) -> External<P> {
        External { router: (self.0)(environment, random), packets: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codel::Codel;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    #[test]
    fn an_external_router_does_what_a_built_in_one_does() {
        let config = crate::codel::Config::default();
        let mut own: Codel<TestParcel> = Codel::new(&config, ENVIRONMENT, Random::from_seed(1));
        let mut external = ExternalConfig::new::<Codel<AnyPacket>>(config).make(ENVIRONMENT, Random::from_seed(1));
        // Two packets come for each that leaves, so that CoDel drops and marks.
        for n in 0..2000 {
            let now = Time::from_nanos(n * 1_000_000);
            let packet = TestParcel::new(n, 1000);
            let packet = if n % 3 == 0 { packet.capable() } else { packet };
            assert_eq!(external.enqueue(now, packet), own.enqueue(now, packet));
            if n % 2 == 0 {
                assert_eq!(external.dequeue(now), own.dequeue(now));
            } else {
                assert_eq!(external.pass(now, packet), own.pass(now, packet));
            }
            assert_eq!(external.backlog(), own.backlog());
            assert_eq!(external.next_tick(), own.next_tick());
        }
        let tally = external.tally();
        assert!(tally == own.tally() && tally.marked > 0 && tally.dropped_from_queue > 0, "{tally:?}");
    }
}
