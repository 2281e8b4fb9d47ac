//! What a flow concludes from the delays of a train and of the last round trip: whether the train is accepted, how much
//! it is granted, and which share of its rate the flow should give up.

use rampmeter_units::{Duration, Rate};

use super::config::{
    BUSY_WAIT, HOST_DELAY, MAX_BUNCH, MAX_JUMP, MAX_TARGET_OF_BUFFER, MIN_ROUND_TRIP, MIN_STEP, MISSING_RECEIPTS,
    TRAIN_PER_JITTER,
};
use super::probe::{ProbeResult, RESOLUTION};
use super::queue::WaitCount;
use super::{Compensation, Pcp, growth};

/// The maximum number of PCP flows whose queue counts as PCP's own.
const MAX_PCP_FLOWS: f64 = 50.0;

impl Pcp {
    /// The result of the train, given the queue that it met and the capacity that other flows leave.
    pub(super) fn probe_result(&mut self) -> ProbeResult {
        let (flat_tolerance, wait) = (self.flat_tolerance(), self.queue.wait(self.probe.median_delay()));
        let (mut tolerance, mut is_allowed) = (flat_tolerance, true);
        if self.config.target > 0.0 && self.probe.has_receipts() {
            let max_wait = self.ceiling(self.probe.rate()) + flat_tolerance;
            is_allowed = wait <= max_wait;
            // The train may show its part of the growth that is still permitted in a round trip.
            let part = self.probe.span().as_secs_f64() / self.rtt.as_secs_f64();
            tolerance += max_wait.saturating_sub(wait).scale(part);
        }
        match self.probe.judge(tolerance, MISSING_RECEIPTS, &mut self.random) {
            ProbeResult::Accepted(_) if !is_allowed && self.probe.host_stalled => ProbeResult::Inconclusive,
            ProbeResult::Accepted(_) if !is_allowed => ProbeResult::Rejected,
            ProbeResult::Accepted(more) => ProbeResult::Accepted(more.min(self.max_grant())),
            result => result,
        }
    }

    /// The maximum round-trip time of a full packet on an idle path, from earlier transfers. It is above their minimum,
    /// because a few packets seldom reach the minimum of hundreds.
    pub(super) fn past_rtt(&self) -> Option<Duration> {
        let min_rtt = self.path_history.past_rtt()?;
        Some(min_rtt + self.packet_time(Rate::ZERO).max(min_rtt / 128))
    }

    /// The maximum that a train may be granted, whatever its test rate was.
    fn max_grant(&self) -> Rate {
        let Some(capacity) = self.path_history.capacity() else { return Rate::MAX };
        let waits = self.count_waits(self.train_waits());
        let grew = self.rise.since(self.probe.started, self.rtt, self.base);
        let growth = growth::factor(waits, grew, self.base, capacity) - 1.0;
        let max = self.base.scale(growth.max(-self.pressure(self.base)).max(MIN_STEP));
        max.min(capacity.scale(MAX_JUMP)).max(self.min_probe())
    }

    /// The growth of delay over the train that counts as flat.
    fn flat_tolerance(&self) -> Duration {
        let assumed = self.packet_time(self.probe.rate()).scale(self.config.noise);
        // With a larger tolerance a train shorter than the host jitter would be accepted whatever its queue does.
        let jitter = self.host_jitter.estimate.min(self.probe.span().scale(1.0 / TRAIN_PER_JITTER));
        assumed.max(self.view.noise).max(jitter).max(RESOLUTION)
    }

    /// The packet time at the bottleneck, or that of a bunch, at the best known rate, but at most the packet time at `rate`.
    pub(super) fn packet_time(&self, rate: Rate) -> Duration {
        let packet = self.packet * self.bunch_at(self.base);
        match self.path_history.best_rate() {
            Some(best) => best.max(rate).time_to_send(packet),
            None => rate.time_to_send(packet),
        }
    }

    /// The packets of the train that waited behind other flows' packets. They come in close succession, so the last
    /// round trip has few of them.
    pub(super) fn train_waits(&self) -> WaitCount {
        self.probe.count_waits(|delay| self.queue.wait(delay) > self.min_busy_wait(self.probe.rate()))
    }

