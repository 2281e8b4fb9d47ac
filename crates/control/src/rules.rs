//! A TCP with congestion avoidance of its own: what most high-speed TCPs are.
//!
//! Such a scheme is a pair of [`Rules`]: how many packets an acknowledgement adds to the window, and what a loss leaves of
//! it. The rest is the same in all of them and stands here once, in [`Windowed`]: slow start, the answer once a window of
//! data to losses and marks alike (a mark is a loss without the repair, RFC 3168 section 6.1.2), the timer, silences, a
//! loss that had not happened.
//!
//! ```text
//! an acknowledgement arrives, W < S:   W += slow_start()                 one packet (RFC 5681 eq. (2)), or as the rules say
//!                            W >= S:   W += min(increase(W), 1)
//! a loss or a mark, once a window:     S = max(decrease(W), 2), W = S
//! the timer runs out:                  S likewise, W = 1
//! a silence longer than the timer:     W = min(W, the first window)      RFC 5681 section 4.1
//! ```
//!
//! `W` and `S` are in packets, and parts of packets count; TCP's own rules count whole bytes (`newreno.rs`).
//! Acknowledgements count one each, as in the schemes' papers.
//!
//! *Deviations*: no acknowledgement adds more than a packet, which is slow start's pace and what Linux holds all of these
//! schemes to. What a loss leaves is reckoned from the window, as their papers do, not from what is in flight (RFC 5681
//! eq. (4)): the window does not grow while something else bounds the flow.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use crate::episode::Episode;
pub use crate::window::Amount;
use crate::window::Window;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Path, Sent, Settings};

/// An acknowledgement, and the window that it finds.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// When it arrived, on the sender's clock.
    pub now: Time,
    /// The acknowledgement.
    pub ack: &'a Ack<'a>,
    /// The window in packets.
    pub window: f64,
    /// What it newly reports as delivered, in packets.
    pub delivered: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// The largest packet.
    pub packet: Bytes,
}

/// A loss, a mark or a timeout that the window answers, and the window that it finds.
#[derive(Debug, Clone, Copy)]
pub struct Congestion {
    /// When it was found, on the sender's clock.
    pub now: Time,
    /// The window in packets.
    pub window: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// Bytes sent and not cumulatively acknowledged (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
}

