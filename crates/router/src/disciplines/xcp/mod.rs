//! XCP's router: it computes the change of each flow's window and writes it into the flow's packets (Katabi, Handley,
//! Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM 2002, section 3.5 and Appendix A).
//! The queue is drop-tail (section 3.5).
//!
//! At the end of each control interval `d`, the flows' average round-trip time, it computes from its arrivals:
//!
//! ```text
//! d    = sum rtt^2 s / cwnd  /  sum rtt s / cwnd                 Appendix A: every flow counts once
//! phi  = alpha d S - beta Q                                      (1)   S spare bandwidth, Q persistent queue
//! h    = max(0, gamma y - |phi|)                                 (2)   y arrivals in d, of packets with a request
//! xi_p = (h + max(phi, 0)) / (d sum rtt s / cwnd)                (6)   sums over the packets of d with a request
//! xi_n = (h + max(-phi, 0)) / (d sum s)                          (9)
//! ```
//!
//! During the next interval a packet of `s` bytes with a request leaves with this change, or a smaller one it carries:
//!
//! ```text
//! change = p - n,   p = xi_p rtt^2 s / cwnd,   n = xi_n rtt s    (3), (4), (7)
//! ```
//!
//! A packet brings `cwnd` and `rtt` in its [`RouterFeedback::Xcp`], where the change is written. Positive and negative
//! feedback are distributed from one *residue* each, `(h + max(±phi, 0)) / d`, until it is used up.
//!
//! Q is the shortest queue that packets found during the last propagation delay, estimated as `d` less the current
//! queueing delay (section 3.5.1).
//!
//! **Where the paper leaves details open**, and `draft-falk-xcp-spec` and ns-2's XCP define them: before a round-trip
//! time is known, `d` is 50 ms; `d` stays between 1 ms and 1 s, longer round trips count as 1 s; no packet gets more
//! than the rest of a residue; feedback that a packet was offered above its own request counts as taken from it, so
//! that rises and falls balance for flows that are limited elsewhere; a packet without a round-trip time gets no rise.
//!
//! *Deviations*:
//! - `y` and the sum in (9) count only packets with a request, as is all of the paper's traffic. Acknowledgements and
//!   packets of other schemes count in `S`, but cannot be shuffled.
//! - The sums are scaled to the next interval, whose length may differ: 500 ms after the first 50 ms.
//! - `d` keeps its value during intervals without requests; ns-2 returns to the initial value. A link that has been
//!   idle for a whole interval stops its timers until a packet arrives.

mod feedback;

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Verdict, check_range};
use feedback::FeedbackPool;

/// The control interval before the first round-trip time is known (ns-2).
const INITIAL_INTERVAL: Duration = Duration::from_millis(50);

/// The minimum control interval (ns-2).
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The maximum control interval; longer round trips count as this (`draft-falk-xcp-spec`, ns-2).
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of XCP's router. Without a limit no packet is dropped.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The fraction of the spare bandwidth that is distributed in an interval (section 3.5.1). Below `pi / (4 sqrt 2)`,
    /// 0.555, the loop is stable for any delay (Theorem 1).
    #[default(0.4)]
    pub alpha: f64,
    /// The fraction of the persistent queue that is drained in an interval: `alpha^2 sqrt 2` (Theorem 1).
    #[default(0.226)]
    pub beta: f64,
    /// The minimum fraction of the traffic that is shuffled in an interval (section 3.5.2).
    #[default(0.1)]
    pub gamma: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("alpha", self.alpha, 0.001..=1.0, "as a share; XCP's is 0.4")?;
        for (name, value, paper) in [("beta", self.beta, 0.226), ("gamma", self.gamma, 0.1)] {
            check_range(name, value, 0.0..=1.0, &format!("as a share; XCP's is {paper}"))?;
        }
        Room::check(self.packets, self.bytes)
    }
}

/// The arrivals since the interval began.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    /// All bytes.
    all: Bytes,
    /// Bytes of packets with a request: `sum s`.
    requesting: Bytes,
    /// `sum rtt s / cwnd`, in seconds: `d` for every flow.
    rtt_by_window: f64,
    /// `sum rtt^2 s / cwnd`, in seconds squared.
    rtt_square_by_window: f64,
}

/// A drop-tail queue that writes window changes into packets.
#[derive(Debug)]
pub struct Xcp<P> {
    config: Config,
    rate: Rate,
    queue: DropTail<P>,
    /// `d`: the average round-trip time, and the length of the current interval.
    interval: Duration,
    started_at: Time,
    /// The time at which the interval ends; never, while the link is idle.
    ends_at: Time,
    arrivals: Arrivals,
    /// The shortest queue of the current measurement, in bytes.
    shortest_queue: Bytes,
    /// The time at which the measurement ends.
    measured_at: Time,
    /// `Q`: the shortest queue of the last measurement.
    persistent_queue: Bytes,
    feedback: FeedbackPool,
}