    /// The packets that waited behind other flows' packets, of the last round trip and `others`.
    pub(super) fn count_waits(&self, others: WaitCount) -> WaitCount {
        self.queue.count_waits(self.min_busy_wait(self.base)).and(others)
    }

    /// The wait above which a packet that was sent at `rate` has met other traffic. A real host may need the time of a
    /// bunch to encrypt and send `MAX_BUNCH` packets, and the first one of a bunch waits for the others.
    fn min_busy_wait(&self, rate: Rate) -> Duration {
        let own_bunch = self.bunch.scale(self.bunch_at(rate) as f64 / MAX_BUNCH as f64);
        self.packet_time(Rate::ZERO).scale(BUSY_WAIT).max(self.noise() + own_bunch)
    }

    /// The share of its rate that a flow of `base` should give up; negative where more rate is available.
    pub(super) fn pressure(&self, base: Rate) -> f64 {
        // A full packet's minimum round-trip time: on a slow link it is much longer than the handshake's.
        let min_rtt = self.queue.min_rtt(self.packet).unwrap_or(self.min_rtt).max(MIN_ROUND_TRIP);
        Compensation::pressure(&self.config, &self.view, self.target(base), self.ceiling(base), min_rtt)
    }

    /// The jitter without a queue; on real hosts at least the delay that they cause themselves.
    pub(super) fn noise(&self) -> Duration {
        self.view.noise.max(self.host_jitter.estimate).max(self.bunch.scale(HOST_DELAY))
    }

    /// The target queue of a flow of `rate`.
    pub(super) fn target(&self, rate: Rate) -> Duration {
        let capacity = self.path_history.best_rate().unwrap_or(rate).max(rate);
        let packet = self.packet_time(rate);
        let buffer = self.view.buffer.map_or(f64::INFINITY, Duration::as_secs_f64);
        let max_target = MAX_TARGET_OF_BUFFER * buffer / packet.as_secs_f64();
        growth::target(self.config.target.min(max_target), rate, capacity, packet) + self.noise()
    }

    /// The queue above which a flow of `rate` drains it at once: longer than a single train can cause.
    pub(super) fn ceiling(&self, rate: Rate) -> Duration {
        self.target(rate).scale(self.config.ceiling) + self.packet_time(rate) * self.config.train as u64 / 2
    }

