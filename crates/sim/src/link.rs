//! A link: most are access links, which are plain and small, so that thousands of them are in few cache lines.

use rampmeter_router::{AnyRouter, Link, PlainLink};

use crate::packet::InTransit;

#[derive(Debug)]
pub(crate) enum SimulatedLink {
    /// A plain link.
    Plain(PlainLink<InTransit>),
    /// A link with a queue, which may be one of foreseen departures.
    Queueing(Box<Link<InTransit, AnyRouter<InTransit>>>),
}

impl SimulatedLink {
    /// The plain link that a hop names.
    pub(crate) fn plain(&mut self) -> &mut PlainLink<InTransit> {
        match self {
            Self::Plain(link) => link,
            Self::Queueing(_) => unreachable!("this link has a queue"),
        }
    }

    /// The link with a queue that a hop, a measurement or a change names.
    pub(crate) fn queueing(&mut self) -> &mut Link<InTransit, AnyRouter<InTransit>> {
        match self {
            Self::Queueing(link) => link,
            Self::Plain(_) => unreachable!("this link is plain"),
        }
    }
}
