//! VCP's end host (Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough", IEEE/ACM Transactions on
//! Networking 2008, section III-E). Its packets are sent with the code of low load. Routers raise the code to the load
//! of their links, and the code in each acknowledgement selects one of three rules for the window:
//!
//! ```text
//! S.1  low    MI   W += (1 + xi)^min(rtt / t_rho, sigma_mi) - 1       per packet acknowledged   eq. (2), (6)
//! S.2  high   AI   W += alpha min((rtt / t_rho)^2, sigma_ai) / W      likewise                  eq. (3), (8)
//! S.3  over   MD   W = max(1, beta W), at once;                                                 eq. (4)
//!                  then W is constant for t_rho and follows S.2 for srtt, with any codes
//! ```
//!
//! `W` is in packets. In a load interval `t_rho` it grows by 6.25% or by a packet (at `rtt = t_rho`) at any round trip,
//! and rates become equal. The reaction to losses is TCP's: the window is halved, once for all packets sent before (RFC
//! 5681 equation 4, RFC 6582). After a timeout it is 1, and doubles each round trip up to half of the previous window
//! (RFC 5681 section 3.1) while the load is low. A flow does not begin with slow start: MI fills the link.
//!
//! With graded codes, `GRADED`, the window follows the degree of the load, without cuts: see `vcp_plus`.
//!
//! If no codes arrive, the sender behaves as TCP, including slow start; `path` detects this.
//!
//! *Deviations*; `docs/vcp.md` has their measurements:
//! - The minimum round trip scales growth, where the paper has the smoothed one. A standing queue increases S.2 with
//!   its square, and the round of S.2 after each cut then adds more than the cut removed: with the paper's `min_window`,
//!   too, 60 flows that start at once on 10 Mb/s and 80 ms keep a queue of 1540 packets in a buffer of 2000, and of 1.4
//!   with the minimum (`standing_queue.toml`). `round_trip = "smoothed"` is the paper's.
//! - Where the round trip is longer than `t_rho`, packets are spread over it, because routers measure bursts as
//!   overload in one interval and low load in the next: 30 flows on 150 Mb/s and 1.5 s use 72% of the link with the
//!   paper's rule and 93% when spread. `pacing = "never"` is the paper's.
//! - A window may be less than a packet, and one packet is then sent every several round trips; the paper's is 1 or
//!   more (S.3). 30 flows on 150 Mb/s and 1 ms, 19 packets, keep a queue of 11 packets with the paper's rule, and of
//!   2.3 with this one. In the round after a cut, S.2 adds at most half of the amount that S.3 removed (the paper's
//!   rule adds more than the cut removed, at 80 ms for windows of up to 1.3); below one packet, half of what S.3
//!   removes from a window of one, times W^(3/4), because a power below 1 makes unequal windows converge. With a
//!   standing queue, a round has more packets than a window below one, so no round of S.2 follows a cut. `min_window =
//!   1` is the paper's.
//!
//! *Choices*: only whole packets are sent, so with a window of 6.3 seven are in flight in three of ten cycles, chosen
//! at random with each cut. If it were always six, flows would change their windows at the same times: 30 flows on 150
//! Mb/s and 10 ms would use 87% of the link instead of 93% (`rounding = "down"`). The rules are "per ACK"; here they
//! count packets acknowledged, so a receiver that acknowledges every second packet does not halve the growth. The window
//! does not grow during loss recovery or while application-limited. The authors' simulation code reads codes while the
//! window is frozen, scales AI by 100 ms and has no slow start after a timeout; here it is as in the paper.

mod config;
pub(crate) mod graded;
mod path;

use rampmeter_units::{Bytes, Duration, Ecn, LoadRegion, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

pub use self::config::{Config, Fairness, Pacing, RoundTrip, Rounding};
use self::path::PathCheck;
pub use self::path::PathFault;
use crate::parts::episode::Episode;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Record, Sent};

/// `sigma_mi`: the maximum number of load intervals in a round trip for MI.
pub(crate) const MAX_MI_ROUNDS: f64 = 2.5;