/// What a window scheme does its own way.
pub trait Rules: Debug + Clone + Send + 'static {
    /// Its tunables.
    type Config: Settings + Default;

    /// Whether losses of one window of data are answered once (RFC 6582). Marks always are (RFC 3168 section 6.1.2).
    const ONCE_A_WINDOW: bool = true;

    /// The rules at the beginning of a path.
    fn new(config: &Self::Config) -> Self;

    /// The first window, in packets.
    fn first_window(config: &Self::Config) -> u64;

    /// Every acknowledgement is shown here first, also those that do not make the window grow.
    fn observe(&mut self, _seen: &Seen<'_>) {}

    /// Slow start: how much the acknowledgement adds, or `None` if slow start ends here.
    fn slow_start(&mut self, seen: &Seen<'_>) -> Option<Amount> {
        Some(Amount::Packets(seen.delivered.min(1.0))) // RFC 5681 eq. (2)
    }

    /// Congestion avoidance: how much the acknowledgement adds.
    fn increase(&mut self, seen: &Seen<'_>) -> Amount;

    /// What a loss or a mark leaves of the window.
    fn decrease(&mut self, congestion: &Congestion) -> Amount;

    /// The timer ran out, and [`Rules::decrease`] has been asked for the slow-start threshold.
    fn on_timeout(&mut self) {}

    /// For `span` the flow was silent or had little to send: schemes that go by the clock leave that out.
    fn pause(&mut self, _span: Duration) {}
}

/// A controller made of [`Rules`].
#[derive(Debug, Clone)]
pub struct Windowed<R: Rules> {
    config: R::Config,
    window: Window,
    rules: R,
    episode: Episode,
    last_ack: Time,
    /// The window and the rules before the last answer to a loss.
    before: Option<(Window, R)>,
}

impl<R: Rules> Windowed<R> {
    fn fresh(config: &R::Config, packet: Bytes) -> Self {
        Self {
            config: config.clone(),
            window: Window::new(packet, R::first_window(config)),
            rules: R::new(config),
            episode: Episode::default(),
            last_ack: Time::ZERO,
            before: None,
        }
    }
}

impl<R: Rules> Windowed<R> {
    pub(crate) fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Goes on in congestion avoidance.
    pub(crate) fn leave_slow_start(&mut self) {
        self.window.leave_slow_start();
    }

    /// Goes on in congestion avoidance with `bytes`, if that is more than the window.
    pub(crate) fn resume(&mut self, bytes: Bytes) {
        self.window.resume(bytes);
    }

    /// Makes `bytes` the window, whatever the rules say.
    pub(crate) fn replace(&mut self, bytes: Bytes) {
        self.window.replace(bytes);
    }

    fn calls_for_an_answer(&mut self, loss: &Loss) -> bool {
        if R::ONCE_A_WINDOW {
            return self.episode.begins(loss);
        }
        loss.kind == LossKind::Persistent || !loss.recovering
    }

    /// Answers the marks that `ack` tells of, if they call for it.
    pub(crate) fn on_marks(&mut self, now: Time, ack: &Ack<'_>) {
        if self.episode.begins_with_marks(ack) {
            let left = self.decrease(now, ack.flight_size);
            self.window.lower_to(left);
            self.before = None; // a mark is never a mistake
        }
    }

    /// What `ack` adds to the window, whatever it tells of marks.
    pub(crate) fn grow(&mut self, now: Time, ack: &Ack<'_>) {
        let (packet, window_bytes) = (self.window.packet(), self.window.bytes());
        let delivered = ack.delivered.as_f64() / packet.as_f64();
        let seen = Seen { now, ack, window: self.window.packets(), delivered, window_bytes, packet };
        self.rules.observe(&seen);
        if ack.app_limited {
            self.rules.pause(now.since(self.last_ack));
        }
        self.last_ack = now;
        if !Window::counts(ack) {
            return;
        }
        if self.window.in_slow_start() {
            if let Some(step) = self.rules.slow_start(&seen) {
                self.window.step(step);
                return;
            }
            self.window.leave_slow_start();
        }
        self.window.step(match self.rules.increase(&seen) {
            Amount::Packets(packets) => Amount::Packets(packets.min(1.0)),
            Amount::Bytes(bytes) => Amount::Bytes(bytes.min(packet)),
        });
    }

    fn decrease(&mut self, now: Time, flight_size: Bytes) -> Amount {
        let (window, window_bytes) = (self.window.packets(), self.window.bytes());
        self.rules.decrease(&Congestion { now, window, window_bytes, flight_size })
    }
}

impl<R: Rules> Algorithm for Windowed<R> {
    type Config = R::Config;

    fn new(config: &R::Config, _random: Stream) -> Self {
        Self::fresh(config, Bytes::ZERO)
    }
}

impl<R: Rules> Controller for Windowed<R> {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self { last_ack: now, ..Self::fresh(&self.config, path.packet) };
    }

    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.on_marks(now, ack);
        self.grow(now, ack);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        if !self.calls_for_an_answer(loss) {
            return;
        }
        let before = (self.window.clone(), self.rules.clone());
        match loss.kind {
            LossKind::Persistent if loss.repeated => self.window.collapse(),
            LossKind::Persistent => {
                let threshold = self.decrease(now, loss.flight_size);
                self.window.collapse_to(threshold);
                self.rules.on_timeout();
            }
            LossKind::Transient => {
                let left = self.decrease(now, loss.flight_size);
                self.window.lower_to(left);
            }
        }
        self.before = (loss.kind == LossKind::Transient).then_some(before);
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        if let Some((window, rules)) = self.before.take().filter(|(before, _)| before.bytes() > self.window.bytes()) {
            (self.window, self.rules) = (window, rules);
        }
    }

    /// The next acknowledgement may tell of the same silence, as one that the application limited: it counts once.
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
}

/// Round trips, one after the other: one is over when a packet that left after it began is answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rounds {
    began: Time,
}

