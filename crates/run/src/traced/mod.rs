//! What a trace sees of a network and of applications, in every world.

mod applications;
mod marks;

use rampmeter_router::{AnyRouter, Backlog};
use rampmeter_trace::{Capture, LinkEvent, Trace};
use rampmeter_units::Time;

pub use self::applications::Applications;
use self::marks::Marks;
use crate::network::{Routed, Watch};

/// Reports the packets of links to a trace.
#[derive(Debug)]
pub struct Links(pub Trace);

impl Links {
    fn report(&self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        self.0.sink().on_link(at, link, event, packet);
    }
}

impl<P: Capture + Routed + Send> Watch<P> for Links {
    /// Drop-tail queues mark nothing, and have a shorter way through their links.
    fn router(&self, link: u32, router: AnyRouter<P>) -> AnyRouter<P> {
        match router {
            AnyRouter::DropTail(_) => router,
            router => AnyRouter::Watched(Box::new(Marks::new(router, link, self.0.clone()))),
        }
    }

    fn on_offered(&mut self, now: Time, link: u32, packet: &P, queue: impl FnOnce() -> Backlog) {
        self.report(now, link, LinkEvent::Offered { queued: queue().packets }, packet);
    }

    fn on_dropped(&mut self, now: Time, link: u32, packet: &P) {
        self.report(now, link, LinkEvent::Dropped, packet);
    }

    fn on_arrived(&mut self, at: Time, link: u32, packet: &P) {
        self.report(at, link, LinkEvent::Arrived, packet);
    }
}
