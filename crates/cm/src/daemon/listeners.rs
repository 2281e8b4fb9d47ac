//! The programs of this host that receive datagrams with a CM header, and the shares that they request for the senders'
//! flows.
//!
//! Datagrams are forwarded only to ports that a program of this host has asked for: they are forwarded from a local
//! address and would otherwise bypass firewalls.
//!
//! Programs name flows by the local port, because they have no other name of them. The flows of a port are learned from
//! arriving packets (section 3.2.1, `[o1:r1, ...]`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use rampmeter_manager::{Owner, Quotas, is_own_name};
use rampmeter_wire::{Count, MAX_COUNTS};

use crate::error::Error;

/// The maximum number of ports of a program.
const MAX_PORTS: usize = 1024;

/// The maximum number of hints of all programs together.
const MAX_HINTS: u64 = 4096;

/// The maximum number of senders (by port) at one address whose flows are stored.
const MAX_SENDERS: usize = 16;

/// The weight that a client requested for the flows to a port.
#[derive(Debug)]
struct Hint {
    weight: u32,
    client: u32,
    owner: Owner,
}

/// The hints for one host.
#[derive(Debug)]
struct Hinted {
    weights: BTreeMap<u16, Hint>,
    quotas: Quotas,
    /// The port of each flow, by sender.
    flows: BTreeMap<SocketAddr, BTreeMap<u32, u16>>,
}

impl Default for Hinted {
    fn default() -> Self {
        Self { weights: BTreeMap::new(), quotas: Quotas::new(MAX_COUNTS as u64), flows: BTreeMap::new() }
    }
}

impl Hinted {
    fn of(&self, sender: SocketAddr) -> Vec<Count> {
        let flows = self.flows.get(&sender).into_iter().flatten();
        let hints =
            flows.filter_map(|(&flow, port)| self.weights.get(port).map(|hint| Count { flow, count: hint.weight }));
        hints.collect()
    }
}

#[derive(Debug)]
pub(super) struct Listeners {
    /// Ports that are always open.
    always: BTreeSet<u16>,
    /// The ports and the clients that receive there.
    ports: BTreeMap<u16, BTreeSet<u32>>,
    hinted: BTreeMap<IpAddr, Hinted>,
    hints: Quotas,
}

impl Listeners {
    /// No clients; datagrams for the ports in `always` are accepted.
    pub(super) fn new(always: &[u16]) -> Self {
        let (ports, hinted) = (BTreeMap::new(), BTreeMap::new());
        Self { always: always.iter().copied().collect(), ports, hinted, hints: Quotas::new(MAX_HINTS) }
    }

    /// Whether any port is open.
    pub(super) fn any(&self) -> bool {
        !(self.always.is_empty() && self.ports.is_empty())
    }

    pub(super) fn accepts(&self, port: u16) -> bool {
        self.always.contains(&port) || self.ports.contains_key(&port)
    }

    /// `client` starts (`on`) or stops receiving datagrams for `port`.
    pub(super) fn listen(&mut self, client: u32, port: u16, on: bool) -> Result<(), Error> {
        if !on {
            let clients = self.ports.get_mut(&port).ok_or(Error::Invalid)?;
            let was_open = clients.remove(&client);
            if clients.is_empty() {
                self.ports.remove(&port);
            }
            self.remove_hints(|of, by| of == port && by == client);
            return if was_open { Ok(()) } else { Err(Error::Invalid) };
        }
        if self.ports.values().filter(|clients| clients.contains(&client)).count() >= MAX_PORTS {
            return Err(Error::Full);
        }
        self.ports.entry(port).or_default().insert(client);
        Ok(())
    }

