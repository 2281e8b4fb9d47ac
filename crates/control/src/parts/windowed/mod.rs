//! A window scheme made of [`Rules`].
//!
//! ```text
//! an acknowledgement arrives, W < S:   W += slow_start()                one packet (RFC 5681 eq. (2)), or by the rules
//!                                      the first time it may end early  `slow_start.rs`
//!                            W >= S:   W += min(increase(W), 1)         not for a round trip after a mark: `episode.rs`
//! a loss or a mark, once a window:     S = W = max(decrease(W), 2)      a mark as a loss: RFC 3168 section 6.1.2
//! the timer expires:                   S = max(decrease(W), 2), W = 1
//! idle for longer than the timer:      W = min(W, the first window)     RFC 5681 section 4.1
//! n flows with first windows:          W = max(W, min(n first windows, S))
//! a loss was spurious:                 W, S, the rules and the episode are those before it
//! ```
//!
//! `W` and `S` are in fractional packets; the rules of TCP itself count whole bytes (`newreno.rs`). Each
//! acknowledgement counts once, as in the papers of the schemes.
//!
//! *Deviations*: no acknowledgement adds more than a packet, which is the rate of slow start; Linux has the same bound
//! for all of these schemes. The window after a loss is computed from the window, as in the papers, not from the bytes
//! in flight (RFC 5681 eq. (4)): the window does not grow while something else limits the flow.

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

use crate::parts::episode::Episode;
use crate::parts::events::{AckEvent, Congestion};
use crate::parts::rules::Rules;
use crate::parts::slow_start::{Detector, Step};
use crate::parts::window::{Amount, Window};
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Path, Record, Sent};

/// A controller made of [`Rules`].
#[derive(Debug, Clone)]
pub struct Windowed<R: Rules> {
    config: R::Config,
    pub(crate) window: Window,
    rules: R,
    detector: Detector,
    episode: Episode,
    last_ack: Time,
    /// The state before the last reaction to a loss.
    before: Option<Before<R>>,
}

/// What a spurious loss restores.
#[derive(Debug, Clone)]
struct Before<R> {
    at: Time,
    window: Window,
    rules: R,
    detector: Detector,
    episode: Episode,
}

impl<R: Rules> Windowed<R> {
    fn initial(config: &R::Config, packet: Bytes) -> Self {
        Self {
            config: config.clone(),
            window: Window::new(packet, R::first_window(config)),
            rules: R::new(config),
            detector: Detector::new(R::first_slow_start(config)),
            episode: Episode::default(),
            last_ack: Time::ZERO,
            before: None,
        }
    }

    /// Reduces the window if the marks that `ack` reports start an episode.
    pub(crate) fn on_marks(&mut self, now: Time, ack: &Ack<'_>) {
        if self.episode.starts_with_marks(ack) {
            self.decrease(now, ack.flight_size, true);
            self.before = None; // a mark is never spurious
        }
    }

    /// Increases the window by `ack`, whether it reports marks or not.
    pub(crate) fn grow(&mut self, now: Time, ack: &Ack<'_>) {
        let (packet, window_bytes) = (self.window.packet(), self.window.bytes());
        let delivered = ack.delivered.as_f64() / packet.as_f64();
        let event = AckEvent { now, ack, window: self.window.packets(), delivered, window_bytes, packet };
        self.rules.observe(&event);
        if ack.app_limited {
            self.rules.pause(now.since(self.last_ack));
        }
        self.last_ack = now;
        if (R::STOPS_AFTER_MARKS && self.episode.stops_growth(ack)) || !Window::counts(ack) {
            self.detector.on_other_ack(&event);
            return;
        }
        if self.window.in_slow_start() {
            let step = self.rules.slow_start(&event).map(|step| self.detector.on_ack(&event, step));
            match step {
                Some(Step::Grow(step)) => return self.window.step(step),
                Some(Step::End(window)) if window < window_bytes => self.window.lower_to(window.into()),
                _ => self.window.leave_slow_start(),
            }
            self.detector = Detector::None;
        }
        self.window.step(match self.rules.increase(&event) {
            Amount::Packets(packets) => Amount::Packets(packets.min(1.0)),
            Amount::Bytes(bytes) => Amount::Bytes(bytes.min(packet)),
        });
    }

