//! Stable TCP: Kelly, *On engineering a stable and scalable TCP variant*, CUED/F-INFENG/TR.435, 2002.
//!
//! A timer with the rate `x = w / T` clocks packets out, instead of acknowledgements. Each acknowledged packet changes
//! the window by its own ECN code, also when one acknowledgement reports several packets. The parameters depend on the
//! round-trip time `T`:
//!
//! ```text
//! unmarked    w += a                      a = b S T                                    section 2 [text]
//! marked      w  = max(w_min, w - b w)    b = min(a0 / (S T), b_max)                   section 2 [text; cap derived]
//! soft start  w += 1 unmarked, w -= 1 marked, until N marks have arrived              section 3 [text; amounts chosen]
//! a loss      w  = max(w_min, w / 2), once a window of data; soft start ends           RFC 5681, RFC 6582 [text]
//! a timeout   w  = 1, or w / 2 if w <= 1; then +1 an acknowledgement up to half of the previous w, or the first mark
//! ```
//!
//! `w` is in fractional packets; `S`, in packets a second, is one constant for all flows. In equilibrium `a (1 - p) = b
//! w p`, and a flow with a share `p` of its packets marked sends at `x = S (1 - p) / p` at any round-trip time
//! (derived). Because `T` is in the timer and in `a`, an error in `T`, or a queue that increases it, changes the speed
//! of convergence, but not the equilibrium.
//!
//! The equilibrium is the mean over acknowledgements. Acknowledgements are more frequent while `w` is large, so the
//! mean over time is less by the square of the coefficient of variation, `c2 = b / ((2 - b) (1 - p))`: `x = S (1 - p) /
//! p (1 - c2)`, 7% less at `b = 0.125`, 1% less at 0.02 (derived, and tested).
//!
//! *Deviations*; `docs/stable-tcp.md` has more of their measurements:
//! - Packets in flight are limited to `ceil(w + 2 sqrt(w))`, with `allowance = 0` to the report's `ceil(w)`. A random
//!   timer has more than `w` packets in flight about half of the time, and the report's bound then delays packets: at a
//!   fixed window just below 1, 3, 10, 100 packets it gives 0.85, 0.86, 0.89, 0.95 of `w / T`, and 2 square roots 0.996
//!   or more. 5 to 200 flows on one link have 0.84 to 0.95 of `S (1 - p) / p` with it, and 0.88 to 1.00 without it (10
//!   to 160 ms). A packet that the bound delays does not delay the packet after it (`timer`), so a flow with a window
//!   of half a packet may have two in flight.
//! - `T` is the smoothed round-trip time of RFC 6298. With the report's mean of the last `max(1, w)` packets marks,
//!   utilization and mean queue of basic operation are the same within 1.4%.
//! - TCP's minimum of two packets after a loss does not apply: it would increase smaller windows, and many flows on a
//!   slow link would cause losses permanently.
//!
//! *Choices*: the timer's intervals are 0.02 to 8 means; the report's bounds are lost. With 0.25 and 3 re-sampling, the
//! report's rule, costs 12% of the rate (`timer`). During loss recovery and while application-limited the window does
//! not grow; marks always count. Packets whose receipts were lost on the return path count neither as marked nor as
//! unmarked. In feedback without receipts (the Congestion Manager's for datagrams) one packet a reported mark counts as
//! marked, and the others as unmarked. A flow that gets no marks has no equal share, so it reports that it is degraded
//! after three losses without a mark so far. Ten marks should have arrived between two such losses, because routers
//! that mark also drop packets while many flows start.

mod config;
mod sharing;
mod timer;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

pub use self::config::Config;
use self::sharing::Sharing;
use self::timer::Timer;
use crate::parts::episode::Episode;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Path, Record, Sent};

/// After so many losses before the first mark, the path counts as one without marks.
const MAX_LOSSES_WITHOUT_MARK: u32 = 3;

/// A loss counts if routers would have marked at least so many packets since the last one that counted. This is a time,
/// because at any rate a flow receives `S (1 - p)` marks a second.
const MIN_MISSING_MARKS: f64 = 10.0;

/// The minimum round-trip time in computations.
const MIN_RTT: Duration = Duration::from_micros(1);