    /// `client`, of `owner`, requests this weight for flows from `peer` to `port`. Returns the new hints for each sender
    /// of that host.
    pub(super) fn hint(
        &mut self,
        (client, owner): (u32, Owner),
        peer: IpAddr,
        port: u16,
        weight: u32,
    ) -> Result<Vec<(SocketAddr, Vec<Count>)>, Error> {
        let is_own_port = self.ports.get(&port).is_some_and(|clients| clients.contains(&client));
        if weight == 0 || !(is_own_port || self.always.contains(&port)) {
            return Err(Error::Invalid);
        }
        let known = self.hinted.get(&peer);
        let replaces = known.is_some_and(|hinted| hinted.weights.contains_key(&port));
        let has_room = self.hints.permits(owner, 1) && known.is_none_or(|hinted| hinted.quotas.permits(owner, 1));
        if !(replaces || has_room) {
            return Err(Error::Full);
        }
        let hinted = self.hinted.entry(peer).or_default();
        if let Some(earlier) = hinted.weights.insert(port, Hint { weight, client, owner }) {
            hinted.quotas.give_back(earlier.owner, 1);
            self.hints.give_back(earlier.owner, 1);
        }
        hinted.quotas.charge(owner, 1);
        self.hints.charge(owner, 1);
        Ok(hinted.flows.keys().map(|&sender| (sender, hinted.of(sender))).collect())
    }

    /// A packet of `flow` has arrived from `sender` for `port`. Returns the sender's hints if they have changed.
    pub(super) fn on_packet(&mut self, sender: SocketAddr, flow: u32, port: u16) -> Option<Vec<Count>> {
        let hinted = self.hinted.get_mut(&sender.ip())?;
        let senders = hinted.flows.len();
        if senders >= MAX_SENDERS && !hinted.flows.contains_key(&sender) {
            hinted.flows.pop_first();
        }
        let flows = hinted.flows.entry(sender).or_default();
        if flows.insert(flow, port) == Some(port) {
            return None;
        }
        if flows.len() > MAX_COUNTS {
            // The names of programs' flows are larger than those of a daemon's. Neither kind displaces the other. Names
            // increase, so the smallest one is usually the oldest.
            let programs = flows.keys().rev().take_while(|flow| is_own_name(**flow)).count();
            let oldest = if programs > MAX_COUNTS / 2 { flows.len() - programs } else { 0 };
            if let Some(oldest) = flows.keys().nth(oldest).copied() {
                flows.remove(&oldest);
            }
        }
        Some(hinted.of(sender)).filter(|hints| !hints.is_empty())
    }

    pub(super) fn remove_client(&mut self, client: u32) {
        self.ports.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        self.remove_hints(|_, by| by == client);
    }

