//! A macroflow: one controller, the flows that share it, and their bytes in flight.

mod delivery_rate_cap;
mod feedback;
mod first_windows;
mod missing_feedback;
mod resume;

use std::collections::VecDeque;

use rampmeter_control::{Controller, Departure, History, Notice, Path, Sent};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::aging::{Aging, HalfLife, MAX_GAP};
use crate::careful_resume::Resume;
use crate::destinations::Place;
use crate::flow::{Share, Sharing};
use crate::paths::Totals;
use crate::rtt::{RoundTrip, RttEstimator};
use crate::scheduler::{MAX_TURN, Scheduler};
use crate::send_times::SendTimes;
use crate::treatment::Segregation;
use delivery_rate_cap::DeliveryRateCap;
use first_windows::FirstWindows;

/// The assumed round-trip time before the first measurement (RFC 6298 (2.1) assumes the same for its timer).
const ASSUMED_RTT: Duration = Duration::from_secs(1);

/// The round trip where none has been measured; the minimum of an empty set is the largest value.
const UNKNOWN_RTT: RoundTrip = RoundTrip { smoothed: ASSUMED_RTT, min: Duration::MAX };

/// The maximum time between packets that leave although the window is full (RFC 6298 (2.5) for timers).
const MAX_PROBE_WAIT: Duration = Duration::from_secs(60);

/// What a flow can query about its macroflow (CM section 3.1, `cm_query`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The rate of the macroflow: the controller's or, for a window, `window / smoothed_rtt`, at most the delivery-rate
    /// cap; while no feedback arrives, the aged rate.
    pub rate: Rate,
    /// The flow's share of it, among the flows that have requested to send or have bytes in flight.
    pub share: Rate,
    /// The controller's window; [`Bytes::MAX`] for a rate-based controller.
    pub window: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Minimum round-trip time.
    pub min_rtt: Duration,
    /// The number of flows that share it.
    pub flows: usize,
}

/// The result of an attempt to grant.
pub(crate) enum Attempt {
    /// This flow may send the packet of this number, which has this departure.
    Granted { flow: u32, number: u64, departure: Departure },
    /// No flow has requested to send.
    NothingToSend,
    /// The window is full: feedback must arrive first, or this time must come without another packet.
    WindowFull(Time),
    /// The next packet may leave at this time.
    TooEarly(Time),
}

#[derive(Debug)]
pub(crate) struct Macroflow<C> {
    pub(crate) place: Place,
    pub(crate) controller: C,
    pub(crate) started: bool,
    /// The flows that share it.
    pub(crate) members: Vec<u32>,
    /// The number of its flows that receive reports of changes.
    pub(crate) watchers: u32,
    /// The time at which shares are compared next.
    pub(crate) next_comparison: Time,
    /// The time at which it ends, if it has no flows.
    pub(crate) ends_at: Time,
    pub(crate) segregation: Segregation,
    /// Flows are in it by choice ([`crate::MacroflowChoice::New`]).
    pub(crate) is_chosen: bool,
    /// It is in the manager's ready queue.
    pub(crate) ready: bool,
    /// The window was full at the last attempt to grant.
    pub(crate) is_full: bool,
    /// Flows that have requested to send.
    scheduler: Scheduler,
    /// The flow that the scheduler last granted, until it has notified.
    granted: Option<u32>,
    /// Flows with a retransmission that may leave although the window is full (RFC 6675 section 5, step 4.3).
    retransmissions: VecDeque<u32>,
    pub(crate) in_flight: Bytes,
    pub(crate) totals: Totals,
    /// The number of the next packet. Flows that come from another macroflow must not reuse numbers.
    pub(crate) next_number: u64,
    last_sent: Time,
    last_granted: Time,
    /// The maximum packet size, headers included.
    pub(crate) packet: Bytes,
    rtt: RttEstimator,
    /// At the last opportunity to send, no flow had requested: the application limits the bytes in flight.
    app_limited: bool,
    /// The controller knows of it ([`Notice::AppLimited`]).
    app_limited_reported: bool,
    /// When the application last limited the bytes in flight, unless the window was full since.
    app_limited_at: Option<Time>,
    /// The round trip that is assumed until this macroflow has measured one.
    pub(crate) assumed_rtt: Option<RoundTrip>,
    last_feedback_at: Time,
    /// Packets that left since then although the window was full, and timeouts ([`Macroflow::next_probe`]).
    probes: u32,
    /// The limit of the reported rate, from feedback without packet numbers.
    rate_cap: DeliveryRateCap,
    /// Bytes reported as received beyond the last full packet.
    received_part: Bytes,
    /// The last packet sent when a flow last found that nothing of its own arrives.
    timed_out_up_to: Option<u64>,
    /// The time of the first report of a feedback timeout without feedback since.
    timeout_reported_at: Option<Time>,
    /// The state of aging, while feedback is overdue.
    aging: Option<Aging>,
    /// The last feedback ended a period of aging, and was late.
    was_late: bool,
    half_life: HalfLife,
    /// Careful Resume, where it is on.
    resume: Option<Box<Resume>>,
    /// The time whose packets its controller may send together.
    bunch: Duration,
    /// Kept where feedback has times instead of packet numbers.
    send_times: Option<Box<SendTimes>>,
    first_windows: FirstWindows,
    min_rto: Duration,
    /// The length of a flow's turn.
    turn: Duration,
}