/// The decrease of the window by a mark in soft start, in packets.
const SOFT_START_DECREASE: f64 = 1.0;

/// The bounds of the time between two packets, in mean intervals `T / w`.
const MIN_INTERVAL: f64 = 0.02;
const MAX_INTERVAL: f64 = 8.0;

/// A Stable TCP sender.
#[derive(Debug, Clone)]
pub struct Stable {
    config: Config,
    packet: Bytes,
    /// `T`.
    rtt: Duration,
    window: Window,
    sharing: Sharing,
    timer: Timer,
    episode: Episode,
    /// The state before the last reaction to a loss.
    before: Option<(Window, Option<LossesWithoutMark>, Episode)>,
    /// Marked packets in the counts of feedback that its delivered bytes do not include yet.
    marks_ahead: f64,
    /// Losses before the first mark; `None` after it.
    losses_without_mark: Option<LossesWithoutMark>,
}

/// The losses that occurred before any packet was marked.
#[derive(Debug, Clone, Copy, Default)]
struct LossesWithoutMark {
    losses: u32,
    /// The time of the last one that counted.
    last: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    /// `w`.
    packets: f64,
    /// The number of marks until soft start ends; 0 if it has ended.
    soft_start_marks_left: u32,
    /// After a timeout, the window up to which it grows by a packet an acknowledgement; 0 otherwise.
    threshold: f64,
}

impl Stable {
    /// The window in fractional packets.
    pub fn packets(&self) -> f64 {
        self.window.packets
    }

    /// Whether the flow is in soft start.
    fn in_soft_start(&self) -> bool {
        self.window.soft_start_marks_left > 0
    }

    /// Whether the window grows to the threshold after a timeout.
    fn in_slow_start(&self) -> bool {
        self.window.packets < self.window.threshold
    }

    /// `a` and `b`: the increase by an unmarked packet, and the relative decrease by a marked one.
    fn gains(&self) -> (f64, f64) {
        let scale = self.sharing.value * self.rtt.as_secs_f64(); // S T
        let b = (self.config.gain / scale).min(self.config.max_decrease);
        (b * scale, b)
    }

    /// `packets` unmarked packets have arrived.
    fn grow(&mut self, packets: f64) {
        let is_starting = self.in_soft_start() || self.in_slow_start();
        let step = if is_starting { 1.0 } else { self.gains().0 };
        self.window.packets += packets * step;
    }

    /// A marked packet has arrived.
    fn shrink(&mut self) {
        self.losses_without_mark = None;
        self.window.threshold = 0.0;
        let decrease = if self.in_soft_start() {
            self.window.soft_start_marks_left -= 1;
            SOFT_START_DECREASE
        } else {
            self.gains().1 * self.window.packets
        };
        self.window.packets = (self.window.packets - decrease).max(self.config.min_window);
    }

    /// Counts a loss, unless a packet was marked before.
    fn on_loss_without_mark(&mut self, now: Time) {
        let Some(before) = &mut self.losses_without_mark else { return };
        let min_gap = Duration::from_secs_f64(MIN_MISSING_MARKS / self.sharing.value);
        if before.last.is_none_or(|last| now.since(last) >= min_gap) {
            *before = LossesWithoutMark { losses: before.losses.saturating_add(1), last: Some(now) };
        }
    }

    /// The sending rate `w / T`, in packets a second.
    fn packet_rate(&self) -> f64 {
        self.window.packets / self.rtt.as_secs_f64()
    }

    fn set_timer_rate(&mut self, now: Time) {
        let rate = self.packet_rate();
        self.timer.set_rate(now, rate);
    }
}

impl Algorithm for Stable {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the ECN code of each packet, and routers that mark");

    fn new(config: &Config, random: Random) -> Self {
        Self {
            packet: Bytes::ZERO,
            rtt: MIN_RTT,
            window: Window {
                packets: config.initial_window,
                soft_start_marks_left: config.soft_start_marks,
                threshold: 0.0,
            },
            sharing: Sharing::new(config.sharing),
            timer: Timer::new(MIN_INTERVAL, MAX_INTERVAL, random),
            episode: Episode::default(),
            before: None,
            marks_ahead: 0.0,
            losses_without_mark: Some(LossesWithoutMark::default()),
            config: config.clone(),
        }
    }
}

