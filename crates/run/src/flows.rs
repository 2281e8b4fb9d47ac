//! The flows of a plan: their applications, driven by what hosts report, and what is measured of them.

use rampmeter_scenario::{Degraded, FlowOutcome, FlowSample, Plan, WorldError};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_workload::{Alarms, AnyApplication, Application, Carrier, End, Event as Happened, Path, Reply, Report};

use crate::timetable::Entry;
use rampmeter_scenario::port::{Event, Host, Opening, PacketHost, Sent};

/// What an application did at an end of its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// The connection is established there.
    Opened,
    /// It wrote this many bytes to its stream.
    Wrote(u64),
    /// It writes no more.
    Finished,
    /// It has read the stream of the other end.
    Read {
        /// The bytes read since the start.
        total: Bytes,
        /// Whether that is all of it.
        ended: bool,
    },
    /// The receiver has all data, this long after the flow's start.
    Completed(Duration),
}

/// What sees the applications of flows whose hosts are ours and send streams. `()` sees nothing, and costs nothing.
pub trait WatchFlows {
    /// Whether it sees anything.
    const IS_ON: bool = true;

    /// The application at an end of a flow did something.
    fn on_stream_event(&mut self, _now: Time, _flow: u32, _end: End, _event: StreamEvent) {}
}

impl WatchFlows for () {
    const IS_ON: bool = false;
}

impl<W: WatchFlows> WatchFlows for Option<W> {
    fn on_stream_event(&mut self, now: Time, flow: u32, end: End, event: StreamEvent) {
        if let Some(watch) = self {
            watch.on_stream_event(now, flow, end, event);
        }
    }
}

/// A host with the deadlines of the applications on it.
#[derive(Debug)]
pub struct Site<H> {
    /// The host.
    pub host: H,
    /// By flow and end.
    alarms: Alarms,
}

impl<H: PacketHost> Site<H> {
    /// The earliest deadline of the host and of its applications.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.host.deadline().min(self.alarms.next())
    }
}

/// The key of a flow's deadline at one end.
fn alarm(flow: u32, end: End) -> u32 {
    flow << 1 | end as u32
}

/// One end of a flow.
#[derive(Debug)]
struct FlowEnd<Id> {
    /// The host, by its place in the list.
    host: u32,
    /// The host's name for this end, while there is one.
    id: Option<Id>,
    /// Bytes that the application has read.
    read: Bytes,
}

#[derive(Debug)]
struct Flow<Id> {
    application: AnyApplication,
    /// The sender's end and the receiver's end.
    ends: [FlowEnd<Id>; 2],
    /// When it has started.
    start: Option<Time>,
    /// The flow completion time.
    fct: Option<Duration>,
    /// Whether the run waits for the flow.
    pending: bool,
    /// What had been delivered when the measurement started; before, [`Bytes::MAX`].
    before: Bytes,
    /// What was delivered during the measurement.
    measured: Bytes,
    /// What its sender had sent at the end of its connection.
    sent: Sent,
    /// The application's report, once the flow has stopped or the measurement has ended.
    report: Option<Report>,
}

impl<Id> Flow<Id> {
    /// Bytes that the receiver's application has read.
    fn delivered(&self) -> Bytes {
        self.ends[End::Receiver as usize].read
    }

    fn report(&mut self, now: Time) {
        if self.start.is_some() {
            self.report.get_or_insert_with(|| self.application.report(now));
        }
    }
}

/// What was measured of flows.
#[derive(Debug, Default)]
pub struct FlowResults {
    /// One for each flow of the plan.
    pub flows: Vec<FlowOutcome>,
    /// Samples over time.
    pub samples: Vec<FlowSample>,
    /// Flows whose controllers were degraded.
    pub degraded: Vec<Degraded>,
}

/// The flows of a plan, and their hosts.
#[derive(Debug)]
pub struct Flows<'a, H: Host, W = ()> {
    plan: &'a Plan,
    /// The hosts.
    pub sites: Vec<Site<H>>,
    all: Vec<Flow<H::Id>>,
    pending: usize,
    is_over: bool,
    samples: Vec<FlowSample>,
    degraded: Vec<Degraded>,
    /// Why the run has no outcome.
    pub failure: Option<WorldError>,
    watch: W,
}

