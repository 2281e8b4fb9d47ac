//! Other transports' stacks, whole and with their own controllers, as hosts of a run.
//!
//! ```text
//!   scheme = "quinn:cubic"       Registries::stack          Stack::host              a world
//!                        ─────►  name and checks   ─────►   one host a node  ─────►  moves its UDP datagrams
//! ```
//!
//! A stack is a crate of its own that depends on this one. Its hosts implement the host port ([`crate::port`]) over UDP
//! datagrams of the stack's own format. For runs that can be repeated a host reads no clock but the world's time, and
//! takes all chance from [`Setup::random`].
//!
//! `quinn:cubic`, a stack and one of its controllers, is the name of a scheme that needs no definition, and a definition
//! can have it as its `controller`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rampmeter_units::{Bytes, Ecn, Random};

use crate::error::unknown;
use crate::port::PacketHost;

/// What separates a stack from its controller in the name of a scheme. No name of a definition has it.
const SEPARATOR: char = ':';

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

    /// The stack with this name; or what is wrong, and the remedy.
    pub fn find(&self, name: &str) -> Result<&Arc<dyn Stack>, String> {
        self.0.get(name).ok_or_else(|| {
            if self.0.is_empty() {
                format!("no stack is called `{}`: {NO_STACKS}", name.escape_debug())
            } else {
                unknown("stack", name, self.0.keys().map(String::as_str))
            }
        })
    }

    /// The same for a stack that has this controller, as [`split`] from the name of a scheme.
    pub fn check(&self, (name, controller): (&str, &str)) -> Result<&Arc<dyn Stack>, String> {
        let stack = self.find(name)?;
        let known = stack.controllers();
        if known.contains(&controller) {
            return Ok(stack);
        }
        Err(unknown(&format!("controller of stack `{name}`"), controller, known))
    }

    /// The names of schemes that need no definition: each stack with each of its controllers.
    pub fn schemes(&self) -> impl Iterator<Item = (String, &dyn Stack)> {
        self.list().flat_map(|(name, stack)| {
            let scheme = move |controller: &str| (join(name, controller), stack);
            stack.controllers().into_iter().map(scheme)
        })
    }

    /// The names, in alphabetical order, with their stacks.
    pub fn list(&self) -> impl Iterator<Item = (&str, &dyn Stack)> {
        self.0.iter().map(|(name, stack)| (name.as_str(), &**stack))
    }
}

/// The remedy where there is no stack.
pub const NO_STACKS: &str = "this command has none; use the `rampmeter` command, built with its default features, or a crate \
                         that adds one (docs/stacks.md)";

/// The stack and the controller in the name `quinn:cubic` of a scheme; `None` for other names.
pub fn split(scheme: &str) -> Option<(&str, &str)> {
    scheme.split_once(SEPARATOR)
}

/// The name of the scheme of a stack with one of its controllers.
pub(crate) fn join(stack: &str, controller: &str) -> String {
    format!("{stack}{SEPARATOR}{controller}")
}
