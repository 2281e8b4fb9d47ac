//! `SCReAMv2`: rate adaptation for real-time media (Johansson, Westerlund, Kühlewind, draft-ietf-ccwg-rfc8298bis-screamv2,
//! before draft-johansson-ccwg-rfc8298bis-screamv2; the text of August 2026).
//!
//! With `W` the reference window, `T` the smoothed round-trip time, `T_v` 25 ms (`VIRTUAL_RTT`), `q` the queueing delay and
//! `Q` its target (names of the draft's sections at the right):
//!
//! ```text
//! bytes newly acknowledged:  W += bytes MSS / W  min(1, T / T_v)  max(1/4, s)  m     Reference Window Increase
//!                            only while W <= MSS + 1.5 times the maximum of the bytes in flight in two round trips
//! multiplicative part:       m  = 1 + 0.02 W / MSS  c s
//! s, near the last maximum:  clamp((8 (W - W_i) / W_i)^2, 0.1, 1)                    W_i: W at the last congestion
//! c, after a congestion:     the time since it, in 100 round trips, at most 1
//!
//! at most once in min(T, T_v):                                                      Reference Window Reduction
//! a loss:                    W *= 0.7
//! marks, classic:            W *= 0.8
//! marks, L4S:                W *= 1 - alpha / 2 / max(1, T / T_v)                    alpha: share of marked packets
//! q_avg > Q / 2:             W *= 1 - alpha_v / 2 / max(1, T / T_v)                  alpha_v = (2 q_avg - Q) / Q, 0 to 1
//!
//! media rate:                8 W / T / 1.2                                           Media Rate Control
//! pacing:                    1.5 times the media rate                                Packet Pacing
//! bytes in flight:           up to 3 W                                               Send Window Calculation
//! ```
//!
//! An encoder follows the media rate ([`Controller::rate`]). Frames vary in size, so the flow may send faster than it, and
//! more than the window may be in flight. In equilibrium with L4S growth and decrease balance at two marks in a round trip
//! (`alpha W / 2 = MSS`), and without marks the queueing delay is a little more than half of its target.
//!
//! *Deviations*: `MSS` is the packet size of the path. The queueing delay is the minimum of the last four packets' (RFC
//! 6817's filter, `ledbat/delays.rs`). The queue between encoder and sender is unknown here, so the media rate has no
//! corrections for it (`rate_adjust_factor`, `frame_size_dev`), and pacing is not relaxed near a maximum rate. It has no
//! minimum (`TARGET_BITRATE_MIN`) and does not leave out headers (`PACKET_OVERHEAD`): an encoder that needs either applies
//! it. Only delivered bytes let the window grow, where the draft also counts lost ones (`bytes_newly_acked`). Not here:
//! what the draft calls optional (`REDUCE_JITTER`, thresholds for link-layer losses and policers, undershoot), its clock
//! drift remedy beside that of RFC 6817, and the larger target beside flows that fill queues. A timeout leaves the minimum
//! window; in media it is a lost feedback path.

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::ledbat::delays::Delays;
use crate::parts::check::require;
use crate::parts::pacer::Pacer;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Path, Sent, Settings};

/// `MIN_REF_WND`, in packets of the draft's `MSS`.
const MIN_WINDOW: f64 = 3.0;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
const MUL_INCREASE_FACTOR: f64 = 0.02;
const POST_CONGESTION_DELAY_RTTS: f64 = 100.0;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.5;
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
const L4S_AVG_G_UP: f64 = 1.0 / 8.0;
const L4S_AVG_G_DOWN: f64 = 1.0 / 128.0;
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
/// `REF_WND_OVERHEAD_MAX`: without an estimate of jitter the overhead is always the maximum.
const REF_WND_OVERHEAD: f64 = 3.0;
const PACKET_PACING_HEADROOM: f64 = 1.5;
/// What the media rate is below the rate of the window.
const MEDIA_RATE_MARGIN: f64 = 1.2;
/// The encoder's maximum rate. The window does not grow while the media rate is this.
const TARGET_BITRATE_MAX: Rate = Rate::from_bps(1_000_000_000);
const RATE_PACE_MIN: Rate = Rate::from_bps(50_000);
/// `l4s_alpha` is updated once in this time or in a round trip, if that is shorter.
const ALPHA_INTERVAL: Duration = Duration::from_millis(10);

/// Settings of `SCReAMv2`.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `IS_L4S`: packets ask L4S routers for marks (ECT(1)).
    pub l4s: bool,
    /// `QDELAY_TARGET_LO`: the target of the queueing delay.
    #[default(Duration::from_millis(60))]
    pub target: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let error = || format!("target is {}: write \"1 ms\" to \"1 s\"; \"60 ms\" is usual", self.target);
        require((Duration::from_millis(1)..=Duration::from_secs(1)).contains(&self.target), error)
    }
}