/// VCP's end host; with `GRADED` codes that of VCP+.
#[derive(Debug, Clone)]
pub struct Vcp<const GRADED: bool = false> {
    config: Config,
    /// The largest packet.
    packet: Bytes,
    /// `W`: the window, in packets.
    window: f64,
    /// The fraction of a packet that is added to the window before it is rounded down. Sampled at every cut: the
    /// windows of flows converge, and otherwise all would grow from six packets to seven at once. With graded codes it
    /// is sampled at `next_rounding`.
    rounding: f64,
    next_rounding: Time,
    random: Random,
    /// TCP's slow-start threshold, in packets: infinite before any congestion.
    threshold: f64,
    srtt: Duration,
    /// The round trip that scales VCP's growth; with graded codes the minimum, which shows standing queues.
    rtt: Duration,
    /// The window is constant until this time (S.3).
    frozen_until: Time,
    /// Then it follows S.2 until this time (S.3).
    additive_until: Time,
    /// The pause below one packet begins here: when a packet was last delivered, or at the last timeout.
    pause_from: Time,
    episode: Episode,
    /// The window, the threshold and the episode before the last reaction to a loss.
    before: Option<(f64, f64, Episode)>,
    path: PathCheck,
    pacer: Pacer,
}

/// The effect of an acknowledged packet on the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Multiplicative,
    Additive,
    /// [`Growth::Additive`] in the round trip after a cut.
    AfterCut,
    /// By graded codes.
    Graded(LoadRegion),
    /// TCP's, on a path without codes.
    Reno,
    None,
}

impl<const GRADED: bool> Vcp<GRADED> {
    pub(crate) fn with_config(config: &Config, mut random: Random) -> Self {
        Self {
            rounding: random.uniform(),
            next_rounding: Time::ZERO,
            random,
            config: config.clone(),
            packet: Bytes::ZERO,
            window: config.initial_window as f64,
            threshold: f64::INFINITY,
            srtt: Duration::ZERO,
            rtt: Duration::ZERO,
            frozen_until: Time::ZERO,
            additive_until: Time::ZERO,
            pause_from: Time::ZERO,
            episode: Episode::default(),
            before: None,
            path: PathCheck::new(config, GRADED),
            pacer: Pacer::default(),
        }
    }

    /// Why the sender behaves as TCP now; `None` while it behaves as VCP.
    pub fn fault(&self) -> Option<PathFault> {
        self.path.fault()
    }

    /// The rule for a packet that arrived with the code of `region`, or without a code.
    fn growth(&self, now: Time, region: Option<LoadRegion>) -> Growth {
        if self.path.fault().is_some() {
            return if region == Some(LoadRegion::Over) { Growth::None } else { Growth::Reno };
        }
        if GRADED {
            return region.map_or(Growth::None, Growth::Graded);
        }
        if now < self.frozen_until {
            return Growth::None; // S.3
        }
        if now < self.additive_until {
            // With a window below one, one packet is always in flight. With a queue that is more packets a round than
            // the window: S.2 would add more than the cut removed, and the queue would remain.
            return if self.window < 1.0 && self.has_standing_queue() { Growth::None } else { Growth::AfterCut }; // S.3
        }
        match region {
            Some(LoadRegion::Low) => Growth::Multiplicative, // S.1
            Some(LoadRegion::High) => Growth::Additive,      // S.2
            Some(LoadRegion::Over) | None => Growth::None,
        }
    }

    /// The round trip in which a window is sent, and which scales growth. A full window waits for acknowledgements with
    /// graded codes, so queues count: otherwise a flow over seven queues would have less than an equal rate.
    fn round_trip(&self) -> Duration {
        if GRADED { self.srtt } else { self.rtt }
    }

    /// The number of load intervals in a round trip, `rtt / t_rho`.
    fn rounds(&self) -> f64 {
        self.round_trip().as_secs_f64() / self.config.load_interval.as_secs_f64()
    }

    /// Applies `growth` to `packets` acknowledged packets.
    fn grow(&mut self, growth: Growth, packets: f64) {
        let rounds = self.rounds();
        self.window += match growth {
            Growth::Reno if self.window < self.threshold => packets.min(self.threshold - self.window), // RFC 5681 eq. (2)
            // After a timeout, up to half of the previous window. At the start of a flow MI applies.
            Growth::Multiplicative if self.window < self.threshold && self.threshold.is_finite() => {
                packets.min(self.threshold - self.window)
            }
            Growth::Graded(region) => packets * graded::change(&self.config, region, self.window, rounds),
            Growth::Multiplicative => packets * self.scaled_mi(rounds),
            Growth::Additive => packets * self.scaled_ai(rounds) / self.window,
            Growth::AfterCut => packets * self.scaled_ai(rounds).min(self.max_after_cut()) / self.window,
            Growth::Reno => packets / self.window.max(1.0), // RFC 5681 eq. (3)
            Growth::None => 0.0,
        };
        self.window = self.window.max(self.config.min_window);
    }

    /// `(1 + xi)^min(rtt / t_rho, sigma_mi) - 1`, eq. (6) with its limit.
    fn scaled_mi(&self, rounds: f64) -> f64 {
        libm::expm1(rounds.min(MAX_MI_ROUNDS) * libm::log1p(self.config.mi))
    }

