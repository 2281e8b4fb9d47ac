//! Fair shares for hosts instead of flows: the host isolation of CAKE (Høiland-Jørgensen, Täht, Morton, "Piece of CAKE: a
//! comprehensive queue management solution for home gateways", LANMAN 2018).
//!
//! In each round of deficit round robin a queue may send a quantum `Q`, so a host with `n` flows sends `n Q`. Host
//! isolation divides a queue's quantum by the number of busy queues of its host:
//!
//! ```text
//! quantum = Q / max(busy queues of its source, busy queues of its destination)
//! ```
//!
//! With [`Isolation::Sources`] or [`Isolation::Destinations`] only that end counts. A queue is busy from the first time
//! that it has used up its credit and still has packets until it is found empty, as in Linux (`sch_cake.c`). So flows
//! that always find their queue empty, such as acknowledgements, take nothing from the other flows of their host.
//!
//! *Deviations*: hosts are known by their addresses and not by a hash of 1024 values, so two hosts never share a share. The
//! quantum keeps fractions of a byte, for which CAKE adds a random number before it rounds.

use serde::{Deserialize, Serialize};

use crate::Hosts;
use crate::disciplines::flow_table::FlowTable;

/// Whose shares of the link are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Those of flows (`flows` of CAKE).
    #[default]
    Flows,
    /// Those of sources; then those of the flows of each (`dual-srchost`).
    Sources,
    /// Those of destinations; then those of the flows of each (`dual-dsthost`).
    Destinations,
    /// Those of hosts at both ends: the end with more busy queues counts (`triple-isolate`).
    Hosts,
}

/// The queues of a host.
#[derive(Debug, Default)]
struct Queues {
    /// Queues in the rotation.
    listed: u32,
    /// Those of them that are busy.
    busy: u32,
}

/// The entries of a queue's source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entries([Option<usize>; 2]);

/// The hosts of the queues in the rotation: the sources and the destinations.
#[derive(Debug, Default)]
pub(crate) struct HostTable {
    isolation: Isolation,
    ends: [FlowTable<Queues>; 2],
}

impl HostTable {
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self { isolation, ..Self::default() }
    }

    /// A queue enters the rotation with a packet between `hosts`.
    pub(crate) fn enter(&mut self, hosts: Hosts) -> Entries {
        let (source, destination) = match self.isolation {
            Isolation::Flows => (None, None),
            Isolation::Sources => (Some(hosts.source), None),
            Isolation::Destinations => (None, Some(hosts.destination)),
            Isolation::Hosts => (Some(hosts.source), Some(hosts.destination)),
        };
        let [sources, destinations] = &mut self.ends;
        Entries([sources.enter(source), destinations.enter(destination)])
    }

    /// A queue becomes busy.
    pub(crate) fn on_busy(&mut self, entries: Entries) {
        for (end, entry) in self.ends.iter_mut().zip(entries.0) {
            if let Some(entry) = entry {
                end[entry].busy += 1;
            }
        }
    }

    /// A queue leaves the rotation.
    pub(crate) fn leave(&mut self, entries: Entries, is_busy: bool) {
        for (end, entry) in self.ends.iter_mut().zip(entries.0) {
            let Some(entry) = entry else { continue };
            end[entry].listed -= 1;
            end[entry].busy -= u32::from(is_busy);
            if end[entry].listed == 0 {
                end.release(entry);
            }
        }
    }

    /// The part of `quantum` that a queue may send in its turn; at least 1.
    pub(crate) fn quantum(&self, quantum: i64, entries: Entries) -> i64 {
        let busy = self.ends.iter().zip(entries.0).filter_map(|(end, entry)| Some(end[entry?].busy)).max();
        match busy {
            None | Some(0 | 1) => quantum,
            Some(busy) => (quantum / i64::from(busy)).max(1),
        }
    }
}

impl FlowTable<Queues> {
    /// The entry of `host` after one more of its queues has entered the rotation.
    fn enter(&mut self, host: Option<u64>) -> Option<usize> {
        let entry = self.find_or_take(host?);
        self[entry].listed += 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM_1_TO_2: Hosts = Hosts { source: 1, destination: 2 };
    const FROM_1_TO_3: Hosts = Hosts { source: 1, destination: 3 };
    const FROM_4_TO_2: Hosts = Hosts { source: 4, destination: 2 };

    #[test]
    fn the_quantum_is_divided_by_the_busy_queues_of_the_host() {
        // Busy: two queues from 1 to 2, one from 1 to 3, three from 4 to 2. So 1 has three of its own as a source, 4
        // three, 2 five as a destination, 3 one.
        let busy = [(FROM_1_TO_2, 2), (FROM_1_TO_3, 1), (FROM_4_TO_2, 3)];
        for (isolation, expected) in [
            (Isolation::Flows, [60, 60, 60]),
            (Isolation::Sources, [20, 20, 20]),
            (Isolation::Destinations, [12, 60, 12]),
            (Isolation::Hosts, [12, 20, 12]),
        ] {
            let mut table = HostTable::new(isolation);
            let quanta = busy.map(|(hosts, queues)| {
                let entries: Vec<_> = (0..queues).map(|_| table.enter(hosts)).collect();
                for &entries in &entries {
                    table.on_busy(entries);
                }
                entries[0]
            });
            assert_eq!(quanta.map(|entries| table.quantum(60, entries)), expected, "{isolation:?}");
        }
    }

    #[test]
    fn a_quantum_is_never_zero() {
        let mut table = HostTable::new(Isolation::Sources);
        let entries: Vec<_> = (0..4).map(|_| table.enter(FROM_1_TO_2)).collect();
        for &entries in &entries {
            table.on_busy(entries);
        }
        assert_eq!(table.quantum(3, entries[0]), 1);
    }
}
