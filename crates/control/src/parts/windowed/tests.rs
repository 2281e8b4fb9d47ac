use super::*;
use crate::newreno;
pub(crate) use crate::testing::{PACKET, ack};
use crate::testing::{RTT, arrived, loss, mark};
use crate::{Arrival, MarkCount};

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
        let mut tcp = Windowed::new(config, Random::from_seed(1));
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

    /// Delivers an acknowledgement of a packet sent after all losses and marks. Returns the increase of the window.
    pub(crate) fn ack(&mut self) -> f64 {
        let before = self.window();
        let (rtt, smoothed_rtt, min_rtt) = (Some(self.rtt), self.rtt, self.min_rtt);
        let mark_count = Some(MarkCount { marks: 0, number: self.number + 1 });
        self.tcp.on_ack(self.now, &Ack { rtt, smoothed_rtt, min_rtt, mark_count, ..ack(1) });
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
fn for_a_round_trip_after_a_mark_the_window_does_not_grow() {
    let mut flow = simple_flow();
    let mut arrival = |number, ecn| {
        let before = flow.window();
        let arrivals = [Arrival { number, bytes: PACKET, ecn, ..Arrival::default() }];
        flow.tcp.on_ack(flow.now, &Ack { last_sent: number + 16, ..arrived(&arrivals, RTT) });
        flow.window() - before
    };
    assert_eq!(arrival(1, Ecn::Ect0), 1.0, "slow start");
    assert_eq!(arrival(2, Ecn::Ce), -17.0 / 4.0, "the last packet sent is 18");
    for number in 3..=18 {
        assert_eq!(arrival(number, if number % 2 == 0 { Ecn::Ect0 } else { Ecn::Ce }), 0.0, "{number}");
    }
    assert!((arrival(19, Ecn::Ect0) - 0.1).abs() < 1e-9);
    assert!(arrival(20, Ecn::Ce) < 0.0);
}

#[test]
fn a_spurious_loss_is_undone_once() {
    let mut flow = simple_flow();
    flow.lose(LossKind::Transient);
    flow.tcp.on_notice(flow.now, Notice::SpuriousLoss);
    assert_eq!(flow.window(), 16.0);
    flow.mark();
    flow.tcp.on_notice(flow.now, Notice::SpuriousLoss);
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
    flow.tcp.on_notice(flow.now, Notice::SpuriousLoss);
    assert_eq!(flow.window(), 16.0);
    flow.tcp.on_loss(flow.now, &lost(7));
    assert_eq!(flow.window(), reduced);
    assert!(reduced < 16.0);
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
