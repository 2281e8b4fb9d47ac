//! Random Exponential Marking: a router that marks by a price, which rises while more comes than fits and while more waits
//! than should (Athuraliya, Li, Low, Yin, "REM: active queue management", IEEE Network 15(3), 2001).
//!
//! ```text
//! every update:   mu = max(mu + gamma (alpha (q - q*) + x - c), 0)       q waits, x came, c could leave, in packets
//! an arrival:     marked with probability 1 - phi^-mu
//! ```
//!
//! The price rests only where `x = c` and `q = q*`, with however many senders: the measure of congestion is apart from that
//! of performance. Numbers are those of ns-2.35 (`queue/rem.cc`, by two of the authors; also `inw_ 1`: `x` is not averaged).
//!
//! There is no timer: an update needs what came before it and what waits then, and both change only as packets come and go,
//! which is when updates that were due are made up for; a row of idle ones in one step.
//!
//! *Deviations* from ns-2: packets are marked as they arrive, not as they leave; queue and traffic are counted in bytes and
//! every packet has the same chance. Packets whose senders would not understand a mark are dropped instead.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use serde::{Deserialize, Serialize};

use crate::drop_tail::DropTail;
use crate::exponential_marking::ExponentialMarking;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, buffer};

/// REM's settings; defaults are ns-2's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait.
    pub packets: Option<u64>,
    /// Most bytes that may wait.
    pub bytes: Option<Bytes>,
    /// What the price rises by for a packet too much in an update.
    pub gamma: f64,
    /// What a packet that waits counts, against one that came.
    pub alpha: f64,
    /// The base of marking.
    pub phi: f64,
    /// How many packets should wait, `q*`.
    pub target: f64,
    /// How often the price is updated.
    pub update: Duration,
    /// What is counted as a packet.
    pub packet: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: None,
            bytes: None,
            gamma: 0.001,
            alpha: 0.1,
            phi: 1.001,
            target: 20.0,
            update: Duration::from_millis(2),
            packet: Bytes::new(1000),
        }
    }
}

impl Config {
    fn room(&self) -> buffer::Config {
        buffer::Config { packets: self.packets, bytes: self.bytes }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let positive = |gain: f64| gain > 0.0 && gain.is_finite();
        if !positive(self.gamma) || !positive(self.alpha) {
            return Err("`gamma` and `alpha` are above 0: 0.001 and 0.1 are recommended".into());
        }
        if !(self.target >= 0.0 && self.target.is_finite()) {
            return Err("`target` is how many packets should wait, 0 or more: 20 is recommended".into());
        }
        if self.update == Duration::ZERO || self.packet == Bytes::ZERO {
            return Err("`update` and `packet` are above 0: \"2 ms\" and \"1000 B\" are recommended".into());
        }
        ExponentialMarking::check(self.phi, "1.001")?;
        self.room().check()
    }
}

/// A REM queue.
#[derive(Debug)]
pub struct Rem<P> {
    config: Config,
    marking: ExponentialMarking,
    rate: Rate,
    /// `mu`
    price: f64,
    /// What has come since the last update.
    came: Bytes,
    update_at: Time,
    queue: DropTail<P>,
    random: Stream,
    tally: Tally,
}

impl<P: Parcel + Send> Rem<P> {
    /// The updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        if now < self.update_at {
            return;
        }
        let more = now.since(self.update_at).as_nanos() / self.config.update.as_nanos();
        self.update(1.0);
        // Nothing has come or gone since the first of them; steps that are all the same end at 0 as one would.
        self.came = Bytes::ZERO;
        self.update(more as f64);
        self.update_at += self.config.update * (more + 1);
    }

    fn update(&mut self, times: f64) {
        let Config { gamma, alpha, target, update, .. } = self.config;
        let packet = self.config.packet.as_f64();
        let waiting = self.queue.backlog().bytes.as_f64() / packet;
        let could_leave = self.rate.as_bps_f64() / 8.0 * update.as_secs_f64() / packet;
        let excess = alpha * (waiting - target) + self.came.as_f64() / packet - could_leave;
        self.price = (self.price + times * gamma * excess).max(0.0);
    }
}

