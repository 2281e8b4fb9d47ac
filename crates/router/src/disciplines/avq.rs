//! Adaptive Virtual Queue: a virtual queue whose capacity adapts until the link reaches a desired utilization (Kunniyur
//! and Srikant, "An adaptive virtual queue (AVQ) algorithm for active queue management", IEEE/ACM Transactions on
//! Networking 12(2), 2004; section II).
//!
//! ```text
//! d C~/dt = alpha (gamma C - lambda)                      lambda: arrival rate, bits a second
//!
//! b bits arrive, t since the last:   VQ = max(VQ - C~ t, 0)
//!     overflow:      VQ + b > B ?  mark  :  VQ += b
//!     exponential:   mark with probability 1 - phi^(-VQ/s);  VQ = min(VQ + b, B)
//!                                    C~ = max(min(C~ + alpha gamma C t, C~_max) - alpha b, 0)
//! ```
//!
//! With `overflow` it is the paper's: the token bucket of its section on implementation, and `C~` at most `C`. Packets
//! that are not ECN-capable are dropped instead of marked, and `lambda` then counts the packets accepted (ns-2.35,
//! `queue/vq.cc`, by the paper's authors, which also starts with `C~ = 0.8 C`).
//!
//! With `exponential` it is [`virtual-queue`](crate::virtual_queue) with an adaptive `theta`, which Kelly's report
//! leaves open, to "improve link utilizations" when demand is low: a virtual queue slower than the link then marks too
//! many packets. So `C~` may exceed `C`, and every packet that finds `bound` packets in the real queue is marked. Where
//! the load varies so much that these marks limit the senders, utilization stays below `gamma`. Packets that are not
//! ECN-capable pass unmarked. All of this, and the maximum of `C~`, is chosen.
//!
//! *Deviations*: `C~` is a share of `C`, so it follows the link's rate; `B` is a setting, in the paper the real buffer.

use rampmeter_units::{Bytes, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::exponential_marking::ExponentialMarking;
use crate::disciplines::virtual_backlog::{VirtualBacklog, share_of};
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range};

/// The initial `C~`, as a share of the link's rate (ns-2's `ecnlim_`).
const INITIAL: f64 = 0.8;

/// Which packets AVQ marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marking {
    /// Packets that do not fit into the virtual queue (the paper's).
    #[default]
    Overflow,
    /// Every packet, with a probability that grows with the virtual queue (Kelly's).
    Exponential,
}

/// AVQ's settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// Which packets are marked.
    pub marking: Marking,
    /// The desired utilization (ns-2). Poisson arrivals of equal packets form a queue of 6 at 0.93, and of 24 at 0.98.
    #[default(0.98)]
    pub gamma: f64,
    /// The adaptation rate of `C~`, per second (ns-2; the paper's rule has no solution on fast links).
    #[default(0.15)]
    pub alpha: f64,
    /// The base of exponential marking (chosen, the same as in `virtual-queue`).
    #[default(1.1)]
    pub phi: f64,
    /// The predominant packet size, `s` (ns-2).
    #[default(Bytes::new(1000))]
    pub packet: Bytes,
    /// The size `B` of the virtual queue in such packets. None: 50 with overflow (chosen, as in `virtual-queue`), 200
    /// with exponential marking (chosen: the real queue of 10 flows now and then reaches 50 by chance, all flows are
    /// reduced at once, and with equal round trips 2 of 6 runs oscillated from then on; at 200 none did).
    pub bound: Option<f64>,
}

impl Config {
    /// `B`, in packets.
    fn bound(&self) -> f64 {
        self.bound.unwrap_or(match self.marking {
            Marking::Overflow => 50.0,
            Marking::Exponential => 200.0,
        })
    }

    fn bound_in_bytes(&self) -> Bytes {
        Bytes::new((self.bound() * self.packet.as_f64()) as u64)
    }