impl<'a, H: Host> Flows<'a, H> {
    /// Flows whose applications nothing watches.
    pub fn new(plan: &'a Plan, hosts: Vec<H>, ends: impl FnMut(usize) -> Option<[u32; 2]>) -> Self {
        Self::watched(plan, hosts, ends, ())
    }
}

impl<'a, H: Host, W: WatchFlows> Flows<'a, H, W> {
    /// The flows of `plan` between `hosts`; `ends` returns the places of a flow's sender and receiver in that list.
    /// `None`: the flow is somebody else's.
    pub fn watched(plan: &'a Plan, hosts: Vec<H>, mut ends: impl FnMut(usize) -> Option<[u32; 2]>, watch: W) -> Self {
        let flow = |n: usize| {
            let hosts = ends(n);
            let planned = &plan.flows[n];
            Flow {
                application: plan.application(n),
                ends: hosts.unwrap_or_default().map(|host| FlowEnd { host, id: None, read: Bytes::ZERO }),
                start: None,
                fct: None,
                pending: hosts.is_some() && planned.bytes.is_some() && planned.start < Time::ZERO + plan.duration,
                before: Bytes::MAX,
                measured: Bytes::ZERO,
                sent: Sent::default(),
                report: None,
            }
        };
        let all: Vec<_> = (0..plan.flows.len()).map(flow).collect();
        Self {
            plan,
            sites: hosts.into_iter().map(|host| Site { host, alarms: Alarms::default() }).collect(),
            pending: all.iter().filter(|flow| flow.pending).count(),
            all,
            is_over: false,
            samples: Vec::new(),
            degraded: Vec::new(),
            failure: None,
            watch,
        }
    }

    /// Reports what an application did. Datagrams, the kernel's TCP and other stacks have no trace of their own.
    #[inline]
    fn on_stream_event(&mut self, now: Time, flow: u32, end: End, event: StreamEvent) {
        if W::IS_ON {
            let planned = &self.plan.flows[flow as usize];
            let has_stream = self.plan.traffic[planned.traffic].workload.carrier() == Carrier::Stream;
            if has_stream && self.plan.is_ours(flow as usize) {
                self.watch.on_stream_event(now, flow, end, event);
            }
        }
    }

    /// Unfinished transfers that the run waits for.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Whether the measurement has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The place of a flow's host in the list.
    pub fn place(&self, flow: u32, end: End) -> u32 {
        self.all[flow as usize].ends[end as usize].host
    }

    fn host(&mut self, flow: u32, end: End) -> &mut H {
        let place = self.place(flow, end);
        &mut self.sites[place as usize].host
    }

    /// The earliest deadline of the applications on a host.
    pub fn next_alarm(&self, place: u32) -> Time {
        self.sites[place as usize].alarms.next()
    }

    /// Starts a flow, to its receiver's address.
    pub fn start(&mut self, now: Time, flow: u32, to: H::Address) {
        let planned = &self.plan.flows[flow as usize];
        let workload = &self.plan.traffic[planned.traffic].workload;
        let (carrier, uses_share) = (workload.carrier(), workload.uses_share());
        let opening = Opening { flow, to, carrier, share: self.plan.share(planned), uses_share };
        self.host(flow, End::Receiver).expect(&opening);
        let id = self.host(flow, End::Sender).open(now, &opening);
        let starting = &mut self.all[flow as usize];
        starting.start = Some(now);
        let sender = &mut starting.ends[End::Sender as usize];
        sender.id = id;
        let Some(id) = id else { return self.complete(flow) };
        let host = &self.sites[sender.host as usize].host;
        let path = if uses_share { host.path(now, id) } else { Path::default() };
        let reply = starting.application.on_start(now, path);
        self.carry_out(now, flow, End::Sender, reply);
    }

