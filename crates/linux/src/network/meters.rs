//! What the plan's meters read of the links: what passed between warm-up and the end, and samples on the way.

use rampmeter_router::Router;
use rampmeter_scenario::{LinkId, LinkOutcome, LinkSample};
use rampmeter_units::{Bytes, Rate, Time};

use super::Network;

/// How much a measured link could have carried so far: the integral of its rate.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) link: LinkId,
    rate: Rate,
    since: Time,
    capacity: Bytes,
}

impl Meter {
    pub(super) fn on_rate(&mut self, now: Time, rate: Rate) {
        self.capacity += self.rate.bytes_in(now.since(self.since));
        (self.since, self.rate) = (now, rate);
    }

    /// Zero where there is no limit to speak of. A packet counts when it starts: the last may lie partly beyond the end.
    fn utilization(&self, carried: Bytes) -> f64 {
        match self.capacity {
            Bytes::ZERO | Bytes::MAX => 0.0,
            capacity => (carried.as_f64() / capacity.as_f64()).min(1.0),
        }
    }
}

impl Network<'_> {
    pub(super) fn measure_from(&mut self, now: Time) {
        for (id, _) in self.plan.links.iter().enumerate().filter(|(_, link)| link.measured) {
            let link = &mut self.links[id];
            link.advance(now);
            link.start_measuring(now, true);
            self.meters.push(Meter { link: LinkId(id), rate: link.rate(), since: now, capacity: Bytes::ZERO });
        }
    }

    pub(super) fn measure_to(&mut self, now: Time) {
        for meter in &mut self.meters {
            let link = &mut self.links[meter.link.0];
            link.advance(now);
            meter.on_rate(now, link.rate());
            let counts = link.counts();
            self.seen.links.push(LinkOutcome {
                link: meter.link,
                name: self.plan.links[meter.link.0].name.clone(),
                utilization: meter.utilization(counts.transmitted_bytes),
                queue: link.queue().map(|queue| queue.summary(now)).unwrap_or_default(),
                counts,
            });
        }
    }

    pub(super) fn sample(&mut self, at: Time) {
        for (id, _) in self.plan.links.iter().enumerate().filter(|(_, link)| link.measured) {
            let link = &mut self.links[id];
            link.advance(at);
            let (queue, transmitted) = (link.router().backlog(), link.transmitted_bytes());
            self.seen.samples.push(LinkSample { at, link: LinkId(id), queue, transmitted });
        }
    }
}
