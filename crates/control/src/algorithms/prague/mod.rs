//! Prague: DCTCP made fit for the Internet (De Schepper, Tilmans, Briscoe, Goel, draft-briscoe-iccrg-prague-congestion-
//! control-04), the reference sender for L4S networks (the router `dualpi2`; RFC 9331).
//!
//! With `w` the window in fractional packets, `T` the smoothed round-trip time and `T' = max(T, rtt_virt)` (sections of
//! the draft):
//!
//! ```text
//! an unmarked packet is delivered:   w += (T / T')^2 / w                  also in round trips with marks       2.4.4
//! marks:                             w -= w alpha / 2                     once in T' and a window of data      2.4.2
//! alpha:                             alpha += g (M - alpha)               likewise; 1 at the first mark
//! a loss:                            w  = w / 2                           once a window of data, as Reno
//! slow start:                        w += 1 per unmarked packet, up to the first mark, or as `slow_start` says
//! pacing:                            w / T; 2 w / T while w is below half of the slow-start threshold
//! ```
//!
//! *Round-trip times*: a flow with a shorter round trip than `rtt_virt` grows as if it had that one. The square is from
//! one packet per `T'` and from the rate that a packet more is at `T`. If a share `p` of packets is marked, growth `(1 -
//! p) T / T'` and decrease `w p / 2` in `T'` balance at
//!
//! ```text
//! w = 2 (1 - p) / p  T / T',     rate = x / (p T'),  x = 2 (1 - p)
//! ```
//!
//! so flows up to `rtt_virt` have equal rates, and marks never saturate: growth stops only at `p = 1`. The coupling of
//! DualPI2 relies on this rate. But a flow does not reduce its window every `T'`: it waits for the next mark, of which it
//! gets `x` in `T'`. With marks at random `x / 2 = (1 - p) (1 + 1 / x)` (derived, and tested), `x = 1 + sqrt(3)` for small
//! `p`, 37% more.
//!
//! *Small windows*: at least two packets may be in flight, but the rate follows `w` below that, down to `MIN_RATE`.
//!
//! *Loss soon after marks*: the reduction by marks less than `T'` before is undone, so that one congestion halves the
//! window once. Without marks Prague is Reno that grows more slowly below `rtt_virt`.
//!
//! *Deviations*: a reduction by marks is for the time since the last one, up to `max_intervals` of `T'`, which makes up for
//! the wait: beside one CUBIC flow over DualPI2 (40 to 200 Mb/s, 10 to 40 ms) a flow gets 0.90 to 1.25 of an equal share,
//! with the draft's rule, `max_intervals = 1`, 1.00 to 1.28 (`rampmeter claims l4s prague`). The growth does not depend on
//! the round-trip time from the end of slow start on; the draft waits some hundred round trips, Linux four. Packets do
//! not become smaller at rates below two packets in `rtt_virt`. Nothing detects a classic router that marks ECT(1) packets,
//! as RFC 9331, section 4.3, requires: behind one a flow takes more than its share of classic ones.

use rampmeter_units::settings::check_range;
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::parts::check::check_first_window;
use crate::parts::episode::Episode;
use crate::parts::marked_share::{MarkedShare, Reported};
use crate::parts::pacer::Pacer;
use crate::parts::slow_start::{Detector, Step};
use crate::rules::{AckEvent, Amount, SlowStart};
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Path, Record, Sent, Settings};

/// `rtt_virt`: flows with a shorter round trip grow as if it were this long (section 2.4.4).
const RTT_VIRT: Duration = Duration::from_millis(25);

/// The rate below which neither marks nor losses reduce the window.
const MIN_RATE: Rate = Rate::from_bps(100_000);

/// Settings of Prague.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends, if no mark ends it before.
    pub slow_start: SlowStart,
    /// `g`, the weight of the newest window of data in `alpha`.
    #[default(1.0 / 16.0)]
    pub gain: f64,
    /// A reduction by marks is for the time since the last one, in `T'`, up to this many; 1: the draft's.
    #[default(2.0)]
    pub max_intervals: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("gain", self.gain, 0.0001..=0.99, "as a weight")?;
        check_range("max_intervals", self.max_intervals, 1.0..=10.0, "intervals")
    }
}

/// Packets that may be in flight with any window.
const MIN_IN_FLIGHT: f64 = 2.0;

/// The window, and what a loss that turns out spurious restores.
#[derive(Debug, Clone)]
struct Window {
    /// `w`.
    packets: f64,
    /// The slow-start threshold.
    threshold: f64,
    /// Watches the first slow start.
    detector: Detector,
}

