//! XCP's router: it computes by how much each flow's window is to change and writes that into the flow's packets (Katabi,
//! Handley, Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM 2002, section 3.5 and
//! Appendix A). Packets wait in a drop-tail queue (section 3.5).
//!
//! Once a control interval `d`, the average round-trip time of the flows, it looks at what came in:
//!
//! ```text
//! d    = sum rtt^2 s / cwnd  /  sum rtt s / cwnd                 Appendix A: every flow counts once
//! phi  = alpha d S - beta Q                                      (1)   S spare bandwidth, Q persistent queue
//! h    = max(0, gamma y - |phi|)                                 (2)   y what came in d, of packets that ask
//! xi_p = (h + max(phi, 0)) / (d sum rtt s / cwnd)                (6)   sums over the packets of d that ask
//! xi_n = (h + max(-phi, 0)) / (d sum s)                          (9)
//! ```
//!
//! and during the next one a packet of `s` bytes that asks leaves with, unless it carries less already,
//!
//! ```text
//! change = p - n,   p = xi_p rtt^2 s / cwnd,   n = xi_n rtt s    (3), (4), (7)
//! ```
//!
//! The change is in the [`RouterFeedback::Xcp`] that the packet brings with its `cwnd` and `rtt`; without one it only
//! counts as traffic. Positive and negative feedback are handed out of one *residue* each, `(h + max(±phi, 0)) / d`; once
//! that is gone there is no more in this interval.
//!
//! Q is the shortest queue that packets found during `d` less what the queue now takes (section 3.5.1).
//!
//! **Where the paper is silent**, and what `draft-falk-xcp-spec` and ns-2's XCP do: before anything is known of round
//! trips `d` is 50 ms; `d` stays between 1 ms and 1 s, longer round trips count as 1 s; nobody gets more than what is left
//! of a residue; what a packet was offered above its own wish counts as taken from it, so that giving and taking stay in
//! balance for those who are limited elsewhere; a packet that knows no round trip gets no rise.
//!
//! *Deviations*:
//! - `y` and the sum in (9) count only packets that ask. The paper's traffic consists of nothing else; acknowledgements
//!   and other schemes' packets count in `S`, but can't be shuffled.
//! - The sums are scaled to the coming interval where it is not as long as the last one. The first is 50 ms and the next
//!   perhaps 500 ms: ten times as many packets come as have been counted.
//! - `d` outlives intervals without a packet that asks; ns-2 goes back to its first value. A link that has been idle for a
//!   whole interval stops its timers until a packet comes.

mod feedback;

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Verdict, buffer};
use feedback::Feedback;

/// Tunables of XCP's router. Without a limit nothing is ever dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait.
    pub packets: Option<u64>,
    /// Most bytes that may wait.
    pub bytes: Option<Bytes>,
    /// Share of the spare bandwidth that is given in an interval (section 3.5.1). Below `pi / (4 sqrt 2)`, 0.555, the loop is
    /// stable whatever the delay (Theorem 1).
    pub alpha: f64,
    /// Share of the persistent queue that is taken off in an interval (section 3.5.1): `alpha^2 sqrt 2` (Theorem 1).
    pub beta: f64,
    /// Share of the traffic that is redistributed in an interval, at least (section 3.5.2).
    pub gamma: f64,
    /// Control interval before the first round-trip time is known (ns-2).
    pub initial_interval: Duration,
    /// The shortest control interval (ns-2).
    pub shortest_interval: Duration,
    /// The longest control interval; longer round trips count as this (`draft-falk-xcp-spec`, ns-2).
    pub longest_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: None,
            bytes: None,
            alpha: 0.4,
            beta: 0.226,
            gamma: 0.1,
            initial_interval: Duration::from_millis(50),
            shortest_interval: Duration::from_millis(1),
            longest_interval: Duration::from_secs(1),
        }
    }
}

impl Config {
    fn buffer(&self) -> buffer::Config {
        buffer::Config { packets: self.packets, bytes: self.bytes }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if !(self.alpha > 0.0 && self.alpha <= 1.0) {
            return Err(format!("alpha = {} is not a share: above 0 and up to 1, XCP's is 0.4", self.alpha));
        }
        for (name, value, paper) in [("beta", self.beta, 0.226), ("gamma", self.gamma, 0.1)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!("{name} = {value} is not a share: 0 to 1, XCP's is {paper}"));
            }
        }
        if self.shortest_interval == Duration::ZERO {
            return Err("shortest_interval is 0: the timer would never rest; for example \"1 ms\"".into());
        }
        if !(self.shortest_interval..=self.longest_interval).contains(&self.initial_interval) {
            return Err(format!(
                "initial_interval is {}: it must be from shortest_interval, {}, to longest_interval, {}",
                self.initial_interval, self.shortest_interval, self.longest_interval
            ));
        }
        self.buffer().check()
    }
}

