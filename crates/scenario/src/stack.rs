//! Other transports' stacks, whole and with their own controllers, as hosts of a run.
//!
//! ```text
//!   [scheme.theirs]              Registries::stack          Stack::host              a world
//!   stack = "quinn"      ─────►  name and checks   ─────►   one host a node  ─────►  moves its UDP datagrams
//!   controller = "cubic"
//! ```
//!
//! A stack is a crate of its own that depends on this one. Its hosts implement the host port ([`crate::port`]) over UDP
//! datagrams of the stack's own format. For runs that can be repeated a host reads no clock but the world's time, and
//! takes all chance from [`Setup::random`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rampmeter_units::{Bytes, Ecn, Random};

use crate::port::PacketHost;

/// The path from a host to another, used as the address of the other host. The path back has the lowest bit flipped.
pub type Peer = u32;

/// A UDP datagram in transit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// The flow to which it counts, by its index in the plan.
    pub flow: u32,
    /// To where it is sent; from where, at its receiver.
    pub peer: Peer,
    /// The UDP payload.
    pub contents: Vec<u8>,
    /// The number of its bytes that are the application's; of a packet without any, no data counts as lost.
    pub payload: u16,
    /// The ECN code of its IP header.
    pub ecn: Ecn,
}

/// A host of a stack. A flow's ends are called by the flow's index in the plan.
pub type StackHost = dyn PacketHost<Id = u32, Address = Peer, Packet = Datagram, Shared = ()>;

/// What a new host is given.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The largest IP packet of the plan, headers included.
    pub packet: Bytes,
    /// The host's own random numbers: the same in each run of a plan.
    pub random: Random,
}

/// A transport's stack.
pub trait Stack: fmt::Debug + Send + Sync {
    /// One line for listings, with the version.
    fn about(&self) -> &str;

    /// The names of its controllers.
    fn controllers(&self) -> Vec<&str>;

    /// The smallest [`Setup::packet`] that it works with.
    fn min_packet(&self) -> Bytes {
        Bytes::ZERO
    }

    /// A host whose flows have the controller of this name, which is one of [`Stack::controllers`].
    fn host(&self, controller: &str, setup: Setup) -> Box<StackHost>;
}

/// The stacks that scenarios can name.
#[derive(Debug, Clone, Default)]
pub struct Stacks(BTreeMap<String, Arc<dyn Stack>>);

impl Stacks {
    /// Adds a stack under `name`; it replaces one of the same name.
    #[must_use]
    pub fn add(mut self, name: &str, stack: impl Stack + 'static) -> Self {
        self.0.insert(name.to_owned(), Arc::new(stack));
        self
    }

    /// The stack with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Stack>> {
        self.0.get(name)
    }

    /// The names, in alphabetical order, with their stacks.
    pub fn list(&self) -> impl Iterator<Item = (&str, &dyn Stack)> {
        self.0.iter().map(|(name, stack)| (name.as_str(), &**stack))
    }
}
