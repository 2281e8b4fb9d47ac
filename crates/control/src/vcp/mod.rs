//! VCP's end host (Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough", IEEE/ACM Transactions on Networking
//! 2008, section III-E). Its packets leave with the code of low load; routers raise it to what their links have, and each
//! acknowledgement says which of three rules the window follows:
//!
//! ```text
//! S.1  low    MI   W += (1 + xi)^min(rtt / t_rho, sigma_mi) - 1       per packet acknowledged   eq. (2), (6)
//! S.2  high   AI   W += alpha min((rtt / t_rho)^2, sigma_ai) / W      likewise                  eq. (3), (8)
//! S.3  over   MD   W = max(1, beta W), at once;                                                 eq. (4)
//!                  then W stays for t_rho and follows S.2 for srtt, whatever is told meanwhile
//! ```
//!
//! `W` is in packets. In a load interval `t_rho` it grows by 6.25% or by a packet (at `rtt = t_rho`) whatever the round
//! trip, and rates become equal. On loss it is TCP: the window is halved, once for all packets that had left before
//! (RFC 5681 equation 4, RFC 6582); after a timeout it is 1, and doubles each round trip up to half of what it was
//! (RFC 5681 section 3.1) while load is low. There is no slow start at the beginning: MI is what fills the link.
//!
//! Where the path has no codes, the sender is TCP altogether, slow start included; how it finds out is in `path`.
//!
//! *Deviation*: growth is scaled by the least round trip where the paper has the smoothed one. They are the same where no
//! queue stands, as the paper's never does. Where one does, it makes S.2 grow with its square, and the round of S.2 that
//! follows each cut gives back more than the cut took: the queue stays. 60 flows that begin at once with 10 packets each, on
//! 10 Mb/s and 80 ms with room for all, leave a queue of 1700 packets for good with the smoothed one, 1.2 with the least.
//! `round_trip = "smoothed"` is the paper's, with the paper's `min_window`.
//!
//! *Deviation*: where the round trip is longer than `t_rho`, packets are spread over it. A window that leaves in clumps, as
//! acknowledgements make room, is heard as overload in one interval and as low load in the next. 30 flows on 150 Mb/s and
//! 1.5 s fill 72% of the link as the paper has it, 93% when spread; `pacing = "never"` is the paper's.
//!
//! *Deviation*: a window may be less than a packet, which is then sent every so many round trips, where the paper's is 1 or
//! more (S.3). 30 flows on 150 Mb/s and 1 ms, 19 packets, leave a queue of 11 packets by the paper's rule, of 2.3 by
//! this. In the round that follows a cut S.2 adds at most half of what S.3 took, and below one packet half of what S.3 takes
//! from one, times W^(3/4): by the letter a round of it would give back more than the cut took, at 80 ms to windows of up to
//! 1.3; a power below 1 is what makes unequal windows equal. Where a queue stands, a round has more packets than a window
//! below one, and none follows a cut. `min_window = 1` is the paper's.
//!
//! *Choices*: only whole packets leave, so a window of 6.3 lets seven be under way in three of ten cycles, drawn with
//! each cut. If six were, flows, whose windows are equal in the end, would step together: 30 of them on 150 Mb/s and 10
//! ms fill 87% of the link then, 93% so. The rules are "per ACK"; here they count packets acknowledged, so that a
//! receiver that acknowledges every second packet does not halve the speed. While losses are being repaired, and while
//! the application is the limit, the window does not grow. The authors' simulation code departs from their paper (it
//! reads codes while the window is frozen, measures AI against 100 ms and has no slow start after a timeout); this
//! follows the paper.

mod config;
mod path;

use rampmeter_units::{Bytes, Duration, Ecn, LoadRegion, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

pub use self::config::{Config, Fairness, Pacing, RoundTrip};
use self::path::PathCheck;
pub use self::path::Trouble;
use crate::episode::Episode;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Pacer, Path, Sent};

/// VCP's end host.
#[derive(Debug, Clone)]
pub struct Vcp {
    config: Config,
    /// The largest packet.
    packet: Bytes,
    /// `W`, in packets.
    window: f64,
    /// Part of a packet, added to the window before it is cut down to whole ones. Drawn by chance with every cut: flows
    /// have equal windows in the end, and all would step from six packets to seven at once.
    rounding: f64,
    random: Stream,
    /// TCP's slow-start threshold, in packets: infinite before any congestion.
    threshold: f64,
    srtt: Duration,
    /// The round trip that growth is scaled by.
    rtt: Duration,
    /// The window stays as it is until then (S.3).
    frozen_until: Time,
    /// From there until then it follows S.2 (S.3).
    additive_until: Time,
    episode: Episode,
    path: PathCheck,
    /// Acknowledgements say which packets arrived.
    names_packets: bool,
    pacer: Pacer,
}