impl Rounds {
    /// How long the round trip took that ends here and gives way to the next, if it does. The first acknowledgement
    /// ever ends one.
    pub fn ended(&mut self, seen: &Seen<'_>) -> Option<Duration> {
        let passed = seen.now.since(self.began);
        let over = passed >= seen.ack.rtt.unwrap_or(seen.ack.smoothed_rtt);
        if over {
            self.began = seen.now;
        }
        over.then_some(passed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::newreno;
    pub(crate) use crate::testing::{PACKET, ack};
    use crate::testing::{loss, mark};

    /// A flow whose acknowledgements come when the test says so.
    #[derive(Debug)]
    pub(crate) struct Flow<R: Rules> {
        pub(crate) tcp: Windowed<R>,
        pub(crate) now: Time,
        pub(crate) rtt: Duration,
        pub(crate) min_rtt: Duration,
        number: u64,
    }

    impl<R: Rules> Flow<R> {
        /// A flow that begins with `window` packets in congestion avoidance, if it is so told.
        pub(crate) fn new(config: &R::Config, rtt: Duration) -> Self {
            let mut tcp = Windowed::new(config, Stream::from_seed(1));
            tcp.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
            Self { tcp, now: Time::ZERO, rtt, min_rtt: rtt, number: 0 }
        }

        pub(crate) fn avoiding(config: &R::Config, window: f64, rtt: Duration) -> Self {
            let mut flow = Self::new(config, rtt);
            flow.set(window);
            flow
        }

        /// Makes `window` packets the window, and leaves slow start.
        pub(crate) fn set(&mut self, window: f64) {
            self.tcp.window.lower_to(Amount::Packets(window));
        }

        pub(crate) fn window(&self) -> f64 {
            self.tcp.window.packets()
        }

        pub(crate) fn in_slow_start(&self) -> bool {
            self.tcp.in_slow_start()
        }

        pub(crate) fn rules(&self) -> &R {
            &self.tcp.rules
        }

        /// As when the application had nothing to send for so long.
        pub(crate) fn pause(&mut self, span: Duration) {
            self.now += span;
            self.tcp.on_idle(self.now, span, span);
        }

        /// An acknowledgement; how much it added.
        pub(crate) fn ack(&mut self) -> f64 {
            let before = self.window();
            let (rtt, smoothed_rtt, min_rtt) = (Some(self.rtt), self.rtt, self.min_rtt);
            self.tcp.on_ack(self.now, &Ack { rtt, smoothed_rtt, min_rtt, ..ack(1) });
            self.window() - before
        }

        /// A round trip: as many acknowledgements as the window has packets, evenly spaced; how much they added.
        pub(crate) fn round(&mut self) -> f64 {
            let before = self.window();
            let acks = before as u64;
            for _ in 0..acks {
                self.now += self.rtt / acks;
                self.ack();
            }
            self.window() - before
        }

        pub(crate) fn lose(&mut self, kind: LossKind) {
            self.number += 2;
            let flight_size = self.tcp.window();
            self.tcp.on_loss(self.now, &Loss { flight_size, ..loss(kind, self.number, self.number) });
        }

        pub(crate) fn mark(&mut self) {
            self.number += 2;
            self.tcp.on_marks(self.now, &mark(self.number, self.number));
        }
    }

    #[test]
    fn a_round_trip_is_over_when_what_left_in_it_is_answered() {
        let mut rounds = Rounds::default();
        let rtt = Duration::from_millis(20);
        let mut ended = |millis: u64, rtt: Duration| {
            let ack = Ack { rtt: Some(rtt), ..ack(1) };
            let now = Time::ZERO + Duration::from_millis(millis);
            let (window_bytes, packet) = (PACKET * 10, PACKET);
            rounds.ended(&Seen { now, ack: &ack, window: 10.0, delivered: 1.0, window_bytes, packet })
        };
        assert!(ended(100, rtt).is_some());
        assert_eq!(ended(119, rtt), None);
        assert_eq!(ended(120, rtt), Some(rtt));
        assert_eq!(ended(145, rtt * 2), None, "it left at 105 ms, before the round trip began");
        assert_eq!(ended(160, rtt * 2), Some(rtt * 2));
    }

    /// Rules that show through: a tenth of a packet an acknowledgement, and three quarters after a loss.
    #[derive(Debug, Clone)]
    struct Plain {
        paused: Duration,
    }

    impl Rules for Plain {
        type Config = newreno::Config;

        fn new(_config: &newreno::Config) -> Self {
            Self { paused: Duration::ZERO }
        }

        fn first_window(config: &newreno::Config) -> u64 {
            config.initial_window
        }

        fn increase(&mut self, _seen: &Seen<'_>) -> Amount {
            Amount::Packets(0.1)
        }

        fn decrease(&mut self, congestion: &Congestion) -> Amount {
            Amount::Packets(0.75 * congestion.window)
        }

        fn pause(&mut self, span: Duration) {
            self.paused += span;
        }
    }

    fn plain() -> Flow<Plain> {
        Flow::new(&newreno::Config { initial_window: 16, ..newreno::Config::default() }, Duration::from_millis(20))
    }

    #[test]
    fn slow_start_until_the_first_loss_and_the_rules_from_then_on() {
        let mut flow = plain();
        assert_eq!(flow.ack(), 1.0);
        flow.set(16.0);
        flow.mark();
        assert_eq!(flow.window(), 12.0);
        assert!((flow.ack() - 0.1).abs() < 1e-9);
        flow.lose(LossKind::Persistent);
        assert_eq!(flow.window(), 1.0);
        for _ in 0..9 {
            assert_eq!(flow.ack(), 1.0, "slow start up to 3/4 of 12.1");
        }
        assert!((flow.ack() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_loss_that_did_not_happen_is_undone_once() {
        let mut flow = plain();
        flow.lose(LossKind::Transient);
        flow.tcp.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 16.0);
        flow.mark();
        flow.tcp.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 12.0, "a mark is no mistake");
    }

    #[test]
    fn silence_and_want_of_data_are_told_and_do_not_grow_the_window() {
        let mut flow = plain();
        let second = Duration::from_secs(1);
        flow.tcp.on_ack(Time::ZERO + second, &Ack { app_limited: true, ..ack(1) });
        assert_eq!((flow.window(), flow.rules().paused), (16.0, second));
        flow.set(64.0);
        flow.tcp.on_idle(Time::ZERO + second * 3, second * 2, second);
        assert_eq!((flow.window(), flow.rules().paused), (16.0, second * 3));
        flow.tcp.on_ack(Time::ZERO + second * 4, &Ack { app_limited: true, ..ack(1) });
        assert_eq!(flow.rules().paused, second * 4, "the silence before it has been told");
    }
}