    /// Stops a flow's application.
    pub fn stop(&mut self, now: Time, flow: u32) {
        let stopping = &mut self.all[flow as usize];
        stopping.report(now);
        stopping.application.on_stop(now);
        for (end, of) in End::ALL.into_iter().zip(&stopping.ends) {
            self.sites[of.host as usize].alarms.set(alarm(flow, end), stopping.application.deadline(end));
        }
        let planned = &self.plan.flows[flow as usize];
        let sender = &mut stopping.ends[End::Sender as usize];
        let host = &mut self.sites[sender.host as usize].host;
        if let Some(id) = sender.id {
            if let Carrier::Datagrams(_) = self.plan.traffic[planned.traffic].workload.carrier() {
                stopping.sent = host.sent(id).unwrap_or_default();
                sender.id = None;
            }
            host.stop(now, id);
        }
        self.complete(flow);
    }

    /// Handles the events of a host and the expired deadlines of its applications.
    #[inline]
    pub fn poll(&mut self, now: Time, place: u32) {
        while let Some(event) = self.sites[place as usize].host.poll_event() {
            if let Event::Readable(flow, end) = event {
                self.read(now, flow, end);
            } else {
                self.on_event(now, place, event);
            }
        }
        if self.sites[place as usize].alarms.next() <= now {
            self.on_alarms(now, place);
        }
    }

    fn on_alarms(&mut self, now: Time, place: u32) {
        while let Some(key) = self.sites[place as usize].alarms.due(now) {
            let (flow, end) = (key >> 1, End::ALL[(key & 1) as usize]);
            let reply = self.all[flow as usize].application.on_deadline(now, end);
            self.carry_out(now, flow, end, reply);
        }
    }

    fn on_event(&mut self, now: Time, place: u32, event: Event<H::Id>) {
        match event {
            Event::Readable(flow, end) => self.read(now, flow, end),
            Event::Opened(flow) => {
                let traffic = &self.plan.traffic[self.plan.flows[flow as usize].traffic];
                let id = self.all[flow as usize].ends[End::Sender as usize].id;
                let id = id.filter(|_| traffic.workload.uses_share());
                let path = id.map(|id| self.sites[place as usize].host.path(now, id));
                self.on_stream_event(now, flow, End::Sender, StreamEvent::Opened);
                self.notify(now, flow, End::Sender, &Happened::Opened(path.unwrap_or_default()));
            }
            Event::Accepted(flow, id) => {
                self.all[flow as usize].ends[End::Receiver as usize].id = Some(id);
                self.on_stream_event(now, flow, End::Receiver, StreamEvent::Opened);
                self.notify(now, flow, End::Receiver, &Happened::Opened(Path::default()));
            }
            Event::Datagram(flow, bytes) => self.all[flow as usize].ends[End::Receiver as usize].read += bytes,
            Event::ShareChanged(flow, path) => self.notify(now, flow, End::Sender, &Happened::ShareChanged(path)),
            Event::Degraded(flow, why, fault) => {
                let flow = flow as usize;
                self.degraded.push(Degraded { flow, reason: why.into() });
                let failure = fault.map(|fault| WorldError::of_controller(self.plan, flow, fault, now));
                self.failure = self.failure.take().or(failure);
            }
            Event::Closed(flow, id, sent) => {
                let closing = &mut self.all[flow as usize];
                let sender = &closing.ends[End::Sender as usize];
                if sender.host == place && sender.id == Some(id) {
                    closing.sent = *sent;
                    self.complete(flow);
                }
            }
        }
    }

    /// The application at one end reads the stream bytes that have arrived.
    fn read(&mut self, now: Time, flow: u32, end: End) {
        let this = &mut self.all[flow as usize].ends[end as usize];
        let Some(id) = this.id else { return };
        let host = &mut self.sites[this.host as usize].host;
        let Some((total, ended)) = host.read(now, id, this.read) else { return };
        this.read = total;
        self.on_stream_event(now, flow, end, StreamEvent::Read { total, ended });
        self.notify(now, flow, end, &Happened::Read { total, ended });
    }

    /// Reports an event to a flow's application.
    #[inline]
    fn notify(&mut self, now: Time, flow: u32, end: End, event: &Happened) {
        let reply = self.all[flow as usize].application.on_event(now, end, event);
        self.carry_out(now, flow, end, reply);
    }

