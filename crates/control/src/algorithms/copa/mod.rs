//! Copa (Arun, Balakrishnan, NSDI 2018): the window moves towards a rate that falls with the queueing delay.
//!
//! With `W` the window in packets, `d_q` the queueing delay (`delays.rs`) and `v` the velocity:
//!
//! ```text
//! target rate       1 / (delta d_q)                                                              section 1, eq. (1)
//! rate              W / RTTstanding                                                              section 2.1
//! a packet arrives: W += v / (delta W) if the rate is at most the target, else W -= v / (delta W)
//! once a window:    v = 1 if W moved in another direction than in the last window
//!                   v = 2 v from the third window on in the same direction
//! slow start:       W doubles every round trip until the rate is above the target
//! pacing:           2 W / RTTstanding
//! ```
//!
//! In equilibrium a flow has `1 / delta` packets in the queue. The signal is a round trip late, so the queue oscillates
//! between 0 and `2.5 / delta` packets with a period of five round trips (section 3). If the queue is not nearly empty for
//! several round trips, another flow fills it:
//!
//! ```text
//! default mode      delta = 0.5                                                                  section 2.2
//! competitive mode  1 / delta += 1 every round trip; a loss halves it, to 2 at least
//! ```
//!
//! *Deviation*: a flow that has the link to itself (`share.rs`) stays in the default mode, or returns to it. The model of
//! section 3 does not hold where a bandwidth-delay product is a few packets: at least two packets are in flight, and as
//! nearly all of the round trip is the queue, `W` against the target rate is a signal without delay. The queue then does not
//! oscillate and is never empty: over 100 Mb/s and 0.2 ms a lone flow that competes has 591 packets there, and with this
//! rule 2.5. After a pause of ten round trips the queue counts as empty until as many have been measured.
//!
//! *Deviations* that the authors' code has, too. `ccp_copa`: the queue must be nearly empty once in ten round trips, in the
//! paper once in five. Whole packets, and flows that do not oscillate together, empty the queue more rarely than the model
//! of section 3: with five, four flows over 50 Mb/s took each other for a flow that fills the queue, and had 474 packets
//! there in place of 10. Also `ccp_copa`: `v` is 1 again as soon as the rate is on the other side of the target than the
//! direction says, because a large `v` would otherwise move the window the wrong way for up to a round trip. genericCC:
//! `v <= delta W`, so that a round trip at most doubles the window; more than 30% of losses in two round trips reduce the
//! window to 0.7 of it, where the default mode ignores losses.
//!
//! Where the paper is silent: the window is at least two packets and does not grow while the application limits the flow;
//! a timeout leaves two packets and starts again in slow start, an idle time with the first window at most. Packets are not
//! ECN-capable.

mod delays;
mod share;

use rampmeter_units::settings::check_range;
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use self::delays::Delays;
use self::share::Share;
use crate::parts::check::check_first_window;
use crate::parts::episode::Episode;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Record, Sent, Settings};

/// The minimum window, in packets.
const MIN_WINDOW: f64 = 2.0;

/// The velocity doubles after this many windows in the same direction.
const STEADY_WINDOWS: u32 = 3;

/// Settings of Copa.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// `delta` of the default mode: a flow keeps `1 / delta` packets in the queue (section 2.2).
    #[default(0.5)]
    pub delta: f64,
    /// Use the competitive mode beside flows that fill the queue (section 2.2).
    #[default(true)]
    pub compete: bool,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("delta", self.delta, 0.001..=1.0, "for each packet")
    }
}

/// `v`, and the direction in which the window moved.
#[derive(Debug, Clone, Copy)]
struct Velocity {
    value: f64,
    is_up: bool,
    /// Successive windows in this direction, beyond the first.
    windows: u32,
    /// When the current window began, and `W` then.
    began: Time,
    began_with: f64,
}

impl Velocity {
    fn new(now: Time, window: f64) -> Self {
        Self { value: 1.0, is_up: true, windows: 0, began: now, began_with: window }
    }

    /// Compares windows once a round trip.
    fn update(&mut self, now: Time, rtt: Duration, window: f64) {
        if now.since(self.began) < rtt {
            return;
        }
        let is_up = window > self.began_with;
        if is_up == self.is_up {
            self.windows += 1;
            if self.windows >= STEADY_WINDOWS {
                self.value *= 2.0;
            }
        } else {
            (self.value, self.is_up, self.windows) = (1.0, is_up, 0);
        }
        (self.began, self.began_with) = (now, window);
    }

    /// `v` for a step up or down, at most `max`.
    fn of_step(&mut self, now: Time, is_up: bool, window: f64, max: f64) -> f64 {
        if is_up != self.is_up && self.value > 1.0 {
            *self = Self { is_up, ..Self::new(now, window) };
        }
        self.value = self.value.min(max).max(1.0);
        self.value
    }
}

/// Delivered and lost packets of the last two round trips.
#[derive(Debug, Clone, Copy, Default)]
struct Losses {
    since: Time,
    delivered: Bytes,
    lost: Bytes,
}

impl Losses {
    const MAX_SHARE: f64 = 0.3;
    const MIN_PACKETS: u64 = 20;

    /// Whether two round trips are over in which more than `MAX_SHARE` was lost.
    fn are_many(&mut self, now: Time, rtt: Duration, packet: Bytes) -> bool {
        let total = self.delivered + self.lost;
        if now.since(self.since) <= rtt * 2 || total <= packet * Self::MIN_PACKETS {
            return false;
        }
        let share = self.lost.as_f64() / total.as_f64();
        *self = Self { since: now, ..Self::default() };
        share > Self::MAX_SHARE
    }
}

