//! Budgets: amounts that come at a steady rate, for all clients together, for each client and for each network.
//!
//! | | one client | one network | all |
//! |---|---|---|---|
//! | bytes that are moved | `client_rate` | `network_rate` | `rate` |
//! | bytes that are hashed | `hashing` | four times `hashing` | |
//!
//! Clients and networks are those of [`shares`](rampmeter_session::shares). Hashing always has a limit by network,
//! because its cost is this host's, and one customer of a provider may have the addresses of 65536 clients.
//!
//! A budget may go into debt: a piece of work is done as a whole if anything is left, and the next one waits until the
//! debt is paid. So pieces may be of any size, and the mean rate is exact.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rampmeter_session::shares::{Name, Sharer};
use rampmeter_units::{Duration, Rate, Time};

use super::options::ServeOptions;

/// What a network may have hashed, in multiples of what a client may.
const HASHING_CLIENTS: u64 = 4;

/// The time in which an unused budget for hashing fills up: at 200 MB/s, a file of 1 GB is checked without a wait.
const HASHING_DEPTH: Duration = Duration::from_secs(5);

/// The time in which an unused budget for sending fills up.
const SENDING_DEPTH: Duration = Duration::from_millis(50);

/// An amount that comes at a steady rate.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    rate: f64,
    depth: f64,
    level: f64,
    at: Time,
}

impl Budget {
    /// A full one, which takes `depth` to fill up.
    fn new(rate: Rate, depth: Duration, now: Time) -> Self {
        let rate = rate.as_bps_f64() / 8.0;
        let depth = rate * depth.as_secs_f64();
        Self { rate, depth, level: depth, at: now }
    }

    fn fill(&mut self, now: Time) {
        self.level = (self.level + now.since(self.at).as_secs_f64() * self.rate).min(self.depth);
        self.at = self.at.max(now);
    }

    /// The time at which there is something left, if that is later than now.
    fn wait(&mut self, now: Time) -> Option<Time> {
        self.fill(now);
        let missing = 1.0 - self.level;
        (missing > 0.0).then(|| now + Duration::from_secs_f64(missing / self.rate).max(Duration::from_micros(100)))
    }

    fn take(&mut self, now: Time, amount: u64) {
        self.fill(now);
        self.level -= amount as f64;
    }
}

/// A budget of the same rate for each client, or for each network.
#[derive(Debug)]
struct Each {
    rate: Rate,
    depth: Duration,
    /// Those that were used and may not be full yet.
    budgets: BTreeMap<Name, Budget>,
}

impl Each {
    fn new(rate: Rate, depth: Duration) -> Self {
        Self { rate, depth, budgets: BTreeMap::new() }
    }

    fn wait(&mut self, now: Time, name: Name) -> Option<Time> {
        self.budgets.get_mut(&name)?.wait(now)
    }

    fn take(&mut self, now: Time, name: Name, amount: u64) {
        let budget = self.budgets.entry(name).or_insert_with(|| Budget::new(self.rate, self.depth, now));
        budget.take(now, amount);
    }

    /// Forgets those that are full: a new one would have the same.
    fn sweep(&mut self, now: Time) {
        self.budgets.retain(|_, budget| {
            budget.fill(now);
            budget.level < budget.depth
        });
    }
}

/// All budgets of a server.
#[derive(Debug)]
pub(crate) struct Budgets {
    moving: Option<Budget>,
    moving_of_clients: Option<Each>,
    moving_of_networks: Option<Each>,
    hashing_of_clients: Each,
    hashing_of_networks: Each,
}

impl Budgets {
    pub(crate) fn new(now: Time, options: &ServeOptions) -> Self {
        let of_network = Rate::from_bps(options.hashing.as_bps().saturating_mul(HASHING_CLIENTS));
        let moving_of_each = |rate: Option<Rate>| rate.map(|rate| Each::new(rate, SENDING_DEPTH));
        Self {
            moving: options.rate.map(|rate| Budget::new(rate, SENDING_DEPTH, now)),
            moving_of_clients: moving_of_each(options.client_rate),
            moving_of_networks: moving_of_each(options.network_rate),
            hashing_of_clients: Each::new(options.hashing, HASHING_DEPTH),
            hashing_of_networks: Each::new(of_network, HASHING_DEPTH),
        }
    }

