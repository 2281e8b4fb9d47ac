//! Budgets: amounts that come at a steady rate, for all clients together and for each client.
//!
//! A budget may go into debt: a piece of work is done as a whole if anything is left, and the next one waits until the
//! debt is paid. So pieces may be of any size, and the mean rate is exact.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rampmeter_manager::Destination;
use rampmeter_units::{Duration, Rate, Time};

use crate::shares::client;

/// The bytes that a server hashes for a client without sending or receiving them, a second: to resume and
/// to compare files.
const HASHED_A_SECOND: f64 = 200e6;

/// The same at once: one large file may be checked without a wait.
const HASHED_AT_ONCE: f64 = 1e9;

/// The time in which an unused budget for sending fills up.
const SENDING_DEPTH_S: f64 = 0.05;

/// An amount that comes at a steady rate.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    rate: f64,
    depth: f64,
    level: f64,
    at: Time,
}

impl Budget {
    fn new(rate: f64, depth: f64, now: Time) -> Self {
        Self { rate, depth, level: depth, at: now }
    }

    fn of(rate: Rate, now: Time) -> Self {
        let bytes = rate.as_bps() as f64 / 8.0;
        Self::new(bytes, bytes * SENDING_DEPTH_S, now)
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

    fn take(&mut self, amount: u64) {
        self.level -= amount as f64;
    }
}

/// The budgets of one client.
#[derive(Debug)]
struct ClientBudgets {
    hashing: Budget,
    sending: Option<Budget>,
}

/// All budgets of a server.
#[derive(Debug)]
pub(crate) struct Budgets {
    client_rate: Option<Rate>,
    total: Option<Budget>,
    clients: BTreeMap<Destination, ClientBudgets>,
}

impl Budgets {
    pub(crate) fn new(now: Time, total: Option<Rate>, client_rate: Option<Rate>) -> Self {
        Self { client_rate, total: total.map(|rate| Budget::of(rate, now)), clients: BTreeMap::new() }
    }

    fn client(&mut self, now: Time, ip: IpAddr) -> &mut ClientBudgets {
        let client_rate = self.client_rate;
        self.clients.entry(client(ip)).or_insert_with(|| ClientBudgets {
            hashing: Budget::new(HASHED_A_SECOND, HASHED_AT_ONCE, now),
            sending: client_rate.map(|rate| Budget::of(rate, now)),
        })
    }

    /// The time at which bytes may be moved again for the client at `ip`, if not now.
    pub(crate) fn wait_to_move(&mut self, now: Time, ip: IpAddr) -> Option<Time> {
        let total = self.total.as_mut().and_then(|budget| budget.wait(now));
        if self.client_rate.is_none() {
            return total;
        }
        let own = self.client(now, ip).sending.as_mut().and_then(|budget| budget.wait(now));
        total.max(own)
    }

    /// The client at `ip` was sent, or has sent, so many bytes.
    pub(crate) fn on_moved(&mut self, now: Time, ip: IpAddr, bytes: u64) {
        if let Some(budget) = &mut self.total {
            budget.take(bytes);
        }
        if self.client_rate.is_some() {
            if let Some(budget) = &mut self.client(now, ip).sending {
                budget.take(bytes);
            }
        }
    }

    /// The time at which bytes may be hashed again for the client at `ip`, if not now.
    pub(crate) fn wait_to_hash(&mut self, now: Time, ip: IpAddr) -> Option<Time> {
        self.client(now, ip).hashing.wait(now)
    }

    pub(crate) fn on_hashed(&mut self, now: Time, ip: IpAddr, bytes: u64) {
        self.client(now, ip).hashing.take(bytes);
    }

    /// Forgets networks whose budgets are full: a new one would have the same.
    pub(crate) fn sweep(&mut self, now: Time) {
        self.clients.retain(|_, budgets| {
            [Some(&mut budgets.hashing), budgets.sending.as_mut()].into_iter().flatten().any(|budget| {
                budget.fill(now);
                budget.level < budget.depth
            })
        });
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

    #[test]
    fn a_client_gets_its_rate_and_all_get_theirs() {
        let rate = |bytes: u64| Some(Rate::from_bps(bytes * 8));
        // 1 MB/s for each client, and 1.5 MB/s for all.
        let mut budgets = Budgets::new(Time::ZERO, None, rate(1_000_000));
        for moved in move_pieces(&mut budgets, &["10.0.0.1", "10.0.0.2"], 10_000) {
            assert!((9_900_000..10_300_000).contains(&moved), "{moved}");
        }
        let mut budgets = Budgets::new(Time::ZERO, rate(1_500_000), rate(1_000_000));
        let moved: u64 = move_pieces(&mut budgets, &["10.0.0.1", "10.0.0.2", "10.0.0.3"], 10_000).iter().sum();
        assert!((14_900_000..15_300_000).contains(&moved), "{moved}");
        let mut budgets = Budgets::new(Time::ZERO, None, rate(1_000_000));
        let both: u64 = move_pieces(&mut budgets, &["2001:db8::1", "2001:db8::2"], 10_000).iter().sum();
        assert!((9_900_000..10_300_000).contains(&both), "one network is one client: {both}");
    }

    #[test]
    fn one_networks_hashing_does_not_take_anothers() {
        let mut budgets = Budgets::new(Time::ZERO, None, None);
        let (greedy, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        budgets.on_hashed(Time::ZERO, greedy, 3_000_000_000);
        let wait = budgets.wait_to_hash(Time::ZERO, greedy).unwrap();
        assert_eq!(wait.since(Time::ZERO).as_secs_f64().round(), 10.0, "2 GB of debt at 200 MB/s");
        assert_eq!(budgets.wait_to_hash(Time::ZERO, other), None);
        budgets.sweep(after(14_000));
        assert_eq!(budgets.clients.len(), 1, "the debt is remembered");
        budgets.sweep(after(15_100));
        assert!(budgets.clients.is_empty());
    }
}