/// What an acknowledged packet does to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Multiplicative,
    Additive,
    /// [`Growth::Additive`], where overload was told last.
    AfterCut,
    /// TCP's, where there are no codes.
    Reno,
    None,
}

impl Vcp {
    /// Why the sender does as TCP does now; `None` while it does as VCP does.
    pub fn trouble(&self) -> Option<Trouble> {
        self.path.trouble()
    }

    /// The rule for a packet that arrived with `region`'s code, or none.
    fn growth(&self, now: Time, region: Option<LoadRegion>) -> Growth {
        if self.path.trouble().is_some() {
            return if region == Some(LoadRegion::Over) { Growth::None } else { Growth::Reno };
        }
        if now < self.frozen_until {
            return Growth::None; // S.3
        }
        if now < self.additive_until {
            // Below a packet one is always under way, and in a queue that is a round of more packets than the window: S.2
            // would give back more than the cut took, and the queue stay.
            return if self.window < 1.0 && self.queue_stands() { Growth::None } else { Growth::AfterCut }; // S.3
        }
        match region {
            Some(LoadRegion::Low) => Growth::Multiplicative, // S.1
            Some(LoadRegion::High) => Growth::Additive,      // S.2
            Some(LoadRegion::Over) | None => Growth::None,
        }
    }

    /// So many `packets` were acknowledged.
    fn grow(&mut self, growth: Growth, packets: f64) {
        let rounds = self.rtt.as_secs_f64() / self.config.load_interval.as_secs_f64(); // rtt / t_rho
        self.window += match growth {
            Growth::Reno if self.window < self.threshold => packets.min(self.threshold - self.window), // RFC 5681 eq. (2)
            // Back to half of what it was after a timeout; the beginning is MI's.
            Growth::Multiplicative if self.window < self.threshold && self.threshold.is_finite() => {
                packets.min(self.threshold - self.window)
            }
            Growth::Multiplicative => packets * self.scaled_mi(rounds),
            Growth::Additive => packets * self.scaled_ai(rounds) / self.window,
            Growth::AfterCut => packets * self.scaled_ai(rounds).min(self.max_after_cut()) / self.window,
            Growth::Reno => packets / self.window.max(1.0), // RFC 5681 eq. (3)
            Growth::None => 0.0,
        };
    }

    /// `(1 + xi)^min(rtt / t_rho, sigma_mi) - 1`, eq. (6) with its limit.
    fn scaled_mi(&self, rounds: f64) -> f64 {
        (rounds.min(self.config.mi_limit) * self.config.mi.ln_1p()).exp_m1()
    }

    /// `alpha min((rtt / t_rho)^2, sigma_ai)`, eq. (8) with its limit; less below one packet, where it would give back
    /// more than a cut takes.
    fn scaled_ai(&self, rounds: f64) -> f64 {
        let scale = match self.config.fairness {
            Fairness::Rate => rounds * rounds, // eq. (8)
            Fairness::Window => rounds,        // eq. (7)
            Fairness::Tcp => 1.0,
        };
        let added = self.config.alpha() * scale.min(self.config.ai_limit);
        if self.window < 1.0 { added.min((1.0 - self.config.md) / 2.0) * self.window.powf(0.75) } else { added }
    }

    /// Half of what a cut takes, and no less than below one packet at all; no bound where windows are the paper's.
    fn max_after_cut(&self) -> f64 {
        if self.config.min_window < 1.0 {
            (1.0 - self.config.md) / 2.0 * self.window.max(self.window.powf(0.75))
        } else {
            f64::INFINITY
        }
    }

    /// Whether packets are spread over the round trip.
    fn is_paced(&self) -> bool {
        match self.config.pacing {
            Pacing::LongPaths => self.rtt > self.config.load_interval || self.window < 1.0,
            Pacing::Never => false,
            Pacing::Always => self.rtt > Duration::ZERO,
        }
    }

    /// S.3
    fn cut(&mut self, now: Time) {
        if now < self.additive_until {
            return;
        }
        self.window = (self.config.md * self.window).max(self.config.min_window); // eq. (4)
        self.threshold = self.window;
        self.rounding = self.random.uniform();
        self.frozen_until = now + self.config.load_interval;
        self.additive_until = self.frozen_until + self.srtt;
        self.path.on_congestion(now, self.queue_stands());
    }

    /// A mark tells of overload, or of a router that knows nothing of VCP.
    fn on_marks(&mut self, now: Time, ack: &Ack<'_>) {
        if self.path.trouble().is_some() {
            if self.episode.begins_with_marks(ack) {
                self.halve(now, ack.flight_size, self.min_without_codes());
            }
        } else if ack.last_marked().is_some() && !ack.recovering {
            self.cut(now);
        }
    }

