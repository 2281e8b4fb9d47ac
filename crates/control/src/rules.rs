//! TCP with a different congestion avoidance, which describes most high-speed TCPs.
//!
//! Such a scheme is a pair of [`Rules`]: how many packets an acknowledgement adds to the window, and the window after a
//! loss. [`Windowed`] has the parts that all of them share:
//!
//! ```text
//! an acknowledgement arrives, W < S:   W += slow_start()                one packet (RFC 5681 eq. (2)), or by the rules
//!                            W >= S:   W += min(increase(W), 1)
//! a loss or a mark, once a window:     S = W = max(decrease(W), 2)      a mark as a loss: RFC 3168 section 6.1.2
//! the timer expires:                   S = max(decrease(W), 2), W = 1
//! idle for longer than the timer:      W = min(W, the first window)     RFC 5681 section 4.1
//! a loss was spurious:                 W, S, the rules and the episode are those before it
//! ```
//!
//! `W` and `S` are in fractional packets; the rules of TCP itself count whole bytes (`newreno.rs`). Each
//! acknowledgement counts once, as in the papers of the schemes.
//!
//! *Deviations*: no acknowledgement adds more than a packet, which is the rate of slow start; Linux has the same bound
//! for all of these schemes. The window after a loss is computed from the window, as in the papers, not from the bytes
//! in flight (RFC 5681 eq. (4)): the window does not grow while something else limits the flow.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};

use crate::episode::Episode;
pub use crate::window::Amount;
use crate::window::Window;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Path, Sent, Settings};

/// An acknowledgement, and the window at its arrival.
#[derive(Debug, Clone, Copy)]
pub struct AckEvent<'a> {
    /// When it arrived, on the sender's clock.
    pub now: Time,
    /// The acknowledgement.
    pub ack: &'a Ack<'a>,
    /// The window in packets.
    pub window: f64,
    /// The newly delivered bytes, in packets.
    pub delivered: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// The largest packet.
    pub packet: Bytes,
}

/// A loss, a mark or a timeout that reduces the window, and the window at that time.
#[derive(Debug, Clone, Copy)]
pub struct Congestion {
    /// When it was detected, on the sender's clock.
    pub now: Time,
    /// The window in packets.
    pub window: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// Bytes sent and not cumulatively acknowledged (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Whether it is a mark: no packet is lost.
    pub is_mark: bool,
}

