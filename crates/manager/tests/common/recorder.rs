//! A controller that records its calls, a manager of flows under it, and what these send and report.

use std::cell::RefCell;

use rampmeter_control::{Ack, Arrival, Controller, Departure, Loss, LossKind, Notice, Path, Sent};
use rampmeter_manager::{Destination, FlowId, Grouping, Manager, Sharing, Update, UpdateLoss};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::RouterFeedback;

pub(crate) const PACKET: Bytes = Bytes::new(1000);
pub(crate) const RTT: Duration = Duration::from_millis(20);
pub(crate) const HERE: Destination = Destination(1);

pub(crate) fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    Ack(Acked),
    /// The bytes lost, and the highest number among them.
    Loss(Bytes, u64),
    Timeout(Bytes, u64),
    Idle(Duration),
    AppLimited,
    Discarded,
    FirstWindows(usize),
    Deadline(Time),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Acked {
    pub(crate) delivered: Bytes,
    pub(crate) numbers: Vec<u64>,
    pub(crate) rtt: Option<Duration>,
    pub(crate) feedback: RouterFeedback,
    pub(crate) marks: Option<u64>,
    pub(crate) recovering: bool,
}

/// A controller with a given window, gap between packets and deadline, which records its calls.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) window: Bytes,
    pub(crate) gap: Duration,
    pub(crate) next: Time,
    pub(crate) deadline: Time,
    /// Whether a call at the deadline is the last one.
    pub(crate) has_one_deadline: bool,
    pub(crate) calls: RefCell<Vec<Call>>,
    /// As in the last acknowledgement.
    pub(crate) app_limited: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            window: Bytes::MAX,
            gap: Duration::ZERO,
            next: Time::ZERO,
            deadline: Time::MAX,
            has_one_deadline: true,
            calls: RefCell::default(),
            app_limited: false,
        }
    }
}

impl Recorder {
    fn record(&self, call: Call) {
        self.calls.borrow_mut().push(call);
    }
}

impl Controller for Recorder {
    fn on_path(&mut self, _now: Time, _path: &Path) {}
    fn on_sent(&mut self, now: Time, _sent: &Sent) {
        self.next = now + self.gap;
    }
    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.record(Call::Ack(Acked {
            delivered: ack.delivered,
            numbers: ack.arrivals.iter().map(|arrival| arrival.number).collect(),
            rtt: ack.rtt,
            feedback: ack.feedback,
            marks: ack.mark_count.map(|count| count.marks),
            recovering: ack.recovering,
        }));
        self.app_limited = ack.app_limited;
    }
    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        let is_timeout = loss.kind == LossKind::Persistent;
        self.record(if is_timeout { Call::Timeout } else { Call::Loss }(loss.bytes, loss.number));
    }
    fn on_idle(&mut self, _now: Time, idle: Duration, _timeout: Duration) {
        self.record(Call::Idle(idle));
    }
    fn on_notice(&mut self, _now: Time, notice: Notice) {
        match notice {
            Notice::AppLimited => self.record(Call::AppLimited),
            Notice::Discarded => self.record(Call::Discarded),
            Notice::FirstWindows(flows) => self.record(Call::FirstWindows(flows)),
            _ => {}
        }
    }
    fn on_deadline(&mut self, now: Time) {
        self.record(Call::Deadline(now));
        if self.has_one_deadline {
            self.deadline = Time::MAX;
        }
    }
    fn deadline(&self) -> Time {
        self.deadline
    }
    fn window(&self) -> Bytes {
        self.window
    }
    fn departure(&self) -> Departure {
        Departure { at: self.next, bytes: PACKET, feedback: RouterFeedback::None }
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
}

pub(crate) fn manager() -> Manager<Recorder> {
    Manager::new(Sharing { grouping: Grouping::PerDestination, ..Sharing::default() })
}

pub(crate) fn open(manager: &mut Manager<Recorder>, controller: Recorder) -> FlowId {
    let flow = manager.open(at(0), HERE, || controller);
    manager.on_path(at(0), flow, PACKET, RTT, RouterFeedback::None);
    flow
}

pub(crate) fn send(manager: &mut Manager<Recorder>, now: Time, flow: FlowId) -> u64 {
    manager.request(now, flow, false);
    let grant = manager.grant(now).unwrap();
    assert_eq!(grant.flow, flow);
    manager.notify(now, flow, PACKET);
    grant.number
}

/// The calls since the last time.
pub(crate) fn calls(manager: &Manager<Recorder>, flow: FlowId) -> Vec<Call> {
    manager.controller(flow).unwrap().calls.take()
}

pub(crate) fn in_flight(manager: &Manager<Recorder>, flow: FlowId) -> u64 {
    manager.query(at(0), flow).unwrap().in_flight.as_u64() / PACKET.as_u64()
}

pub(crate) fn arrivals(numbers: &[u64]) -> Vec<Arrival> {
    let arrival = |&number| Arrival { number, bytes: PACKET, ecn: Ecn::NotEct, ..Arrival::default() };
    numbers.iter().map(arrival).collect()
}

pub(crate) fn update(packets: u64) -> Update<'static> {
    Update { arrived_in_flight: PACKET * packets, delivered: PACKET * packets, ..Update::default() }
}

pub(crate) fn loss(number: u64) -> UpdateLoss {
    UpdateLoss { kind: LossKind::Transient, number, recovering: false, repeated_timeout: false }
}

pub(crate) fn acked(packets: u64, numbers: &[u64]) -> Acked {
    Acked { delivered: PACKET * packets, numbers: numbers.to_vec(), ..Acked::default() }
}