    fn remove_hints(&mut self, is_removed: impl Fn(u16, u32) -> bool) {
        self.hinted.retain(|_, hinted| {
            hinted.weights.retain(|port, hint| {
                let is_removed = is_removed(*port, hint.client);
                if is_removed {
                    hinted.quotas.give_back(hint.owner, 1);
                    self.hints.give_back(hint.owner, 1);
                }
                !is_removed
            });
            !hinted.weights.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn a_port_is_open_while_a_client_receives_there() {
        let mut listeners = Listeners::new(&[]);
        assert!(!listeners.any());
        listeners.listen(1, 5000, true).unwrap();
        listeners.listen(2, 5000, true).unwrap();
        listeners.listen(2, 5001, true).unwrap();
        listeners.listen(1, 5000, false).unwrap();
        assert_eq!(listeners.listen(1, 5000, false), Err(Error::Invalid));
        assert!(listeners.accepts(5000) && listeners.accepts(5001) && !listeners.accepts(5002));
        listeners.remove_client(2);
        assert!(!listeners.any());
        assert!(Listeners::new(&[53]).accepts(53));
    }

    #[test]
    fn hints_name_the_flows_of_a_port() {
        let mut listeners = Listeners::new(&[5001]);
        listeners.listen(1, 5000, true).unwrap();
        let peer = sender(0).ip();
        assert_eq!(listeners.on_packet(sender(9), 70, 5000), None, "no hints yet");
        assert_eq!(listeners.hint((1, Owner(0)), peer, 5000, 3), Ok(vec![]), "no packets yet");
        assert_eq!(listeners.hint((1, Owner(0)), peer, 5001, 1), Ok(vec![]));
        assert_eq!(listeners.hint((2, Owner(0)), peer, 5000, 1), Err(Error::Invalid), "the port of another client");
        assert_eq!(listeners.hint((1, Owner(0)), peer, 5000, 0), Err(Error::Invalid));
        let first = Count { flow: 70, count: 3 };
        assert_eq!(listeners.on_packet(sender(9), 70, 5000), Some(vec![first]));
        assert_eq!(listeners.on_packet(sender(9), 70, 5000), None, "no change");
        let both = vec![first, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.on_packet(sender(9), 71, 5001), Some(both));
        let changed = vec![Count { flow: 70, count: 5 }, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.hint((1, Owner(0)), peer, 5000, 5), Ok(vec![(sender(9), changed)]));
        listeners.listen(1, 5000, false).unwrap();
        let left = vec![Count { flow: 71, count: 1 }];
        assert_eq!(listeners.on_packet(sender(9), 73, 5000), Some(left), "the port's hint went with it");
        listeners.remove_client(1);
        assert_eq!(listeners.on_packet(sender(9), 72, 5001), None);
    }

    #[test]
    fn names_of_programs_do_not_displace_those_of_the_daemon() {
        let mut listeners = Listeners::new(&[5000]);
        listeners.hint((1, Owner(0)), sender(0).ip(), 5000, 3).unwrap();
        let of_program = |n: u32| 1 << 31 | n;
        let mut hinted = |flows: &mut dyn Iterator<Item = u32>| {
            let hints = flows.filter_map(|flow| listeners.on_packet(sender(9), flow, 5000)).last().unwrap();
            hints.into_iter().map(|hint| hint.flow).collect::<BTreeSet<_>>()
        };
        hinted(&mut (0..20));
        let flows = hinted(&mut (0..1000).map(of_program));
        assert!((0..20).all(|flow| flows.contains(&flow)), "the daemon's flows have hints");
        assert!(flows.contains(&of_program(999)) && flows.len() == MAX_COUNTS);
        let flows = hinted(&mut (20..1000));
        assert!((20..999).filter(|flow| flows.contains(flow)).count() >= MAX_COUNTS / 2 - 1);
        assert!((910..1000).all(|flow| flows.contains(&of_program(flow))), "the latest half");
    }

    #[test]
    fn one_owner_cannot_take_all_hints() {
        let mut listeners = Listeners::new(&[]);
        for client in [1, 2] {
            (0..1000).for_each(|port| listeners.listen(client, port + 1, true).unwrap());
        }
        let mut taken = |client: u32, peers: std::ops::Range<u16>| {
            let all = peers.flat_map(|peer| (1..=200).map(move |port| (peer, port)));
            let mut hint = |(peer, port): (u16, u16)| {
                let [high, low] = peer.to_be_bytes();
                listeners.hint((client, Owner(client)), [10, 0, high, low].into(), port, 2).is_ok()
            };
            all.filter(|hint_of| hint(*hint_of)).count()
        };
        assert_eq!(taken(1, 0..1), MAX_COUNTS / 5 * 4, "of one host");
        assert_eq!(taken(1, 1..100), MAX_HINTS as usize / 5 * 4 - MAX_COUNTS / 5 * 4);
        assert!(taken(2, 0..1) > 20 && taken(2, 200..300) > 500);
    }

    #[test]
    fn packets_of_any_sender_use_bounded_memory() {
        let mut listeners = Listeners::new(&[5000]);
        listeners.hint((1, Owner(0)), sender(0).ip(), 5000, 3).unwrap();
        for n in 0..100_000 {
            let hints = listeners.on_packet(sender(n as u16), n, 5000).unwrap();
            assert!(hints.len() <= MAX_COUNTS);
        }
        let hinted = &listeners.hinted[&sender(0).ip()];
        assert!(hinted.flows.len() <= MAX_SENDERS && hinted.flows.values().all(|flows| flows.len() <= MAX_COUNTS));
        for port in 1..=MAX_PORTS as u16 {
            listeners.listen(2, port, true).unwrap();
        }
        assert_eq!(listeners.listen(2, 60_000, true), Err(Error::Full));
    }
}