/// The rules in which window schemes differ.
pub trait Rules: Debug + Clone + Send + 'static {
    /// Its settings.
    type Config: Settings + Default;

    /// Whether all losses of one window of data cause one reaction (RFC 6582). Marks always do (RFC 3168 section
    /// 6.1.2).
    const ONCE_A_WINDOW: bool = true;

    /// The ECN code of its packets, if it needs one ([`Controller::ecn`]).
    const ECN: Option<Ecn> = None;

    /// See [`Algorithm::NEEDS`].
    const NEEDS: Option<&'static str> = None;

    /// The rules at the start of a path.
    fn new(config: &Self::Config) -> Self;

    /// The first window, in packets.
    fn first_window(config: &Self::Config) -> u64;

    /// Called first for every acknowledgement, before its marks reduce the window: rules may count them themselves.
    fn count_marks(&mut self, _now: Time, _ack: &Ack<'_>, _packet: Bytes) {}

    /// Called for every acknowledgement before it increases the window, also for those that do not increase the window.
    fn observe(&mut self, _seen: &AckEvent<'_>) {}

    /// Slow start: how much the acknowledgement adds, or `None` if slow start ends here.
    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        Some(Amount::Packets(event.delivered.min(1.0))) // RFC 5681 eq. (2)
    }

    /// Congestion avoidance: how much the acknowledgement adds.
    fn increase(&mut self, event: &AckEvent<'_>) -> Amount;

    /// The window after a loss or a mark.
    fn decrease(&mut self, congestion: &Congestion) -> Amount;

    /// The timer expired, and [`Rules::decrease`] has returned the slow-start threshold.
    fn on_timeout(&mut self) {}

    /// The flow was idle or application-limited for `span`. Schemes that depend on elapsed time exclude that time.
    fn pause(&mut self, _span: Duration) {}
}

/// A controller made of [`Rules`].
#[derive(Debug, Clone)]
pub struct Windowed<R: Rules> {
    config: R::Config,
    pub(crate) window: Window,
    rules: R,
    episode: Episode,
    last_ack: Time,
    /// The window, the rules and the episode before the last reaction to a loss.
    before: Option<(Window, R, Episode)>,
}

impl<R: Rules> Windowed<R> {
    fn initial(config: &R::Config, packet: Bytes) -> Self {
        Self {
            config: config.clone(),
            window: Window::new(packet, R::first_window(config)),
            rules: R::new(config),
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
        if !Window::counts(ack) {
            return;
        }
        if self.window.in_slow_start() {
            if let Some(step) = self.rules.slow_start(&event) {
                self.window.step(step);
                return;
            }
            self.window.leave_slow_start();
        }
        self.window.step(match self.rules.increase(&event) {
            Amount::Packets(packets) => Amount::Packets(packets.min(1.0)),
            Amount::Bytes(bytes) => Amount::Bytes(bytes.min(packet)),
        });
    }

    fn decrease(&mut self, now: Time, flight_size: Bytes, is_mark: bool) {
        let (window, window_bytes) = (self.window.packets(), self.window.bytes());
        self.window.lower_to(self.rules.decrease(&Congestion { now, window, window_bytes, flight_size, is_mark }));
    }
}

impl<R: Rules> Algorithm for Windowed<R> {
    type Config = R::Config;

    const NEEDS: Option<&'static str> = R::NEEDS;

    fn new(config: &R::Config, _random: Stream) -> Self {
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
        (self.rules, self.before) = (R::new(&self.config), None);
    }

    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

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
        let before = (self.window.clone(), self.rules.clone(), episode);
        match loss.kind {
            LossKind::Persistent if loss.repeated_timeout => self.window.on_timeout(),
            LossKind::Persistent => {
                self.decrease(now, loss.flight_size, false);
                self.window.on_timeout();
                self.rules.on_timeout();
            }
            LossKind::Transient => self.decrease(now, loss.flight_size, false),
        }
        self.before = (loss.kind == LossKind::Transient).then_some(before);
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        let Some((window, rules, episode)) = self.before.take() else { return };
        // Losses of the packets in flight get their own reaction.
        self.episode = episode;
        if window.bytes() > self.window.bytes() {
            (self.window, self.rules) = (window, rules);
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
}

/// Successive round trips. A round trip ends when a packet that was sent after its start is acknowledged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rounds {
    began: Time,
}

impl Rounds {
    /// The duration of the round trip that ends with this acknowledgement, if one does; the next one starts at once.
    /// The first acknowledgement always ends one.
    pub fn ended(&mut self, event: &AckEvent<'_>) -> Option<Duration> {
        let passed = event.now.since(self.began);
        let is_over = passed >= event.ack.rtt.unwrap_or(event.ack.smoothed_rtt);
        if is_over {
            self.began = event.now;
        }
        is_over.then_some(passed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::newreno;
    pub(crate) use crate::testing::{PACKET, ack};
    use crate::testing::{loss, mark};

    /// A flow whose acknowledgements arrive at times that the test determines.
    #[derive(Debug)]
    pub(crate) struct TestFlow<R: Rules> {
        pub(crate) tcp: Windowed<R>,
        pub(crate) now: Time,
        pub(crate) rtt: Duration,
        pub(crate) min_rtt: Duration,
        number: u64,
    }

    impl<R: Rules> TestFlow<R> {
        /// A flow in slow start with its first window.
        pub(crate) fn new(config: &R::Config, rtt: Duration) -> Self {
            let mut tcp = Windowed::new(config, Stream::from_seed(1));
            tcp.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
            Self { tcp, now: Time::ZERO, rtt, min_rtt: rtt, number: 0 }
        }

        /// A flow in congestion avoidance with a window of `window` packets.
        pub(crate) fn in_congestion_avoidance(config: &R::Config, window: f64, rtt: Duration) -> Self {
            let mut flow = Self::new(config, rtt);
            flow.set(window);
            flow
        }

        /// Sets the window to `window` packets and ends slow start.
        pub(crate) fn set(&mut self, window: f64) {
            self.tcp.window.lower_to(Amount::Packets(window));
        }

        pub(crate) fn window(&self) -> f64 {
            self.tcp.window.packets()
        }

        pub(crate) fn in_slow_start(&self) -> bool {
            self.tcp.window.in_slow_start()
        }

        pub(crate) fn rules(&self) -> &R {
            &self.tcp.rules
        }

        pub(crate) fn rules_mut(&mut self) -> &mut R {
            &mut self.tcp.rules
        }

        /// The application has no data for `span`.
        pub(crate) fn pause(&mut self, span: Duration) {
            self.now += span;
            self.tcp.on_idle(self.now, span, span);
        }

        /// Delivers an acknowledgement. Returns the increase of the window.
        pub(crate) fn ack(&mut self) -> f64 {
            let before = self.window();
            let (rtt, smoothed_rtt, min_rtt) = (Some(self.rtt), self.rtt, self.min_rtt);
            self.tcp.on_ack(self.now, &Ack { rtt, smoothed_rtt, min_rtt, ..ack(1) });
            self.window() - before
        }

        /// Simulates a round trip: as many acknowledgements as the window has packets, evenly spaced. Returns the
        /// increase of the window.
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
    fn a_round_trip_ends_when_a_packet_sent_in_it_is_acknowledged() {
        let mut rounds = Rounds::default();
        let rtt = Duration::from_millis(20);
        let mut ended = |millis: u64, rtt: Duration| {
            let ack = Ack { rtt: Some(rtt), ..ack(1) };
            let now = Time::ZERO + Duration::from_millis(millis);
            let (window_bytes, packet) = (PACKET * 10, PACKET);
            rounds.ended(&AckEvent { now, ack: &ack, window: 10.0, delivered: 1.0, window_bytes, packet })
        };
        assert!(ended(100, rtt).is_some());
        assert_eq!(ended(119, rtt), None);
        assert_eq!(ended(120, rtt), Some(rtt));
        assert_eq!(ended(145, rtt * 2), None, "it was sent at 105 ms, before the round trip started");
        assert_eq!(ended(160, rtt * 2), Some(rtt * 2));
    }

    /// Simple rules: an acknowledgement adds a tenth of a packet, and a loss reduces the window to three quarters.
    #[derive(Debug, Clone)]
    struct SimpleRules {
        paused: Duration,
    }

    impl Rules for SimpleRules {
        type Config = newreno::Config;

        fn new(_config: &newreno::Config) -> Self {
            Self { paused: Duration::ZERO }
        }

        fn first_window(config: &newreno::Config) -> u64 {
            config.initial_window
        }

        fn increase(&mut self, _seen: &AckEvent<'_>) -> Amount {
            Amount::Packets(0.1)
        }

        fn decrease(&mut self, congestion: &Congestion) -> Amount {
            Amount::Packets(0.75 * congestion.window)
        }

        fn pause(&mut self, span: Duration) {
            self.paused += span;
        }
    }

    fn simple_flow() -> TestFlow<SimpleRules> {
        TestFlow::new(&newreno::Config { initial_window: 16, ..newreno::Config::default() }, Duration::from_millis(20))
    }

    #[test]
    fn the_rules_apply_from_the_first_loss_on() {
        let mut flow = simple_flow();
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
    fn a_spurious_loss_is_undone_once() {
        let mut flow = simple_flow();
        flow.lose(LossKind::Transient);
        flow.tcp.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 16.0);
        flow.mark();
        flow.tcp.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 12.0, "a mark is never spurious");
    }

    #[test]
    fn after_a_spurious_loss_a_loss_of_the_same_window_counts() {
        let mut flow = simple_flow();
        let lost = |number| loss(LossKind::Transient, number, 20);
        flow.tcp.on_loss(flow.now, &lost(5));
        let reduced = flow.window();
        flow.tcp.on_loss(flow.now, &lost(6));
        assert_eq!(flow.window(), reduced, "one reaction for one window");
        flow.tcp.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 16.0);
        flow.tcp.on_loss(flow.now, &lost(7));
        assert_eq!(flow.window(), reduced);
        assert!(reduced < 16.0);
    }

    #[test]
    fn the_time_before_a_path_is_no_pause() {
        let mut flow = simple_flow();
        let second = Duration::from_secs(1);
        flow.tcp.on_path(Time::ZERO + second * 9, &Path::new(PACKET, second, None));
        flow.tcp.on_ack(Time::ZERO + second * 10, &Ack { app_limited: true, ..ack(1) });
        assert_eq!(flow.rules().paused, second);
    }

    #[test]
    fn idle_and_application_limited_times_do_not_grow_the_window() {
        let mut flow = simple_flow();
        let second = Duration::from_secs(1);
        flow.tcp.on_ack(Time::ZERO + second, &Ack { app_limited: true, ..ack(1) });
        assert_eq!((flow.window(), flow.rules().paused), (16.0, second));
        flow.set(64.0);
        flow.tcp.on_idle(Time::ZERO + second * 3, second * 2, second);
        assert_eq!((flow.window(), flow.rules().paused), (16.0, second * 3));
        flow.tcp.on_ack(Time::ZERO + second * 4, &Ack { app_limited: true, ..ack(1) });
        assert_eq!(flow.rules().paused, second * 4, "the idle time before it is not counted again");
    }
}
