//! What becomes of the flows.

use rampmeter_scenario::{FlowOutcome, Plan};
use rampmeter_transport::{Connection, ConnectionId, Statistics};
use rampmeter_units::{Bytes, Time};

/// A flow while it lasts.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) outcome: FlowOutcome,
    /// The sending endpoint and its connection, once open.
    pub(crate) sender: Option<(u32, ConnectionId)>,
    /// The receiving endpoint and its connection, while it lasts.
    pub(crate) receiver: Option<(u32, ConnectionId)>,
    /// What had been delivered when measuring began.
    before: u64,
    measuring: bool,
    measured: bool,
}

impl Flow {
    pub(crate) fn all(plan: &Plan) -> Vec<Self> {
        let flow = |(flow, planned): (usize, &rampmeter_scenario::FlowPlan)| Self {
            outcome: FlowOutcome {
                flow,
                traffic: planned.traffic,
                scheme: planned.scheme,
                start: planned.start,
                response: None,
                delivered: Bytes::ZERO,
                delivered_measured: Bytes::ZERO,
                sent_packets: 0,
                retransmitted_packets: 0,
            },
            sender: None,
            receiver: None,
            before: 0,
            measuring: false,
            measured: false,
        };
        plan.flows.iter().enumerate().map(flow).collect()
    }

    /// The receiver has the first `arrived` bytes. True if this completes a transfer of `wanted`.
    pub(crate) fn on_arrived(&mut self, now: Time, arrived: u64, wanted: Option<Bytes>) -> bool {
        self.outcome.delivered = Bytes::new(arrived);
        let done = self.outcome.response.is_none() && wanted.is_some_and(|wanted| arrived >= wanted.as_u64());
        if done {
            self.outcome.response = Some(now.since(self.outcome.start));
        }
        done
    }

    pub(crate) fn start_measuring(&mut self) {
        self.before = self.outcome.delivered.as_u64();
        self.measuring = true;
    }

    pub(crate) fn stop_measuring(&mut self) {
        if self.measuring && !self.measured {
            self.measured = true;
            self.outcome.delivered_measured = Bytes::new(self.outcome.delivered.as_u64() - self.before);
        }
    }

    /// The sender's connection has closed, or the run ends.
    pub(crate) fn count(&mut self, statistics: &Statistics) {
        self.outcome.sent_packets = statistics.data_packets;
        self.outcome.retransmitted_packets = statistics.retransmitted;
    }

    pub(crate) fn count_open(&mut self, connection: Option<&Connection>) {
        if let Some(connection) = connection {
            self.count(&connection.statistics());
        }
    }
}
