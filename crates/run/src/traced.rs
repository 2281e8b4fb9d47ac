//! What a trace sees of a network, in every world.

use rampmeter_router::Backlog;
use rampmeter_trace::{Capture, LinkEvent, Trace};
use rampmeter_units::Time;

use crate::network::Watch;

/// Reports the packets of links to a trace.
#[derive(Debug)]
pub struct Links(pub Trace);

impl Links {
    fn report(&self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        self.0.sink().on_link(at, link, event, packet);
    }
}

impl<P: Capture> Watch<P> for Links {
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
