//! Stable TCP: Kelly, *On engineering a stable and scalable TCP variant*, CUED/F-INFENG/TR.435, 2002.
//!
//! Packets leave by a timer at `x = w / T`, not by acknowledgements. Each acknowledged packet moves the window by the ECN
//! code that it arrived with itself, however acknowledgements are batched. Parameters follow the round trip `T`:
//!
//! ```text
//! unmarked    w += a                      a = b S T                                    section 2 [text]
//! marked      w  = max(w_min, w - b w)    b = min(a0 / (S T), b_max)                   section 2 [text; derived for the cap]
//! soft start  w += 1 unmarked, w -= 1 marked, until N marks have come                  section 3 [text; amounts chosen]
//! a loss      w  = max(w_min, w / 2), once a window of data; soft start is over        RFC 5681, RFC 6582 [text]
//! a timeout   w  = 1, or half if it was less; then +1 an acknowledgement up to half of what it was, or the first mark
//! ```
//!
//! `w` is in packets and has parts of packets; `S`, packets a second, is one constant for all flows. Then
//! `a (1 - p) = b w p` and a flow that sees a part `p` of its packets marked sends at `x = S (1 - p) / p`, whatever its
//! round trip (derived). As `T` is in the timer and in `a` alike, a wrong `T` changes how fast that is reached, not
//! what.
//!
//! What the equilibrium says is the mean over acknowledgements. These come more often while `w` is large, so that the mean
//! over time is less by the square of the coefficient of variation, `c2 = b / ((2 - b) (1 - p))`:
//! `x = S (1 - p) / p (1 - c2)`, 7% less at `b = 0.125`, 1% at 0.02 (derived, and tested).
//!
//! A queue makes `T` longer, and the sender slower before `w` moves; soon after `a` and `b` are those of the longer
//! path.
//!
//! *Deviations*: outstanding packets are bounded by `ceil(w + 2 sqrt(w))`, the report's `ceil(w)` with `allowance = 0`.
//! A random timer has more than `w` on the way about half of the time, and the report's bound then holds packets back:
//! flows whose packets were marked at random had 0.85 to 0.94 of `S (1 - p) / p` with it, 0.79 to 0.94 where an
//! acknowledgement answers two, and 0.93 to 0.99 with 2 square roots, which is what is left of it over time (10 to 200
//! ms, `p` of 0.02 and 0.15). At a window fixed just below 1, 3, 10, 100 packets the report's bound gives 0.85, 0.86,
//! 0.89, 0.95 of `w / T`, and 2 square roots 0.996 or more. A packet that the bound holds back leaves with the
//! acknowledgement that makes room, and the next one is not put off by that (`timer`). So a flow of half a packet may
//! have two on the way.
//!
//! The timer is not re-sampled when the window moves, but runs at another speed (`timer`). The report's rule is
//! `redraw = true`, with which 5 to 100 flows on one link have 0.81 to 0.90 of `S (1 - p) / p`; without it they have
//! 0.90 to 0.99 (10 to 160 ms).
//!
//! `T` is the round trip smoothed as in RFC 6298, to which each measurement adds an eighth; the report's is the mean of
//! the last `max(1, w)` packets', with which marks, utilization and mean queue of basic operation are the same within
//! 1.4%.
//!
//! TCP's floor of two packets after a loss is not kept: it would raise windows of less, and many flows on a slow link
//! would lose without end.
//!
//! *Choices*: while losses are repaired or the application is the limit the window does not grow; marks count always.
//! Packets whose receipts were lost on the way back count neither way. Feedback that names no packets (the
//! Congestion Manager's for datagrams) counts as unmarked, but for one packet when it tells of a mark. Three losses before
//! any mark are told, where between each two of them ten marks should have come: who hears no marks has no equal share.
//! Routers that mark drop as well while a crowd begins.

mod config;
mod timer;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

pub use self::config::Config;
use self::timer::Timer;
use crate::episode::Episode;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Path, Sent};

/// So many losses before the first mark tell of a path without marks.
const UNMARKED_LOSSES: u32 = 3;

/// If since the last of them routers that mark would have marked so many packets. That is a matter of time: at any rate a flow
/// hears of `S (1 - p)` marks a second.
const MISSED_MARKS: f64 = 10.0;

/// The shortest round trip that counts.
const SHORTEST_RTT: Duration = Duration::from_micros(1);

/// A Stable TCP sender.
#[derive(Debug, Clone)]
pub struct Stable {
    config: Config,
    packet: Bytes,
    /// `T`
    rtt: Duration,
    window: Window,
    timer: Timer,
    episode: Episode,
    /// What the last answer to a loss changed, as it was before.
    before: Option<(Window, Option<Unmarked>)>,
    /// Marked packets that feedback has counted, and that are not among its bytes so far.
    marks_ahead: f64,
    /// None are counted after the first mark.
    unmarked: Option<Unmarked>,
}

/// Losses that were answered while no packet had ever been marked.
#[derive(Debug, Clone, Copy, Default)]
struct Unmarked {
    losses: u32,
    /// When the last of them was.
    last: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    /// `w`
    packets: f64,
    /// Marks until soft start is over; 0: it is.
    grace: u32,
    /// Up to here it grows by a packet an acknowledgement, after a timeout; 0 otherwise.
    threshold: f64,
}

