//! An outcome as the journal keeps it: every number exact, so that one read back equals one just made.

use rampmeter_router::{Backlog, Counts, QueueSummary};
use rampmeter_scenario::{
    FlowOutcome, FlowSample, Hindered, Lateness, LinkId, LinkOutcome, LinkSample, Outcome, Series,
};
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_workload::Report;
use serde::{Deserialize, Serialize};

/// One finished point.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The point, as it displays.
    pub(crate) point: String,
    /// The program that ran it.
    pub(crate) program: String,
    /// Seconds of real time it took.
    pub(crate) wall_s: f64,
    data_packets: u64,
    flows: Vec<Flow>,
    links: Vec<Link>,
    link_samples: Vec<LinkRow>,
    flow_samples: Vec<FlowRow>,
    hindered: Vec<Hindered>,
    /// Half, 99% and all of the packets were no later.
    lateness: Option<[u64; 3]>,
}

/// Flow, traffic, scheme, start, response, delivered, of these while measured, packets sent, of these repetitions,
/// what its application measured.
#[derive(Debug, Serialize, Deserialize)]
struct Flow(usize, usize, usize, u64, Option<u64>, u64, u64, u64, u64, Report);

/// Time, link, packets and bytes waiting, bytes transmitted.
#[derive(Debug, Serialize, Deserialize)]
struct LinkRow(u64, usize, u64, u64, u64);

/// Time, flow, window, rate, bytes delivered.
#[derive(Debug, Serialize, Deserialize)]
struct FlowRow(u64, usize, Option<u64>, Option<u64>, u64);

#[derive(Debug, Serialize, Deserialize)]
struct Link {
    place: usize,
    name: String,
    utilization: f64,
    mean_packets: f64,
    mean_bytes: f64,
    sd_bytes: f64,
    p50_packets: u64,
    p90_packets: u64,
    p99_packets: u64,
    max_packets: u64,
    offered: u64,
    offered_data: u64,
    dropped: u64,
    marked: u64,
    lost: u64,
    transmitted: u64,
    transmitted_bytes: u64,
}

impl Record {
    pub(crate) fn new(point: String, program: &str, wall_s: f64, outcome: &Outcome) -> Self {
        Self {
            point,
            program: program.to_owned(),
            wall_s,
            data_packets: outcome.data_packets,
            flows: outcome.flows.iter().map(Flow::from).collect(),
            links: outcome.links.iter().map(Link::from).collect(),
            link_samples: outcome.series.links.iter().map(LinkRow::from).collect(),
            flow_samples: outcome.series.flows.iter().map(FlowRow::from).collect(),
            hindered: outcome.hindered.clone(),
            lateness: outcome.lateness.map(|late| [late.p50, late.p99, late.max].map(Duration::as_nanos)),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            flows: self.flows.iter().map(Flow::outcome).collect(),
            links: self.links.iter().map(Link::outcome).collect(),
            series: Series {
                links: self.link_samples.iter().map(LinkRow::sample).collect(),
                flows: self.flow_samples.iter().map(FlowRow::sample).collect(),
            },
            data_packets: self.data_packets,
            hindered: self.hindered.clone(),
            lateness: self.lateness.map(|late| {
                let [p50, p99, max] = late.map(Duration::from_nanos);
                Lateness { p50, p99, max }
            }),
        }
    }
}

impl From<&FlowOutcome> for Flow {
    fn from(f: &FlowOutcome) -> Self {
        let response = f.response.map(Duration::as_nanos);
        let (delivered, measured) = (f.delivered.as_u64(), f.delivered_measured.as_u64());
        let (sent, again) = (f.sent_packets, f.retransmitted_packets);
        Self(f.flow, f.traffic, f.scheme, f.start.as_nanos(), response, delivered, measured, sent, again, f.report)
    }
}

impl Flow {
    fn outcome(&self) -> FlowOutcome {
        let &Self(flow, traffic, scheme, start, response, delivered, measured, sent, again, report) = self;
        FlowOutcome {
            flow,
            traffic,
            scheme,
            start: Time::from_nanos(start),
            response: response.map(Duration::from_nanos),
            delivered: Bytes::new(delivered),
            delivered_measured: Bytes::new(measured),
            sent_packets: sent,
            retransmitted_packets: again,
            report,
        }
    }
}

impl From<&LinkSample> for LinkRow {
    fn from(s: &LinkSample) -> Self {
        Self(s.at.as_nanos(), s.link.0, s.queue.packets, s.queue.bytes.as_u64(), s.transmitted.as_u64())
    }
}

