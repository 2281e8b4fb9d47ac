//! The loop: take the next wake-up, do what is due, arm whom it concerns.

use rampmeter_control::Registry;
use rampmeter_scenario::{FlowSample, LinkId, LinkOutcome, LinkSample, Outcome, Plan, Series, WorldError};
use rampmeter_transport::{Event, Transmit};
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::{UDP_BYTES, encoded_len};

use crate::agenda::{Actor, Agenda};
use crate::flows::Flow;
use crate::hosts::{Hosts, Scheme, schemes};
use crate::network::{Capacity, Hop, Paths, SimLink, links};
use crate::packet::SimPacket;
use crate::script::{Cue, script};

/// More than any flow sends: what a long-lived one has to send.
const ENDLESS: u64 = 1 << 60;

/// One run.
pub(crate) struct Simulation<'a> {
    plan: &'a Plan,
    now: Time,
    agenda: Agenda,
    links: Vec<SimLink>,
    hosts: Hosts,
    paths: Paths,
    flows: Vec<Flow>,
    /// The endpoints of each flow.
    ends: Vec<(u32, u32)>,
    schemes: Vec<Scheme>,
    script: Vec<(Time, Cue)>,
    /// Cues done.
    done: usize,
    /// Transfers not yet complete.
    unfinished: usize,
    capacity: Vec<Capacity>,
    measured: Vec<LinkOutcome>,
    series: Series,
    data_packets: u64,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(plan: &'a Plan, registry: &Registry) -> Result<Self, WorldError> {
        let schemes = schemes(plan, registry)?;
        let (mut hosts, mut paths) = (Hosts::default(), Paths::default());
        let ends = plan.flows.iter().map(|flow| hosts.ends(plan, &schemes, &mut paths, flow));
        let ends = ends.collect::<Result<Vec<_>, _>>()?;
        let links = links(plan);
        let script = script(plan);
        let mut agenda = Agenda::new(links.len() + hosts.all.len() + 1);
        let script_actor = (links.len() + hosts.all.len()) as Actor;
        agenda.arm(script_actor, script.first().map_or(Time::MAX, |(at, _)| *at));
        Ok(Self {
            plan,
            now: Time::ZERO,
            agenda,
            capacity: links.iter().map(|link| Capacity::new(Time::ZERO, link.rate())).collect(),
            links,
            hosts,
            paths,
            flows: Flow::all(plan),
            ends,
            schemes,
            script,
            done: 0,
            unfinished: plan.flows.iter().filter(|flow| flow.bytes.is_some()).count(),
            measured: Vec::new(),
            series: Series::default(),
            data_packets: 0,
        })
    }

    pub(crate) fn run(mut self) -> Outcome {
        let (end, duration) = (self.plan.end(), Time::ZERO + self.plan.duration);
        while let Some((now, actor)) = self.agenda.pop() {
            if now > end || (now > duration && self.unfinished == 0) {
                break;
            }
            self.now = now;
            let actor = actor as usize;
            if actor < self.links.len() {
                self.on_link(actor);
            } else if let Some(host) = actor.checked_sub(self.links.len()).filter(|&h| h < self.hosts.all.len()) {
                self.hosts.all[host].endpoint.on_deadline(now);
                self.pump(host);
            } else {
                self.on_script();
            }
        }
        for flow in &mut self.flows {
            let open = flow.sender.and_then(|(host, id)| self.hosts.all[host as usize].endpoint.connection(id));
            flow.count_open(open);
        }
        Outcome {
            flows: self.flows.into_iter().map(|flow| flow.outcome).collect(),
            links: self.measured,
            series: self.series,
            data_packets: self.data_packets,
        }
    }

    fn on_link(&mut self, index: usize) {
        self.links[index].advance(self.now);
        while let Some(packet) = self.links[index].arrive(self.now) {
            self.forward(packet);
        }
        self.agenda.arm(index as Actor, self.links[index].next_event());
    }

    /// Takes a packet to its next hop.
    fn forward(&mut self, mut packet: SimPacket) {
        let hop = self.paths.hop(packet.hop);
        packet.hop += 1;
        match hop {
            Hop::Link(link) => {
                let index = link as usize;
                self.links[index].offer(self.now, packet);
                self.agenda.arm(link, self.links[index].next_event());
            }
            Hop::Endpoint(host) => self.deliver(host as usize, &packet),
        }
    }

    fn deliver(&mut self, place: usize, packet: &SimPacket) {
        let host = &mut self.hosts.all[place];
        let header = &packet.header;
        let news = host.endpoint.receive(self.now, packet.from, header, packet.ecn, self.now);
        self.data_packets += u64::from(header.payload > 0);
        if let Some(news) = news {
            host.endpoint.consume(self.now, news.connection, u64::MAX);
            let connection = host.endpoint.connection(news.connection);
            let arrived = connection.map_or(0, rampmeter_transport::Connection::arrived);
            if let Some(flow) = host.flow(news.connection.index()) {
                let complete = self.flows[flow].on_arrived(self.now, arrived, self.plan.flows[flow].bytes);
                self.unfinished -= usize::from(complete);
            }
        }
        self.pump(place);
    }

    /// Sends what an endpoint has to send, hears what it has to say and arms its next deadline.
    fn pump(&mut self, place: usize) {
        while let Some(event) = self.hosts.all[place].endpoint.poll_event() {
            self.on_event(place, event);
        }
        while let Some(transmit) = self.hosts.all[place].endpoint.poll_transmit(self.now) {
            self.send(place, &transmit);
        }
        let deadline = self.hosts.all[place].endpoint.deadline();
        self.agenda.arm((self.links.len() + place) as Actor, deadline);
    }

    fn send(&mut self, place: usize, transmit: &Transmit<u32>) {
        let Some(hop) = self.hosts.all[place].way(transmit.to) else { return };
        let header = transmit.packet;
        let bytes = encoded_len(&header) + UDP_BYTES + usize::from(header.payload);
        let connection = transmit.connection.number();
        self.forward(SimPacket { header, bytes: bytes as u32, hop, from: place as u32, connection, ecn: transmit.ecn });
    }

    fn on_event(&mut self, place: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Opened(..) => {}
            Event::Accepted(id, _) => {
                let endpoint = &self.hosts.all[place].endpoint;
                let opener = endpoint.peer(id).zip(endpoint.connection(id).map(rampmeter_transport::Connection::peer));
                let flow = opener.and_then(|(peer, theirs)| self.hosts.all[peer as usize].flow(theirs.index()));
                let Some(flow) = flow else { return };
                self.flows[flow].receiver = Some((place as u32, id));
                let host = &mut self.hosts.all[place];
                host.set_flow(id.index(), flow);
                // Nothing goes back: the receiver's own stream is empty.
                host.endpoint.finish(now, id);
            }
            Event::Closed(id, _, statistics) => {
                let host = &mut self.hosts.all[place];
                let Some(flow) = host.flow(id.index()) else { return };
                host.set_flow(id.index(), usize::MAX);
                let flow = &mut self.flows[flow];
                if flow.sender == Some((place as u32, id)) {
                    flow.count(&statistics);
                    flow.sender = None;
                } else {
                    flow.receiver = None;
                }
            }
        }
    }

    fn on_script(&mut self) {
        while let Some(&(at, cue)) = self.script.get(self.done) {
            if at > self.now {
                self.agenda.arm((self.links.len() + self.hosts.all.len()) as Actor, at);
                return;
            }
            self.done += 1;
            self.on_cue(cue);
        }
    }

    fn on_cue(&mut self, cue: Cue) {
        match cue {
            Cue::Start { flow } => self.start(flow),
            Cue::Stop { flow } => self.stop(flow),
            Cue::ChangeLink { link, change } => {
                let change = self.plan.links[link].changes[change];
                if let Some(rate) = change.rate {
                    self.links[link].set_rate(self.now, rate);
                    self.capacity[link].on_rate(self.now, rate);
                }
                if let Some(delay) = change.delay {
                    self.links[link].set_delay(delay);
                }
            }
            Cue::StartMeasuring => {
                for (index, link) in self.links.iter_mut().enumerate() {
                    link.start_measuring(self.now, self.plan.links[index].measured);
                    self.capacity[index] = Capacity::new(self.now, link.rate());
                }
                self.flows.iter_mut().for_each(Flow::start_measuring);
            }
            Cue::StopMeasuring => self.stop_measuring(),
            Cue::Sample => self.sample(),
        }
    }

    fn start(&mut self, flow: usize) {
        let planned = &self.plan.flows[flow];
        let (from, to) = self.ends[flow];
        let host = &mut self.hosts.all[from as usize];
        let Some(id) = host.endpoint.open(self.now, to, &self.schemes[planned.scheme].config) else { return };
        host.set_flow(id.index(), flow);
        host.endpoint.write(self.now, id, planned.bytes.map_or(ENDLESS, Bytes::as_u64));
        if planned.bytes.is_some() {
            host.endpoint.finish(self.now, id);
        }
        self.flows[flow].sender = Some((from, id));
        self.pump(from as usize);
    }

    fn stop(&mut self, flow: usize) {
        let Some((place, id)) = self.flows[flow].sender else { return };
        let host = &mut self.hosts.all[place as usize];
        self.flows[flow].count_open(host.endpoint.connection(id));
        host.endpoint.abort(self.now, id);
        self.pump(place as usize);
    }

    fn stop_measuring(&mut self) {
        self.flows.iter_mut().for_each(Flow::stop_measuring);
        let measured = self.plan.links.iter().enumerate().filter(|(_, planned)| planned.measured);
        for (index, planned) in measured {
            let link = &self.links[index];
            let counts = link.counts();
            self.measured.push(LinkOutcome {
                link: LinkId(index),
                name: planned.name.clone(),
                utilization: self.capacity[index].utilization(self.now, counts.transmitted_bytes),
                queue: link.queue().map(|queue| queue.summary(self.now)).unwrap_or_default(),
                counts,
            });
        }
    }

    fn sample(&mut self) {
        for (index, _) in self.plan.links.iter().enumerate().filter(|(_, planned)| planned.measured) {
            let link = &self.links[index];
            self.series.links.push(LinkSample {
                at: self.now,
                link: LinkId(index),
                queue: rampmeter_router::Router::<SimPacket>::backlog(link.router()),
                transmitted: link.transmitted(),
            });
        }
        for (index, flow) in self.flows.iter().enumerate() {
            if !self.plan.traffic[flow.outcome.traffic].measured {
                continue;
            }
            let Some((place, id)) = flow.sender else { continue };
            let endpoint = &self.hosts.all[place as usize].endpoint;
            let controller = endpoint.flow(id).and_then(|flow| endpoint.manager().controller(flow));
            let Some(controller) = controller else { continue };
            let window = rampmeter_control::Controller::window(controller);
            self.series.flows.push(FlowSample {
                at: self.now,
                flow: index,
                window: (window < Bytes::MAX).then_some(window),
                rate: rampmeter_control::Controller::rate(controller),
                delivered: flow.outcome.delivered,
            });
        }
    }
}