/// `l4s_alpha`: the average share of marked packets, which rises faster than it falls.
#[derive(Debug, Clone, Default)]
struct Alpha {
    share: f64,
    updated: Time,
    delivered: u64,
    marked: u64,
}

impl Alpha {
    fn on_ack(&mut self, now: Time, delivered: u64, marked: u64, rtt: Duration) {
        self.delivered += delivered;
        self.marked += marked;
        if now.since(self.updated) < rtt.min(ALPHA_INTERVAL) || self.delivered == 0 {
            return;
        }
        let fraction = self.marked as f64 / self.delivered as f64;
        if fraction >= self.share {
            self.share += L4S_AVG_G_UP * (fraction - self.share);
        } else {
            self.share *= 1.0 - L4S_AVG_G_DOWN;
        }
        (self.updated, self.delivered, self.marked) = (now, 0, 0);
    }
}

/// The maximum number of bytes in flight in this round trip and in the last one.
#[derive(Debug, Clone, Default)]
struct MaxInFlight {
    began: Time,
    current: Bytes,
    previous: Bytes,
}

impl MaxInFlight {
    fn on_ack(&mut self, now: Time, rtt: Duration) {
        if now.since(self.began) >= rtt {
            (self.began, self.previous, self.current) = (now, self.current, Bytes::ZERO);
        }
    }

    fn max(&self) -> Bytes {
        self.current.max(self.previous)
    }
}

/// A `SCReAMv2` sender.
#[derive(Debug, Clone)]
pub struct Scream {
    config: Config,
    /// `MSS`.
    packet: Bytes,
    /// `s_rtt`.
    rtt: Duration,
    /// `ref_wnd`, in bytes.
    window: f64,
    /// `ref_wnd_i`; `None` before the first congestion.
    inflection: Option<f64>,
    /// `ref_wnd_i_update_allowed`.
    has_grown: bool,
    delays: Delays,
    /// `qdelay_avg`, and when it was updated.
    delay: Duration,
    delay_updated: Time,
    alpha: Alpha,
    in_flight: MaxInFlight,
    /// Losses and marks since the last reaction.
    lost: bool,
    marked: bool,
    /// `last_congestion_detected_time`.
    congested: Option<Time>,
    /// `last_reaction_to_congestion_time`.
    reacted: Option<Time>,
    pacer: Pacer,
}

impl Scream {
    fn min_window(&self) -> f64 {
        MIN_WINDOW * self.packet.as_f64()
    }

    /// The packets that arrived, and how many of them are marked. Where feedback counts marks, packets are full.
    fn packets(&self, ack: &Ack<'_>) -> (u64, u64) {
        if let Some(count) = ack.mark_count {
            return (ack.delivered.as_u64().div_ceil(self.packet.as_u64()), count.marks);
        }
        let marked = ack.arrivals.iter().filter(|arrival| arrival.ecn == Ecn::Ce).count();
        (ack.arrivals.len().max(1) as u64, marked as u64)
    }

    /// `s`: close to the last maximum the window changes slowly.
    fn inflection_scale(&self) -> f64 {
        let Some(inflection) = self.inflection else { return 1.0 };
        (8.0 * (self.window - inflection) / inflection).powi(2).clamp(0.1, 1.0)
    }

    /// What a reaction is divided by where several fit in a round trip.
    fn reactions_per_rtt(&self) -> f64 {
        (self.rtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).max(1.0)
    }

    fn update_delay(&mut self, now: Time, ack: &Ack<'_>) {
        self.delays.observe(now, ack, true);
        if now.since(self.delay_updated) < VIRTUAL_RTT.min(self.rtt) {
            return;
        }
        let delay = self.delays.queueing();
        // It rises slowly and falls at once.
        self.delay = if delay < self.delay { delay } else { self.delay + (delay - self.delay).scale(QDELAY_AVG_G) };
        self.delay_updated = now;
    }

    /// Reference Window Reduction.
    fn reduce(&mut self, now: Time, scale: f64) {
        if self.lost || self.marked {
            self.congested = Some(now);
        }
        if self.reacted.is_some_and(|reacted| now.since(reacted) < VIRTUAL_RTT.min(self.rtt)) {
            return;
        }
        let half = self.config.target / 2;
        if !(self.lost || self.marked || self.delay > half) {
            return;
        }
        if std::mem::take(&mut self.has_grown) {
            self.inflection = Some(self.window);
        }
        if self.lost {
            self.window *= BETA_LOSS;
        } else if self.marked && !self.config.l4s {
            self.window *= BETA_ECN;
        } else if self.marked {
            let mut backoff = self.alpha.share / 2.0 / self.reactions_per_rtt();
            if self.delays.queueing() < self.config.target / 4 {
                backoff *= scale.max(0.25);
            }
            let long_ago = self.rtt.max(VIRTUAL_RTT) * 100;
            if self.reacted.is_none_or(|reacted| now.since(reacted) > long_ago) {
                self.window = self.window.min(self.in_flight.previous.as_f64());
            }
            self.window *= 1.0 - backoff;
        } else {
            let virtual_alpha = (self.delay - half).as_secs_f64() / half.as_secs_f64();
            self.window *= 1.0 - virtual_alpha.min(1.0) / 2.0 / self.reactions_per_rtt();
        }
        self.window = self.window.max(self.min_window());
        (self.lost, self.marked, self.reacted) = (false, false, Some(now));
    }