/// Copa.
#[derive(Debug, Clone)]
pub struct Copa {
    config: Config,
    packet: Bytes,
    /// `W`, in packets.
    window: f64,
    in_slow_start: bool,
    delays: Delays,
    share: Share,
    velocity: Velocity,
    /// `1 / delta`, in packets.
    target: f64,
    /// The competitive mode: when `1 / delta` grew last.
    competitive_since: Option<Time>,
    losses: Losses,
    episode: Episode,
    pacer: Pacer,
}

impl Copa {
    /// Whether the rate is at most the target rate: `W / RTTstanding <= 1 / (delta d_q)`.
    fn is_below_target(&self) -> bool {
        self.window * self.delays.queueing().as_secs_f64() <= self.target * self.delays.standing().as_secs_f64()
    }

    fn default_target(&self) -> f64 {
        1.0 / self.config.delta
    }

    /// Section 2.2: the mode, and `delta` in it.
    fn update_mode(&mut self, now: Time, ack: &Ack<'_>) {
        let is_default = self.share.is_alone() || self.delays.was_nearly_empty(ack.smoothed_rtt);
        if !self.config.compete || is_default {
            (self.competitive_since, self.target) = (None, self.default_target());
            return;
        }
        let since = *self.competitive_since.get_or_insert(now);
        if now.since(since) >= ack.smoothed_rtt && !ack.app_limited {
            (self.competitive_since, self.target) = (Some(now), self.target + 1.0);
        }
    }

    /// Section 2.1, step 3: `packets` have arrived.
    fn update_window(&mut self, now: Time, packets: f64, may_grow: bool) {
        let is_up = self.is_below_target();
        if is_up && !may_grow {
            return;
        }
        if self.in_slow_start && is_up {
            self.window += packets;
            self.velocity = Velocity::new(now, self.window);
            return;
        }
        self.in_slow_start = false;
        let velocity = self.velocity.of_step(now, is_up, self.window, self.window / self.target);
        let step = velocity * packets * self.target / self.window;
        self.set_window(if is_up { self.window + step } else { self.window - step });
    }

    fn set_window(&mut self, packets: f64) {
        self.window = packets.max(MIN_WINDOW);
    }

    fn restart(&mut self, now: Time, packets: f64) {
        self.set_window(packets);
        self.in_slow_start = true;
        self.velocity = Velocity::new(now, self.window);
    }

    fn reduce_after_many_losses(&mut self, now: Time) {
        if self.losses.are_many(now, self.delays.standing(), self.packet) {
            self.set_window(0.7 * self.window);
            self.in_slow_start = false;
        }
    }

    /// `2 W / RTTstanding`.
    fn paced_rate(&self) -> Rate {
        let rtt = self.delays.standing().max(Duration::from_micros(1));
        Rate::from_bps_f64((2.0 * self.window * self.packet.as_f64() * 8.0 / rtt.as_secs_f64()).min(1e15))
    }
}

impl Algorithm for Copa {
    type Config = Config;

    fn new(config: &Config, _random: Random) -> Self {
        let window = config.initial_window as f64;
        Self {
            config: config.clone(),
            packet: Bytes::new(1),
            window: window.max(MIN_WINDOW),
            in_slow_start: true,
            delays: Delays::new(Time::ZERO, Duration::ZERO),
            share: Share::new(Time::ZERO),
            velocity: Velocity::new(Time::ZERO, window),
            target: 1.0 / config.delta,
            competitive_since: None,
            losses: Losses::default(),
            episode: Episode::default(),
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Copa {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self {
            packet: path.packet.max(Bytes::new(1)),
            delays: Delays::new(now, path.rtt),
            share: Share::new(now),
            losses: Losses { since: now, ..Losses::default() },
            ..Self::new(&self.config, Random::from_seed(0))
        };
        self.velocity = Velocity::new(now, self.window);
        self.pacer.reset(now);
    }

    /// The window keeps its bytes.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        let packet = packet.max(Bytes::new(1));
        self.set_window(self.window * self.packet.as_f64() / packet.as_f64());
        self.packet = packet;
        self.velocity = Velocity::new(now, self.window);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.pacer.sent(now, sent.bytes, self.paced_rate());
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        self.pacer.on_notice(now, notice, self.paced_rate(), self.packet);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if ack.delivered == Bytes::ZERO {
            return;
        }
        self.delays.add(now, ack.rtt.unwrap_or(ack.smoothed_rtt), ack.smoothed_rtt);
        self.share.add(now, ack);
        self.losses.delivered += ack.delivered;
        self.update_mode(now, ack);
        if !self.in_slow_start {
            self.velocity.update(now, ack.smoothed_rtt, self.window);
        }
        self.update_window(now, ack.delivered.as_f64() / self.packet.as_f64(), !ack.app_limited);
        self.reduce_after_many_losses(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        self.losses.lost += loss.bytes;
        if self.episode.starts(loss) {
            self.target = (self.target / 2.0).max(self.default_target()); // section 2.2
            if loss.kind == LossKind::Persistent {
                self.restart(now, MIN_WINDOW);
            }
        }
        self.reduce_after_many_losses(now);
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.restart(now, self.window.min(self.config.initial_window as f64));
        }
        self.pacer.reset(now);
    }

    fn window(&self) -> Bytes {
        Bytes::new((self.window * self.packet.as_f64()) as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.paced_rate())
    }

    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::NotEct)
    }

    fn record(&self, out: &mut Record) {
        out.add("delta", 1.0 / self.target);
        out.add("queueing_delay_s", self.delays.queueing().as_secs_f64());
        out.add("standing_rtt_s", self.delays.standing().as_secs_f64());
    }

    fn state(&self) -> &'static str {
        match self.competitive_since {
            _ if self.in_slow_start => "slow_start",
            Some(_) => "competitive_mode",
            None => "default_mode",
        }
    }
}

#[cfg(test)]
mod tests;
