//! Virtual-queue marking, the router of Kelly's stable TCP ("On engineering a stable and scalable TCP variant",
//! CUED/F-INFENG/TR.435, 2002): packets are marked as if the link were slightly slower than it is, so that senders stay
//! below the link's rate, and the real queue stays almost empty.
//!
//! ```text
//! a packet of b bytes arrives:    q = max(q - theta C (time since the last one), 0)      drained on arrivals: no timer
//!                                 mark it with probability 1 - phi^(-q/s)
//!                                 q = min(q + b, bound)
//!                                 then the real queue: FIFO, drop-tail
//! ```
//!
//! The order, the two queues and the bound are the report's; the probability is derived from its text (a hybrid of
//! virtual queueing and random exponential marking, where `phi` sets the scheme's effective buffer). The virtual queue
//! includes acknowledgements and packets that are then dropped. Packets that are not ECN-capable pass unmarked.
//!
//! With Poisson arrivals, `rho = y / (theta C)` and `k = ln phi`, the fraction of marked packets is 1 minus the Laplace
//! transform of the virtual waiting time (Pollaczek and Khinchine), with `a < p / (y p')` for stability:
//!
//! ```text
//! q in packets, M/M/1:            p = rho (1 - 1/phi) / (1 - rho/phi)          p/(y p') = 1 - rho/phi
//! sizes exponential, mean s:      p = rho k / (1 - rho + k)                    the same, with 1 + k for phi
//! all of size s:                  p = 1 - (1 - rho) k / (k - rho (1 - e^-k))   about the same, with 1 + k/2 for phi
//! Brownian, variance y sigma^2:   p = k / (k + eta), eta = 2 (theta C - y) / (y sigma^2)
//! ```
//!
//! The report's M/M/1 counts packets; this queue counts bytes, as the report's router does, so the second or the third
//! line applies. The third one's stability bound falls to about `k/2`, not to `1 - 1/phi`.
//!
//! *Deviations*: the report's parameter values are not known; all values here are chosen.

use rampmeter_units::{Bytes, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::exponential_marking::ExponentialMarking;
use crate::disciplines::virtual_backlog::{VirtualBacklog, share_of};
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range};

/// Settings of virtual-queue marking. All defaults are chosen.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The drain rate of the virtual queue, as a share of the link's rate. Poisson arrivals of equal packets that fill
    /// it form a real queue of `theta^2 / (2 (1 - theta))` packets: 9.0 at 0.95, where 10 are acceptable.
    #[default(0.95)]
    pub theta: f64,
    /// The base of marking: a higher base marks more. With 1.1 senders are stable with `a` up to 0.046 for equal
    /// packets and up to 0.087 for exponential sizes at any load, and with `a` = 0.05 up to a load of 0.99; equal
    /// packets are marked from 1% (load 0.17 of `theta`) to 20% (load 0.84).
    #[default(1.1)]
    pub phi: f64,
    /// The predominant packet size, `s`.
    #[default(Bytes::new(1000))]
    pub packet: Bytes,
    /// The bound of the virtual queue, in such packets. At 50 it marks 99% and is empty after 53 packet times.
    #[default(50.0)]
    pub bound: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("theta", self.theta, 0.01..=1.0, "of the link's rate; 0.95 is recommended")?;
        ExponentialMarking::check(self.phi, "1.1")?;
        VirtualBacklog::check(self.bound, self.packet)?;
        Room::check(self.packets, self.bytes)
    }
}

/// A queue with a virtual queue beside it.
#[derive(Debug)]
pub struct VirtualQueue<P> {
    theta: f64,
    packet: f64,
    marking: ExponentialMarking,
    backlog: VirtualBacklog,
    queue: DropTail<P>,
    random: Random,
    tally: Tally,
}