    /// The maximum of `C~`, as a share of the link's rate: 1 with overflow (the paper), 8 with exponential marking
    /// (chosen: on a full link 0.7% of equal packets are then marked at `phi` = 1.1).
    fn max_virtual_capacity(&self) -> f64 {
        match self.marking {
            Marking::Overflow => 1.0,
            Marking::Exponential => 8.0,
        }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("gamma", self.gamma, 0.01..=1.0, "of the link; 0.98 is recommended")?;
        check_range("alpha", self.alpha, 0.0001..=1000.0, "as a gain; 0.15 is recommended")?;
        ExponentialMarking::check(self.phi, "1.1")?;
        VirtualBacklog::check(self.bound(), self.packet)?;
        Room::check(self.packets, self.bytes)
    }
}

/// An AVQ queue.
#[derive(Debug)]
pub struct Avq<P> {
    config: Config,
    rate: Rate,
    /// `C~ / C`
    share: f64,
    adapted_at: Time,
    marking: ExponentialMarking,
    virtual_queue: VirtualBacklog,
    queue: DropTail<P>,
    random: Random,
    tally: Tally,
}

impl<P: Parcel + Send> Avq<P> {
    /// Whether this packet is to be marked or dropped. Adds it to the virtual queue, unless it overflows that.
    fn chooses(&mut self, now: Time, bytes: Bytes) -> bool {
        match self.config.marking {
            Marking::Overflow => {
                let chosen = self.virtual_queue.overflows(now, bytes);
                if !chosen {
                    self.virtual_queue.add(now, bytes);
                }
                chosen
            }
            Marking::Exponential => {
                let price = self.virtual_queue.bytes(now) / self.config.packet.as_f64();
                self.virtual_queue.add(now, bytes);
                let is_full = self.queue.backlog().bytes >= self.config.bound_in_bytes();
                is_full || (price > 0.0 && self.random.chance(self.marking.probability(price)))
            }
        }
    }

    /// The token bucket, after `bytes` have arrived.
    fn adapt(&mut self, now: Time, bytes: Bytes) {
        let Config { alpha, gamma, .. } = self.config;
        let arrived = bytes.as_f64() * 8.0 / self.rate.as_bps_f64().max(1.0); // b/C, seconds
        let earned = alpha * gamma * now.since(self.adapted_at).as_secs_f64();
        self.share = ((self.share + earned).min(self.config.max_virtual_capacity()) - alpha * arrived).max(0.0);
        self.adapted_at = now;
        self.virtual_queue.set_rate(now, self.capacity());
    }

    /// `C~`
    fn capacity(&self) -> Rate {
        share_of(self.rate, self.share)
    }
}