impl<C: Controller> Macroflow<C> {
    pub(crate) fn new(place: Place, controller: C, sharing: Sharing) -> Self {
        Self {
            place,
            controller,
            started: false,
            members: Vec::new(),
            watchers: 0,
            next_comparison: Time::ZERO,
            ends_at: Time::MAX,
            segregation: Segregation::default(),
            is_chosen: false,
            ready: false,
            is_full: false,
            scheduler: Scheduler::new(sharing.scheduling),
            granted: None,
            retransmissions: VecDeque::new(),
            in_flight: Bytes::ZERO,
            totals: Totals::default(),
            next_number: 0,
            last_sent: Time::ZERO,
            last_granted: Time::ZERO,
            packet: Bytes::ZERO,
            rtt: RttEstimator::default(),
            app_limited: false,
            app_limited_reported: false,
            app_limited_at: None,
            assumed_rtt: None,
            rate_cap: DeliveryRateCap::default(),
            received_part: Bytes::ZERO,
            timed_out_up_to: None,
            timeout_reported_at: None,
            last_feedback_at: Time::ZERO,
            probes: 0,
            aging: None,
            was_late: false,
            half_life: sharing.half_life,
            resume: sharing.careful_resume.map(|lifetime| Box::new(Resume::new(lifetime))),
            bunch: sharing.bunch,
            send_times: None,
            first_windows: FirstWindows::new(sharing.first_windows),
            min_rto: sharing.min_rto,
            turn: sharing.turn,
        }
    }

    pub(crate) fn start(&mut self, now: Time, path: &Path) {
        self.rtt.sample(path.rtt);
        if !self.started || self.assumed_rtt.take().is_some() {
            self.started = true;
            self.packet = path.packet;
            self.last_sent = now;
            self.begin(now, path);
        }
    }

    pub(crate) fn set_packet_size(&mut self, now: Time, packet: Bytes) {
        if self.started && self.packet != packet {
            self.packet = packet;
            self.controller.on_packet_size(now, packet);
        }
    }

    /// Starts the controller on `path`.
    fn begin(&mut self, now: Time, path: &Path) {
        if let Some(past) = path.history {
            self.rate_cap.raise_to(past.base_rate);
        }
        self.first_windows.restart();
        self.probes = 0;
        self.controller.on_path(now, &Path { bunch: self.bunch, ..path.clone() });
        self.begin_resume();
    }

    /// Starts without a measured round trip: with that of `history`, or with a default. `last` is the measurement of an
    /// earlier macroflow.
    pub(crate) fn assume(&mut self, now: Time, packet: Bytes, history: Option<History>, last: Option<RoundTrip>) {
        if !self.started {
            let rtt = history.map_or(ASSUMED_RTT, |past| past.min_rtt);
            (self.started, self.assumed_rtt) = (true, Some(last.unwrap_or(UNKNOWN_RTT)));
            (self.packet, self.last_sent) = (packet, now);
            self.begin(now, &Path::new(packet, rtt, history));
        }
    }

    /// The round trip, if this macroflow has measured one.
    pub(crate) fn measured(&self) -> Option<RoundTrip> {
        let is_measured = self.started && self.assumed_rtt.is_none();
        is_measured.then(|| RoundTrip { smoothed: self.rtt.smoothed(), min: self.rtt.min() })
    }