impl<P: Parcel + Send> VirtualQueue<P> {
    fn mark_by_virtual_queue(&mut self, now: Time, packet: &mut P) {
        let price = self.backlog.bytes(now) / self.packet; // q/s, before the packet is added
        let chosen = price > 0.0 && self.random.chance(self.marking.probability(price));
        self.backlog.add(now, packet.bytes());
        if chosen && self.queue.has_room(packet.bytes()) {
            self.tally.mark(packet);
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for VirtualQueue<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        let bound = Bytes::new((config.bound * config.packet.as_f64()) as u64);
        Self {
            theta: config.theta,
            packet: config.packet.as_f64(),
            marking: ExponentialMarking::new(config.phi),
            backlog: VirtualBacklog::new(share_of(environment.rate, config.theta), bound),
            queue: DropTail::with_room(config.packets, config.bytes),
            random,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel + Send> Router<P> for VirtualQueue<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        self.mark_by_virtual_queue(now, &mut packet);
        self.queue.enqueue(now, packet)
    }

    fn pass(&mut self, now: Time, mut packet: P) -> (Option<P>, Verdict<P>) {
        self.mark_by_virtual_queue(now, &mut packet);
        self.queue.pass(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.queue.dequeue(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn on_rate(&mut self, now: Time, rate: Rate) {
        self.backlog.set_rate(now, share_of(rate, self.theta));
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Duration, Ecn};

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    const CAPABLE: TestParcel = TestParcel { ecn: Ecn::Ect0, ..TestParcel::new(1, 1000) };

    fn router(config: &Config) -> VirtualQueue<TestParcel> {
        config.check().unwrap();
        VirtualQueue::new(config, ENVIRONMENT, Random::from_seed(1)) // 8 Mb/s: 1000 bytes a millisecond
    }

    /// The fraction of `packets` that are marked, when bursts of `burst` packets arrive in a Poisson stream and load
    /// the virtual queue to `rho`, with packet sizes drawn by `size`.
    fn marked_fraction(
        config: &Config,
        rho: f64,
        packets: u64,
        burst: u64,
        mut size: impl FnMut(&mut Random) -> f64,
    ) -> f64 {
        let (mut router, mut random) = (router(config), Random::from_seed(2));
        let gap = burst as f64 * 1e-3 / (config.theta * rho); // seconds between bursts
        let mut now = Time::ZERO;
        for _ in 0..packets / burst {
            now += Duration::from_secs_f64(random.exponential(gap));
            for _ in 0..burst {
                let packet = TestParcel { bytes: Bytes::new(size(&mut random).round() as u64), ..CAPABLE };
                let _ = router.pass(now, packet);
            }
        }
        router.tally().marked as f64 / packets as f64
    }

    #[test]
    fn exponential_sizes_are_marked_by_the_mm1_waiting_time() {
        // W = 0 with probability 1 - rho, else exponential with rate (1 - rho)/s, which gives E phi^(-W/s) = (1 - rho)
        // (1 + k) / (1 - rho + k). This is the report's formula with 1 + k for phi, and within 5% of the formula with
        // phi itself.
        for phi in [1.1_f64, 1.5] {
            for rho in [0.3, 0.6, 0.8] {
                let config = Config { phi, ..Config::default() };
                let seen = marked_fraction(&config, rho, 300_000, 1, |random| random.exponential(1000.0));
                let by = |phi: f64| rho * (1.0 - 1.0 / phi) / (1.0 - rho / phi);
                let expected = by(1.0 + phi.ln());
                assert!((seen / expected - 1.0).abs() < 0.04, "phi {phi}, rho {rho}: {seen}, not {expected}");
                assert!(phi > 1.1 || (seen / by(phi) - 1.0).abs() < 0.08, "phi {phi}, rho {rho}: {seen}");
            }
        }
    }

    #[test]
    fn equal_sizes_are_marked_as_pollaczek_and_khinchine_predict() {
        for phi in [1.1_f64, 2.0] {
            for rho in [0.3, 0.6, 0.84] {
                let config = Config { phi, ..Config::default() };
                let seen = marked_fraction(&config, rho, 300_000, 1, |_| 1000.0);
                let k = phi.ln();
                let expected = 1.0 - (1.0 - rho) * k / (k - rho * (1.0 - 1.0 / phi));
                assert!((seen / expected - 1.0).abs() < 0.04, "phi {phi}, rho {rho}: {seen}, not {expected}");
            }
        }
    }
}