    /// `alpha min((rtt / t_rho)^2, sigma_ai)`, eq. (8) with its limit. It is less below one packet, where a round would
    /// otherwise add more than a cut removes.
    fn scaled_ai(&self, rounds: f64) -> f64 {
        let scale = match self.config.fairness {
            Fairness::Rate => rounds * rounds, // eq. (8)
            Fairness::Window => rounds,        // eq. (7)
            Fairness::Tcp => 1.0,
        };
        let added = self.config.alpha() * scale.min(self.config.ai_limit);
        if self.window < 1.0 { added.min((1.0 - self.config.md) / 2.0) * libm::pow(self.window, 0.75) } else { added }
    }

    /// The limit of S.2 after a cut: half of the amount of a cut, and at least the limit below one packet. There is
    /// none with the paper's windows.
    fn max_after_cut(&self) -> f64 {
        if self.config.min_window < 1.0 {
            (1.0 - self.config.md) / 2.0 * self.window.max(libm::pow(self.window, 0.75))
        } else {
            f64::INFINITY
        }
    }

    /// Whether packets are spread over the round trip.
    fn is_paced(&self) -> bool {
        GRADED
            || match self.config.pacing {
                Pacing::LongPaths => self.rtt > self.config.load_interval || self.window < 1.0,
                Pacing::Never => false,
                Pacing::Always => true,
            }
    }

    /// Rule S.3.
    fn cut(&mut self, now: Time) {
        if now < self.additive_until {
            return;
        }
        self.window = (self.config.md * self.window).max(self.config.min_window); // eq. (4)
        self.threshold = self.window;
        self.rounding = self.random.uniform();
        self.frozen_until = now + self.config.load_interval;
        self.before = None; // a code is never spurious
        self.additive_until = self.frozen_until + self.srtt;
        self.path.on_congestion(now, self.has_standing_queue());
    }

    /// A mark is the code of overload, or of a router that does not support VCP.
    fn on_marks(&mut self, now: Time, ack: &Ack<'_>) {
        if self.path.fault().is_some() {
            if self.episode.starts_with_marks(ack) {
                // A VCP router with more flows than packets fit on its path cannot be detected: it reports overload
                // until windows are below a packet, and has a standing queue. Otherwise a packet remains.
                let min = if self.has_standing_queue() { self.config.min_window } else { 1.0 };
                self.halve(now, ack.flight_size, min);
            }
        } else if GRADED {
            if ack.last_marked().is_some() && now >= self.frozen_until {
                self.frozen_until = now + self.config.load_interval; // the path check counts one overload an interval
                self.path.on_congestion(now, self.has_standing_queue());
            }
        } else if ack.last_marked().is_some() && !ack.recovering {
            self.cut(now);
        }
    }

    /// TCP's reaction to a loss or, without a VCP router, to a mark. At least `min` packets remain.
    fn halve(&mut self, now: Time, flight_size: Bytes, min: f64) {
        self.window = self.halved(flight_size, min);
        self.threshold = self.window;
        self.path.on_congestion(now, self.has_standing_queue());
    }

    /// TCP's two packets. With graded codes a window below that is halved, too: otherwise the flows that return after
    /// their timeouts would be more than the link carries, and cause the next losses.
    fn min_after_loss(&self) -> f64 {
        if GRADED && self.fault().is_none() { self.config.min_window } else { 2.0 }
    }

    fn has_standing_queue(&self) -> bool {
        self.srtt > self.rtt * 5 / 4
    }

    fn on_timeout(&mut self, now: Time, loss: &Loss) {
        if !loss.repeated_timeout {
            self.threshold = self.halved(loss.flight_size, self.min_after_loss());
            self.path.on_congestion(now, self.has_standing_queue());
            self.pause_from = now; // the packet has left the path, as after an acknowledgement
        }
        self.window = self.window.min(self.threshold).min(1.0);
    }

    /// RFC 5681 eq. (4), in packets. `FlightSize` counts as at most the window, and a loss never increases the window.
    fn halved(&self, flight_size: Bytes, min: f64) -> f64 {
        (self.packets(flight_size).min(self.window) / 2.0).max(min.min(self.window))
    }

    fn packets(&self, bytes: Bytes) -> f64 {
        bytes.as_f64() / self.packet.as_f64().max(1.0)
    }
}

impl Algorithm for Vcp {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the ECN code of each packet, and VCP routers");

    fn new(config: &Config, random: Random) -> Self {
        Self::with_config(config, random)
    }
}