    /// The smoothed round-trip time, and the retransmission timeout (RFC 6298).
    pub(crate) fn round_trip(&self) -> Option<(Duration, Duration)> {
        self.started.then(|| (self.smoothed_rtt(), self.rtt.timeout(ASSUMED_RTT * 3, Duration::ZERO)))
    }

    fn smoothed_rtt(&self) -> Duration {
        self.assumed_rtt.map_or_else(|| self.rtt.smoothed(), |assumed_rtt| assumed_rtt.smoothed)
    }

    /// Starts a new controller if the path is established.
    pub(crate) fn restart(&mut self, now: Time, history: Option<History>) {
        (self.app_limited, self.app_limited_reported, self.app_limited_at) = (false, false, None);
        if self.started {
            self.begin(now, &Path::new(self.packet, self.smoothed_rtt(), history));
        }
    }

    pub(crate) fn request(&mut self, now: Time, flow: u32, retransmission: bool) {
        let first = self.scheduler.is_empty() && self.retransmissions.is_empty();
        if first && self.in_flight == Bytes::ZERO && now > self.last_sent && self.next_number > 0 {
            let timeout = self.timeout();
            let idle = now.since(self.last_sent);
            if idle > timeout {
                self.first_windows.restart();
            }
            self.controller.on_idle(now, idle, timeout);
        }
        if retransmission { self.retransmissions.push_back(flow) } else { self.scheduler.request(now, flow) }
    }

    pub(crate) fn attempt(&mut self, now: Time) -> Attempt {
        let has_requests = !self.scheduler.is_empty();
        let departure = if let Some(aging) = &self.aging {
            // Packets without a request, which may leave more often, delay others by the longest gap at most.
            let at = (self.last_sent + aging.gap(now, self.packet)).min(self.last_granted + MAX_GAP);
            if !has_requests && self.retransmissions.is_empty() {
                return Attempt::NothingToSend;
            }
            if at > now {
                return Attempt::TooEarly(at);
            }
            self.controller.departure()
        } else if self.retransmissions.is_empty() {
            let window = self.window();
            // With nothing in flight one packet is always permitted: a window below one packet must not block the flow.
            let fits = self.in_flight + self.packet <= window || self.in_flight == Bytes::ZERO;
            if !has_requests {
                self.app_limited |= fits;
                // An application that writes just in time leaves the pacer no time to wait.
                if fits && self.departure().at <= now && !std::mem::replace(&mut self.app_limited_reported, true) {
                    self.controller.on_notice(now, Notice::AppLimited);
                }
                return Attempt::NothingToSend;
            }
            if !fits {
                if self.try_jump(now) {
                    return self.attempt(now);
                }
                (self.app_limited, self.app_limited_reported, self.app_limited_at) = (false, false, None);
                let probe_at = self.next_probe();
                if probe_at > now {
                    return Attempt::WindowFull(probe_at);
                }
            }
            let departure = self.departure();
            if departure.at > now {
                if std::mem::take(&mut self.app_limited) {
                    (self.app_limited_reported, self.app_limited_at) = (false, Some(now));
                }
                return Attempt::TooEarly(departure.at);
            }
            departure
        } else {
            let departure = self.controller.departure();
            if departure.at > now {
                return Attempt::TooEarly(departure.at);
            }
            departure
        };
        let retransmission = self.retransmissions.pop_front();
        let granted = retransmission.or_else(|| {
            self.granted = self.scheduler.next(now, self.packet, self.turn());
            self.granted
        });
        if granted.is_some() {
            self.last_granted = now;
        }
        let number = self.next_number;
        granted.map_or(Attempt::NothingToSend, |flow| Attempt::Granted { flow, number, departure })
    }

    /// When a packet may leave although the window is full: a retransmission timeout after the last one. It doubles with
    /// each such packet, and with each timeout of flows, until feedback arrives (RFC 6298 (5.5)). The bytes in flight may
    /// be those of a flow whose receiver is gone. Its own timer, backed off, retransmits once a minute, and no other packet
    /// could show that the path carries packets again. A flow alone has its timer only.
    fn next_probe(&self) -> Time {
        if self.members.len() < 2 {
            return Time::MAX;
        }
        let timeout = self.timeout() * (1 << self.probes.min(16));
        self.last_sent + timeout.min(MAX_PROBE_WAIT)
    }

