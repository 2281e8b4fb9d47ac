//! Measurements of a simulation: links and flows between `warmup` and `duration`, and samples over time.

use rampmeter_scenario::{Degraded, FlowOutcome, FlowSample, LinkOutcome, LinkSample, Outcome, Plan, QueueId, Series};
use rampmeter_units::Time;
use rampmeter_workload::Application;

use crate::simulation::Simulation;

#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// The measured queues.
    queues: Vec<QueueId>,
    /// Whether the measurement of links and long-lived flows has ended.
    pub(crate) over: bool,
    outcomes: Vec<LinkOutcome>,
    series: Series,
    pub(crate) degraded: Vec<Degraded>,
}

impl Meters {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { queues: plan.measured_queues().collect(), ..Self::default() }
    }
}

impl Simulation<'_> {
    pub(crate) fn measure_from(&mut self, now: Time) {
        for &id in &self.meters.queues {
            match id {
                QueueId::Link(id) => {
                    let link = &mut self.links[id.0];
                    link.advance(now);
                    link.start_measuring(now, true);
                }
                QueueId::Ingress(n) => self.aggregates[n].ingress.start_measuring(now),
            }
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered();
        }
    }

    pub(crate) fn measure_to(&mut self, now: Time) {
        self.meters.over = true;
        for &id in &self.meters.queues {
            let outcome = match id {
                QueueId::Link(id) => LinkOutcome::of(self.plan, id, &mut self.links[id.0], now),
                QueueId::Ingress(n) => self.aggregates[n].outcome(self.plan, n, now),
            };
            self.meters.outcomes.push(outcome);
        }
        for flow in &mut self.flows {
            flow.delivered_measured = flow.delivered() - flow.delivered_measured;
            flow.report.get_or_insert_with(|| flow.application.report(now));
        }
    }

    pub(crate) fn sample(&mut self, at: Time) {
        for &id in &self.meters.queues {
            let sample = match id {
                QueueId::Link(id) => LinkSample::of(id, &mut self.links[id.0], at),
                QueueId::Ingress(n) => self.aggregates[n].sample(n, at),
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
                fct: flow.fct,
                delivered: flow.delivered(),
                delivered_measured: flow.delivered_measured,
                sent_packets: statistics.data_packets + datagrams,
                retransmitted_packets: statistics.retransmitted,
                limits: statistics.limits,
                report: flow.report.unwrap_or_default(),
            }
        });
        Outcome {
            flows: flows.collect(),
            links: self.meters.outcomes,
            series: self.meters.series,
            data_packets: self.data_packets,
            degraded: self.meters.degraded,
            host_jitter: None,
        }
    }
}
