//! XCP's sender: every packet says what its window and round trip are, routers answer by how much the window is to change
//! (Katabi, Handley, Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM 2002, sections 3.2 and
//! 3.3). It needs `xcp` routers wherever the path may be full.
//!
//! With `W` the window and `s` the packet, in bytes of whole IP packets:
//!
//! ```text
//! a packet leaves:             H_cwnd = W, H_rtt = smoothed round trip, H_feedback = what it would like
//! an acknowledgement arrives:  W = max(W + H_feedback, s)                       section 3.3
//! packets are lost:            as TCP: W halves once a window of data, and is s when the timer runs out
//! ```
//!
//! "Desired rate" (section 3.3): without end, as a transfer takes all it gets; nothing as long as the application is what
//! bounds the flow. The paper's first packet knows no round trip; ours has that of the handshake.
//!
//! *Deviations*, where the paper says nothing:
//! - On a path without such a router requests come back as they went. They are no leave to flood it: the window then
//!   grows as TCP's, in slow start and congestion avoidance (RFC 5681), until a router speaks again. Eight of them in a row
//!   are told. Where routers speak but the path is full elsewhere, losses are all that holds the flow back, as in the paper.
//! - A window that is not used does not grow: neither while the application is the limit nor while losses are repaired.
//!   Falls are always followed.
//! - A window that rises by much at once is spread over the round trip that follows. Routers give what is free within a few
//!   round trips, and a lone flow would take that in bursts as fast as its own link: on 150 Mb/s and 80 ms behind links of
//!   1 Gb/s they overflow a buffer of one bandwidth-delay product. `pacing = "never"` is the paper's.
//! - The first window is two packets, TCP's when the paper was written (RFC 2581 section 3.1). After a silence that is
//!   longer than the timer it is so again (RFC 5681 section 4.1): what routers said then is no longer true.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::check::check_first_window;
use crate::newreno::{self, NewReno};
use crate::{Ack, Algorithm, Controller, Departure, Loss, Pacer, Path, Sent, Settings};

/// What a packet asks for: more than any path has. Answers to several packets add up; if the sum is still above
/// [`UNANSWERED`], one of them was not answered.
const WITHOUT_END: i64 = i64::MAX / 2;
const UNANSWERED: i64 = i64::MAX / 4;

/// So many acknowledgements in a row without a router's answer tell of a path without such routers.
const SILENT: u32 = 8;

/// Tunables of XCP's sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets: TCP's when the paper was written (RFC 2581).
    pub initial_window: u64,
    /// When packets are spread over the round trip.
    pub pacing: Pacing,
}

/// When packets are spread over the round trip, instead of leaving with the acknowledgements that make room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// For a round trip after the window has risen by more than half of what was acknowledged.
    #[default]
    Rises,
    /// The paper's.
    Never,
    /// All the time.
    Always,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_window: 2, pacing: Pacing::Rises }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// Changes its window by what routers say.
#[derive(Debug, Clone)]
pub struct Xcp {
    /// Its window, which grows as TCP's while no router answers.
    tcp: NewReno,
    packet: Bytes,
    /// Thousandths of a byte that the window is still to change by: less than one byte.
    rest: i64,
    smoothed_rtt: Duration,
    /// The application is what bounds the flow.
    app_limited: bool,
    pacing: Pacing,
    pacer: Pacer,
    /// Packets are spread until then.
    paced_until: Time,
    /// Acknowledgements in a row that no router had answered.
    unanswered: u32,
}

impl Xcp {
    /// Section 3.3: `W = max(W + H_feedback, s)`, with the feedback in thousandths of a byte.
    fn change(&mut self, feedback: i64) {
        let thousandths = self.rest.saturating_add(feedback);
        self.rest = thousandths % 1000;
        let bytes = Bytes::new((thousandths / 1000).unsigned_abs());
        let window = self.tcp.window();
        let changed = if thousandths > 0 { window + bytes } else { window.saturating_sub(bytes) };
        self.tcp.replace(changed.max(self.packet));
    }

    fn spread_the_rise(&mut self, now: Time) {
        if self.pacing == Pacing::Rises {
            self.paced_until = now + self.smoothed_rtt;
        }
    }

    /// A window in a round trip.
    fn spread(&self) -> Rate {
        Rate::of(self.tcp.window(), self.smoothed_rtt)
    }
}

impl Algorithm for Xcp {
    type Config = Config;

    /// It does as it is told, by routers if there are such, and by whoever claims to bring their words.
    const REACTS_TO_CONGESTION: bool = false;

    const NEEDS: Option<&'static str> = Some("needs routers that answer, and does as NewReno without");

