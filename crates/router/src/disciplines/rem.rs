//! Random Exponential Marking: a router that marks by a price, which rises while packets arrive faster than they leave
//! and while the queue is above its target (Athuraliya, Li, Low, Yin, "REM: active queue management", IEEE Network
//! 15(3), 2001).
//!
//! ```text
//! every update:   mu = max(mu + gamma (alpha (q - q*) + x - c), 0)       queue q, arrivals x, capacity c, in packets
//! an arrival:     marked with probability 1 - phi^-mu
//! ```
//!
//! The price is in equilibrium only where `x = c` and `q = q*`, for any number of senders: the congestion measure is
//! independent of the performance measure. Defaults are those of ns-2.35 (`queue/rem.cc`, by two of the authors; also
//! `inw_ 1`: `x` is not averaged).
//!
//! There is no timer: updates that were due are made up for when the next packet arrives or leaves.
//!
//! *Deviations* from ns-2: packets are marked as they arrive, or dropped if they are not ECN-capable; queue and
//! arrivals are counted in bytes, and the marking probability does not depend on the packet size.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::exponential_marking::ExponentialMarking;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range, ensure};

/// REM's settings; the defaults are ns-2's.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The increase of the price for each packet of excess in an update.
    #[default(0.001)]
    pub gamma: f64,
    /// The weight of a queued packet, relative to an arrival.
    #[default(0.1)]
    pub alpha: f64,
    /// The base of exponential marking.
    #[default(1.001)]
    pub phi: f64,
    /// The target queue `q*`, in packets.
    #[default(20.0)]
    pub target: f64,
    /// The interval between updates.
    #[default(Duration::from_millis(2))]
    pub update: Duration,
    /// The packet size in which bytes are counted.
    #[default(Bytes::new(1000))]
    pub packet: Bytes,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("gamma", self.gamma, 1e-9..=1000.0, "as a gain; 0.001 is recommended")?;
        check_range("alpha", self.alpha, 0.0001..=1000.0, "as a gain; 0.1 is recommended")?;
        check_range("target", self.target, 0.0..=1e6, "queued packets; 20 is recommended")?;
        let above_zero = self.update > Duration::ZERO && self.packet > Bytes::ZERO;
        ensure(above_zero, "`update` and `packet` must be above 0: \"2 ms\" and \"1000 B\" are recommended")?;
        ExponentialMarking::check(self.phi, "1.001")?;
        Room::check(self.packets, self.bytes)
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
    /// Bytes that arrived since the last update.
    arrived: Bytes,
    update_at: Time,
    queue: DropTail<P>,
    random: Random,
    tally: Tally,
}

impl<P: Parcel + Send> Rem<P> {
    /// Makes the updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        if now < self.update_at {
            return;
        }
        let updates = now.since(self.update_at).as_nanos() / self.config.update.as_nanos();
        self.update(1.0);
        // No packet has arrived or left since the first of them. Equal steps with a floor of 0 add up to one step.
        self.arrived = Bytes::ZERO;
        self.update(updates as f64);
        self.update_at += self.config.update * (updates + 1);
    }

    fn update(&mut self, times: f64) {
        let Config { gamma, alpha, target, update, .. } = self.config;
        let packet = self.config.packet.as_f64();
        let waiting = self.queue.backlog().bytes.as_f64() / packet;
        let capacity = self.rate.as_bps_f64() / 8.0 * update.as_secs_f64() / packet;
        let excess = alpha * (waiting - target) + self.arrived.as_f64() / packet - capacity;
        self.price = (self.price + times * gamma * excess).max(0.0);
    }
}

impl<P: Parcel + Send> Discipline<P> for Rem<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self {
            config: config.clone(),
            marking: ExponentialMarking::new(config.phi),
            rate: environment.rate,
            price: 0.0,
            arrived: Bytes::ZERO,
            update_at: Time::ZERO + config.update,
            queue: DropTail::with_room(config.packets, config.bytes),
            random,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel + Send> Router<P> for Rem<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        self.catch_up(now);
        self.arrived += packet.bytes();
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
        Rem::new(&config, ENVIRONMENT, Random::from_seed(1)) // 8 Mb/s: 1000 bytes a millisecond
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn the_price_rises_with_excess_arrivals_and_excess_queue() {
        let mut rem = rem("gamma = 0.5\ntarget = 2");
        for _ in 0..5 {
            let _ = rem.enqueue(ms(0), TestParcel::new(1, 1000).capable());
        }
        rem.catch_up(ms(2)); // 5 arrived, 2 could leave, 5 are queued
        let expected = 0.5 * (0.1 * (5.0 - 2.0) + 5.0 - 2.0);
        assert!((rem.price - expected).abs() < 1e-12, "{}", rem.price);
        rem.on_rate(ms(3), Rate::from_bps(400_000)); // 0.1 packets an update
        rem.catch_up(ms(9)); // three updates without arrivals
        let expected = expected + 3.0 * 0.5 * (0.1 * (5.0 - 2.0) - 0.1);
        assert!((rem.price - expected).abs() < 1e-12, "{}", rem.price);
        assert_eq!(rem.update_at, ms(10));
        while rem.dequeue(ms(9)).is_some() {}
        rem.catch_up(ms(100));
        assert_eq!(rem.price, 0.0);
    }

    #[test]
    fn the_price_settles_at_full_load_and_the_target_queue() {
        // Senders send `demand` times the link's rate, less the fraction that is marked: 1 - 1/demand of packets are to
        // be marked, at a queue of q*. Linearized: s^2 + gamma K s + gamma alpha K, K = c ln phi = 0.19 packets an
        // update: the damping ratio is sqrt(gamma K / alpha) / 2 = 0.49, and the price settles after about 1000
        // updates.
        for demand in [1.25, 2.0] {
            let router = rem("gamma = 0.05\nalpha = 0.01\nphi = 1.1\ntarget = 15");
            let config = LinkConfig { rate: ENVIRONMENT.rate, delay: Duration::ZERO, loss: Loss::default() };
            let (mut link, mut now) = (Link::new(config, router, Random::from_seed(2)), Time::ZERO);
            let (mut offered, mut is_measuring) = (0, false);
            while now < ms(60_000) {
                let marked = link.router().unwrap().marking.probability(link.router().unwrap().price);
                now += Duration::from_secs_f64(1e-3 / (demand * (1.0 - marked)));
                if !is_measuring && now > ms(20_000) {
                    is_measuring = true;
                    link.advance(now);
                    link.start_measuring(now, true);
                }
                let _ = link.offer(now, &mut Some(TestParcel::new(1, 1000).capable()), Time::ZERO);
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
}