impl<P: Parcel + Send> Discipline<P> for Avq<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self {
            config: config.clone(),
            rate: environment.rate,
            share: INITIAL,
            adapted_at: Time::ZERO,
            marking: ExponentialMarking::new(config.phi),
            virtual_queue: VirtualBacklog::new(share_of(environment.rate, INITIAL), config.bound_in_bytes()),
            queue: DropTail::with_room(config.packets, config.bytes),
            random,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel + Send> Router<P> for Avq<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        let chosen = self.chooses(now, packet.bytes());
        let has_room = self.queue.has_room(packet.bytes());
        let is_marked = chosen && has_room && self.tally.mark(&mut packet);
        let is_dropped = chosen && !is_marked && self.config.marking == Marking::Overflow;
        self.adapt(now, if is_dropped { Bytes::ZERO } else { packet.bytes() });
        if is_dropped { Verdict::Dropped(packet) } else { self.queue.enqueue(now, packet) }
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
        self.adapt(now, Bytes::ZERO);
        self.rate = rate;
        self.virtual_queue.set_rate(now, self.capacity());
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Duration, Ecn};

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel, ms};
    use crate::{AnyRouter, Link, LinkConfig, Loss, Registry};

    const CAPABLE: TestParcel = TestParcel { ecn: Ecn::Ect0, ..TestParcel::new(1, 1000) };

    fn avq(settings: &str) -> Avq<TestParcel> {
        let config: Config = settings.parse::<toml::Table>().unwrap().try_into().unwrap();
        config.check().unwrap();
        Avq::new(&config, ENVIRONMENT, Random::from_seed(1)) // 8 Mb/s: 1000 bytes a millisecond
    }

    #[test]
    fn the_token_bucket_fills_at_gamma_and_drains_by_arrivals() {
        let mut avq = avq("gamma = 0.9\nalpha = 2");
        let _ = avq.pass(ms(10), CAPABLE);
        assert!((avq.share - (0.8 + 2.0 * 0.9 * 0.010 - 2.0 * 0.001)).abs() < 1e-12, "{}", avq.share);
        avq.adapt(ms(5000), Bytes::ZERO);
        assert_eq!((avq.share, avq.capacity()), (1.0, ENVIRONMENT.rate)); // capped at the link's rate
        avq.on_rate(ms(5000), Rate::from_bps(2_000_000));
        assert_eq!(avq.capacity(), Rate::from_bps(2_000_000));
        avq.adapt(ms(5000), Bytes::new(1_000_000));
        assert_eq!(avq.share, 0.0);
    }

    #[test]
    fn a_packet_that_overflows_the_virtual_queue_is_only_marked() {
        let mut avq = avq("bound = 2");
        for (packet, verdict, marked) in [
            (CAPABLE, Verdict::Queued, 0),
            (CAPABLE, Verdict::Queued, 0),
            (CAPABLE, Verdict::Queued, 1),
            (TestParcel::new(2, 1000), Verdict::Dropped(TestParcel::new(2, 1000)), 1),
        ] {
            assert_eq!((avq.enqueue(ms(0), packet), avq.tally().marked), (verdict, marked));
        }
        assert_eq!(avq.virtual_queue.bytes(ms(0)), 2000.0);
    }

    /// The load between 300 and 600 s of a sender that behaves like stable TCP: with `w` packets a round trip of 50 ms
    /// it sends a Poisson stream, adds 0.0025 to `w` for each unmarked packet and subtracts that fraction of it for
    /// each marked one, so its rate is 20 (1 - p) / p packets a second, within sqrt(0.0025 / 2) = 3.5% of its mean.
    /// Also returns the mean queue.
    fn load(kind: &str, settings: &str) -> (f64, f64) {
        let config = Registry::default().config(kind, &settings.parse().unwrap()).unwrap();
        let router: AnyRouter<TestParcel> = config.make(ENVIRONMENT, Random::from_seed(1));
        let config = LinkConfig { rate: ENVIRONMENT.rate, delay: Duration::ZERO, loss: Loss::default() };
        let (mut link, mut random) = (Link::new(config, router, Random::from_seed(2)), Random::from_seed(3));
        let (mut window, mut now, mut is_measuring) = (10.0, Time::ZERO, false);
        while now < ms(600_000) {
            now += Duration::from_secs_f64(random.exponential(0.05 / window));
            if !is_measuring && now > ms(300_000) {
                is_measuring = true;
                link.advance(now);
                link.start_measuring(now, true);
            }
            let before = link.router().unwrap().tally().marked;
            let _ = link.offer(now, &mut Some(CAPABLE), Time::ZERO);
            while link.arrive(now).is_some() {}
            let is_marked = link.router().unwrap().tally().marked > before;
            window = if is_marked { (1.0 - 0.0025) * window } else { window + 0.0025 };
        }
        (link.utilization(now), link.queue().unwrap().summary(now).mean_packets)
    }

    #[test]
    fn low_demand_reaches_gamma_only_with_an_adaptive_virtual_queue() {
        // Static: 20 (1 - p) / p equals p = 1 - (1 - rho) k / (k - rho (1 - 1/phi)) at 0.45 of the link.
        let (load_of_static, _) = load("virtual-queue", "");
        assert!((0.42..0.48).contains(&load_of_static), "{load_of_static}");
        // Adaptive: at gamma, with the M/D/1 queue of gamma^2 / (2 (1 - gamma)) = 6.2 packets plus the effect of the
        // variation of `w`.
        let (load_of_adaptive, queue) = load("avq", "marking = \"exponential\"\ngamma = 0.93\nalpha = 0.3");
        assert!((0.92..0.94).contains(&load_of_adaptive), "{load_of_adaptive}");
        assert!((4.0..12.0).contains(&queue), "{queue}");
    }
}