    /// Reference Window Increase, by `bytes` that arrived without marks.
    fn increase(&mut self, now: Time, bytes: f64, scale: f64) {
        let packet = self.packet.as_f64();
        let since = self.congested.map_or(f64::INFINITY, |congested| now.since(congested).as_secs_f64());
        let rtt = self.rtt.max(VIRTUAL_RTT).as_secs_f64();
        let after_congestion = (since / (POST_CONGESTION_DELAY_RTTS * rtt)).min(1.0);
        let multiplicative = 1.0 + MUL_INCREASE_FACTOR * self.window / packet * after_congestion * scale;
        let short = (self.rtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let grown = self.window + bytes * (packet / self.window).min(1.0) * short * scale.max(0.25) * multiplicative;
        let allowed = packet + self.in_flight.max().as_f64() * BYTES_IN_FLIGHT_HEAD_ROOM;
        if grown > self.window && grown <= allowed && self.media_rate() < TARGET_BITRATE_MAX {
            (self.window, self.has_grown) = (grown, true);
        }
    }

    /// `target_bitrate`.
    fn media_rate(&self) -> Rate {
        let rtt = self.rtt.max(Duration::from_micros(1)).as_secs_f64();
        let small = 1.0 - ((self.packet.as_f64() / self.window).min(1.0) - 0.1).clamp(0.0, 0.2);
        Rate::from_bps_f64(small * 8.0 * self.window / rtt / MEDIA_RATE_MARGIN).min(TARGET_BITRATE_MAX)
    }

    fn paced_rate(&self) -> Rate {
        self.media_rate().max(RATE_PACE_MIN).scale(PACKET_PACING_HEADROOM)
    }
}

impl Algorithm for Scream {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the arrival time of each packet; without it the queue of acknowledgements counts, too");

    fn new(config: &Config, _random: Random) -> Self {
        Self {
            config: config.clone(),
            packet: Bytes::new(1),
            rtt: Duration::ZERO,
            window: MIN_WINDOW,
            inflection: None,
            has_grown: true,
            delays: Delays::default(),
            delay: Duration::ZERO,
            delay_updated: Time::ZERO,
            alpha: Alpha::default(),
            in_flight: MaxInFlight::default(),
            lost: false,
            marked: false,
            congested: None,
            reacted: None,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Scream {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self::new(&self.config, Random::from_seed(0));
        (self.packet, self.rtt) = (path.packet.max(Bytes::new(1)), path.rtt);
        self.window = self.min_window();
        self.pacer.reset(now);
    }

    /// The window keeps its bytes.
    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet.max(Bytes::new(1));
        self.window = self.window.max(self.min_window());
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.in_flight.current = self.in_flight.current.max(sent.in_flight);
        self.pacer.sent(now, sent.bytes, self.paced_rate());
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        self.pacer.on_notice(now, notice, self.paced_rate(), self.packet);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if ack.delivered == Bytes::ZERO {
            return;
        }
        self.rtt = ack.smoothed_rtt;
        let (delivered, marked) = self.packets(ack);
        self.marked |= marked > 0;
        self.update_delay(now, ack);
        self.alpha.on_ack(now, delivered, marked, self.rtt);
        self.in_flight.on_ack(now, self.rtt);
        let scale = self.inflection_scale();
        self.reduce(now, scale);
        let unmarked = delivered.saturating_sub(marked) as f64 / delivered.max(1) as f64;
        self.increase(now, ack.delivered.as_f64() * unmarked, scale);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        match loss.kind {
            LossKind::Transient => self.lost = true,
            LossKind::Persistent => {
                (self.window, self.congested, self.reacted) = (self.min_window(), Some(now), Some(now));
            }
        }
    }

    fn on_idle(&mut self, now: Time, _idle: Duration, _timeout: Duration) {
        self.pacer.reset(now);
    }

    fn window(&self) -> Bytes {
        Bytes::new((self.window * REF_WND_OVERHEAD) as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.media_rate())
    }

    fn ecn(&self) -> Option<Ecn> {
        self.config.l4s.then_some(Ecn::Ect1)
    }
}

#[cfg(test)]
mod tests;
