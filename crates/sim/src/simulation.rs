//! The event loop.
//!
//! A link that wakes up forwards each packet that has arrived to the next hop. A host that receives a packet, or whose
//! timer expires, puts its output on the first link at once, or at the end of its stall.

use rampmeter_manager::Thresholds;
use rampmeter_router::{AnyRouter, Link, Parcel};
use rampmeter_scenario::{Degraded, Outcome, Plan, RunProgress, WorldError, path_of};
use rampmeter_transport::Event as TransportEvent;
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::{Kind, Packet};
use rampmeter_workload::{Application, Carrier, End, Event, Path, Reply};

use crate::agenda::{Actor, Agenda};
use crate::flow::SimulatedFlow;
use crate::host::Host;
use crate::island::Aggregate;
use crate::meters::Meters;
use crate::packet::{Content, InTransit, Pool};
use crate::paths::{Paths, is_forward, reverse};
use crate::timetable::{Entry, Timetable};

/// The number of progress reports of a run.
const PROGRESS_STEPS: u64 = 1000;

/// Processing time of each packet that arrived at a host during a stall.
const RECEIVE_TIME: Duration = Duration::from_micros(5);

/// The time of the last event. It is reported if that panics.
struct LastEvent<'a>(&'a RunProgress, Time);

impl Drop for LastEvent<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.tell(self.1);
        }
    }
}

/// A network with its packets and flows.
pub(crate) struct Simulation<'a> {
    pub(crate) plan: &'a Plan,
    /// The order of actors: links, hosts, aggregates.
    pub(crate) agenda: Agenda,
    pub(crate) timetable: Timetable,
    pub(crate) meters: Meters,
    pub(crate) links: Vec<Link<InTransit, AnyRouter<InTransit>>>,
    /// The links whose packets may go on ahead of time ([`crate::forwarding::ahead`]).
    pub(crate) ahead: Vec<bool>,
    pub(crate) paths: Paths,
    pub(crate) hosts: Vec<Host>,
    /// Traffic across islands.
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) flows: Vec<SimulatedFlow>,
    pub(crate) pool: Pool,
    /// The header of the packet that a host sends or receives now. It is in one place, which is in the CPU's cache.
    pub(crate) header: Packet,
    /// Unfinished transfers that the run waits for.
    pub(crate) pending: usize,
    /// Why the run has no outcome.
    pub(crate) failure: Option<WorldError>,
    /// Packets with payload that were delivered to hosts.
    pub(crate) data_packets: u64,
}

