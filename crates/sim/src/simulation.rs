//! One thing after another.
//!
//! A link that wakes up hands each packet that has arrived to the next hop: another link, or the host at the path's end.
//! A host that got a packet, or whose timer has come, puts what it has to send on the first link at once; one that stalls
//! does so at the end of that.
//!
//! *Looking ahead*: where the last link before a host is plain, it is certain when a packet that enters it will reach the
//! host, and all that leads into a host is such a link. So the host may live ahead of the others: the packet is delivered
//! when it enters that link, after what the host's own timers have to say until then, all of it at its own time. That saves
//! a third of the events. What others can see of the host leaves over its own links, later than that. Whoever looks at hosts
//! by the timetable must find them at that time: no packet is delivered ahead of the timetable's next entry.

use rampmeter_manager::Thresholds;
use rampmeter_router::{AnyRouter, Link, Parcel};
use rampmeter_scenario::{Degraded, Outcome, Plan, Reached, path_of};
use rampmeter_transport::Event as Happened;
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::Kind;
use rampmeter_workload::{Application, Carrier, End, Event, Path, Reply};

use crate::agenda::{Actor, Agenda};
use crate::flow::Flow;
use crate::host::Host;
use crate::island::Aggregate;
use crate::meters::Meters;
use crate::packet::{Content, Pool, Travelling};
use crate::paths::{Hop, Paths, is_forward, reverse};
use crate::timetable::{Entry, Timetable};

/// How many times a run tells how far it is.
const TELLINGS: u64 = 1000;

/// What a host that was stalled takes to take in each of the packets that arrived meanwhile.
const TAKING: Duration = Duration::from_micros(5);

pub(crate) type SimulatedLink = Link<Travelling, AnyRouter<Travelling>>;

/// A network with everything that is under way in it.
pub(crate) struct Simulation<'a> {
    pub(crate) plan: &'a Plan,
    /// Links are the first actors, hosts follow, then aggregates.
    pub(crate) agenda: Agenda,
    pub(crate) timetable: Timetable,
    pub(crate) meters: Meters,
    pub(crate) links: Vec<SimulatedLink>,
    pub(crate) paths: Paths,
    pub(crate) hosts: Vec<Host>,
    /// What crosses islands.
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) pool: Pool,
    /// Transfers under way that the run waits for.
    pub(crate) pending: usize,
    /// Packets with payload that have reached their hosts.
    pub(crate) data_packets: u64,
}