impl Window {
    /// A window of `packets` after the first slow start.
    fn new(packets: f64, threshold: f64) -> Self {
        Self { packets, threshold, detector: Detector::None }
    }
}

/// The last reduction by marks.
#[derive(Debug, Clone, Copy)]
struct Reduction {
    at: Time,
    packets: f64,
}

/// A Prague sender.
#[derive(Debug, Clone)]
pub struct Prague {
    config: Config,
    packet: Bytes,
    /// `T`.
    rtt: Duration,
    window: Window,
    /// `alpha`; `None` before the first mark.
    marked: Option<MarkedShare>,
    reduction: Option<Reduction>,
    /// When marks last reduced the window.
    last_marks: Option<Time>,
    marks: Episode,
    losses: Episode,
    /// The window and the episode before the last reaction to a loss.
    before: Option<(Window, Episode)>,
    pacer: Pacer,
}

impl Prague {
    /// The window in fractional packets.
    pub fn packets(&self) -> f64 {
        self.window.packets
    }

    fn in_slow_start(&self) -> bool {
        self.window.packets < self.window.threshold
    }

    /// `T'`.
    fn virtual_rtt(&self) -> Duration {
        self.rtt.max(RTT_VIRT)
    }

    /// The window at the minimum rate.
    fn min_window(&self) -> f64 {
        let bytes = MIN_RATE.as_bps() as f64 / 8.0 * self.rtt.as_secs_f64();
        (bytes / self.packet.as_f64()).clamp(1e-6, MIN_IN_FLIGHT)
    }

    fn paced_rate(&self) -> Rate {
        let starting = self.window.packets < self.window.threshold / 2.0;
        let packets = self.window.packets * if starting { 2.0 } else { 1.0 };
        Rate::from_bps_f64(packets * self.packet.as_f64() * 8.0 / self.rtt.as_secs_f64()).max(MIN_RATE)
    }

    /// `packets` unmarked packets have arrived.
    fn grow(&mut self, now: Time, ack: &Ack<'_>, packets: f64) {
        let slow = if self.in_slow_start() { packets.min(self.window.threshold - self.window.packets) } else { 0.0 };
        if slow > 0.0 {
            self.grow_in_slow_start(now, ack, slow);
        }
        let ratio = self.rtt.as_secs_f64() / self.virtual_rtt().as_secs_f64();
        self.window.packets += (packets - slow) * ratio * ratio / self.window.packets; // section 2.4.4
    }

    /// `packets` unmarked packets have arrived in slow start.
    fn grow_in_slow_start(&mut self, now: Time, ack: &Ack<'_>, packets: f64) {
        let event = self.event(now, ack);
        match self.window.detector.on_ack(&event, Amount::Packets(packets)) {
            Step::Grow(Amount::Packets(packets)) => self.window.packets += packets,
            Step::Grow(Amount::Bytes(bytes)) => self.window.packets += bytes.as_f64() / self.packet.as_f64(),
            Step::End(window) => self.lower_to(self.window.packets.min(window.as_f64() / self.packet.as_f64())),
        }
    }

    fn event<'a>(&self, now: Time, ack: &'a Ack<'a>) -> AckEvent<'a> {
        let delivered = ack.delivered.as_f64() / self.packet.as_f64();
        AckEvent { now, ack, window: self.window.packets, delivered, window_bytes: self.window(), packet: self.packet }
    }

    /// Ends slow start with a window of `packets`.
    fn lower_to(&mut self, packets: f64) {
        let packets = packets.max(self.min_window());
        self.window = Window::new(packets, packets);
    }

    /// Reduces the window for the marks of `ack`, unless that was done in the last `T'` (section 2.4.2).
    fn on_marks(&mut self, now: Time, ack: &Ack<'_>) {
        if self.reduction.is_some_and(|last| now.since(last.at) < self.virtual_rtt()) {
            return;
        }
        if self.marks.starts_with_marks(ack) {
            let alpha = self.marked.as_ref().map_or(1.0, MarkedShare::alpha);
            let waited = self.last_marks.map_or(0.0, |at| now.since(at).as_secs_f64());
            let intervals = (waited / self.virtual_rtt().as_secs_f64()).clamp(1.0, self.config.max_intervals);
            self.last_marks = Some(now);
            let before = self.window.packets;
            self.lower_to(before * (1.0 - (alpha * intervals).min(1.0) / 2.0));
            self.reduction = Some(Reduction { at: now, packets: (before - self.window.packets).max(0.0) });
            self.before = None; // a mark is never spurious
        }
    }
}