impl<P: Parcel + Send> Discipline<P> for Rem<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        Self {
            config: config.clone(),
            marking: ExponentialMarking::new(config.phi),
            rate: environment.rate,
            price: 0.0,
            came: Bytes::ZERO,
            update_at: Time::ZERO + config.update,
            queue: DropTail::new(&config.room(), environment, random.clone()),
            random,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel + Send> Router<P> for Rem<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        self.catch_up(now);
        self.came += packet.bytes();
        let chosen = self.random.chance(self.marking.probability(self.price));
        let has_room = self.queue.has_room(packet.bytes());
        if !has_room || (chosen && !self.tally.mark(&mut packet)) {
            return Verdict::Dropped(packet);
        }
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.catch_up(now);
        self.queue.dequeue(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn on_rate(&mut self, now: Time, rate: Rate) {
        self.catch_up(now);
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};
    use crate::{Link, LinkConfig, Loss};

    fn rem(settings: &str) -> Rem<TestParcel> {
        let config: Config = settings.parse::<toml::Table>().unwrap().try_into().unwrap();
        config.check().unwrap();
        Rem::new(&config, ENVIRONMENT, Stream::from_seed(1)) // 8 Mb/s: 1000 bytes a millisecond
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn the_price_rises_with_what_comes_too_much_and_what_waits_too_long() {
        let mut rem = rem("gamma = 0.5\ntarget = 2");
        for _ in 0..5 {
            let _ = rem.enqueue(ms(0), TestParcel::new(1, 1000).capable());
        }
        rem.catch_up(ms(2)); // 5 came, 2 could leave, 5 wait
        let expected = 0.5 * (0.1 * (5.0 - 2.0) + 5.0 - 2.0);
        assert!((rem.price - expected).abs() < 1e-12, "{}", rem.price);
        rem.on_rate(ms(3), Rate::from_bps(400_000)); // 0.1 packets an update
        rem.catch_up(ms(9)); // three updates in which none came
        let expected = expected + 3.0 * 0.5 * (0.1 * (5.0 - 2.0) - 0.1);
        assert!((rem.price - expected).abs() < 1e-12, "{}", rem.price);
        while rem.dequeue(ms(9)).is_some() {}
        rem.catch_up(ms(100));
        assert_eq!(rem.price, 0.0);
    }

    #[test]
    fn packets_of_others_are_dropped_as_often_as_those_of_capable_senders_are_marked() {
        for capable in [true, false] {
            let mut rem = rem("phi = 2\ngamma = 1e-9");
            rem.price = 1.0;
            let packet = TestParcel::new(1, 1000);
            let packet = if capable { packet.capable() } else { packet };
            let dropped = (0..10_000).filter(|_| rem.pass(ms(0), packet).1 != Verdict::Queued).count() as u64;
            let (chosen, other) = if capable { (rem.tally().marked, dropped) } else { (dropped, rem.tally().marked) };
            assert!((4850..5150).contains(&chosen) && other == 0, "{chosen}, {other}");
        }
    }

    #[test]
    fn the_price_settles_where_what_comes_fits_and_the_target_waits() {
        // Senders want `demand` times the link's rate and take less by the share of marks: 1 - 1/demand of packets are to be
        // marked, at a queue of q*. Linear: s^2 + gamma K s + gamma alpha K, K = c ln phi = 0.19 packets an update: damped
        // by sqrt(gamma K / alpha) / 2 = 0.49, and at rest after some 1000 updates.
        for demand in [1.25, 2.0] {
            let router = rem("gamma = 0.05\nalpha = 0.01\nphi = 1.1\ntarget = 15");
            let config = LinkConfig { rate: ENVIRONMENT.rate, delay: Duration::ZERO, loss: Loss::default() };
            let (mut link, mut now) = (Link::new(config, router, Stream::from_seed(2)), Time::ZERO);
            let (mut offered, mut is_measuring) = (0, false);
            while now < ms(60_000) {
                let marked = link.router().marking.probability(link.router().price);
                now += Duration::from_secs_f64(1e-3 / (demand * (1.0 - marked)));
                if !is_measuring && now > ms(20_000) {
                    is_measuring = true;
                    link.advance(now);
                    link.start_measuring(now, true);
                }
                link.offer(now, TestParcel::new(1, 1000).capable());
                while link.arrive(now).is_some() {}
                offered += u64::from(is_measuring);
            }
            let share = link.counts().marked as f64 / offered as f64;
            let queue = link.queue().unwrap().summary(now).mean_packets;
            assert!((share - (1.0 - 1.0 / demand)).abs() < 0.01, "{share} of packets marked, demand {demand}");
            assert!((queue - 15.0).abs() < 0.75, "{queue} packets, demand {demand}");
            assert!(link.utilization(now) > 0.999, "{}", link.utilization(now));
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for (text, advice) in
            [("gamma = 0", "0.001"), ("target = -1", "20"), ("update = \"0 s\"", "2 ms"), ("phi = 1", "1.001")]
        {
            let config: Config = text.parse::<toml::Table>().unwrap().try_into().unwrap();
            let error = config.check().unwrap_err();
            assert!(error.contains(advice), "{error}");
        }
    }
}
