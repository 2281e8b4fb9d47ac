//! The controllers that clients may have their files sent under.
//!
//! A client names one; it says nothing of settings. The server's own comes with the server's settings, any other with
//! its paper's, and only if it gives way to others: a stranger must not turn a server into a flood. (A peer that lies
//! about what arrived can hurry any controller, and TCP's as well: see `send_buffer` for what bounds that.)

use rampmeter_control::{AnyController, Registry};
use rampmeter_units::Stream;

use super::protocol::Refusal;

#[derive(Debug)]
pub(crate) struct Lender {
    /// The server's own controller.
    own: String,
    registry: Registry,
    random: Stream,
}

impl Lender {
    pub(crate) fn new(own: &str, registry: &Registry, random: Stream) -> Self {
        Self { own: own.to_owned(), registry: registry.clone(), random }
    }

    /// Who sends when nobody is named.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// The controller called `name`; `None` if that is who is in charge anyway.
    pub(crate) fn lend(&mut self, name: &str) -> Result<Option<AnyController>, Refusal> {
        if name == self.own {
            return Ok(None);
        }
        if !self.registry.gives_way(name).ok_or(Refusal::NoSuchController)? {
            return Err(Refusal::NotLent);
        }
        let make = self.registry.factory(name, &toml::Table::new()).map_err(|_| Refusal::NotLent)?;
        Ok(Some(make(Stream::from_seed(self.random.below(u64::MAX)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_get_what_gives_way_and_the_servers_own() {
        let mut lender = Lender::new("newreno", &Registry::default(), Stream::from_seed(1));
        assert!(matches!(lender.lend("newreno"), Ok(None)));
        assert!(matches!(lender.lend("pcp"), Ok(Some(AnyController::Pcp(_)))));
        assert!(matches!(lender.lend("reno"), Ok(Some(AnyController::Reno(_)))));
        for (name, why) in [
            ("fixed-rate", Refusal::NotLent),
            ("fair-share", Refusal::NotLent),
            ("bbr", Refusal::NoSuchController),
            ("", Refusal::NoSuchController),
        ] {
            assert_eq!(lender.lend(name).err(), Some(why), "{name}");
        }
        let mut lender = Lender::new("fixed-rate", &Registry::default(), Stream::from_seed(1));
        assert!(matches!(lender.lend("fixed-rate"), Ok(None)), "who serves with it has chosen it");
    }
}