    /// The ceiling of one of `MAX_PCP_FLOWS` flows: PCP flows never keep a longer queue for long.
    pub(super) fn ceiling_of_many_flows(&self) -> Duration {
        self.ceiling(self.path_history.best_rate().unwrap_or(self.base).scale(1.0 / MAX_PCP_FLOWS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcp::Config;
    use crate::pcp::tests::World;
    use crate::pcp::tests::reactions::known_path;
    use crate::testing::RTT;
    use crate::{Arrival, History};

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn assert_near(actual: Duration, expected: f64) {
        assert!((actual.as_secs_f64() * 1e3 - expected).abs() < 1e-4, "{actual} instead of {expected} ms");
    }

    /// The growth of a flow with a third of the link beside others that use so much of it.
    fn shared(others: f64) -> f64 {
        let join = others / (others + 1.0 / 3.0);
        (1.0 - others * (1.0 - join)) / (1.0 / 3.0 + others * join) - 1.0
    }

    /// The first train's packets arrive. They waited for `wait` microseconds, the last one for `growth` more.
    fn arrive(world: &mut World, wait: u64, growth: u64) {
        for (n, (sent_at, number, bytes)) in (0..5).zip(world.train()) {
            let received_at = sent_at + RTT / 2 + us(wait + growth * n / 4);
            world.sender.probe.on_arrival(&Arrival { number, bytes, sent_at, received_at, ..Arrival::default() });
        }
    }

    #[test]
    fn trains_that_meet_a_queue_above_the_ceiling_are_rejected() {
        // At 30 Mb/s, the path's rate, the ceiling is 3.3 + 5 / 2 packets of 0.27 ms, and half a packet counts as flat:
        // 1.68 ms. The train of 1.07 ms may show a part of the growth that is left of it in a round trip of 20 ms.
        for (wait, growth, is_accepted) in [
            (1600, 0, true),
            (1700, 0, false),
            (0, 200, true), // 0.13 + 1.68 / 20 1.07 = 0.22 ms
            (0, 250, false),
            (1400, 200, false),
        ] {
            let mut world = known_path(&Config::default(), 0);
            arrive(&mut world, wait, growth);
            let result = world.sender.probe_result();
            assert_eq!(matches!(result, ProbeResult::Accepted(_)), is_accepted, "{wait} {growth}: {result:?}");
            world.sender.probe.host_stalled = true;
            let result = world.sender.probe_result();
            assert_eq!(result == ProbeResult::Inconclusive, !is_accepted, "the host may have caused it");
        }
        let mut world = known_path(&Config { target: 0.0, ..Config::default() }, 0);
        arrive(&mut world, 5000, 0);
        assert!(
            matches!(world.sender.probe_result(), ProbeResult::Accepted(_)),
            "the paper's controller has no ceiling"
        );
    }

    #[test]
    fn a_grant_is_what_others_leave_or_the_room_in_the_queue() {
        // Where four of 20 packets wait, others use (20 0.353 + 1) / 22 of 30 Mb/s, and the flow a third (`growth`). No
        // grant is above a third of the link. Where others leave nothing, 0.15 of the target over half a round trip is
        // room.
        let room = 0.15 * (1.0 + 3.0 * 3.0_f64.ln()) / 3.75 / 10.0;
        for (waited, growth) in [(0, 1.0), (4, shared((20.0 * 0.35251 + 1.0) / 22.0)), (18, room)] {
            let mut world = known_path(&Config::default(), waited);
            world.sender.view.slope = 0.0;
            let grant = world.sender.max_grant().as_bps_f64();
            assert!((grant / 10e6 - growth).abs() < 1e-4, "{waited}: {grant}");
        }
    }

    #[test]
    fn right_after_a_rise_the_waits_count_for_more() {
        let mut world = known_path(&Config::default(), 4);
        let (grant, started) = (world.sender.max_grant(), world.sender.probe.started);
        world.sender.rise = growth::Rise::new(started, world.sender.base.scale(0.8));
        let utilization = 1.25 * 0.35251;
        assert!(
            (world.sender.max_grant().as_bps_f64() / 10e6 - shared((20.0 * utilization + 1.0) / 22.0)).abs() < 1e-4
        );
        assert!(world.sender.max_grant() < grant);
    }

    #[test]
    fn packets_of_the_train_that_waited_show_a_busy_link() {
        // Up to 0.6 packet times are no wait. Four of 20 packets before the train had waited: with its five packets 4
        // or 9 of 25.
        for (wait, utilization) in [(160, 0.29719), (161, 0.53601)] {
            let mut world = known_path(&Config::default(), 4);
            arrive(&mut world, wait, 0);
            let growth = shared((25.0 * utilization + 1.0) / 27.0);
            assert!((world.sender.max_grant().as_bps_f64() / 10e6 - growth).abs() < 1e-4, "{wait}");
        }
    }

    #[test]
    fn packets_of_a_recent_train_count_for_the_next_test_rate() {
        for (rounds, packets, utilization) in [(2, 25.0, 0.53601), (3, 20.0, 0.35251)] {
            let mut world = known_path(&Config::default(), 4);
            arrive(&mut world, 161, 0);
            let test = world.sender.next_test(world.sender.probe.started + RTT * rounds).unwrap();
            let growth = shared((packets * utilization + 1.0) / (packets + 2.0));
            assert!((test.as_bps_f64() / 10e6 - growth).abs() < 1e-4, "{rounds}: {test}");
        }
    }

    #[test]
    fn half_a_packet_or_the_jitter_counts_as_flat() {
        let mut world = known_path(&Config::default(), 0);
        arrive(&mut world, 0, 0);
        assert_near(world.sender.flat_tolerance(), 0.133_33);
        world.sender.view.noise = us(200);
        assert_near(world.sender.flat_tolerance(), 0.2);
        world.sender.host_jitter.estimate = us(300);
        assert_near(world.sender.flat_tolerance(), 0.3);
        world.sender.host_jitter.estimate = us(5000);
        assert_near(world.sender.flat_tolerance(), 4.0 * 0.266_667 / 3.0); // a third of the train
        let mut world = known_path(&Config { noise: 0.0, ..Config::default() }, 0);
        arrive(&mut world, 0, 0);
        assert_eq!(world.sender.flat_tolerance(), RESOLUTION);
    }

    #[test]
    fn targets_and_ceilings_are_in_packet_times_of_the_path() {
        let (rate, packet) = (Rate::from_bps(10_000_000), 1.0 / 3.75);
        let mut world = known_path(&Config::default(), 0);
        let target = (1.0 + 3.0 * 3.0_f64.ln()) * packet;
        assert_near(world.sender.packet_time(rate), packet);
        assert_near(world.sender.packet_time(Rate::from_bps(60_000_000)), packet / 2.0);
        assert_near(world.sender.target(rate), target);
        assert_near(world.sender.ceiling(rate), 3.3 * target + 2.5 * packet);
        let many = 1.0 + 3.0 * 50.0_f64.ln();
        assert_near(world.sender.ceiling_of_many_flows(), (3.3 * many + 2.5) * packet);
        assert_near(world.sender.min_busy_wait(rate), 0.6 * packet);
        world.sender.view.noise = us(300);
        assert_near(world.sender.target(rate), target + 0.3);
        assert_near(world.sender.min_busy_wait(rate), 0.3);
        world.sender.view.noise = Duration::ZERO;
        world.sender.view.buffer = Some(us(800)); // three packets, of which the target has a quarter
        assert_near(world.sender.target(rate), (1.0 + 0.75 * 3.0_f64.ln()) * packet);
        world.sender.bunch = Duration::from_millis(2); // two packets at 10 Mb/s
        assert_near(world.sender.packet_time(rate), 2.0 * packet);
    }

    #[test]
    fn where_a_host_sends_bunches_short_waits_are_its_own() {
        let rate = Rate::from_bps(10_000_000_000); // a packet in 0.8 us
        let mut world = World::with(&Config::default(), Some(History { capacity: rate, ..History::new(rate, RTT) }));
        let (slow, fast) = (Rate::from_bps(10_000_000), Rate::from_bps(1_000_000_000));
        world.sender.base = slow;
        assert_near(world.sender.min_busy_wait(fast), 0.48e-3);
        world.sender.bunch = us(200); // 25 packets of a fast train, one of a slow one
        assert_near(world.sender.noise(), 0.02);
        assert_near(world.sender.min_busy_wait(fast), 0.02 + 0.2 * 25.0 / 88.0);
        assert_near(world.sender.min_busy_wait(slow), 0.02 + 0.2 / 88.0);
        world.sender.host_jitter.estimate = us(30);
        assert_near(world.sender.noise(), 0.03);
    }

    #[test]
    fn pressure_is_the_excess_of_the_queue_over_the_target() {
        let mut world = known_path(&Config::default(), 0);
        let rate = Rate::from_bps(10_000_000);
        let target = (1.0 + 3.0 * 3.0_f64.ln()) / 3.75;
        (world.sender.view.level, world.sender.view.standing) = (us(4000), us(4000));
        let excess = 4.0 - target;
        assert!((world.sender.pressure(rate) - 0.15 * excess / (10.0 + excess)).abs() < 1e-6);
        (world.sender.view.level, world.sender.view.standing) = (Duration::ZERO, Duration::ZERO);
        assert!((world.sender.pressure(rate) + 0.15 * target / 10.0).abs() < 1e-6);
    }

    #[test]
    fn idle_paths_have_the_round_trip_of_the_history_and_a_packet() {
        let world = known_path(&Config::default(), 0);
        assert_near(world.sender.past_rtt().unwrap(), 20.0 + 1.0 / 3.75);
        assert_eq!(World::with(&Config::default(), None).sender.past_rtt(), None);
    }
}