    /// Carries out the reply of a flow's application at one end.
    #[allow(clippy::inline_always, reason = "after most packets the reply is empty")]
    #[inline(always)]
    fn carry_out(&mut self, now: Time, flow: u32, end: End, reply: Reply) {
        if reply != Reply::NONE {
            self.act(now, flow, end, reply);
        }
        let acting = &self.all[flow as usize];
        let alarms = &mut self.sites[acting.ends[end as usize].host as usize].alarms;
        alarms.set(alarm(flow, end), acting.application.deadline(end));
    }

    fn act(&mut self, now: Time, flow: u32, end: End, reply: Reply) {
        let acting = &mut self.all[flow as usize];
        let this = &acting.ends[end as usize];
        let host = &mut self.sites[this.host as usize].host;
        if let Some(id) = this.id {
            if reply.write > 0 {
                host.write(now, id, reply.write);
            }
            if reply.finish {
                host.finish(now, id);
            }
            if reply.queue_datagrams > 0 {
                host.queue_datagrams(now, id, reply.queue_datagrams);
            }
            if reply.send_datagram {
                host.send_datagram(now, id);
            }
        }
        if let (true, Some(start), None) = (reply.complete, acting.start, acting.fct) {
            let after = now.since(start);
            acting.fct = Some(after);
            self.complete(flow);
            self.on_stream_event(now, flow, end, StreamEvent::Completed(after));
        }
        if reply.write > 0 {
            self.on_stream_event(now, flow, end, StreamEvent::Wrote(reply.write));
        }
        if reply.finish {
            self.on_stream_event(now, flow, end, StreamEvent::Finished);
        }
    }

    /// The run no longer waits for a flow.
    fn complete(&mut self, flow: u32) {
        self.pending -= usize::from(std::mem::take(&mut self.all[flow as usize].pending));
    }

    /// Runs an entry of the timetable, if it measures flows.
    pub fn run(&mut self, now: Time, entry: Entry) {
        match entry {
            Entry::MeasureFrom => self.all.iter_mut().for_each(|flow| flow.before = flow.delivered()),
            Entry::MeasureTo => self.measure_to(now),
            Entry::Sample => self.sample(now),
            Entry::Change(..) | Entry::Start(_) | Entry::Stop(_) => {}
        }
    }

    fn measure_to(&mut self, now: Time) {
        self.is_over = true;
        for flow in &mut self.all {
            flow.measured = flow.delivered().saturating_sub(flow.before);
            flow.report(now);
        }
    }

    fn sample(&mut self, at: Time) {
        for (index, flow) in self.all.iter().enumerate() {
            let sender = &flow.ends[End::Sender as usize];
            let measured = self.plan.traffic[self.plan.flows[index].traffic].measured;
            let state = sender.id.filter(|_| measured).and_then(|id| self.sites[sender.host as usize].host.state(id));
            let Some(sender) = state else { continue };
            self.samples.push(FlowSample { at, flow: index, sender, delivered: flow.delivered() });
        }
    }

    /// The results at the end of the run.
    pub fn finish(mut self, now: Time) -> FlowResults {
        if !self.is_over {
            self.measure_to(now);
        }
        let outcome = |(index, flow): (usize, Flow<H::Id>)| {
            let planned = &self.plan.flows[index];
            let sender = &flow.ends[End::Sender as usize];
            let living = sender.id.and_then(|id| self.sites[sender.host as usize].host.sent(id));
            let sent = living.unwrap_or(flow.sent);
            FlowOutcome {
                flow: index,
                traffic: planned.traffic,
                scheme: planned.scheme,
                start: flow.start.unwrap_or(planned.start),
                fct: flow.fct,
                delivered: flow.delivered(),
                delivered_measured: flow.measured,
                sent_packets: sent.packets,
                retransmitted_packets: sent.retransmitted,
                limits: sent.limits,
                report: flow.report.unwrap_or_default(),
            }
        };
        let flows = std::mem::take(&mut self.all).into_iter().enumerate().map(outcome).collect();
        FlowResults { flows, samples: self.samples, degraded: self.degraded }
    }
}