impl Algorithm for Prague {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the ECN code of each packet, and L4S routers");

    fn new(config: &Config, _random: Random) -> Self {
        Self {
            config: config.clone(),
            packet: Bytes::new(1),
            rtt: Duration::from_millis(1),
            window: Window {
                packets: config.initial_window as f64,
                threshold: f64::MAX,
                detector: Detector::new(config.slow_start),
            },
            marked: None,
            reduction: None,
            last_marks: None,
            marks: Episode::default(),
            losses: Episode::default(),
            before: None,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Prague {
    fn on_path(&mut self, now: Time, path: &Path) {
        let rtt = path.rtt.max(Duration::from_micros(1));
        *self = Self { packet: path.packet, rtt, ..Self::new(&self.config, Random::from_seed(0)) };
        self.pacer.reset(now);
    }

    /// The window keeps its bytes.
    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        let factor = self.packet.as_f64() / packet.as_f64().max(1.0);
        self.window.packets *= factor;
        self.window.threshold *= factor;
        (self.packet, self.before, self.reduction) = (packet.max(Bytes::new(1)), None, None);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.window.detector.on_sent(sent.bytes);
        self.pacer.sent(now, sent.bytes, self.paced_rate());
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        self.pacer.on_notice(now, notice, self.paced_rate(), self.packet);
        match notice {
            Notice::Unsent(bytes) => self.window.detector.on_unsent(bytes),
            Notice::SpuriousLoss => {
                let Some((before, episode)) = self.before.take() else { return };
                self.losses = episode; // losses of the packets in flight get their own reaction
                if before.packets > self.window.packets {
                    self.window = before;
                }
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.smoothed_rtt.max(Duration::from_micros(1));
        let reported = Reported::of(ack, self.packet);
        if reported.marked > Bytes::ZERO && self.marked.is_none() {
            self.marked = Some(MarkedShare::new(1.0, self.config.gain));
        }
        let min_span = self.virtual_rtt();
        if let Some(marked) = &mut self.marked {
            marked.on_ack(now, ack, reported, min_span);
        }
        self.on_marks(now, ack);
        let may_grow = !ack.recovering && !ack.app_limited;
        if may_grow {
            self.grow(now, ack, ack.delivered.saturating_sub(reported.marked).as_f64() / self.packet.as_f64());
        } else {
            let event = self.event(now, ack);
            self.window.detector.on_other_ack(&event);
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let episode = self.losses.clone();
        if !self.losses.starts(loss) {
            return;
        }
        let before = self.window.clone();
        let recent = self.reduction.take().filter(|last| now.since(last.at) < self.virtual_rtt());
        let packets = before.packets + recent.map_or(0.0, |last| last.packets);
        if loss.kind == LossKind::Transient {
            self.lower_to(packets / 2.0); // RFC 5681 eq. (4)
        } else {
            let threshold = if loss.repeated_timeout { before.threshold } else { (packets / 2.0).max(MIN_IN_FLIGHT) };
            self.window = Window::new(1.0, threshold); // RFC 5681 section 3.1
        }
        if !loss.repeated_timeout {
            self.before = Some((before, episode)); // of repeated timeouts the first one counts
        }
    }

    /// RFC 5681 section 4.1: after an idle time longer than the timer, at most the first window.
    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window.packets = self.window.packets.min(self.config.initial_window as f64);
        }
        self.last_marks = self.last_marks.map(|at| (at + idle).min(now)); // the next reduction is not for the idle time
        self.pacer.reset(now);
    }

    fn window(&self) -> Bytes {
        Bytes::new((self.window.packets.max(MIN_IN_FLIGHT) * self.packet.as_f64()).ceil() as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.paced_rate())
    }

    /// L4S packets (RFC 9331, section 4.1), with any settings of the flow.
    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::Ect1)
    }

    fn record(&self, out: &mut Record) {
        out.add("window_packets", self.window.packets);
        out.add_known("marked_share", self.marked.as_ref().map(MarkedShare::alpha));
    }

    fn state(&self) -> &'static str {
        match self.in_slow_start() {
            false => "congestion_avoidance",
            true if self.window.detector.is_conservative() => "conservative_slow_start",
            true => "slow_start",
        }
    }
}

#[cfg(test)]
mod tests;
