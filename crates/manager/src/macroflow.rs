//! A macroflow: one controller, the flows that share it, and what they have outstanding together.

mod delivered;
mod feedback;
mod silence;

use std::collections::VecDeque;

use rampmeter_control::{Controller, History, Path, Sent};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::aging::{Aging, HalfLife};
use crate::destinations::Destination;
use crate::flow::{Share, Sharing};
use crate::rtt::{RoundTrip, RttEstimator};
use crate::scheduler::Scheduler;
use crate::trail::Trail;
use crate::treatment::Segregation;
use delivered::Delivered;

/// What the first round trip is taken for while nothing has been measured (RFC 6298 (2.1) takes the same for its timer).
const ASSUMED_RTT: Duration = Duration::from_secs(1);

/// The round trip where nobody has ever measured it; the least of none is as long as can be.
const UNKNOWN: RoundTrip = RoundTrip { smoothed: ASSUMED_RTT, min: Duration::MAX };

/// Nothing shorter is taken for a timeout where packets' times are not known.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// What a flow may learn of its macroflow (CM section 3.1, `cm_query`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The rate the macroflow is allowed: the controller's or, for a window, `window / smoothed_rtt`, as far as the path has
    /// been seen to deliver; while nothing comes back, what aging has left of it.
    pub rate: Rate,
    /// The flow's share of it, among the flows that have something to send or on their way.
    pub share: Rate,
    /// Its window; [`Bytes::MAX`] for a rate-based controller.
    pub window: Bytes,
    /// Bytes outstanding.
    pub in_flight: Bytes,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Least round-trip time.
    pub min_rtt: Duration,
    /// Flows that share it.
    pub flows: usize,
}

/// What became of an attempt to grant.
pub(crate) enum Attempt {
    /// This flow may send the packet of that number.
    Granted { flow: u32, number: u64 },
    /// Nobody asks.
    NothingToSend,
    /// The window is full: an update must come first.
    WindowFull,
    /// The next packet may leave at this time.
    TooEarly(Time),
}

#[derive(Debug)]
pub(crate) struct Macroflow<C> {
    pub(crate) destination: Destination,
    pub(crate) controller: C,
    pub(crate) started: bool,
    /// Its flows.
    pub(crate) members: Vec<u32>,
    /// How many of them want to be told of changes.
    pub(crate) watchers: u32,
    /// When it is looked at next for such changes.
    pub(crate) next_look: Time,
    /// When it ends, if it has no flows.
    pub(crate) ends_at: Time,
    pub(crate) segregation: Segregation,
    /// Waiting in the manager's ready queue.
    pub(crate) ready: bool,
    /// It last got no leave because its window was full.
    pub(crate) is_full: bool,
    /// Flows that ask for leave.
    scheduler: Scheduler,
    /// The flow that was last given leave by the scheduler and has not said what it made of it.
    granted: Option<u32>,
    /// Flows that ask to repair a loss at once, whatever the window says (RFC 6675 section 5, step 4.3).
    urgent: VecDeque<u32>,
    in_flight: Bytes,
    next_number: u64,
    last_sent: Time,
    /// Since when packets have left without a silence longer than a timeout, and when the last one left before that.
    busy_since: Time,
    busy_before: Option<Time>,
    packet: Bytes,
    rtt: RttEstimator,
    /// When leave could last be given, nobody asked: the application, not the controller, bounds what is outstanding.
    app_limited: bool,
    /// What the round trip is taken for while this macroflow has not measured it.
    assumed: Option<RoundTrip>,
    /// When something last came back.
    heard: Time,
    /// How fast it has delivered, where feedback names no packets.
    delivered: Delivered,
    /// Reported as received, and less than a packet.
    fragment: Bytes,
    /// Since when flows say that nothing comes back.
    given_up: Option<Time>,
    /// Sending without feedback.
    aging: Option<Aging>,
    /// The last word ended a silence, and was late.
    resumed: bool,
    half_life: HalfLife,
    /// Kept where there is feedback that names times instead of packets.
    trail: Option<Box<Trail>>,
}

impl<C: Controller> Macroflow<C> {
    pub(crate) fn new(destination: Destination, controller: C, sharing: Sharing) -> Self {
        Self {
            destination,
            controller,
            started: false,
            members: Vec::new(),
            watchers: 0,
            next_look: Time::ZERO,
            ends_at: Time::MAX,
            segregation: Segregation::default(),
            ready: false,
            is_full: false,
            scheduler: Scheduler::new(sharing.scheduling),
            granted: None,
            urgent: VecDeque::new(),
            in_flight: Bytes::ZERO,
            next_number: 0,
            last_sent: Time::ZERO,
            busy_since: Time::ZERO,
            busy_before: None,
            packet: Bytes::ZERO,
            rtt: RttEstimator::default(),
            app_limited: false,
            assumed: None,
            delivered: Delivered::default(),
            fragment: Bytes::ZERO,
            given_up: None,
            heard: Time::ZERO,
            aging: None,
            resumed: false,
            half_life: sharing.half_life,
            trail: None,
        }
    }

