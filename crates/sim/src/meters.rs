//! What is read off a running simulation: measured links between `warmup` and `duration`, and samples over time.

use rampmeter_scenario::{FlowOutcome, FlowSample, Hindered, LinkId, LinkOutcome, LinkSample, Outcome, Plan, Series};
use rampmeter_units::Time;
use rampmeter_workload::Application;

use crate::simulation::Simulation;

#[derive(Debug)]
pub(crate) struct Meters {
    /// The measured links.
    links: Vec<LinkId>,
    /// Links and long-lived flows have been measured.
    pub(crate) over: bool,
    outcomes: Vec<LinkOutcome>,
    series: Series,
    /// Whose controllers said so.
    pub(crate) hindered: Vec<Hindered>,
}

impl Meters {
    pub(crate) fn of(plan: &Plan) -> Self {
        let measured = plan.all_links().filter(|(_, link)| link.measured);
        Self {
            links: measured.map(|(link, _)| link).collect(),
            over: false,
            outcomes: Vec::new(),
            series: Series::default(),
            hindered: Vec::new(),
        }
    }
}

impl Simulation<'_> {
    pub(crate) fn measure_from(&mut self, now: Time) {
        for id in &self.meters.links {
            let Some(link) = self.links.get_mut(id.0) else {
                self.aggregates[id.0 - self.links.len()].ingress.start_measuring(now);
                continue;
            };
            link.advance(now);
            link.start_measuring(now, true);
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered();
        }
    }

    pub(crate) fn measure_to(&mut self, now: Time) {
        self.meters.over = true;
        for &id in &self.meters.links {
            let outcome = match self.links.get_mut(id.0) {
                Some(link) => LinkOutcome::of(self.plan, id, link, now),
                None => self.aggregates[id.0 - self.links.len()].outcome(self.plan, id, now),
            };
            self.meters.outcomes.push(outcome);
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered() - flow.delivered_measured;
            flow.report.get_or_insert_with(|| flow.application.report(now));
        }
    }

    pub(crate) fn sample(&mut self, at: Time) {
        for &id in &self.meters.links {
            let sample = match self.links.get_mut(id.0) {
                Some(link) => LinkSample::of(id, link, at),
                None => self.aggregates[id.0 - self.links.len()].sample(id, at),
            };
            self.meters.series.links.push(sample);
        }
        for (index, flow) in self.flows.iter().enumerate() {
            if !self.plan.traffic[self.plan.flows[index].traffic].measured {
                continue;
            }
            let sender = flow.sender();
            let endpoint = &self.hosts[sender.host as usize].endpoint;
            let name = flow.datagrams.or_else(|| endpoint.flow(sender.connection?));
            let Some(controller) = name.and_then(|name| endpoint.manager().controller(name)) else { continue };
            self.meters.series.flows.push(FlowSample::of(at, index, controller, flow.delivered()));
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        let flows = self.flows.iter().zip(&self.plan.flows).enumerate().map(|(index, (flow, plan))| {
            let sender = flow.sender();
            let endpoint = &self.hosts[sender.host as usize].endpoint;
            let datagrams = flow.datagrams.map_or(flow.sent_datagrams, |name| endpoint.datagrams_sent(name));
            let living = sender.connection.and_then(|connection| endpoint.connection(connection));
            let statistics = living.map_or(flow.statistics, rampmeter_transport::Connection::statistics);
            FlowOutcome {
                flow: index,
                traffic: plan.traffic,
                scheme: plan.scheme,
                start: plan.start,
                response: flow.response,
                delivered: flow.delivered(),
                delivered_measured: flow.delivered_measured,
                sent_packets: statistics.data_packets + datagrams,
                retransmitted_packets: statistics.retransmitted,
                report: flow.report.unwrap_or_default(),
            }
        });
        Outcome {
            flows: flows.collect(),
            links: self.meters.outcomes,
            series: self.meters.series,
            data_packets: self.data_packets,
            hindered: self.meters.hindered,
            lateness: None,
        }
    }
}
