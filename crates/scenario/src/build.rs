//! Builds links and endpoints from a plan, the same in every world. Random streams are numbered alike everywhere, so a
//! plan has the same queues, losses and controllers with the same random numbers in all worlds.

use std::fmt;

use rampmeter_control::AnyController;
use rampmeter_control::Controller;
use rampmeter_control::registry::Factory;
use rampmeter_manager::{AgentConfig, FlowId, Sharing};
use rampmeter_router::capacity::{LinkStreams, Opportunities};
use rampmeter_router::{AnyRouter, Environment, Link, Parcel, Router};
use rampmeter_transport::{Address, Clock, Config, Endpoint, EndpointConfig};
use rampmeter_units::{Streams, Time};
use rampmeter_workload::Path;

use crate::{Change, LinkId, Plan};

/// The connection limit of an endpoint: hosts of a plan refuse no connection.
const MAX_CONNECTIONS: usize = 1 << 20;

impl Plan {
    /// Builds the links in their state before the first packet.
    pub fn make_links<P: Parcel + Send>(&self) -> Vec<Link<P, AnyRouter<P>>> {
        let streams = Streams::new(self.seed);
        let make = |(id, link): (usize, &crate::LinkPlan)| {
            let environment = Environment { rate: link.config.rate, delay: link.config.delay };
            let router = link.router.make(environment, streams.stream("router", id as u64));
            let mut made = Link::new(link.config, router, streams.stream("loss", id as u64));
            if let Some(LinkId(forward)) = link.reverse_of {
                made.share_bursts(streams.stream("loss", forward as u64));
            }
            if let Some(capacity) = &link.capacity {
                made.set_capacity(capacity, self.of_capacity(LinkId(id)));
            }
            made.set_ecn(link.ecn);
            made.set_disorder(link.disorder, |purpose| streams.stream(purpose, id as u64));
            if link.changes.is_empty() { made.settle(link.measured) } else { made }
        };
        self.links.iter().enumerate().map(make).collect()
    }

    /// What a link may send and when, as in every run of this plan; `None` if its rate is constant or a token bucket's.
    pub fn opportunities(&self, link: LinkId) -> Option<Opportunities> {
        let capacity = self.links[link.0].capacity.as_ref()?;
        capacity.opportunities(self.of_capacity(link))
    }

    /// The random streams of a link's capacity.
    fn of_capacity(&self, link: LinkId) -> LinkStreams {
        let streams = Streams::new(self.seed);
        let LinkId(forward) = self.links[link.0].reverse_of.unwrap_or(link);
        LinkStreams {
            shared: streams.stream("shared capacity", forward as u64),
            own: streams.stream("capacity", link.0 as u64),
        }
    }
}

impl Change {
    /// Applies the change to `link` at `now`.
    pub fn make<P: Parcel, R: Router<P>>(&self, now: Time, link: &mut Link<P, R>) {
        link.advance(now);
        if let Some(rate) = self.rate {
            link.set_rate(now, rate);
        }
        if let Some(delay) = self.delay {
            link.set_delay(delay);
        }
        if let Some(ecn) = self.ecn {
            link.set_ecn(ecn);
        }
    }
}

/// The state of a flow's path that its application can use.
pub fn path_of<C: Controller, A: Address>(now: Time, flow: FlowId, endpoint: &Endpoint<C, A>) -> Path {
    let status = endpoint.manager().query(now, flow);
    status.map_or_else(Path::default, |status| Path { share: status.share, smoothed_rtt: status.smoothed_rtt })
}

/// One of Rampmeter's schemes with all its settings; builds the endpoints that use it.
#[derive(Clone)]
pub struct Scheme {
    /// The settings of its connections.
    pub config: Config,
    /// How its flows share congestion control.
    pub sharing: Sharing,
    /// How its datagram flows get feedback.
    pub agent: AgentConfig,
    /// Creates its controllers.
    pub controller: Factory,
    /// What they do without receipts, if they need them ([`rampmeter_control::Algorithm::NEEDS_RECEIPTS`]).
    pub needs_receipts: Option<&'static str>,
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, sharing, agent, controller: _, needs_receipts: _ } = self;
        f.debug_struct("Scheme")
            .field("config", config)
            .field("sharing", sharing)
            .field("agent", agent)
            .finish_non_exhaustive()
    }
}

impl Scheme {
    /// Builds an endpoint of a host, which reports arrivals by `clock`. `number` distinguishes it from the run's other
    /// endpoints.
    pub fn endpoint<A: Address>(&self, seed: u64, number: u32, clock: Clock) -> Endpoint<AnyController, A> {
        let config = EndpointConfig {
            accept: Some(self.config.clone()),
            max_connections: MAX_CONNECTIONS,
            max_half_open: MAX_CONNECTIONS,
            sharing: self.sharing,
            agent: self.agent,
            clock,
        };
        let (streams, controller) = (Streams::new(seed), self.controller.clone());
        let mut made = u64::from(number) << 32;
        let make = move || {
            made += 1;
            controller(streams.stream("controller", made))
        };
        Endpoint::new(config, make, streams.stream("connections", number.into()))
    }
}