    pub(crate) fn start(&mut self, now: Time, path: &Path) {
        self.rtt.sample(path.rtt);
        if !self.started || self.assumed.take().is_some() {
            self.started = true;
            self.packet = path.packet;
            self.last_sent = now;
            self.begin(now, path);
        }
    }

    /// The controller begins on `path`.
    fn begin(&mut self, now: Time, path: &Path) {
        if let Some(past) = path.history {
            self.delivered.recall(past.base_rate);
        }
        self.controller.on_path(now, path);
    }

    /// Starts without a measured round trip: with that of `history`, or a guess. `last` is what an earlier macroflow
    /// measured.
    pub(crate) fn assume(&mut self, now: Time, packet: Bytes, history: Option<History>, last: Option<RoundTrip>) {
        if !self.started {
            let rtt = history.map_or(ASSUMED_RTT, |past| past.min_rtt);
            (self.started, self.assumed) = (true, Some(last.unwrap_or(UNKNOWN)));
            (self.packet, self.last_sent) = (packet, now);
            self.begin(now, &Path::new(packet, rtt, history));
        }
    }

    /// Whether its round trip is assumed, not measured.
    pub(crate) fn is_assumed(&self) -> bool {
        self.assumed.is_some()
    }

    /// The round trip, if this macroflow has measured it.
    pub(crate) fn measured(&self) -> Option<RoundTrip> {
        let is_measured = self.started && self.assumed.is_none();
        is_measured.then(|| RoundTrip { smoothed: self.rtt.smoothed(), min: self.rtt.min() })
    }

    /// The largest packet, headers included.
    pub(crate) fn packet(&self) -> Bytes {
        self.packet
    }

    /// The smoothed round-trip time, and the retransmission timeout (RFC 6298).
    pub(crate) fn round_trip(&self) -> Option<(Duration, Duration)> {
        self.started.then(|| (self.smoothed_rtt(), self.rtt.timeout(ASSUMED_RTT * 3, Duration::ZERO)))
    }

    fn smoothed_rtt(&self) -> Duration {
        self.assumed.map_or_else(|| self.rtt.smoothed(), |assumed| assumed.smoothed)
    }

    /// The controller is a new one; it starts if the path is known.
    pub(crate) fn restart(&mut self, now: Time, history: Option<History>) {
        self.app_limited = false;
        self.controller.on_flows(self.members.len());
        if self.started {
            self.begin(now, &Path::new(self.packet, self.smoothed_rtt(), history));
        }
    }

    /// Up to when it has used the path, if ever: what leaves after a silence for less than a round trip, as a connection's
    /// farewell does, is no use of it.
    pub(crate) fn last_busy(&self) -> Option<Time> {
        if self.next_number == 0 {
            return None;
        }
        let brief = self.last_sent.since(self.busy_since) < self.smoothed_rtt();
        if brief && self.busy_before.is_some() { self.busy_before } else { Some(self.last_sent) }
    }

    pub(crate) fn request(&mut self, now: Time, flow: u32, urgent: bool) {
        let first = self.scheduler.is_empty() && self.urgent.is_empty();
        if first && self.in_flight == Bytes::ZERO && now > self.last_sent && self.next_number > 0 {
            let timeout = self.rtt.timeout(Duration::from_secs(1), Duration::ZERO);
            let idle = now.since(self.last_sent);
            if idle > timeout {
                (self.busy_before, self.busy_since) = (self.last_busy(), now);
            }
            self.controller.on_idle(now, idle, timeout);
        }
        if urgent { self.urgent.push_back(flow) } else { self.scheduler.request(now, flow) }
    }

    pub(crate) fn attempt(&mut self, now: Time) -> Attempt {
        let asks = !self.scheduler.is_empty();
        if let Some(aging) = &self.aging {
            let at = self.last_sent + aging.gap(now, self.packet);
            if !asks && self.urgent.is_empty() {
                return Attempt::NothingToSend;
            }
            if at > now {
                return Attempt::TooEarly(at);
            }
        } else if self.urgent.is_empty() {
            let window = self.controller.window();
            // An empty pipe always takes one packet: a window below one packet must not stop everything.
            let fits = self.in_flight + self.packet <= window || self.in_flight == Bytes::ZERO;
            if asks && !fits {
                self.app_limited = false;
                return Attempt::WindowFull;
            }
            let departure = self.controller.departure();
            if departure.at > now {
                self.app_limited &= !asks;
                return if asks { Attempt::TooEarly(departure.at) } else { Attempt::NothingToSend };
            }
            if !asks {
                if fits && !std::mem::replace(&mut self.app_limited, true) {
                    self.controller.on_app_limited(now);
                }
                return Attempt::NothingToSend;
            }
        } else {
            let departure = self.controller.departure();
            if departure.at > now {
                return Attempt::TooEarly(departure.at);
            }
        }
        let urgent = self.urgent.pop_front();
        let granted = urgent.or_else(|| {
            self.granted = self.scheduler.next(now, self.packet);
            self.granted
        });
        granted.map_or(Attempt::NothingToSend, |flow| Attempt::Granted { flow, number: self.next_number })
    }