impl Stable {
    /// The window in packets, with parts of packets.
    pub fn packets(&self) -> f64 {
        self.window.packets
    }

    /// Whether soft start goes on.
    fn in_soft_start(&self) -> bool {
        self.window.grace > 0
    }

    /// What an unmarked packet adds, and what part a marked one takes: `a` and `b`.
    fn gains(&self) -> (f64, f64) {
        let scale = self.config.sharing * self.rtt.as_secs_f64(); // S T
        let b = (self.config.gain / scale).min(self.config.max_decrease);
        (b * scale, b)
    }

    /// So many unmarked `packets` have arrived.
    fn grow(&mut self, packets: f64) {
        let fast = self.in_soft_start() || self.window.packets < self.window.threshold;
        let step = if fast { 1.0 } else { self.gains().0 };
        self.window.packets += packets * step;
    }

    /// A marked packet has arrived.
    fn shrink(&mut self) {
        self.unmarked = None;
        self.window.threshold = 0.0;
        let less = if self.in_soft_start() {
            self.window.grace -= 1;
            self.config.soft_start_decrease
        } else {
            self.gains().1 * self.window.packets
        };
        self.window.packets = (self.window.packets - less).max(self.config.min_window);
    }

    /// A loss is answered.
    fn count_unmarked(&mut self, now: Time) {
        let Some(unmarked) = &mut self.unmarked else { return };
        let enough = Duration::from_secs_f64(MISSED_MARKS / self.config.sharing);
        if unmarked.last.is_none_or(|last| now.since(last) >= enough) {
            *unmarked = Unmarked { losses: unmarked.losses.saturating_add(1), last: Some(now) };
        }
    }

    /// Packets a second: `w / T`.
    fn packet_rate(&self) -> f64 {
        self.window.packets / self.rtt.as_secs_f64()
    }

    fn retime(&mut self, now: Time) {
        let rate = self.packet_rate();
        if self.config.redraw {
            self.timer.redraw(now, rate);
        } else {
            self.timer.set_rate(now, rate);
        }
    }
}

impl Algorithm for Stable {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the marks of each packet, and routers that make them");

    fn new(config: &Config, random: Stream) -> Self {
        Self {
            packet: Bytes::ZERO,
            rtt: SHORTEST_RTT,
            window: Window { packets: config.initial_window, grace: config.soft_start_marks, threshold: 0.0 },
            timer: Timer::new(config.min_interval, config.max_interval, random),
            episode: Episode::default(),
            before: None,
            marks_ahead: 0.0,
            unmarked: Some(Unmarked::default()),
            config: config.clone(),
        }
    }
}

impl Controller for Stable {
    fn on_path(&mut self, now: Time, path: &Path) {
        (self.packet, self.rtt) = (path.packet, path.rtt.max(SHORTEST_RTT));
        let rate = self.packet_rate();
        self.timer.start(now, rate);
    }

    fn on_sent(&mut self, now: Time, _sent: &Sent) {
        self.timer.sent(now);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.smoothed_rtt.max(SHORTEST_RTT);
        let may_grow = !ack.recovering && !ack.app_limited;
        if let Some(counted) = ack.counted {
            (0..counted.marks).for_each(|_| self.shrink());
            let packets = ack.delivered.as_f64() / self.packet.as_f64().max(1.0);
            self.marks_ahead += counted.marks as f64 - packets;
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
        self.retime(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        if !self.episode.begins(loss) {
            return;
        }
        let (before, unmarked) = (self.window, self.unmarked);
        if !loss.repeated {
            self.count_unmarked(now);
        }
        let half = (before.packets / 2.0).max(self.config.min_window);
        self.window = if loss.kind == LossKind::Transient {
            Window { packets: half, grace: 0, threshold: 0.0 } // RFC 5681 eq. (4)
        } else {
            let packets = if before.packets > 1.0 { 1.0 } else { half };
            let threshold = if loss.repeated { before.threshold } else { half };
            Window { packets, grace: 0, threshold } // RFC 5681 section 3.1
        };
        self.before = (loss.kind == LossKind::Transient).then_some((before, unmarked));
        self.retime(now);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        let Some((before, unmarked)) = self.before.take() else { return };
        self.unmarked = self.unmarked.and(unmarked);
        if before.packets > self.window.packets {
            self.window = before;
            self.retime(now);
        }
    }

    /// RFC 5681 section 4.1: after a silence longer than the timer, at most the first window.
    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window.packets = self.window.packets.min(self.config.initial_window);
            self.retime(now);
        }
    }

    fn window(&self) -> Bytes {
        let packets = self.window.packets;
        let most = (packets + self.config.allowance * packets.sqrt()).ceil();
        self.packet * (most as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.timer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(Rate::from_bps_f64(self.packet_rate() * self.packet.as_f64() * 8.0))
    }

    /// Marks are its signal, whatever the flow's settings say.
    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::Ect0)
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        let without_marks = self.unmarked.is_some_and(|unmarked| unmarked.losses >= UNMARKED_LOSSES);
        without_marks.then_some(
            "packets are lost and none has been marked so far: no router marks, or one is too full for it, or the path \
             clears ECN codes; answers losses as TCP does",
        )
    }
}

#[cfg(test)]
mod tests;
