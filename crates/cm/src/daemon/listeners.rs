//! Who on this host takes datagrams that come with a CM header, and which shares their senders' flows should have.
//!
//! Nothing from outside gets to a port that no program of this host has asked for: the daemon hands datagrams on from
//! this host, and would otherwise carry strangers past whatever keeps them out.
//!
//! Programs name flows by the port that they come to, as they know no other name of them; which flows those are shows as
//! they come (section 3.2.1, `[o1:r1, ...]`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use rampmeter_wire::{Count, MAX_COUNTS};

use crate::error::Error;

/// Ports that one program may take.
const MAX_PORTS: usize = 1024;

/// Hosts that programs give hints for at most, all together.
const MAX_HINTED: usize = 4096;

/// Senders at one address of which flows are known at most: they differ in their ports.
const MAX_SENDERS: usize = 16;

/// Hints for one host.
#[derive(Debug, Default)]
struct Hinted {
    /// By port: the weight, and who wants it.
    weights: BTreeMap<u16, (u32, u32)>,
    /// The port that each flow of a sender comes to.
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
    /// Ports that are open whoever listens.
    always: BTreeSet<u16>,
    /// Ports, and who has asked for them.
    ports: BTreeMap<u16, BTreeSet<u32>>,
    hinted: BTreeMap<IpAddr, Hinted>,
}

impl Listeners {
    /// Nobody yet; datagrams for the ports in `always` are taken all the same.
    pub(super) fn new(always: &[u16]) -> Self {
        Self { always: always.iter().copied().collect(), ..Self::default() }
    }

    /// Whether there is anybody at all.
    pub(super) fn any(&self) -> bool {
        !(self.always.is_empty() && self.ports.is_empty())
    }

    pub(super) fn admits(&self, port: u16) -> bool {
        self.always.contains(&port) || self.ports.contains_key(&port)
    }

    /// `client` takes what comes to `port`, or does not any more.
    pub(super) fn listen(&mut self, client: u32, port: u16, on: bool) -> Result<(), Error> {
        if !on {
            let clients = self.ports.get_mut(&port).ok_or(Error::Invalid)?;
            let had_it = clients.remove(&client);
            if clients.is_empty() {
                self.ports.remove(&port);
            }
            self.unhint(|of, whose| of == port && whose == client);
            return if had_it { Ok(()) } else { Err(Error::Invalid) };
        }
        if self.ports.values().filter(|clients| clients.contains(&client)).count() >= MAX_PORTS {
            return Err(Error::Full);
        }
        self.ports.entry(port).or_default().insert(client);
        Ok(())
    }

    /// `client` would like flows from `peer` that come to `port` to have this weight. Says what that makes of all that is
    /// known of that host.
    pub(super) fn hint(
        &mut self,
        client: u32,
        peer: IpAddr,
        port: u16,
        weight: u32,
    ) -> Result<Vec<(SocketAddr, Vec<Count>)>, Error> {
        let is_its_own = self.ports.get(&port).is_some_and(|clients| clients.contains(&client));
        if weight == 0 || !(is_its_own || self.always.contains(&port)) {
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

    /// A packet of `flow` has come from `sender` to `port`. If that is news to a host with hints, says what they are.
    pub(super) fn note(&mut self, sender: SocketAddr, flow: u32, port: u16) -> Option<Vec<Count>> {
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
            // Names rise: the least is the oldest, as a rule.
            flows.pop_first();
        }
        Some(hinted.of(sender)).filter(|hints| !hints.is_empty())
    }

    /// `client` is gone.
    pub(super) fn forget(&mut self, client: u32) {
        self.ports.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        self.unhint(|_, whose| whose == client);
    }

    /// Forgets hints by their port and by whose they are.
    fn unhint(&mut self, is_over: impl Fn(u16, u32) -> bool) {
        self.hinted.retain(|_, hinted| {
            hinted.weights.retain(|port, (_, whose)| !is_over(*port, *whose));
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
    fn a_port_is_open_as_long_as_anybody_has_it() {
        let mut listeners = Listeners::new(&[]);
        assert!(!listeners.any());
        listeners.listen(1, 5000, true).unwrap();
        listeners.listen(2, 5000, true).unwrap();
        listeners.listen(2, 5001, true).unwrap();
        listeners.listen(1, 5000, false).unwrap();
        assert_eq!(listeners.listen(1, 5000, false), Err(Error::Invalid));
        assert!(listeners.admits(5000) && listeners.admits(5001) && !listeners.admits(5002));
        listeners.forget(2);
        assert!(!listeners.any());
        assert!(Listeners::new(&[53]).admits(53));
    }

    #[test]
    fn hints_name_the_flows_that_come_to_a_port() {
        let mut listeners = Listeners::new(&[5001]);
        listeners.listen(1, 5000, true).unwrap();
        let peer = sender(0).ip();
        assert_eq!(listeners.note(sender(9), 70, 5000), None, "nobody wants anything");
        assert_eq!(listeners.hint(1, peer, 5000, 3), Ok(vec![]), "nothing has come yet");
        assert_eq!(listeners.hint(1, peer, 5001, 1), Ok(vec![]));
        assert_eq!(listeners.hint(2, peer, 5000, 1), Err(Error::Invalid), "another's port");
        assert_eq!(listeners.hint(1, peer, 5000, 0), Err(Error::Invalid));
        let first = Count { flow: 70, count: 3 };
        assert_eq!(listeners.note(sender(9), 70, 5000), Some(vec![first]));
        assert_eq!(listeners.note(sender(9), 70, 5000), None, "no news");
        let both = vec![first, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.note(sender(9), 71, 5001), Some(both));
        let changed = vec![Count { flow: 70, count: 5 }, Count { flow: 71, count: 1 }];
        assert_eq!(listeners.hint(1, peer, 5000, 5), Ok(vec![(sender(9), changed)]));
        listeners.listen(1, 5000, false).unwrap();
        let left = vec![Count { flow: 71, count: 1 }];
        assert_eq!(listeners.note(sender(9), 73, 5000), Some(left), "the port's hint went with it");
        listeners.forget(1);
        assert_eq!(listeners.note(sender(9), 72, 5001), None);
    }

    #[test]
    fn strangers_make_nothing_grow() {
        let mut listeners = Listeners::new(&[5000]);
        listeners.hint(1, sender(0).ip(), 5000, 3).unwrap();
        for n in 0..100_000 {
            let hints = listeners.note(sender(n as u16), n, 5000).unwrap();
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