    /// The bytes of a flow's turn.
    fn turn(&self) -> Bytes {
        if self.turn == Duration::ZERO {
            return Bytes::ZERO;
        }
        self.permitted_rate().bytes_in(self.turn).min(MAX_TURN)
    }

    /// The flow that was granted has sent `bytes`; zero if it sent nothing.
    pub(crate) fn sent(&mut self, now: Time, bytes: Bytes) {
        if let Some(flow) = self.granted.take() {
            self.scheduler.sent(flow, self.packet, bytes);
            let is_probe = self.in_flight > Bytes::ZERO && self.in_flight + bytes > self.window();
            self.probes += u32::from(is_probe && bytes > Bytes::ZERO);
        }
        if bytes == Bytes::ZERO {
            return;
        }
        self.in_flight += bytes;
        self.totals.sent += bytes;
        self.last_sent = now;
        if let Some(send_times) = &mut self.send_times {
            send_times.sent(now, self.next_number, self.rtt.smoothed());
        }
        let sent = Sent { number: self.next_number, bytes, in_flight: self.in_flight };
        self.next_number += 1;
        self.controller.on_sent(now, &sent);
        self.resume_sent(now, bytes);
    }

    /// Starts as a part of `origin`, from which flows have been split.
    pub(crate) fn split_from(&mut self, now: Time, origin: &Self, part: f64) {
        (self.rtt, self.packet, self.next_number) = (origin.rtt, origin.packet, origin.next_number);
        (self.started, self.assumed_rtt, self.last_sent) = (origin.started, origin.assumed_rtt, now);
        let history = History::new(origin.permitted_rate().scale(part), origin.rtt.min());
        if self.started {
            self.begin(now, &Path::new(self.packet, self.smoothed_rtt(), Some(history)));
        }
    }

    /// The highest number sent so far.
    fn last_sent(&self) -> u64 {
        self.next_number.saturating_sub(1)
    }

    pub(crate) fn join(&mut self, flow: u32) {
        self.members.push(flow);
        self.ends_at = Time::MAX;
        self.scheduler.join(flow);
    }

    /// Sets the flow's share of the macroflow.
    pub(crate) fn share(&mut self, flow: u32, share: Share) {
        self.scheduler.set_weight(flow, share.weight);
        self.scheduler.classify(flow, share.class);
        self.scheduler.guarantee(flow, share.curve);
    }

    /// Removes a flow that has `in_flight` bytes in flight.
    pub(crate) fn close(&mut self, now: Time, flow: u32, in_flight: Bytes) {
        self.members.retain(|&member| member != flow);
        self.scheduler.leave(flow);
        self.granted = self.granted.filter(|granted| *granted != flow);
        self.retransmissions.retain(|&f| f != flow);
        self.discard(now, in_flight);
    }

    /// Whether flows that have left it still have bytes in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight > Bytes::ZERO
    }

    /// The retransmission timeout (RFC 6298).
    fn timeout(&self) -> Duration {
        self.rtt.timeout(ASSUMED_RTT, self.min_rto)
    }

    /// How long it remains after its last flow. After this time its packets have arrived or are lost.
    pub(crate) fn linger_time(&self) -> Duration {
        self.timeout()
    }

    fn permitted_rate(&self) -> Rate {
        let rate = self.controller.rate().unwrap_or_else(|| Rate::of(self.controller.window(), self.smoothed_rtt()));
        rate.min(self.rate_cap.cap())
    }

    /// Stores the history of the path for later macroflows.
    pub(crate) fn remember(&self, now: Time, history: &mut Option<History>) {
        self.controller.remember(now, history);
        if let Some(history) = history {
            history.base_rate = history.base_rate.min(self.rate_cap.cap());
        }
    }

    /// The permitted rate at `now`.
    pub(crate) fn rate(&self, now: Time) -> Rate {
        self.aging.map_or_else(|| self.permitted_rate(), |aging| aging.rate(now, self.packet))
    }

    /// `share` is the flow's part of the rate; 1 is all of it.
    pub(crate) fn status(&self, now: Time, share: f64) -> Status {
        let rate = self.rate(now);
        Status {
            rate,
            share: rate.scale(share),
            window: self.window(),
            in_flight: self.in_flight,
            smoothed_rtt: self.smoothed_rtt(),
            min_rtt: self.assumed_rtt.map_or(self.rtt.min(), |assumed_rtt| assumed_rtt.min),
            flows: self.members.len(),
        }
    }
}
