//! The controllers that clients may choose for their files.
//!
//! A client sends only the name of a controller, no settings. The server's own controller has the server's settings;
//! any other has its paper's, and is allowed only if it reduces its rate under congestion, so that no client can make a
//! server flood a path. (A peer that sends false acknowledgements can speed up any controller, TCP's as well;
//! `send_buffer` limits the damage.)

use rampmeter_control::{AnyController, Registry};
use rampmeter_units::Stream;

use super::protocol::Refusal;

#[derive(Debug)]
pub(crate) struct ControllerPolicy {
    /// The server's own controller.
    own: String,
    registry: Registry,
    random: Stream,
}

impl ControllerPolicy {
    pub(crate) fn new(own: &str, registry: &Registry, random: Stream) -> Self {
        Self { own: own.to_owned(), registry: registry.clone(), random }
    }

    /// The controller of clients that name none.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// The controller called `name`; `None` if it is the server's own.
    pub(crate) fn select(&mut self, name: &str) -> Result<Option<AnyController>, Refusal> {
        if name == self.own {
            return Ok(None);
        }
        if !self.registry.reacts_to_congestion(name).ok_or(Refusal::NoSuchController)? {
            return Err(Refusal::ControllerNotAllowed);
        }
        let make = self.registry.factory(name, &toml::Table::new()).map_err(|_| Refusal::ControllerNotAllowed)?;
        Ok(Some(make(Stream::from_seed(self.random.below(u64::MAX)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_responsive_controllers_and_the_servers_own() {
        let mut policy = ControllerPolicy::new("newreno", &Registry::default(), Stream::from_seed(1));
        assert!(matches!(policy.select("newreno"), Ok(None)));
        assert!(matches!(policy.select("pcp"), Ok(Some(AnyController::Pcp(_)))));
        assert!(matches!(policy.select("reno"), Ok(Some(AnyController::Reno(_)))));
        for (name, refusal) in [
            ("fixed-rate", Refusal::ControllerNotAllowed),
            ("fair-share", Refusal::ControllerNotAllowed),
            ("bbr", Refusal::NoSuchController),
            ("", Refusal::NoSuchController),
        ] {
            assert_eq!(policy.select(name).err(), Some(refusal), "{name}");
        }
        let mut policy = ControllerPolicy::new("fixed-rate", &Registry::default(), Stream::from_seed(1));
        assert!(matches!(policy.select("fixed-rate"), Ok(None)), "the server's operator chose it");
    }
}
