//! A host: it passes datagrams, deadlines and events on between a world and its flows. Each flow has an endpoint of its
//! own. An endpoint of s2n-quic either opens connections or accepts them, so a host needs two of them anyway. And the host
//! then knows to which flow a datagram, a deadline or a loss belongs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use rampmeter_scenario::SenderState;
use rampmeter_scenario::port::{self, Event, Opening, PacketHost, Sent};
use rampmeter_scenario::stack::{Datagram, Peer, Setup};
use rampmeter_units::{Bytes, Duration, Random, Time};
use rampmeter_workload::Carrier;
use s2n_quic_transport::endpoint::connect::Connect;

use super::config::EndpointFactory;
use super::driver;
use super::flow::{Flow, Pending};

/// The host.
pub(super) struct Host {
    factory: EndpointFactory,
    packet: Bytes,
    random: Random,
    flows: BTreeMap<u32, Flow>,
    /// The flows that were opened or accepted here.
    known: BTreeSet<u32>,
    /// Flows that may have something to send, in turn.
    ready: VecDeque<u32>,
    deadlines: BTreeSet<(Time, u32)>,
    events: VecDeque<Event<u32>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("flows", &self.flows.keys()).finish_non_exhaustive()
    }
}

impl Host {
    /// A host whose connections have the controller of `factory`.
    pub(super) fn new(factory: EndpointFactory, setup: Setup) -> Self {
        let Setup { packet, random } = setup;
        Self {
            factory,
            packet,
            random,
            flows: BTreeMap::new(),
            known: BTreeSet::new(),
            ready: VecDeque::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
        }
    }

    /// The random numbers of an endpoint.
    fn random(&mut self) -> Random {
        Random::from_seed(self.random.below(u64::MAX))
    }

    /// Passes events on between the endpoint and the application of a flow. It may have something to send afterwards, or another deadline.
    fn settle(&mut self, now: Time, index: u32) {
        let Some(flow) = self.flows.get_mut(&index) else { return };
        flow.settle(now, &mut self.events);
        if !std::mem::replace(&mut flow.is_ready, true) {
            self.ready.push_back(index);
        }
    }

    /// The flow has nothing to send until its deadline.
    fn rest(&mut self, now: Time, index: u32) {
        let Some(flow) = self.flows.get_mut(&index) else { return };
        flow.settle(now, &mut self.events); // its timers may have closed it
        flow.is_ready = false;
        let deadline = flow.next_deadline();
        if let Some(old) = std::mem::replace(&mut flow.deadline, deadline) {
            self.deadlines.remove(&(old, index));
        }
        self.deadlines.extend(deadline.map(|at| (at, index)));
        if flow.is_drained() {
            self.flows.remove(&index);
        }
    }
}

impl port::Host for Host {
    type Id = u32;
    type Address = Peer;

    fn open(&mut self, now: Time, opening: &Opening<Peer>) -> Option<u32> {
        if opening.carrier != Carrier::Stream {
            return None;
        }
        let (endpoint, connector) = (self.factory.client)(self.random(), self.packet);
        let connect = Connect::new(driver::peer()).with_server_name("host");
        let pending = Pending::Opened(connector.connect(connect));
        self.known.insert(opening.flow);
        self.flows.insert(opening.flow, Flow::new(opening.flow, opening.to, endpoint, pending));
        self.settle(now, opening.flow);
        Some(opening.flow)
    }

    fn write(&mut self, now: Time, id: u32, bytes: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.unwritten = flow.unwritten.saturating_add(bytes);
        }
        self.settle(now, id);
    }

    fn finish(&mut self, now: Time, id: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.is_finishing = true;
        }
        self.settle(now, id);
    }

    /// Closes the connection: the stack cannot withdraw only what it has not sent.
    fn stop(&mut self, now: Time, id: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            self.events.extend(flow.close());
        }
        self.settle(now, id);
    }

    fn read(&mut self, now: Time, id: u32, _: Bytes) -> Option<(Bytes, bool)> {
        let flow = self.flows.get_mut(&id)?;
        flow.read();
        let read = (Bytes::new(flow.read), flow.has_ended);
        self.settle(now, id); // it may grant the peer more
        Some(read)
    }

    fn poll_event(&mut self) -> Option<Event<u32>> {
        self.events.pop_front()
    }

    fn state(&self, id: u32) -> Option<SenderState> {
        let meter = self.flows.get(&id)?.meter;
        Some(SenderState {
            window: Some(Bytes::new(meter.window)),
            smoothed_rtt: Some(Duration::from_nanos(meter.rtt.as_nanos() as u64)),
            lost: meter.lost,
            ..SenderState::default()
        })
    }

    fn sent(&self, id: u32) -> Option<Sent> {
        Some(self.flows.get(&id)?.sent())
    }
}

impl PacketHost for Host {
    type Packet = Datagram;
    type Shared = ();

    fn receive(&mut self, now: Time, datagram: Datagram, (): &mut ()) {
        let Datagram { flow: index, peer, mut contents, ecn, .. } = datagram;
        if !self.flows.contains_key(&index) && self.known.insert(index) {
            let (endpoint, acceptor) = (self.factory.server)(self.random(), self.packet);
            self.flows.insert(index, Flow::new(index, peer, endpoint, Pending::Accepted(acceptor)));
        }
        if let Some(flow) = self.flows.get_mut(&index) {
            flow.receive(now, &mut contents, ecn);
        } // otherwise the datagram is late: its connection has ended
        self.settle(now, index);
    }

    fn transmit(&mut self, now: Time, (): &mut ()) -> Option<Datagram> {
        while let Some(&index) = self.ready.front() {
            let flow = self.flows.get_mut(&index);
            let sent = flow.and_then(|flow| Some((flow.transmit(now)?, flow.peer)));
            let Some(((contents, ecn, payload), peer)) = sent else {
                self.ready.pop_front();
                self.rest(now, index);
                continue;
            };
            self.ready.rotate_left(1);
            return Some(Datagram { flow: index, peer, contents, payload, ecn });
        }
        None
    }

    fn deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::MAX, |(at, _)| *at)
    }

    fn on_deadline(&mut self, now: Time) {
        while let Some(&(due, index)) = self.deadlines.first().filter(|(due, _)| *due <= now) {
            self.deadlines.remove(&(due, index));
            if let Some(flow) = self.flows.get_mut(&index) {
                flow.deadline = None;
                flow.on_deadline(now);
            }
            self.settle(now, index);
        }
    }
}
