//! The flows of a run: start, hosts and size of each.
//!
//! Arrivals, sizes and pairs are drawn from separate streams, one each per kind of traffic. So every scheme gets the
//! same flows, and traffic added at the end of a file does not change the flows of the traffic above it.

use rampmeter_units::{Bytes, Duration, Random, Streams, Time};

use super::Network;
use crate::error::Result;
use crate::file::{ArrivalRate, Arrivals, File, Gaps, MAX_FLOWS, Pairs, SchemeSpec, Size, TrafficSpec};
use crate::plan::of_application;
use crate::{FlowPlan, NodeId, payload};

/// The flows of all traffic in the order of their starts; those of equal starts in the order of the file.
pub(super) fn flows(
    file: &File,
    schemes: &[&SchemeSpec],
    network: &Network,
    streams: Streams,
) -> Result<Vec<FlowPlan>> {
    let mut flows = Vec::new();
    for (index, traffic) in file.traffic.iter().enumerate() {
        let stream = |purpose| streams.stream(purpose, index as u64);
        let mut sizes = stream("sizes");
        let mut pairs = Pairing::new(traffic, network, stream("pairs"));
        let starts = starts(file, traffic, network, stream("arrivals")).ok_or_else(|| {
            let wrong = format!("traffic `{}` would start more than {MAX_FLOWS} flows", traffic.plan.name);
            traffic.lines.head().error(format!("{wrong}; reduce its arrivals or the duration"))
        })?;
        let scheme = schemes.iter().position(|scheme| scheme.name == traffic.scheme).unwrap_or_default();
        for start in starts {
            let (from, to) = pairs.next();
            flows.push(FlowPlan {
                traffic: index,
                scheme,
                start,
                stop: traffic.duration.map(|duration| start + duration),
                from,
                to,
                bytes: traffic.size.and_then(|size| size.draw(payload(file.packet), &mut sizes)),
            });
        }
    }
    flows.sort_by_key(|flow| flow.start);
    for (index, flow) in flows.iter_mut().enumerate() {
        let spec = &file.traffic[flow.traffic];
        if let Some(Size::OfWorkload(_)) = spec.size {
            flow.bytes = spec.plan.workload.draw_transfer(of_application(streams, index));
        }
    }
    Ok(flows)
}

/// The start times of the flows of `traffic`; `None` if there are too many.
fn starts(file: &File, traffic: &TrafficSpec, network: &Network, mut random: Random) -> Option<Vec<Time>> {
    let end = Time::ZERO + file.duration;
    let mut starts = Vec::new();
    match &traffic.arrivals {
        Arrivals::Random { rate, gaps, from, until } => {
            let rate = rate.per_second(file, traffic, network);
            if rate == 0.0 {
                return Some(starts);
            }
            let mean = 1.0 / rate;
            let mut gap = || match gaps {
                Gaps::Poisson => random.exponential(mean),
                Gaps::Pareto(shape) => random.pareto(mean, *shape),
            };
            let mut at = *from + Duration::from_secs_f64(gap());
            while at < *until {
                starts.push(at);
                at += Duration::from_secs_f64(gap());
                if starts.len() as u64 > MAX_FLOWS {
                    return None;
                }
            }
        }
        Arrivals::Group { count, from, spread, every } => {
            let mut first = *from;
            while first < end {
                if starts.len() as u64 + count > MAX_FLOWS {
                    return None;
                }
                starts.extend((0..*count).map(|_| first + spread.scale(random.uniform())));
                first = every.map_or(Time::MAX, |every| first + every);
            }
            starts.retain(|start| *start < end);
        }
    }
    Some(starts)
}

impl ArrivalRate {
    fn per_second(&self, file: &File, traffic: &TrafficSpec, network: &Network) -> f64 {
        match self {
            Self::PerSecond(rate) => *rate,
            Self::Load(share, of) => {
                let rate =
                    network.links.iter().find(|link| link.name == *of).map_or(0.0, |l| l.config.rate.as_bps_f64());
                let packets = traffic.size.map_or(1.0, |size| size.mean_packets(file.packet));
                // load = flows/s * packets * packet * 8 / rate
                share * rate / (packets * file.packet.as_f64() * 8.0)
            }
        }
    }
}

impl Size {
    /// The size of the next flow; `None` if its application draws it.
    fn draw(self, payload: Bytes, random: &mut Random) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Packets(packets) => Some(payload * packets),
            Self::Pareto(mean, shape) => Some(Bytes::new((random.pareto(mean.as_f64(), shape).round() as u64).max(1))),
            Self::Published(distribution) => Some(distribution.draw(random)),
            Self::OfWorkload(_) => None,
        }
    }

    /// The number of packets of a flow of mean size; of published distributions, the mean number in units of full packets.
    fn mean_packets(self, packet: Bytes) -> f64 {
        let payload = payload(packet);
        match self {
            Self::Bytes(mean) | Self::Pareto(mean, _) | Self::OfWorkload(mean) => {
                mean.as_u64().div_ceil(payload.as_u64()) as f64
            }
            Self::Packets(packets) => packets as f64,
            Self::Published(distribution) => distribution.mean(|size| {
                let headers = (packet - payload) * size.as_u64().div_ceil(payload.as_u64());
                (size + headers).as_f64() / packet.as_f64()
            }),
        }
    }
}

/// Chooses the hosts of one flow after the other.
struct Pairing<'n> {
    from: &'n [NodeId],
    to: &'n [NodeId],
    pairs: Pairs,
    /// Take the pairs in turn; otherwise at random.
    in_turn: bool,
    count: usize,
    random: Random,
}

impl<'n> Pairing<'n> {
    fn new(traffic: &TrafficSpec, network: &'n Network, random: Random) -> Self {
        let in_turn = matches!(traffic.arrivals, Arrivals::Group { .. });
        let (from, to) = (&network.groups[&traffic.from], &network.groups[&traffic.to]);
        Self { from, to, pairs: traffic.pairs, in_turn, count: 0, random }
    }

    fn next(&mut self) -> (NodeId, NodeId) {
        let n = self.from.len();
        let index = if self.in_turn { self.count % n } else { self.random.below(n as u64) as usize };
        self.count += 1;
        let from = self.from[index];
        if self.pairs == Pairs::Same {
            return (from, self.to[index]);
        }
        // Within one group, the receiver is any other host: a draw at or above this host's index means the next one.
        let within = self.from == self.to;
        let draw = self.random.below((self.to.len() - usize::from(within)) as u64) as usize;
        (from, self.to[draw + usize::from(within && draw >= index)])
    }
}
