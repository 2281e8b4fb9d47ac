//! A router around another one that reports the packets whose ECN code the other has changed.

use delegate::delegate;
use rampmeter_router::{AnyRouter, Backlog, ClassDelays, Router, Tally, Verdict};
use rampmeter_trace::{Capture, LinkEvent, Trace};
use rampmeter_units::{Duration, Rate, Time};

use crate::network::Routed;

#[derive(Debug)]
pub(super) struct Marks<P> {
    router: AnyRouter<P>,
    link: u32,
    trace: Trace,
}

impl<P: Capture + Routed + Send> Marks<P> {
    pub(super) fn new(router: AnyRouter<P>, link: u32, trace: Trace) -> Self {
        Self { router, link, trace }
    }

    /// A packet leaves the queue.
    fn leave(&self, now: Time, packet: Option<P>) -> Option<P> {
        if let Some(packet) = &packet {
            let (from, to) = (packet.noted_ecn(), packet.ecn());
            if from != to {
                let event = LinkEvent::Marked { from, to, queued: self.router.backlog().packets };
                self.trace.sink().on_link(now, self.link, event, packet);
            }
        }
        packet
    }
}

impl<P: Capture + Routed + Send> Router<P> for Marks<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        packet.note_ecn();
        self.router.enqueue(now, packet)
    }

    fn pass(&mut self, now: Time, mut packet: P) -> (Option<P>, Verdict<P>) {
        packet.note_ecn();
        let (next, verdict) = self.router.pass(now, packet);
        (self.leave(now, next), verdict)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let next = self.router.dequeue(now);
        self.leave(now, next)
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