impl<P: Parcel> Xcp<P> {
    /// Appendix A, first block: a packet arrives.
    fn on_arrival(&mut self, now: Time, packet: &P) {
        if self.ends_at == Time::MAX {
            (self.started_at, self.ends_at) = (now, now + self.interval);
            self.measure(now);
        }
        self.shortest_queue = self.shortest_queue.min(self.queue.backlog().bytes);
        self.arrivals.all += packet.bytes();
        if let RouterFeedback::Xcp { window, rtt, .. } = packet.feedback()
            && rtt > Duration::ZERO
        {
            let bytes = packet.bytes().as_f64();
            let rtt_by_window = rtt.as_secs_f64() * bytes / window.as_f64().max(bytes);
            self.arrivals.requesting += packet.bytes();
            self.arrivals.rtt_by_window += rtt_by_window;
            let rtt = rtt.min(MAX_INTERVAL);
            self.arrivals.rtt_square_by_window += rtt.as_secs_f64() * rtt_by_window;
        }
    }

    /// Appendix A, second block: an interval ends.
    fn on_interval_end(&mut self, now: Time) {
        let lasted = now.since(self.started_at).as_secs_f64();
        let arrivals = std::mem::take(&mut self.arrivals);
        if arrivals.rtt_by_window > 0.0 {
            let average = Duration::from_secs_f64(arrivals.rtt_square_by_window / arrivals.rtt_by_window);
            self.interval = average.max(MIN_INTERVAL);
        }
        let d = self.interval.as_secs_f64();
        let Config { alpha, beta, gamma, .. } = self.config;
        let spare = self.rate.as_bps_f64() / 8.0 - arrivals.all.as_f64() / lasted; // S, bytes a second
        let phi = alpha * d * spare - beta * self.persistent_queue.as_f64(); // (1)
        let scale = d / lasted; // the ratio of the next interval's packets to this one's
        let y = arrivals.requesting.as_f64() * scale;
        let h = (gamma * y - phi.abs()).max(0.0); // (2)
        self.feedback =
            FeedbackPool::new((h + phi.max(0.0)) / d, (h + (-phi).max(0.0)) / d, arrivals.rtt_by_window * scale, y);
        let idle = arrivals.all == Bytes::ZERO && self.queue.backlog().packets == 0;
        self.started_at = now;
        self.ends_at = if idle { Time::MAX } else { now + self.interval };
    }

    /// The persistent queue is the shortest that arriving packets saw "during the last propagation delay, which we
    /// estimate by subtracting the local queuing delay from the average RTT" (section 3.5.1).
    fn measure(&mut self, now: Time) {
        let queue = self.queue.backlog().bytes;
        self.persistent_queue = self.shortest_queue.min(queue);
        self.shortest_queue = queue;
        let propagation = self.interval.saturating_sub(self.rate.time_to_send(queue));
        self.measured_at = now + propagation.max(MIN_INTERVAL);
    }
}

impl<P: Parcel + Send> Discipline<P> for Xcp<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, _random: Random) -> Self {
        Self {
            config: config.clone(),
            rate: environment.rate,
            queue: DropTail::with_room(config.packets, config.bytes),
            interval: INITIAL_INTERVAL,
            started_at: Time::ZERO,
            ends_at: Time::MAX,
            arrivals: Arrivals::default(),
            shortest_queue: Bytes::ZERO,
            measured_at: Time::MAX,
            persistent_queue: Bytes::ZERO,
            feedback: FeedbackPool::default(),
        }
    }
}

impl<P: Parcel> Router<P> for Xcp<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.on_arrival(now, &packet);
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let mut packet = self.queue.dequeue(now)?;
        // Appendix A, third block.
        if let RouterFeedback::Xcp { window, rtt, change } = packet.feedback() {
            let allowed = self.feedback.change(packet.bytes(), window, rtt, change);
            if allowed < change {
                packet.set_feedback(RouterFeedback::Xcp { window, rtt, change: allowed });
            }
        }
        Some(packet)
    }

    fn tick(&mut self, now: Time) {
        if self.measured_at <= now {
            self.measure(now);
        }
        if self.ends_at <= now {
            self.on_interval_end(now);
        }
        if self.ends_at == Time::MAX {
            self.measured_at = Time::MAX;
        }
    }

    fn next_tick(&self) -> Time {
        self.ends_at.min(self.measured_at)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn on_rate(&mut self, _now: Time, rate: Rate) {
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests;