    /// TCP's answer to a loss or, where there is no VCP router, a mark; `least` packets are left.
    fn halve(&mut self, now: Time, flight_size: Bytes, least: f64) {
        self.window = self.half_of(flight_size, least);
        self.threshold = self.window;
        self.path.on_congestion(now, self.queue_stands());
    }

    /// What a mark leaves where no VCP router has told of itself, in packets. One with more flows than packets fit
    /// can't tell: it is overloaded until windows are below a packet, and its queue shows. Where none shows, marks say
    /// nothing of that.
    fn min_without_codes(&self) -> f64 {
        if self.queue_stands() { self.config.min_window } else { 1.0 }
    }

    fn queue_stands(&self) -> bool {
        self.srtt > self.rtt * 5 / 4
    }

    fn collapse(&mut self, now: Time, loss: &Loss) {
        if !loss.repeated {
            self.threshold = self.half_of(loss.flight_size, 2.0);
            self.path.on_congestion(now, self.queue_stands());
        }
        self.window = self.window.min(1.0);
        self.episode.begins(loss);
    }

    /// RFC 5681 eq. (4), in packets. No more than the window is in flight, and a loss never adds to it.
    fn half_of(&self, flight_size: Bytes, least: f64) -> f64 {
        (self.packets(flight_size).min(self.window) / 2.0).max(least.min(self.window))
    }

    fn packets(&self, bytes: Bytes) -> f64 {
        bytes.as_f64() / self.packet.as_f64().max(1.0)
    }
}

impl Algorithm for Vcp {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the marks of each packet, and routers that make them");

    fn new(config: &Config, mut random: Stream) -> Self {
        Self {
            rounding: random.uniform(),
            random,
            config: config.clone(),
            packet: Bytes::ZERO,
            window: config.initial_window as f64,
            threshold: f64::INFINITY,
            srtt: Duration::ZERO,
            rtt: Duration::ZERO,
            frozen_until: Time::ZERO,
            additive_until: Time::ZERO,
            episode: Episode::default(),
            path: PathCheck::new(config),
            names_packets: false,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Vcp {
    fn on_path(&mut self, _now: Time, path: &Path) {
        (self.packet, self.srtt, self.rtt) = (path.packet, path.rtt, path.rtt);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if let Some(rate) = self.rate() {
            self.pacer.sent(now, sent.bytes, rate);
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.on_marks(now, ack);
        self.srtt = ack.smoothed_rtt;
        self.rtt = match self.config.round_trip {
            RoundTrip::Least => ack.min_rtt,
            RoundTrip::Smoothed => ack.smoothed_rtt,
        };
        if ack.delivered == Bytes::ZERO {
            return;
        }
        let may_grow = !ack.recovering && !ack.app_limited;
        // An acknowledgement whose forerunners were lost names no packets; one that never does knows nothing of codes.
        self.names_packets |= !ack.arrivals.is_empty();
        let count = ack.arrivals.len().max(1);
        let packets = self.packets(ack.delivered) / count as f64;
        for n in 0..count {
            let region = ack.arrivals.get(n).and_then(|arrival| self.config.codes.decode(arrival.ecn));
            if n < ack.arrivals.len() || !self.names_packets {
                self.path.on_code(region);
            }
            if may_grow {
                self.grow(self.growth(now, region), packets);
            }
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        match loss.kind {
            LossKind::Persistent => self.collapse(now, loss),
            LossKind::Transient if self.episode.begins(loss) => self.halve(now, loss.flight_size, 2.0),
            LossKind::Transient => {}
        }
    }

    /// RFC 5681 section 4.1: after a silence longer than the timer, at most the first window.
    fn on_idle(&mut self, _now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window = self.window.min(self.config.initial_window as f64);
            self.threshold = f64::INFINITY; // MI fills the link again, as at the beginning
        }
    }

    fn window(&self) -> Bytes {
        // Where a cut takes less than half a packet, rounding would hide it.
        let part = if self.window * (1.0 - self.config.md) < 0.5 { 0.0 } else { self.rounding };
        self.packet * ((self.window + part) as u64).max(1)
    }

    fn departure(&self) -> Departure {
        let at = if self.is_paced() { self.pacer.next() } else { Time::ZERO };
        Departure { at, bytes: self.packet, feedback: RouterFeedback::None }
    }

    /// A window in a round trip, if packets are spread.
    fn rate(&self) -> Option<Rate> {
        self.is_paced().then(|| Rate::of(Bytes::new((self.window * self.packet.as_f64()) as u64), self.rtt))
    }

    fn ecn(&self) -> Option<Ecn> {
        Some(self.config.codes.encode(LoadRegion::Low))
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        self.trouble().map(Trouble::in_words)
    }
}

#[cfg(test)]
mod tests;
