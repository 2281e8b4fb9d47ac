//! What is read off a running simulation: measured links between `warmup` and `duration`, and samples over time.

use rampmeter_control::Controller;
use rampmeter_router::Router;
use rampmeter_scenario::{FlowOutcome, FlowSample, LinkId, LinkOutcome, LinkSample, Outcome, Plan, Series};
use rampmeter_units::{Bytes, Time};

use crate::simulation::Simulation;

/// A measured link.
#[derive(Debug)]
struct LinkMeter {
    link: LinkId,
    /// What its rate has allowed since the warm-up, up to `since`.
    capacity: Bytes,
    since: Time,
}

#[derive(Debug)]
pub(crate) struct Meters {
    links: Vec<LinkMeter>,
    /// Links and long-lived flows are being measured.
    running: bool,
    /// They have been.
    pub(crate) over: bool,
    outcomes: Vec<LinkOutcome>,
    series: Series,
}

impl Meters {
    pub(crate) fn of(plan: &Plan) -> Self {
        let measured = plan.links.iter().enumerate().filter(|(_, link)| link.measured);
        let meter = |(link, _)| LinkMeter { link: LinkId(link), capacity: Bytes::ZERO, since: Time::ZERO };
        Self {
            links: measured.map(meter).collect(),
            running: false,
            over: false,
            outcomes: Vec::new(),
            series: Series::default(),
        }
    }
}

impl Simulation<'_> {
    pub(crate) fn measure_from(&mut self, now: Time) {
        self.meters.running = true;
        for meter in &mut self.meters.links {
            let link = &mut self.links[meter.link.0];
            link.advance(now);
            link.start_measuring(now, true);
            meter.since = now;
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered;
        }
    }

    /// The rates that links have had up to `now` count for their utilisation.
    pub(crate) fn measure_capacity(&mut self, now: Time) {
        if !self.meters.running {
            return;
        }
        for meter in &mut self.meters.links {
            meter.capacity += self.links[meter.link.0].rate().bytes_in(now.since(meter.since));
            meter.since = now;
        }
    }

    pub(crate) fn measure_to(&mut self, now: Time) {
        self.measure_capacity(now);
        (self.meters.running, self.meters.over) = (false, true);
        for meter in &self.meters.links {
            let link = &mut self.links[meter.link.0];
            link.advance(now);
            let counts = link.counts();
            // A packet counts when it starts: the last one may lie partly beyond the end.
            let utilization = match meter.capacity {
                Bytes::ZERO | Bytes::MAX => 0.0,
                capacity => (counts.transmitted_bytes.as_f64() / capacity.as_f64()).min(1.0),
            };
            self.meters.outcomes.push(LinkOutcome {
                link: meter.link,
                name: self.plan.links[meter.link.0].name.clone(),
                utilization,
                queue: link.queue().map(|queue| queue.summary(now)).unwrap_or_default(),
                counts,
            });
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered - flow.delivered_measured;
        }
    }

    pub(crate) fn sample(&mut self, at: Time) {
        for meter in &self.meters.links {
            let link = &mut self.links[meter.link.0];
            link.advance(at);
            let (queue, transmitted) = (link.router().backlog(), link.transmitted_bytes());
            self.meters.series.links.push(LinkSample { at, link: meter.link, queue, transmitted });
        }
        for (index, flow) in self.flows.iter().enumerate() {
            let Some(connection) = flow.opened.filter(|_| self.plan.traffic[self.plan.flows[index].traffic].measured)
            else {
                continue;
            };
            let endpoint = &self.hosts[flow.sender as usize].endpoint;
            let Some(controller) = endpoint.flow(connection).and_then(|flow| endpoint.manager().controller(flow))
            else {
                continue;
            };
            let window = Some(controller.window()).filter(|&window| window < Bytes::MAX);
            let rate = controller.rate();
            self.meters.series.flows.push(FlowSample { at, flow: index, window, rate, delivered: flow.delivered });
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        let flows = self.flows.iter().zip(&self.plan.flows).enumerate().map(|(index, (flow, plan))| {
            let endpoint = &self.hosts[flow.sender as usize].endpoint;
            let living = flow.opened.and_then(|connection| endpoint.connection(connection));
            let statistics = living.map_or(flow.statistics, rampmeter_transport::Connection::statistics);
            FlowOutcome {
                flow: index,
                traffic: plan.traffic,
                scheme: plan.scheme,
                start: plan.start,
                response: flow.response,
                delivered: flow.delivered,
                delivered_measured: flow.delivered_measured,
                sent_packets: statistics.data_packets,
                retransmitted_packets: statistics.retransmitted,
            }
        });
        Outcome {
            flows: flows.collect(),
            links: self.meters.outcomes,
            series: self.meters.series,
            data_packets: self.data_packets,
            lateness: None,
        }
    }
}