    /// The time at which bytes may be moved again for the client at `ip`, if not now.
    pub(crate) fn wait_to_move(&mut self, now: Time, ip: IpAddr) -> Option<Time> {
        let sharer = Sharer::from(ip);
        let all = self.moving.as_mut().and_then(|budget| budget.wait(now));
        let network = self.moving_of_networks.as_mut().and_then(|each| each.wait(now, sharer.network));
        let own = self.moving_of_clients.as_mut().and_then(|each| each.wait(now, sharer.client));
        all.max(network).max(own)
    }

    /// The client at `ip` was sent, or has sent, so many bytes.
    pub(crate) fn on_moved(&mut self, now: Time, ip: IpAddr, bytes: u64) {
        if let Some(budget) = &mut self.moving {
            budget.take(now, bytes);
        }
        let sharer = Sharer::from(ip);
        for (each, name) in
            [(&mut self.moving_of_clients, sharer.client), (&mut self.moving_of_networks, sharer.network)]
        {
            if let Some(each) = each {
                each.take(now, name, bytes);
            }
        }
    }

    /// The time at which bytes may be hashed again for the client at `ip`, if not now.
    pub(crate) fn wait_to_hash(&mut self, now: Time, ip: IpAddr) -> Option<Time> {
        let sharer = Sharer::from(ip);
        let own = self.hashing_of_clients.wait(now, sharer.client);
        own.max(self.hashing_of_networks.wait(now, sharer.network))
    }

    /// Bytes were hashed for the client at `ip` that were neither sent nor received for it.
    pub(crate) fn on_hashed(&mut self, now: Time, ip: IpAddr, bytes: u64) {
        let sharer = Sharer::from(ip);
        self.hashing_of_clients.take(now, sharer.client, bytes);
        self.hashing_of_networks.take(now, sharer.network, bytes);
    }