impl<const GRADED: bool> Controller for Vcp<GRADED> {
    fn on_path(&mut self, _now: Time, path: &Path) {
        (self.packet, self.srtt, self.rtt) = (path.packet, path.rtt, path.rtt);
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        let factor = self.packet.as_f64() / packet.as_f64();
        (self.packet, self.window, self.threshold) = (packet, self.window * factor, self.threshold * factor);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if let Some(rate) = self.rate() {
            let rate = if GRADED { rate.scale(graded::pacing_gain(self.rounds())) } else { rate };
            self.pacer.sent(now, sent.bytes, rate);
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unpaced => self.pacer.bound(now),
            Notice::SpuriousLoss => {
                let Some((window, threshold, episode)) = self.before.take() else { return };
                self.episode = episode; // losses of the packets in flight get their own reaction
                if window > self.window {
                    (self.window, self.threshold) = (window, threshold);
                }
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.on_marks(now, ack);
        self.srtt = ack.smoothed_rtt;
        self.rtt = match self.config.round_trip {
            RoundTrip::Min => ack.min_rtt,
            RoundTrip::Smoothed => ack.smoothed_rtt,
        };
        if ack.delivered == Bytes::ZERO {
            return;
        }
        self.pause_from = now;
        if GRADED && now >= self.next_rounding {
            self.rounding = self.random.uniform();
            self.next_rounding = now + self.config.load_interval * graded::INTERVALS_PER_ROUNDING;
        }
        let may_grow = !ack.recovering && !ack.app_limited && !self.episode.stops_growth(ack);
        // Feedback that counts packets reports no codes. An acknowledgement that lists none hides them, after lost ones
        // or for a transmission that had counted as lost.
        let hides_codes = ack.arrivals.is_empty() && ack.mark_count.is_none();
        let count = ack.arrivals.len().max(1);
        let packets = self.packets(ack.delivered) / count as f64;
        for n in 0..count {
            let region = ack.arrivals.get(n).and_then(|arrival| self.config.codes.decode(arrival.ecn));
            if !hides_codes {
                self.path.on_code(region);
            }
            let growth = self.growth(now, region);
            if may_grow || growth == Growth::Graded(LoadRegion::Over) {
                self.grow(growth, packets);
            }
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let before = (self.window, self.threshold, self.episode.clone());
        if !self.episode.starts(loss) {
            return;
        }
        match loss.kind {
            LossKind::Persistent => self.on_timeout(now, loss),
            LossKind::Transient => self.halve(now, loss.flight_size, self.min_after_loss()),
        }
        if !loss.repeated_timeout {
            self.before = Some(before); // of repeated timeouts the first one counts
        }
    }

    /// RFC 5681 section 4.1: after an idle time longer than the timer, at most the first window.
    fn on_idle(&mut self, _now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window = self.window.min(self.config.initial_window as f64);
            self.threshold = f64::INFINITY; // MI fills the link again, as at the start
        }
    }

    fn window(&self) -> Bytes {
        // Rounding up would hide a cut of less than half a packet.
        let hides_cut = !GRADED && self.window * (1.0 - self.config.md) < 0.5;
        let is_up = self.config.rounding == Rounding::Random && !hides_cut;
        let fraction = if is_up { self.rounding } else { 0.0 };
        self.packet * ((self.window + fraction) as u64).max(1)
    }

    fn departure(&self) -> Departure {
        let mut at = if self.is_paced() { self.pacer.next() } else { Time::ZERO };
        if GRADED && self.window < 1.0 {
            at = at.max(self.pause_from + graded::pause(self.window, self.round_trip()));
        }
        Departure { at, bytes: self.packet, feedback: RouterFeedback::None }
    }

    /// The window over a round trip, if packets are spread.
    fn rate(&self) -> Option<Rate> {
        self.is_paced().then(|| Rate::of(Bytes::new((self.window * self.packet.as_f64()) as u64), self.round_trip()))
    }

    fn ecn(&self) -> Option<Ecn> {
        Some(self.config.codes.encode(LoadRegion::Low))
    }

    fn has_own_codes(&self) -> bool {
        true
    }

    /// VCP has slow start after a timeout only, and with graded codes never.
    fn record(&self, out: &mut Record) {
        out.add("window_packets", self.window);
        out.add_known("threshold_packets", Some(self.threshold).filter(|threshold| threshold.is_finite()));
    }

    fn state(&self) -> &'static str {
        let in_slow_start = self.window < self.threshold;
        match self.fault() {
            Some(_) if in_slow_start => "slow_start",
            Some(_) => "congestion_avoidance",
            None if in_slow_start && self.threshold.is_finite() && !GRADED => "slow_start",
            None => "router_feedback",
        }
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        self.fault().map(PathFault::description)
    }
}

#[cfg(test)]
mod tests;