impl Controller for Stable {
    fn on_path(&mut self, now: Time, path: &Path) {
        (self.packet, self.rtt) = (path.packet, path.rtt.max(MIN_RTT));
        let rate = self.packet_rate();
        self.sharing.start(now);
        self.timer.start(now, rate);
    }

    /// The window keeps its bytes. `S` counts packets of any size.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        let factor = self.packet.as_f64() / packet.as_f64();
        (self.packet, self.before) = (packet, None);
        self.window.packets *= factor;
        self.window.threshold *= factor;
        self.set_timer_rate(now);
    }

    fn on_sent(&mut self, now: Time, _sent: &Sent) {
        self.timer.sent(now);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.smoothed_rtt.max(MIN_RTT);
        if self.config.adapt_sharing {
            self.sharing.adapt(now, ack);
        }
        let may_grow = !ack.recovering && !ack.app_limited;
        if let Some(mark_count) = ack.mark_count {
            (0..mark_count.marks).for_each(|_| self.shrink());
            let packets = ack.delivered.as_f64() / self.packet.as_f64().max(1.0);
            self.marks_ahead += mark_count.marks as f64 - packets;
            if may_grow {
                self.grow((-self.marks_ahead).max(0.0));
            }
            self.marks_ahead = self.marks_ahead.max(0.0);
        }
        for arrival in ack.arrivals {
            if arrival.ecn == Ecn::Ce {
                self.shrink();
            } else if may_grow {
                self.grow(1.0);
            }
        }
        self.set_timer_rate(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let episode = self.episode.clone();
        if !self.episode.starts(loss) {
            return;
        }
        let (before, losses_without_mark) = (self.window, self.losses_without_mark);
        if !loss.repeated_timeout {
            self.on_loss_without_mark(now);
        }
        let half = (before.packets / 2.0).max(self.config.min_window);
        self.window = if loss.kind == LossKind::Transient {
            Window { packets: half, soft_start_marks_left: 0, threshold: 0.0 } // RFC 5681 eq. (4)
        } else {
            let packets = if before.packets > 1.0 { 1.0 } else { half };
            let threshold = if loss.repeated_timeout { before.threshold } else { half };
            Window { packets, soft_start_marks_left: 0, threshold } // RFC 5681 section 3.1
        };
        if !loss.repeated_timeout {
            self.before = Some((before, losses_without_mark, episode)); // of repeated timeouts the first one counts
        }
        self.set_timer_rate(now);
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        if notice == Notice::SpuriousLoss {
            let Some((before, losses_without_mark, episode)) = self.before.take() else { return };
            self.episode = episode; // losses of the packets in flight get their own reaction
            self.losses_without_mark = self.losses_without_mark.and(losses_without_mark);
            if before.packets > self.window.packets {
                self.window = before;
                self.set_timer_rate(now);
            }
        }
    }

    /// RFC 5681 section 4.1: after an idle time longer than the timer, at most the first window.
    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window.packets = self.window.packets.min(self.config.initial_window);
            self.set_timer_rate(now);
        }
        self.sharing.start(now); // no acknowledgement measured the delay in this time
    }

    fn window(&self) -> Bytes {
        let packets = self.window.packets;
        let max_packets = (packets + self.config.allowance * packets.sqrt()).ceil();
        self.packet * (max_packets as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.timer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(Rate::from_bps_f64(self.packet_rate() * self.packet.as_f64() * 8.0))
    }

    /// The scheme needs marks, so the packets are ECN-capable with any settings of the flow.
    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::Ect0)
    }

    fn record(&self, out: &mut Record) {
        out.add("window_packets", self.window.packets);
    }

    fn state(&self) -> &'static str {
        if self.in_soft_start() {
            "soft_start"
        } else if self.in_slow_start() {
            "slow_start"
        } else {
            "congestion_avoidance"
        }
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        let no_marks = self.losses_without_mark.is_some_and(|before| before.losses >= MAX_LOSSES_WITHOUT_MARK);
        no_marks.then_some(
            "packets are lost and none has been marked so far: no router marks, or one is too full to mark, or the \
             path clears ECN codes; reacts to losses as TCP does",
        )
    }
}

#[cfg(test)]
mod tests;