    fn decrease(&mut self, now: Time, flight_size: Bytes, is_mark: bool) {
        let (window, window_bytes) = (self.window.packets(), self.window.bytes());
        self.window.lower_to(self.rules.decrease(&Congestion { now, window, window_bytes, flight_size, is_mark }));
        self.detector = Detector::None;
    }
}

impl<R: Rules> Algorithm for Windowed<R> {
    type Config = R::Config;

    const NEEDS: Option<&'static str> = R::NEEDS;

    fn new(config: &R::Config, _random: Random) -> Self {
        Self::initial(config, Bytes::ZERO)
    }
}

impl<R: Rules> Controller for Windowed<R> {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self { last_ack: now, ..Self::initial(&self.config, path.packet) };
    }

    /// Rules count in packets, so they start anew with packets of another size; the window keeps its bytes.
    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.window.set_packet(packet);
        self.rules.restart(&self.config);
        self.before = None;
    }

    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        self.detector.on_sent(sent.bytes);
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unsent(bytes) => self.detector.on_unsent(bytes),
            // The rules start anew with the larger window, as at the end of slow start.
            Notice::Validated(bytes) if bytes > self.window.bytes() => {
                self.window.set(bytes);
                self.rules.restart(&self.config);
            }
            Notice::FirstWindows(flows) => self.window.raise_to_first(flows),
            // Rules that depend on elapsed time do not count the time since: it may be that of an outage.
            Notice::SpuriousLoss => {
                let Some(before) = self.before.take() else { return };
                // Losses of the packets in flight get their own reaction.
                self.episode = before.episode;
                if before.window.bytes() > self.window.bytes() {
                    (self.window, self.rules, self.detector) = (before.window, before.rules, before.detector);
                    self.rules.pause(now.since(before.at));
                }
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rules.count_marks(now, ack, self.window.packet());
        self.on_marks(now, ack);
        self.grow(now, ack);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let is_repeated = loss.recovering && loss.kind == LossKind::Transient;
        let episode = self.episode.clone();
        let reacts = if R::ONCE_A_WINDOW { self.episode.starts(loss) } else { !is_repeated };
        if !reacts {
            return;
        }
        let (window, rules, detector) = (self.window.clone(), self.rules.clone(), self.detector.clone());
        let before = Before { at: now, window, rules, detector, episode };
        if !loss.repeated_timeout {
            self.before = Some(before); // of repeated timeouts the first one counts: all are spurious, or none
        }
        match loss.kind {
            LossKind::Persistent if loss.repeated_timeout => self.window.on_timeout(),
            LossKind::Persistent => {
                self.decrease(now, loss.flight_size, false);
                self.window.on_timeout();
                self.rules.on_timeout();
            }
            LossKind::Transient => self.decrease(now, loss.flight_size, false),
        }
    }

    /// The next acknowledgement may include the same idle time, as application-limited time. It is excluded once.
    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.window.restart(idle, timeout);
        self.rules.pause(now.since(self.last_ack).min(idle));
        self.last_ack = now;
    }

    fn window(&self) -> Bytes {
        self.window.bytes()
    }

    fn departure(&self) -> Departure {
        self.window.departure()
    }

    fn rate(&self) -> Option<Rate> {
        None
    }

    fn ecn(&self) -> Option<Ecn> {
        R::ECN
    }

    fn record(&self, out: &mut Record) {
        out.add_known("threshold_bytes", self.window.threshold().map(Bytes::as_f64));
    }

    fn state(&self) -> &'static str {
        match self.rules.state() {
            Some(state) => state,
            None if !self.window.in_slow_start() => "congestion_avoidance",
            None if self.detector.is_conservative() => "conservative_slow_start",
            None => "slow_start",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