    /// The flow that was given leave has sent `bytes`, or nothing after all.
    pub(crate) fn sent(&mut self, now: Time, bytes: Bytes) {
        if let Some(flow) = self.granted.take() {
            self.scheduler.sent(flow, self.packet, bytes);
        }
        if bytes == Bytes::ZERO {
            return;
        }
        self.in_flight += bytes;
        self.last_sent = now;
        if let Some(trail) = &mut self.trail {
            trail.sent(now, self.next_number, self.rtt.smoothed());
        }
        let sent = Sent { number: self.next_number, bytes, in_flight: self.in_flight };
        self.next_number += 1;
        self.controller.on_sent(now, &sent);
    }

    /// It begins as a part of another one, from which flows have been split.
    pub(crate) fn split_from(&mut self, now: Time, origin: &Self, part: f64) {
        (self.rtt, self.packet, self.next_number) = (origin.rtt, origin.packet, origin.next_number);
        (self.started, self.assumed, self.last_sent) = (origin.started, origin.assumed, now);
        let history = History::new(origin.allowed().scale(part), origin.rtt.min());
        if self.started {
            self.begin(now, &Path::new(self.packet, self.smoothed_rtt(), Some(history)));
        }
    }

    /// Highest number sent so far.
    fn last_sent(&self) -> u64 {
        self.next_number.saturating_sub(1)
    }

    /// The number of the next packet. Flows that come from another macroflow must not see numbers twice.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(crate) fn skip_to(&mut self, number: u64) {
        self.next_number = self.next_number.max(number);
    }

    /// A flow that comes from another macroflow has `bytes` outstanding.
    pub(crate) fn take_over(&mut self, bytes: Bytes) {
        self.in_flight += bytes;
    }

    /// A flow joins.
    pub(crate) fn join(&mut self, flow: u32) {
        self.members.push(flow);
        self.controller.on_flows(self.members.len());
        self.ends_at = Time::MAX;
        self.scheduler.join(flow);
    }

    /// The flow's share of the macroflow.
    pub(crate) fn share(&mut self, flow: u32, share: Share) {
        self.scheduler.weigh(flow, share.weight);
        self.scheduler.classify(flow, share.class);
        self.scheduler.guarantee(flow, share.curve);
    }

    /// A flow leaves, with bytes of its own still outstanding.
    pub(crate) fn close(&mut self, now: Time, flow: u32, in_flight: Bytes) {
        self.members.retain(|&member| member != flow);
        self.controller.on_flows(self.members.len());
        self.scheduler.leave(flow);
        self.granted = self.granted.filter(|granted| *granted != flow);
        self.urgent.retain(|&f| f != flow);
        self.forget(now, in_flight);
    }

    /// How long it outlives its last flow: what is still on its way then arrives, or doesn't.
    pub(crate) fn lifetime(&self) -> Duration {
        self.rtt.timeout(ASSUMED_RTT, MIN_TIMEOUT)
    }

    fn allowed(&self) -> Rate {
        let rate = self.controller.rate().unwrap_or_else(|| Rate::of(self.controller.window(), self.smoothed_rtt()));
        rate.min(self.delivered.most())
    }

    /// Keeps what has been learnt of the path for later macroflows.
    pub(crate) fn remember(&self, now: Time, history: &mut Option<History>) {
        self.controller.remember(now, history);
        if let Some(history) = history {
            history.base_rate = history.base_rate.min(self.delivered.most());
        }
    }

    /// What it is allowed at `now`.
    pub(crate) fn rate(&self, now: Time) -> Rate {
        self.aging.map_or_else(|| self.allowed(), |aging| aging.rate(now, self.packet))
    }

    /// `share` of 1 is all of it.
    pub(crate) fn status(&self, now: Time, share: f64) -> Status {
        let rate = self.rate(now);
        Status {
            rate,
            share: rate.scale(share),
            window: self.controller.window(),
            in_flight: self.in_flight,
            smoothed_rtt: self.smoothed_rtt(),
            min_rtt: self.assumed.map_or(self.rtt.min(), |assumed| assumed.min),
            flows: self.members.len(),
        }
    }
}