/// What came in since the interval began.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    /// All bytes.
    all: Bytes,
    /// Bytes of packets that ask: `sum s`.
    asking: Bytes,
    /// `sum rtt s / cwnd`, in seconds: `d` for every flow.
    rtt_by_window: f64,
    /// `sum rtt^2 s / cwnd`, in seconds squared.
    rtt_square_by_window: f64,
}

/// A drop-tail queue that tells flows by how much to change.
#[derive(Debug)]
pub struct Xcp<P> {
    config: Config,
    rate: Rate,
    queue: DropTail<P>,
    /// `d`: the average round-trip time, and the length of the present interval.
    interval: Duration,
    began_at: Time,
    /// When the interval ends; never, while the link is idle.
    ends_at: Time,
    arrivals: Arrivals,
    /// The shortest queue of the present measurement.
    shortest: Bytes,
    /// When that is over.
    measured_at: Time,
    /// `Q`: the shortest queue of the last measurement.
    persistent: Bytes,
    feedback: Feedback,
}

impl<P: Parcel> Xcp<P> {
    /// Appendix A, first block: a packet comes.
    fn note(&mut self, now: Time, packet: &P) {
        if self.ends_at == Time::MAX {
            (self.began_at, self.ends_at) = (now, now + self.interval);
            self.measure(now);
        }
        self.shortest = self.shortest.min(self.queue.backlog().bytes);
        self.arrivals.all += packet.bytes();
        if let RouterFeedback::Xcp { window, rtt, .. } = packet.feedback() {
            if rtt > Duration::ZERO {
                let bytes = packet.bytes().as_f64();
                let rtt_by_window = rtt.as_secs_f64() * bytes / window.as_f64().max(bytes);
                self.arrivals.asking += packet.bytes();
                self.arrivals.rtt_by_window += rtt_by_window;
                let rtt = rtt.min(self.config.longest_interval);
                self.arrivals.rtt_square_by_window += rtt.as_secs_f64() * rtt_by_window;
            }
        }
    }

    /// Appendix A, second block: an interval is over.
    fn decide(&mut self, now: Time) {
        let lasted = now.since(self.began_at).as_secs_f64();
        let arrivals = std::mem::take(&mut self.arrivals);
        if arrivals.rtt_by_window > 0.0 {
            let average = Duration::from_secs_f64(arrivals.rtt_square_by_window / arrivals.rtt_by_window);
            self.interval = average.max(self.config.shortest_interval);
        }
        let d = self.interval.as_secs_f64();
        let Config { alpha, beta, gamma, .. } = self.config;
        let spare = self.rate.as_bps_f64() / 8.0 - arrivals.all.as_f64() / lasted; // S, bytes a second
        let phi = alpha * d * spare - beta * self.persistent.as_f64(); // (1)
        let expected = d / lasted; // of this interval's packets, in the next
        let y = arrivals.asking.as_f64() * expected;
        let h = (gamma * y - phi.abs()).max(0.0); // (2)
        self.feedback =
            Feedback::new((h + phi.max(0.0)) / d, (h + (-phi).max(0.0)) / d, arrivals.rtt_by_window * expected, y);
        let idle = arrivals.all == Bytes::ZERO && self.queue.backlog().packets == 0;
        self.began_at = now;
        self.ends_at = if idle { Time::MAX } else { now + self.interval };
    }

    /// The persistent queue is the shortest that arriving packets saw "during the last propagation delay, which we estimate
    /// by subtracting the local queuing delay from the average RTT" (section 3.5.1).
    fn measure(&mut self, now: Time) {
        let queue = self.queue.backlog().bytes;
        self.persistent = self.shortest.min(queue);
        self.shortest = queue;
        let propagation = self.interval.saturating_sub(self.rate.time_to_send(queue));
        self.measured_at = now + propagation.max(self.config.shortest_interval);
    }

    /// Appendix A, third block: a packet leaves.
    fn answer(&mut self, packet: &mut P) {
        let RouterFeedback::Xcp { window, rtt, change } = packet.feedback() else { return };
        let allowed = self.feedback.change(packet.bytes(), window, rtt, change);
        if allowed < change {
            packet.set_feedback(RouterFeedback::Xcp { window, rtt, change: allowed });
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for Xcp<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        Self {
            config: config.clone(),
            rate: environment.rate,
            queue: DropTail::new(&config.buffer(), environment, random),
            interval: config.initial_interval,
            began_at: Time::ZERO,
            ends_at: Time::MAX,
            arrivals: Arrivals::default(),
            shortest: Bytes::ZERO,
            measured_at: Time::MAX,
            persistent: Bytes::ZERO,
            feedback: Feedback::default(),
        }
    }
}

impl<P: Parcel> Router<P> for Xcp<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.note(now, &packet);
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let mut packet = self.queue.dequeue(now)?;
        self.answer(&mut packet);
        Some(packet)
    }

    fn tick(&mut self, now: Time) {
        if self.measured_at <= now {
            self.measure(now);
        }
        if self.ends_at <= now {
            self.decide(now);
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