impl Simulation<'_> {
    pub(crate) fn run(mut self, reached: &Reached) -> Outcome {
        let end = self.plan.end();
        let pause = end.since(Time::ZERO) / TELLINGS;
        // Until then there is nothing to tell: one comparison sees both that and the end.
        let mut quiet_to = Time::ZERO;
        while !(self.meters.over && self.pending == 0) {
            let planned = self.timetable.next();
            let (now, actor) = self.agenda.next();
            let next = now.min(planned);
            if next > quiet_to {
                if next > end {
                    break;
                }
                reached.tell(next);
                quiet_to = end.min(next + pause);
            }
            if now < planned {
                self.wake(now, actor);
            } else if let Some((now, entry)) = self.timetable.take() {
                self.happen(now, entry);
            }
        }
        self.outcome()
    }

    fn wake(&mut self, now: Time, actor: Actor) {
        let next = match (actor as usize).checked_sub(self.links.len()) {
            None => self.wake_link(now, actor),
            Some(host) if host < self.hosts.len() => self.wake_host(now, host as u32),
            Some(aggregate) => self.wake_aggregate(now, aggregate - self.hosts.len()),
        };
        self.agenda.set(actor, next);
    }

    fn wake_link(&mut self, now: Time, link: u32) -> Time {
        loop {
            let waking = &mut self.links[link as usize];
            waking.advance(now);
            if let Some(mut packet) = waking.arrive(now) {
                packet.advance();
                self.hand_on(now, packet);
            }
            let next = self.links[link as usize].next_event();
            if next > now {
                return next;
            }
        }
    }

    fn wake_host(&mut self, now: Time, host: u32) -> Time {
        let waking = &mut self.hosts[host as usize];
        if now < waking.lived_to {
            return waking.due(); // it has been there
        }
        waking.lived_to = now;
        if let Some(end) = waking.stalled_until(now) {
            return end;
        }
        if std::mem::take(&mut waking.held_back) {
            self.attend(now, host, None);
        }
        let this = &mut self.hosts[host as usize];
        let packet = if this.taking_from <= now { this.untaken.pop_front() } else { None };
        if let Some(packet) = packet {
            this.taking_from = now + TAKING;
            self.take(now, host, packet);
        }
        let this = &mut self.hosts[host as usize];
        if this.deadline() <= now {
            this.endpoint.on_deadline(now);
            self.serve(now, host);
            self.attend(now, host, None);
        }
        let this = &self.hosts[host as usize];
        let taking = if this.untaken.is_empty() { Time::MAX } else { this.taking_from };
        this.deadline().min(taking).max(now)
    }

    fn happen(&mut self, now: Time, entry: Entry) {
        match entry {
            Entry::MeasureFrom => self.measure_from(now),
            Entry::MeasureTo => self.measure_to(now),
            Entry::Sample => self.sample(now),
            Entry::Change(link, change) => self.change(now, link as usize, change as usize),
            Entry::Start(flow) => self.start(now, flow),
            Entry::Stop(flow) => self.stop(now, flow),
        }
    }

    fn change(&mut self, now: Time, link: usize, change: usize) {
        let changing = &mut self.links[link];
        self.plan.links[link].changes[change].make(now, changing);
        let next = changing.next_event();
        self.agenda.wake(link as Actor, next);
    }

    fn start(&mut self, now: Time, index: u32) {
        let flow = &mut self.flows[index as usize];
        let planned = &self.plan.flows[index as usize];
        let (workload, share) = (&self.plan.traffic[planned.traffic].workload, self.plan.share(planned));
        let [sender, receiver] = flow.ends.each_ref().map(|end| end.host);
        let host = &mut self.hosts[sender as usize];
        let name = match workload.carrier() {
            Carrier::Stream => {
                let Some(connection) = host.endpoint.open(now, flow.path, &host.config) else { return };
                flow.ends[End::Sender as usize].connection = Some(connection);
                host.set_flow(connection, index);
                host.endpoint.share(connection, share);
                host.endpoint.flow(connection)
            }
            Carrier::Datagrams(size) => {
                let name = host.endpoint.open_datagrams(now, flow.path, size.as_u64() as u16, &host.config);
                host.endpoint.share_datagrams(name, share);
                flow.datagrams = Some(name);
                host.datagram_flow = index;
                host.by_name.insert(name, index);
                self.hosts[receiver as usize].datagram_flow = index;
                Some(name)
            }
        };
        let host = &mut self.hosts[sender as usize];
        let mut path = Path::default();
        if let Some(name) = name.filter(|_| workload.uses_share()) {
            host.by_name.insert(name, index);
            host.endpoint.watch(now, name, Thresholds::default());
            path = path_of(now, name, &host.endpoint);
        }
        if planned.bytes.is_some() {
            flow.pending = true;
            self.pending += 1;
        }
        let reply = flow.application.on_start(now, path);
        self.carry_out(now, index, End::Sender, reply);
        self.serve(now, sender);
        self.attend(now, sender, None);
    }

    fn stop(&mut self, now: Time, index: u32) {
        let flow = &mut self.flows[index as usize];
        flow.report.get_or_insert_with(|| flow.application.report(now));
        flow.application.on_stop(now);
        for (end, of) in End::ALL.into_iter().zip(&flow.ends) {
            self.hosts[of.host as usize].alarms.set(index, flow.application.deadline(end));
        }
        self.pending -= usize::from(std::mem::take(&mut flow.pending));
        let sender = flow.sender().host;
        let host = &mut self.hosts[sender as usize];
        if let Some(name) = flow.datagrams.take() {
            flow.sent_datagrams = host.endpoint.close_datagrams(now, name);
            host.by_name.remove(&name);
            self.serve(now, sender);
        } else if let Some(connection) = flow.sender().connection {
            host.endpoint.finish_early(now, connection);
        } else {
            return;
        }
        self.attend(now, sender, None);
    }

    /// Something happened to a flow.
    fn tell(&mut self, now: Time, index: u32, end: End, event: &Event) {
        let reply = self.flows[index as usize].application.on_event(now, end, event);
        self.carry_out(now, index, end, reply);
    }

    /// Does what a flow's application asks for at one end.
    fn carry_out(&mut self, now: Time, index: u32, end: End, reply: Reply) {
        let flow = &mut self.flows[index as usize];
        let this = &flow.ends[end as usize];
        let host = &mut self.hosts[this.host as usize];
        if let Some(connection) = this.connection {
            if reply.write > 0 {
                host.endpoint.write(now, connection, reply.write);
            }
            if reply.finish {
                host.endpoint.finish(now, connection);
            }
        }
        if let Some(name) = flow.datagrams {
            if reply.queue_datagrams > 0 {
                host.endpoint.queue_datagrams(now, name, reply.queue_datagrams);
            }
            if reply.send_datagram {
                host.endpoint.send_datagram_now(now, name);
            }
        }
        if reply.complete && flow.fct.is_none() {
            flow.fct = Some(now.since(self.plan.flows[index as usize].start));
            self.pending -= usize::from(std::mem::take(&mut flow.pending));
        }
        host.alarms.set(index, flow.application.deadline(end));
    }

    /// Lets the applications on a host know of changes of their shares, and of deadlines that have come.
    fn serve(&mut self, now: Time, host: u32) {
        while let Some(change) = self.hosts[host as usize].endpoint.poll_change() {
            let Some(&index) = self.hosts[host as usize].by_name.get(&change.flow) else { continue };
            let path = Path { share: change.share, smoothed_rtt: change.smoothed_rtt };
            self.tell(now, index, End::Sender, &Event::ShareChanged(path));
        }
        while let Some(index) = self.hosts[host as usize].alarms.due(now) {
            let flow = &mut self.flows[index as usize];
            let end = flow.end_at(host);
            let reply = flow.application.on_deadline(now, end);
            self.carry_out(now, index, end, reply);
        }
    }

    /// The packet has reached the hop it names.
    pub(crate) fn hand_on(&mut self, now: Time, packet: Travelling) {
        match self.paths.hop(packet.hop()) {
            Hop::Link(link) => self.offer(now, link, packet),
            Hop::Plain(link, host) => self.carry(now, link, host, packet),
            Hop::Host(host) => self.deliver(now, host, packet),
            Hop::Ingress(aggregate) => self.enter(now, aggregate, packet),
            Hop::Egress(aggregate) => self.leave(now, aggregate, packet),
            Hop::Answered(aggregate) => self.take_answer(now, aggregate, packet),
        }
    }

    fn offer(&mut self, now: Time, link: u32, packet: Travelling) {
        let offered = &mut self.links[link as usize];
        if let Some(dropped) = offered.offer(now, packet) {
            self.pool.take_back(dropped);
        }
        self.agenda.wake(link, offered.next_event());
    }

    /// Over a plain link into a host, ahead of time if nobody can tell.
    fn carry(&mut self, now: Time, link: u32, host: u32, mut packet: Travelling) {
        // Once measuring is over the run ends with the last transfer, and what is on its way then does not arrive.
        let last = if self.meters.over { Time::ZERO } else { self.timetable.next() };
        let carrying = &mut self.links[link as usize];
        let Some(at) = carrying.arrival(now, packet.bytes()).filter(|at| *at < last) else {
            return self.offer(now, link, packet);
        };
        carrying.carry(at);
        while self.hosts[host as usize].due() < at {
            let due = self.hosts[host as usize].due();
            self.wake_host(due, host);
        }
        packet.advance();
        self.take(at, host, packet);
    }

    fn deliver(&mut self, now: Time, host: u32, packet: Travelling) {
        let receiving = &mut self.hosts[host as usize];
        if let Some(end) = receiving.stalled_until(now) {
            receiving.untaken.push_back(packet);
            self.agenda.wake(self.links.len() as Actor + host, end);
        } else if receiving.untaken.is_empty() {
            self.take(now, host, packet);
        } else {
            receiving.untaken.push_back(packet); // behind those that it has yet to take
        }
    }

    fn take(&mut self, now: Time, host: u32, mut packet: Travelling) {
        let (flow, from, payload) = (packet.flow, reverse(packet.path), packet.payload());
        let endpoint = &mut self.hosts[host as usize].endpoint;
        let delivered = match packet.take_content() {
            Content::Segment(header) => {
                endpoint.receive(now, from, &header, packet.ecn(), now);
                false
            }
            Content::Message(message) => endpoint.receive_message(now, from, &message, payload, packet.ecn()).is_some(),
            Content::Bare => true,
        };
        if delivered {
            self.flows[flow as usize].ends[End::Receiver as usize].read += Bytes::new(payload as u64);
        }
        let has_stream = packet.has_stream() && !delivered;
        let end = if is_forward(packet.path) { End::Receiver } else { End::Sender };
        self.data_packets += u64::from(payload > 0);
        self.pool.take_back(packet);
        self.drain_events(now, host, flow);
        if has_stream {
            self.read(now, flow, end);
        }
        self.attend(now, host, Some(flow));
    }

    /// The application at `end` reads what has arrived there.
    fn read(&mut self, now: Time, index: u32, end: End) {
        let this = &mut self.flows[index as usize].ends[end as usize];
        let Some(id) = this.connection else { return };
        let endpoint = &mut self.hosts[this.host as usize].endpoint;
        let Some(connection) = endpoint.connection(id) else { return };
        let (total, ended) = (Bytes::new(connection.arrived()), connection.is_received());
        if total > this.read {
            endpoint.consume(now, id, (total - this.read).as_u64());
            this.read = total;
        }
        self.tell(now, index, end, &Event::Read { total, ended });
    }

    /// Takes from a host what it has to say and to send. `answering` is the flow of the packet it has just got.
    fn attend(&mut self, now: Time, host: u32, answering: Option<u32>) {
        self.drain_events(now, host, answering.unwrap_or(u32::MAX));
        let this = &mut self.hosts[host as usize];
        this.lived_to = now;
        if let Some(end) = this.stalled_until(now) {
            this.held_back = true;
            return self.agenda.wake(self.links.len() as Actor + host, end);
        }
        if this.has_watchers() {
            self.serve(now, host);
            self.send_messages(now, host);
        }
        while let Some(transmit) = self.hosts[host as usize].endpoint.poll_transmit(now) {
            let this = &mut self.hosts[host as usize];
            // An accepter's first packet answers the packet that made it.
            if let (Kind::SynAck, Some(flow)) = (transmit.packet.kind, answering) {
                this.set_flow(transmit.connection, flow);
            }
            let flow = this.flow(transmit.connection);
            let hop = self.paths.start(transmit.to);
            let packet = self.pool.packet(&transmit, flow, hop);
            self.hand_on(now, packet);
        }
        if self.hosts[host as usize].has_datagrams() {
            self.send_messages(now, host);
        }
        // A deadline that has passed is now: time never goes back.
        let deadline = self.hosts[host as usize].deadline().max(now);
        self.agenda.wake(self.links.len() as Actor + host, deadline);
    }

    /// Sends what a host's Congestion Manager has to say, and its datagrams.
    fn send_messages(&mut self, now: Time, host: u32) {
        while let Some(message) = self.hosts[host as usize].endpoint.poll_message() {
            let this = &self.hosts[host as usize];
            let known = message.flow.and_then(|name| this.by_name.get(&name));
            let flow = known.copied().unwrap_or(this.datagram_flow);
            let hop = self.paths.start(message.to);
            let packet = self.pool.message(message, flow, hop);
            self.hand_on(now, packet);
        }
    }

    fn drain_events(&mut self, now: Time, host: u32, answering: u32) {
        while let Some(event) = self.hosts[host as usize].endpoint.poll_event() {
            match event {
                Happened::Opened(connection, _) => {
                    let this = &self.hosts[host as usize];
                    let index = this.flow(connection);
                    let workload = &self.plan.traffic[self.plan.flows[index as usize].traffic].workload;
                    let name = this.endpoint.flow(connection).filter(|_| workload.uses_share());
                    let path = name.map_or_else(Path::default, |name| path_of(now, name, &this.endpoint));
                    self.tell(now, index, End::Sender, &Event::Opened(path));
                }
                Happened::Accepted(connection, _) => {
                    self.flows[answering as usize].ends[End::Receiver as usize].connection = Some(connection);
                    self.tell(now, answering, End::Receiver, &Event::Opened(Path::default()));
                }
                Happened::Degraded(connection, why) => {
                    let flow = self.hosts[host as usize].flow(connection) as usize;
                    self.meters.degraded.push(Degraded { flow, reason: why.into() });
                }
                Happened::Closed(connection, _, statistics) => {
                    let index = self.hosts[host as usize].flow(connection);
                    let flow = &mut self.flows[index as usize];
                    if flow.sender().host == host && flow.sender().connection == Some(connection) {
                        flow.statistics = statistics;
                        self.pending -= usize::from(std::mem::take(&mut flow.pending));
                    }
                }
            }
        }
    }
}
