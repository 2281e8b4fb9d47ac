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

use rampmeter_wire::{Count, MAX_COUNTS};

use crate::error::Error;

/// The maximum number of ports of a program.
const MAX_PORTS: usize = 1024;

/// The maximum number of hosts with hints, of all programs together.
const MAX_HINTED: usize = 4096;

/// The maximum number of senders (by port) at one address whose flows are stored.
const MAX_SENDERS: usize = 16;

/// The hints for one host.
#[derive(Debug, Default)]
struct Hinted {
    /// By port: the weight, and the client that requested it.
    weights: BTreeMap<u16, (u32, u32)>,
    /// The port of each flow, by sender.
    flows: BTreeMap<SocketAddr, BTreeMap<u32, u16>>,
}

impl Hinted {
    fn of(&self, sender: SocketAddr) -> Vec<Count> {
        let flows = self.flows.get(&sender).into_iter().flatten();
        let hints = flows.filter_map(|(&flow, port)| self.weights.get(port).map(|&(count, _)| Count { flow, count }));
        hints.collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// Ports that are always open.
    always: BTreeSet<u16>,
    /// The ports and the clients that receive there.
    ports: BTreeMap<u16, BTreeSet<u32>>,
    hinted: BTreeMap<IpAddr, Hinted>,
}

impl Listeners {
    /// No clients; datagrams for the ports in `always` are accepted.
    pub(super) fn new(always: &[u16]) -> Self {
        Self { always: always.iter().copied().collect(), ..Self::default() }
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
            self.remove_hints(|of, owner| of == port && owner == client);
            return if was_open { Ok(()) } else { Err(Error::Invalid) };
        }
        if self.ports.values().filter(|clients| clients.contains(&client)).count() >= MAX_PORTS {
            return Err(Error::Full);
        }
        self.ports.entry(port).or_default().insert(client);
        Ok(())
    }

    /// `client` requests this weight for flows from `peer` to `port`. Returns the new hints for each sender of that
    /// host.
    pub(super) fn hint(
        &mut self,
        client: u32,
        peer: IpAddr,
        port: u16,
        weight: u32,
    ) -> Result<Vec<(SocketAddr, Vec<Count>)>, Error> {
        let is_own_port = self.ports.get(&port).is_some_and(|clients| clients.contains(&client));
        if weight == 0 || !(is_own_port || self.always.contains(&port)) {
            return Err(Error::Invalid);
        }
        if self.hinted.len() >= MAX_HINTED && !self.hinted.contains_key(&peer) {
            return Err(Error::Full);
        }
        let hinted = self.hinted.entry(peer).or_default();
        if hinted.weights.len() >= MAX_COUNTS && !hinted.weights.contains_key(&port) {
            return Err(Error::Full);
        }
        hinted.weights.insert(port, (weight, client));
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
            // Flow numbers increase, so the smallest one is usually the oldest.
            flows.pop_first();
        }
        Some(hinted.of(sender)).filter(|hints| !hints.is_empty())
    }

    pub(super) fn remove_client(&mut self, client: u32) {
        self.ports.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        self.remove_hints(|_, owner| owner == client);
    }

    fn remove_hints(&mut self, is_removed: impl Fn(u16, u32) -> bool) {
        self.hinted.retain(|_, hinted| {
            hinted.weights.retain(|port, (_, owner)| !is_removed(*port, *owner));
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
        assert_eq!(listeners.hint(1, peer, 5000, 3), Ok(vec![]), "no packets yet");
        assert_eq!(listeners.hint(1, peer, 5001, 1), Ok(vec![]));
        assert_eq!(listeners.hint(2, peer, 5000, 1), Err(Error::Invalid), "the port of another client");
        assert_eq!(listeners.hint(1, peer, 5000, 0), Err(Error::Invalid));
        let first = Count { flow: 70, count: 3 };
        assert_eq!(listeners.on_packet(sender(9), 70, 5000), Some(vec![first]));
        assert_eq!(listeners.on_packet(sender(9), 70, 5000), None, "no change");
        let both = vec![first, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.on_packet(sender(9), 71, 5001), Some(both));
        let changed = vec![Count { flow: 70, count: 5 }, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.hint(1, peer, 5000, 5), Ok(vec![(sender(9), changed)]));
        listeners.listen(1, 5000, false).unwrap();
        let left = vec![Count { flow: 71, count: 1 }];
        assert_eq!(listeners.on_packet(sender(9), 73, 5000), Some(left), "the port's hint went with it");
        listeners.remove_client(1);
        assert_eq!(listeners.on_packet(sender(9), 72, 5001), None);
    }

    #[test]
    fn packets_of_any_sender_use_bounded_memory() {
        let mut listeners = Listeners::new(&[5000]);
        listeners.hint(1, sender(0).ip(), 5000, 3).unwrap();
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