    fn new(config: &Config, random: Stream) -> Self {
        let tcp = newreno::Config { initial_window: config.initial_window, ..newreno::Config::default() };
        Self {
            tcp: NewReno::new(&tcp, random),
            packet: Bytes::ZERO,
            rest: 0,
            smoothed_rtt: Duration::ZERO,
            app_limited: false,
            pacing: config.pacing,
            pacer: Pacer::default(),
            paced_until: if config.pacing == Pacing::Always { Time::MAX } else { Time::ZERO },
            unanswered: 0,
        }
    }
}

impl Controller for Xcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.tcp.on_path(now, path);
        self.packet = path.packet;
        self.rest = 0;
        self.smoothed_rtt = path.rtt;
        self.app_limited = false;
        self.unanswered = 0;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if now >= self.paced_until {
            self.paced_until = Time::ZERO;
        } else {
            self.pacer.sent(now, sent.bytes, self.spread());
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.tcp.on_marks(now, ack);
        self.smoothed_rtt = ack.smoothed_rtt;
        self.app_limited = ack.app_limited;
        match ack.feedback {
            RouterFeedback::Xcp { change, .. } if change < UNANSWERED => {
                let unused = ack.app_limited || ack.recovering;
                let before = self.tcp.window();
                self.change(if unused { change.min(0) } else { change });
                if self.tcp.window().saturating_sub(before) > ack.delivered / 2 {
                    self.spread_the_rise(now);
                }
                if !self.app_limited {
                    self.unanswered = 0; // or else it is our own nothing that comes back
                }
            }
            _ => {
                self.tcp.grow(now, ack);
                self.unanswered = self.unanswered.saturating_add(1);
            }
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        self.tcp.on_loss(now, loss);
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.tcp.on_idle(now, idle, timeout);
    }

    fn window(&self) -> Bytes {
        self.tcp.window()
    }

    fn departure(&self) -> Departure {
        let change = if self.app_limited { 0 } else { WITHOUT_END };
        let feedback = RouterFeedback::Xcp { window: self.tcp.window(), rtt: self.smoothed_rtt, change };
        let at = if self.paced_until > Time::ZERO { self.pacer.next() } else { Time::ZERO };
        Departure { at, feedback, ..self.tcp.departure() }
    }

    /// A window in a round trip if that is how packets leave at all times; for a while is nobody's rate.
    fn rate(&self) -> Option<Rate> {
        (self.pacing == Pacing::Always).then(|| self.spread())
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        (self.unanswered >= SILENT).then_some("no XCP router answers; grows as TCP does until one does")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossKind;
    use crate::testing::{PACKET, RTT, ack, loss, mark};

    fn sender(initial_window: u64) -> Xcp {
        let mut sender = Xcp::new(&Config { initial_window, ..Config::default() }, Stream::from_seed(1));
        sender.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        sender
    }

    /// What comes back when routers have allowed `change` thousandths of a byte.
    fn told(change: i64) -> Ack<'static> {
        Ack { feedback: RouterFeedback::Xcp { window: PACKET * 10, rtt: RTT, change }, ..ack(1) }
    }

    #[test]
    fn a_packet_says_what_its_window_and_round_trip_are_and_asks_without_end() {
        let mut sender = sender(2);
        let header = |window, rtt| RouterFeedback::Xcp { window, rtt, change: WITHOUT_END };
        assert_eq!(sender.departure().feedback, header(PACKET * 2, RTT));
        let smoothed_rtt = Duration::from_millis(33);
        sender.on_ack(Time::ZERO, &Ack { smoothed_rtt, ..told(5_000_000) });
        assert_eq!(sender.departure().feedback, header(PACKET * 7, smoothed_rtt));
    }

    #[test]
    fn the_window_changes_by_what_it_is_told_and_thousandths_add_up() {
        let mut sender = sender(10);
        sender.on_ack(Time::ZERO, &told(250_000));
        assert_eq!(sender.window(), Bytes::new(10_250));
        sender.on_ack(Time::ZERO, &told(-1_250_000));
        assert_eq!(sender.window(), Bytes::new(9_000));
        for _ in 0..10 {
            sender.on_ack(Time::ZERO, &told(-300));
        }
        assert_eq!(sender.window(), Bytes::new(8_997));
        for _ in 0..10 {
            sender.on_ack(Time::ZERO, &told(300));
        }
        assert_eq!(sender.window(), Bytes::new(9_000));
    }

    #[test]
    fn one_packet_is_the_least_window() {
        for fall in [-9_500_000, i64::MIN] {
            let mut sender = sender(10);
            sender.on_ack(Time::ZERO, &told(fall));
            assert_eq!(sender.window(), PACKET);
        }
    }

    #[test]
    fn a_request_that_comes_back_as_it_went_is_no_leave_but_tcp_growth() {
        // Two packets answered at once, one that a router has seen and one not: the receiver has added them up.
        for change in [WITHOUT_END, i64::MAX, WITHOUT_END - 4_000_000] {
            let mut sender = sender(10);
            sender.on_ack(Time::ZERO, &told(change));
            assert_eq!(sender.window(), PACKET * 11);
        }
        let mut sender = sender(10);
        sender.on_ack(Time::ZERO, &ack(1));
        assert_eq!(sender.window(), PACKET * 11);
    }

    #[test]
    fn a_loss_halves_the_window_once_and_routers_go_on_from_there() {
        let mut sender = sender(10);
        sender.on_loss(Time::ZERO, &loss(LossKind::Transient, 3, 9));
        sender.on_loss(Time::ZERO, &loss(LossKind::Transient, 7, 15));
        sender.on_ack(Time::ZERO, &mark(9, 15));
        assert_eq!(sender.window(), PACKET * 5);
        sender.on_ack(Time::ZERO, &told(3_000_000));
        assert_eq!(sender.window(), PACKET * 8);
        sender.on_loss(Time::ZERO, &loss(LossKind::Persistent, 20, 20));
        assert_eq!(sender.window(), PACKET);
    }

    #[test]
    fn a_window_that_is_not_used_only_falls() {
        for limit in [Ack { app_limited: true, ..told(0) }, Ack { recovering: true, ..told(0) }] {
            let mut sender = sender(10);
            sender.on_ack(Time::ZERO, &Ack { feedback: told(2_000_000).feedback, ..limit });
            assert_eq!(sender.window(), PACKET * 10);
            sender.on_ack(Time::ZERO, &Ack { feedback: told(-2_000_000).feedback, ..limit });
            assert_eq!(sender.window(), PACKET * 8);
        }
    }

    #[test]
    fn who_has_nothing_to_send_asks_for_nothing() {
        let mut sender = sender(10);
        let asked = |sender: &Xcp| match sender.departure().feedback {
            RouterFeedback::Xcp { change, .. } => change,
            other => panic!("{other:?}"),
        };
        sender.on_ack(Time::ZERO, &Ack { app_limited: true, ..told(0) });
        assert_eq!(asked(&sender), 0);
        sender.on_ack(Time::ZERO, &told(0));
        assert_eq!(asked(&sender), WITHOUT_END);
    }

    #[test]
    fn a_rise_is_spread_over_the_round_trip_that_follows() {
        let mut sender = sender(10);
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let sent = Sent { number: 0, bytes: PACKET, in_flight: PACKET };
        let after_two = |sender: &mut Xcp, now| {
            sender.on_sent(now, &sent);
            sender.on_sent(now, &sent);
            sender.departure().at
        };
        sender.on_ack(ms(0), &told(500_000)); // half of what was acknowledged
        assert_eq!(after_two(&mut sender, ms(17)), Time::ZERO);
        sender.on_ack(ms(0), &told(9_500_000));
        assert_eq!(after_two(&mut sender, ms(18)), ms(19)); // twenty packets in 20 ms
        assert_eq!(after_two(&mut sender, ms(20)), Time::ZERO);

        let config = Config { pacing: Pacing::Never, ..Config::default() };
        let mut papers = Xcp::new(&config, Stream::from_seed(1));
        papers.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        papers.on_ack(Time::ZERO, &told(9_500_000));
        assert_eq!(after_two(&mut papers, ms(18)), Time::ZERO);
    }

    #[test]
    fn eight_acknowledgements_without_an_answer_are_told_until_one_comes() {
        let mut sender = sender(10);
        for _ in 0..7 {
            sender.on_ack(Time::ZERO, &ack(1));
            assert_eq!(sender.degraded_reason(), None);
        }
        sender.on_ack(Time::ZERO, &told(WITHOUT_END));
        assert!(sender.degraded_reason().is_some());
        sender.on_ack(Time::ZERO, &Ack { app_limited: true, ..told(0) });
        assert!(sender.degraded_reason().is_some(), "nothing was asked for");
        sender.on_ack(Time::ZERO, &told(1));
        assert_eq!(sender.degraded_reason(), None);
    }

    #[test]
    fn after_a_long_silence_it_starts_again() {
        let mut sender = sender(2);
        sender.on_ack(Time::ZERO, &told(50_000_000));
        sender.on_idle(Time::ZERO, Duration::from_millis(100), Duration::from_millis(200));
        assert_eq!(sender.window(), PACKET * 52);
        sender.on_idle(Time::ZERO, Duration::from_millis(300), Duration::from_millis(200));
        assert_eq!(sender.window(), PACKET * 2);
    }
}