    pub(crate) fn sweep(&mut self, now: Time) {
        let hashing = [&mut self.hashing_of_clients, &mut self.hashing_of_networks];
        let moving = self.moving_of_clients.iter_mut().chain(&mut self.moving_of_networks);
        moving.chain(hashing).for_each(|each| each.sweep(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// Moves pieces of 128 kB for `ips` in turn until `end`. Returns the bytes moved for each.
    fn move_pieces(budgets: &mut Budgets, ips: &[&str], end: u64) -> Vec<u64> {
        let mut moved = vec![0; ips.len()];
        for millisecond in 0..end {
            for (index, ip) in ips.iter().enumerate() {
                let (now, ip) = (after(millisecond), ip.parse().unwrap());
                if budgets.wait_to_move(now, ip).is_none() {
                    budgets.on_moved(now, ip, 128 * 1024);
                    moved[index] += 128 * 1024;
                }
            }
        }
        moved
    }

    fn budgets(rate_of_all: Option<u64>, client_rate: Option<u64>) -> Budgets {
        let rate = |bytes: Option<u64>| bytes.map(|bytes| Rate::from_bps(bytes * 8));
        let options =
            ServeOptions { rate: rate(rate_of_all), client_rate: rate(client_rate), ..ServeOptions::default() };
        Budgets::new(Time::ZERO, &options)
    }

    #[test]
    fn a_client_gets_its_rate_and_all_get_theirs() {
        // 1 MB/s for each client, and 1.5 MB/s for all.
        let mut each = budgets(None, Some(1_000_000));
        for moved in move_pieces(&mut each, &["10.0.0.1", "10.0.0.2"], 10_000) {
            assert!((9_900_000..10_300_000).contains(&moved), "{moved}");
        }
        let mut all = budgets(Some(1_500_000), Some(1_000_000));
        let moved: u64 = move_pieces(&mut all, &["10.0.0.1", "10.0.0.2", "10.0.0.3"], 10_000).iter().sum();
        assert!((14_900_000..15_300_000).contains(&moved), "{moved}");
    }

    #[test]
    fn a_network_gets_its_rate_and_shares_it() {
        let rate = |bytes: u64| Some(Rate::from_bps(bytes * 8));
        let options = ServeOptions { client_rate: rate(800_000), network_rate: rate(1_000_000), ..Default::default() };
        let mut budgets = Budgets::new(Time::ZERO, &options);
        let moved = move_pieces(&mut budgets, &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1"], 10_000);
        let network: u64 = moved[..3].iter().sum();
        assert!((9_900_000..10_300_000).contains(&network), "{moved:?}");
        assert!((7_900_000..8_300_000).contains(&moved[3]), "one alone has the rate of a client: {moved:?}");
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_64_bits_of_ipv6() {
        for (ips, rates) in [
            (["10.0.0.1", "::ffff:10.0.0.1"], 1),
            (["10.0.0.1", "10.0.0.2"], 2),
            (["2001:db8::1", "2001:db8::2"], 1),
            (["2001:db8:0:1::1", "2001:db8:0:2::1"], 2),
        ] {
            let mut budgets = budgets(None, Some(1_000_000));
            let both: u64 = move_pieces(&mut budgets, &ips, 10_000).iter().sum();
            assert_eq!((both + 500_000) / 10_000_000, rates, "{ips:?}: {both}");
        }
    }

    /// Hashes pieces of 4 MB for `ips` for 20 seconds. Returns the gigabytes hashed for each.
    fn hash_pieces(ips: &[IpAddr]) -> Vec<f64> {
        let (mut budgets, mut hashed) = (budgets(None, None), vec![0.0; ips.len()]);
        for now in (0..20_000).step_by(10).map(after) {
            // All that wait for the same time go on then: a piece is charged when it is hashed.
            let due: Vec<usize> = (0..ips.len()).filter(|&n| budgets.wait_to_hash(now, ips[n]).is_none()).collect();
            for index in due {
                budgets.on_hashed(now, ips[index], 4_000_000);
                hashed[index] += 0.004;
            }
        }
        hashed
    }

    fn is_near(gigabytes: f64, expected: f64) -> bool {
        (gigabytes - expected).abs() < 0.1 * expected
    }

    /// A home has 65536 networks of 64 bits, a provider 256 IPv4 addresses in 24 bits.
    #[test]
    fn one_networks_hashing_does_not_take_anothers() {
        let home = (0..200).map(|n| IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 1])).collect();
        let provider = (0..200).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        for (mut ips, other) in [(home, "2001:db8:2::1"), (provider, "10.0.1.1")] as [(Vec<IpAddr>, _); 2] {
            ips.push(other.parse().unwrap());
            let hashed = hash_pieces(&ips);
            assert!(is_near(hashed[..200].iter().sum(), 20.0), "4 GB at once and 800 MB/s: {:?}", &hashed[..9]);
            assert!(hashed[..200].iter().all(|&one| is_near(one, 0.1)), "in equal parts: {:?}", &hashed[..9]);
            assert!(is_near(hashed[200], 5.0), "1 GB at once and 200 MB/s: {}", hashed[200]);
        }
    }

    #[test]
    fn four_clients_of_a_network_hash_as_one_alone() {
        let ips = |count| (1..=count).map(|n| IpAddr::from([10, 0, 0, n])).collect::<Vec<_>>();
        assert!(hash_pieces(&ips(4)).into_iter().all(|one| is_near(one, 5.0)));
        assert!(hash_pieces(&ips(8)).into_iter().all(|one| is_near(one, 2.5)));
    }

    #[test]
    fn a_debt_is_remembered_until_it_is_paid() {
        let (mut budgets, ip) = (budgets(None, None), IpAddr::from([10, 0, 0, 1]));
        budgets.on_hashed(Time::ZERO, ip, 3_000_000_000);
        let wait = budgets.wait_to_hash(Time::ZERO, ip).unwrap();
        assert_eq!(wait.since(Time::ZERO).as_secs_f64().round(), 10.0, "2 GB of debt at 200 MB/s");
        let kept =
            |budgets: &Budgets| [&budgets.hashing_of_clients, &budgets.hashing_of_networks].map(|e| e.budgets.len());
        budgets.sweep(after(14_000));
        assert_eq!(kept(&budgets), [1, 0]);
        budgets.sweep(after(15_100));
        assert_eq!(kept(&budgets), [0, 0]);
    }
}