impl LinkRow {
    fn sample(&self) -> LinkSample {
        let &Self(at, link, packets, bytes, transmitted) = self;
        LinkSample {
            at: Time::from_nanos(at),
            link: LinkId(link),
            queue: Backlog { packets, bytes: Bytes::new(bytes) },
            transmitted: Bytes::new(transmitted),
        }
    }
}

impl From<&FlowSample> for FlowRow {
    fn from(s: &FlowSample) -> Self {
        Self(s.at.as_nanos(), s.flow, s.window.map(Bytes::as_u64), s.rate.map(Rate::as_bps), s.delivered.as_u64())
    }
}

impl FlowRow {
    fn sample(&self) -> FlowSample {
        let &Self(at, flow, window, rate, delivered) = self;
        FlowSample {
            at: Time::from_nanos(at),
            flow,
            window: window.map(Bytes::new),
            rate: rate.map(Rate::from_bps),
            delivered: Bytes::new(delivered),
        }
    }
}

impl From<&LinkOutcome> for Link {
    fn from(l: &LinkOutcome) -> Self {
        let (queue, counts) = (l.queue, l.counts);
        Self {
            place: l.link.0,
            name: l.name.clone(),
            utilization: l.utilization,
            mean_packets: queue.mean_packets,
            mean_bytes: queue.mean_bytes,
            sd_bytes: queue.sd_bytes,
            p50_packets: queue.p50_packets,
            p90_packets: queue.p90_packets,
            p99_packets: queue.p99_packets,
            max_packets: queue.max_packets,
            offered: counts.offered,
            offered_data: counts.offered_data,
            dropped: counts.dropped,
            marked: counts.marked,
            lost: counts.lost,
            transmitted: counts.transmitted,
            transmitted_bytes: counts.transmitted_bytes.as_u64(),
        }
    }
}

impl Link {
    fn outcome(&self) -> LinkOutcome {
        LinkOutcome {
            link: LinkId(self.place),
            name: self.name.clone(),
            utilization: self.utilization,
            queue: QueueSummary {
                mean_packets: self.mean_packets,
                mean_bytes: self.mean_bytes,
                sd_bytes: self.sd_bytes,
                p50_packets: self.p50_packets,
                p90_packets: self.p90_packets,
                p99_packets: self.p99_packets,
                max_packets: self.max_packets,
            },
            counts: Counts {
                offered: self.offered,
                offered_data: self.offered_data,
                dropped: self.dropped,
                marked: self.marked,
                lost: self.lost,
                transmitted: self.transmitted,
                transmitted_bytes: Bytes::new(self.transmitted_bytes),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_comes_back_to_the_last_bit() {
        let flow = FlowOutcome {
            flow: 3,
            traffic: 1,
            scheme: 0,
            start: Time::from_nanos(1_234_567_890_123),
            response: Some(Duration::from_nanos(7)),
            delivered: Bytes::new(u64::MAX),
            delivered_measured: Bytes::new(5),
            sent_packets: 9,
            retransmitted_packets: 2,
            report: Report { just_below_share: Some(1.0 / 3.0), stalls: Some(3), ..Report::default() },
        };
        let queue = QueueSummary { mean_packets: 0.1 + 0.2, sd_bytes: 1.0 / 3.0, max_packets: 4, ..Default::default() };
        let counts = Counts { offered: 10, offered_data: 9, dropped: 1, lost: 2, ..Counts::default() };
        let link = LinkOutcome { link: LinkId(6), name: "wire".into(), utilization: 0.7, queue, counts };
        let backlog = Backlog { packets: 1, bytes: Bytes::new(1250) };
        let at = Time::from_nanos(99);
        let outcome = Outcome {
            flows: vec![flow, FlowOutcome { flow: 4, response: None, ..flow }],
            links: vec![link],
            series: Series {
                links: vec![LinkSample { at, link: LinkId(6), queue: backlog, transmitted: Bytes::new(8) }],
                flows: vec![FlowSample {
                    at,
                    flow: 3,
                    window: None,
                    rate: Some(Rate::from_bps(7)),
                    delivered: Bytes::new(1),
                }],
            },
            data_packets: 77,
            hindered: vec![Hindered { flow: 3, why: "a wall".into() }],
            lateness: Some(Lateness {
                p50: Duration::ZERO,
                p99: Duration::from_nanos(3),
                max: Duration::from_nanos(9),
            }),
        };
        let text = serde_json::to_string(&Record::new("seed = 1".into(), "p", 0.1, &outcome)).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap().outcome(), outcome);
    }
}