impl Simulation<'_> {
    pub(crate) fn run(mut self, reached: &RunProgress) -> Result<Outcome, WorldError> {
        let end = self.plan.end();
        let step = end.since(Time::ZERO) / PROGRESS_STEPS;
        // Of the next progress report, or the end.
        let mut next_report = Time::ZERO;
        let mut last = LastEvent(reached, Time::ZERO);
        while self.failure.is_none() && !(self.meters.over && self.pending == 0) {
            let planned = self.timetable.next();
            let (now, actor) = self.agenda.next();
            let next = now.min(planned);
            last.1 = next;
            if next > next_report {
                if next > end {
                    break;
                }
                reached.tell(next);
                next_report = end.min(next + step);
            }
            if now < planned {
                self.wake(now, actor);
            } else if let Some((now, entry)) = self.timetable.take() {
                self.run_entry(now, entry);
            }
        }
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(self.outcome()),
        }
    }

    fn wake(&mut self, now: Time, actor: Actor) {
        let next = match (actor as usize).checked_sub(self.links.len()) {
            None => self.wake_link(now, actor),
            Some(host) if host < self.hosts.len() => self.wake_host(now, host as u32),
            Some(aggregate) => self.on_aggregate_timer(now, aggregate - self.hosts.len()),
        };
        self.agenda.set(actor, next);
    }

    fn wake_host(&mut self, now: Time, host: u32) -> Time {
        let waking = &mut self.hosts[host as usize];
        if now < waking.local_time {
            return waking.due(); // its local time is ahead
        }
        waking.local_time = now;
        if let Some(end) = waking.stalled_until(now) {
            return end;
        }
        if std::mem::take(&mut waking.output_pending) {
            self.collect_output(now, host, None);
        }
        let this = &mut self.hosts[host as usize];
        let packet = if this.backlog_ready_at <= now { this.receive_backlog.pop_front() } else { None };
        if let Some(packet) = packet {
            this.backlog_ready_at = now + RECEIVE_TIME;
            self.receive(now, host, packet);
        }
        let this = &mut self.hosts[host as usize];
        if this.deadline() <= now {
            this.endpoint.on_deadline(this.clock.reading(now));
            self.notify_applications(now, host);
            self.collect_output(now, host, None);
        }
        let this = &self.hosts[host as usize];
        let ready_at = if this.receive_backlog.is_empty() { Time::MAX } else { this.backlog_ready_at };
        this.deadline().min(ready_at).max(now)
    }

    fn run_entry(&mut self, now: Time, entry: Entry) {
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
        let local = host.clock.reading(now);
        let name = match workload.carrier() {
            Carrier::Stream => {
                let Some(connection) = host.endpoint.open(local, flow.path, &host.config) else { return };
                flow.ends[End::Sender as usize].connection = Some(connection);
                host.set_flow(connection, index);
                host.endpoint.share(connection, share);
                host.endpoint.flow(connection)
            }
            Carrier::Datagrams(size) => {
                let name = host.endpoint.open_datagrams(local, flow.path, size.as_u64() as u16, &host.config);
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
            host.endpoint.watch(local, name, Thresholds::default());
            path = path_of(local, name, &host.endpoint);
        }
        if planned.bytes.is_some() {
            flow.pending = true;
            self.pending += 1;
        }
        let reply = flow.application.on_start(now, path);
        self.carry_out(now, index, End::Sender, reply);
        self.notify_applications(now, sender);
        self.collect_output(now, sender, None);
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
        let local = host.clock.reading(now);
        if let Some(name) = flow.datagrams.take() {
            flow.sent_datagrams = host.endpoint.close_datagrams(local, name);
            host.by_name.remove(&name);
            self.notify_applications(now, sender);
        } else if let Some(connection) = flow.sender().connection {
            host.endpoint.finish_early(local, connection);
        } else {
            return;
        }
        self.collect_output(now, sender, None);
    }

    /// Reports an event to a flow's application.
    #[inline]
    fn notify(&mut self, now: Time, index: u32, end: End, event: &Event) {
        let reply = self.flows[index as usize].application.on_event(now, end, event);
        self.carry_out(now, index, end, reply);
    }

    /// Carries out the reply of a flow's application at one end.
    #[allow(clippy::inline_always, reason = "after most packets the reply is empty")]
    #[inline(always)]
    fn carry_out(&mut self, now: Time, index: u32, end: End, reply: Reply) {
        if reply != Reply::NONE {
            self.act(now, index, end, reply);
        }
        let flow = &self.flows[index as usize];
        let host = &mut self.hosts[flow.ends[end as usize].host as usize];
        host.alarms.set(index, flow.application.deadline(end));
    }

    fn act(&mut self, now: Time, index: u32, end: End, reply: Reply) {
        let flow = &mut self.flows[index as usize];
        let this = &flow.ends[end as usize];
        let host = &mut self.hosts[this.host as usize];
        let local = host.clock.reading(now);
        if let Some(connection) = this.connection {
            if reply.write > 0 {
                host.endpoint.write(local, connection, reply.write);
            }
            if reply.finish {
                host.endpoint.finish(local, connection);
            }
        }
        if let Some(name) = flow.datagrams {
            if reply.queue_datagrams > 0 {
                host.endpoint.queue_datagrams(local, name, reply.queue_datagrams);
            }
            if reply.send_datagram {
                host.endpoint.send_datagram_now(local, name);
            }
        }
        if reply.complete && flow.fct.is_none() {
            flow.fct = Some(now.since(self.plan.flows[index as usize].start));
            self.pending -= usize::from(std::mem::take(&mut flow.pending));
        }
    }

    /// Reports changed shares and expired deadlines to the applications on a host.
    fn notify_applications(&mut self, now: Time, host: u32) {
        while let Some(change) = self.hosts[host as usize].endpoint.poll_change() {
            let Some(&index) = self.hosts[host as usize].by_name.get(&change.flow) else { continue };
            let path = Path { share: change.share, smoothed_rtt: change.smoothed_rtt };
            self.notify(now, index, End::Sender, &Event::ShareChanged(path));
        }
        while let Some(index) = self.hosts[host as usize].alarms.due(now) {
            let flow = &mut self.flows[index as usize];
            let end = flow.end_at(host);
            let reply = flow.application.on_deadline(now, end);
            self.carry_out(now, index, end, reply);
        }
    }

    /// A packet has reached its host, perhaps ahead of time: what is due there before comes first.
    pub(crate) fn deliver(&mut self, now: Time, host: u32, packet: InTransit) {
        let receiving = &mut self.hosts[host as usize];
        if !receiving.stalls() {
            while self.hosts[host as usize].due() < now {
                let due = self.hosts[host as usize].due();
                self.wake_host(due, host);
            }
            return self.receive(now, host, packet);
        }
        if let Some(end) = receiving.stalled_until(now) {
            receiving.receive_backlog.push_back(packet);
            self.agenda.wake(self.links.len() as Actor + host, end);
        } else if receiving.receive_backlog.is_empty() {
            self.receive(now, host, packet);
        } else {
            receiving.receive_backlog.push_back(packet);
        }
    }

    fn receive(&mut self, now: Time, host: u32, mut packet: InTransit) {
        let (flow, from, payload) = (packet.flow, reverse(packet.path), packet.payload());
        let Host { endpoint, clock, .. } = &mut self.hosts[host as usize];
        let local = clock.reading(now);
        let delivered = if packet.write_header(&mut self.header) {
            endpoint.receive(local, from, &self.header, packet.ecn(), local);
            false
        } else {
            match &packet.take_content() {
                Content::Message(message) => {
                    endpoint.receive_message(local, from, message, payload, packet.ecn()).is_some()
                }
                Content::Bare => true,
            }
        };
        if delivered {
            self.flows[flow as usize].ends[End::Receiver as usize].read += Bytes::new(payload as u64);
        }
        let has_stream = packet.has_stream() && !delivered;
        let end = if is_forward(packet.path) { End::Receiver } else { End::Sender };
        self.data_packets += u64::from(payload > 0);
        self.pool.recycle(packet);
        self.drain_events(now, host, flow);
        if has_stream {
            self.read(now, flow, end);
        }
        self.collect_output(now, host, Some(flow));
    }

    /// The application at `end` reads the stream bytes that have arrived.
    fn read(&mut self, now: Time, index: u32, end: End) {
        let this = &mut self.flows[index as usize].ends[end as usize];
        let Some(id) = this.connection else { return };
        let Host { endpoint, clock, .. } = &mut self.hosts[this.host as usize];
        let Some(connection) = endpoint.connection(id) else { return };
        let (total, ended) = (Bytes::new(connection.arrived()), connection.is_received());
        if total > this.read {
            endpoint.consume(clock.reading(now), id, (total - this.read).as_u64());
            this.read = total;
        }
        self.notify(now, index, end, &Event::Read { total, ended });
    }

    /// Collects the events and packets of a host. `answering` is the flow of the packet that it received last.
    fn collect_output(&mut self, now: Time, host: u32, answering: Option<u32>) {
        self.drain_events(now, host, answering.unwrap_or(u32::MAX));
        let this = &mut self.hosts[host as usize];
        this.local_time = now;
        if let Some(end) = this.stalled_until(now) {
            this.output_pending = true;
            return self.agenda.wake(self.links.len() as Actor + host, end);
        }
        if this.has_watchers() {
            self.notify_applications(now, host);
            self.send_messages(now, host);
        }
        let local = self.hosts[host as usize].clock.reading(now);
        while let Some(envelope) = &self.hosts[host as usize].endpoint.write_next(local, &mut self.header) {
            let this = &mut self.hosts[host as usize];
            // The first packet of an accepted connection answers the Syn that created it.
            if let (Kind::SynAck, Some(flow)) = (self.header.kind, answering) {
                this.set_flow(envelope.connection, flow);
            }
            let flow = this.flow(envelope.connection);
            let start = self.paths.start(envelope.to);
            let packet = self.pool.packet(envelope, &self.header, flow, start);
            self.forward(now, packet);
        }
        if self.hosts[host as usize].has_datagrams() {
            self.send_messages(now, host);
        }
        // A deadline in the past is due now: time never goes back.
        let deadline = self.hosts[host as usize].deadline().max(now);
        self.agenda.wake(self.links.len() as Actor + host, deadline);
    }

    /// Sends the messages of a host's Congestion Manager, and the host's datagrams.
    fn send_messages(&mut self, now: Time, host: u32) {
        while let Some(message) = self.hosts[host as usize].endpoint.poll_message() {
            let this = &self.hosts[host as usize];
            let known = message.flow.and_then(|name| this.by_name.get(&name));
            let flow = known.copied().unwrap_or(this.datagram_flow);
            let start = self.paths.start(message.to);
            let packet = self.pool.message(message, flow, start);
            self.forward(now, packet);
        }
    }

    #[allow(clippy::inline_always, reason = "after most packets there is no event")]
    #[inline(always)]
    fn drain_events(&mut self, now: Time, host: u32, answering: u32) {
        while let Some(event) = self.hosts[host as usize].endpoint.poll_event() {
            self.on_event(now, host, answering, event);
        }
    }

    fn on_event(&mut self, now: Time, host: u32, answering: u32, event: TransportEvent) {
        match event {
            TransportEvent::Opened(connection, _) => {
                let this = &self.hosts[host as usize];
                let index = this.flow(connection);
                let workload = &self.plan.traffic[self.plan.flows[index as usize].traffic].workload;
                let name = this.endpoint.flow(connection).filter(|_| workload.uses_share());
                let local = this.clock.reading(now);
                let path = name.map_or_else(Path::default, |name| path_of(local, name, &this.endpoint));
                self.notify(now, index, End::Sender, &Event::Opened(path));
            }
            TransportEvent::Accepted(connection, _) => {
                self.flows[answering as usize].ends[End::Receiver as usize].connection = Some(connection);
                self.notify(now, answering, End::Receiver, &Event::Opened(Path::default()));
            }
            TransportEvent::Degraded(connection, why) => {
                let flow = self.hosts[host as usize].flow(connection) as usize;
                self.meters.degraded.push(Degraded { flow, reason: why.into() });
                let endpoint = &self.hosts[host as usize].endpoint;
                let controller = endpoint.flow(connection).and_then(|name| endpoint.manager().controller(name));
                let failure = controller.and_then(|it| WorldError::of_controller(self.plan, flow, it, now));
                self.failure = self.failure.take().or(failure);
            }
            TransportEvent::Closed(connection, _, statistics) => {
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
