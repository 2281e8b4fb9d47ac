//! The controllers, routers and stacks that a scenario file can name: Rampmeter's, and those that other crates add.

use rampmeter_control::{Algorithm, Registry as Controllers};
use rampmeter_router::{Discipline, Registry as Routers};

use crate::stack::{Stack, Stacks};

/// The controllers, routers and stacks that a scenario file can name; by default the built-in controllers and routers.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// The controllers.
    pub controllers: Controllers,
    /// The routers.
    pub routers: Routers,
    /// Other transports' stacks.
    pub stacks: Stacks,
}

impl Registries {
    /// Adds a controller of another crate under `name`; `about` is one line for listings.
    #[must_use]
    pub fn controller<A: Algorithm>(self, name: &str, about: &str) -> Self {
        Self { controllers: self.controllers.add::<A>(name, about), ..self }
    }

    /// Adds a router of another crate under `name`; `about` is one line for listings.
    #[must_use]
    pub fn router<R: Discipline + 'static>(self, name: &str, about: &str) -> Self {
        Self { routers: self.routers.add::<R>(name, about), ..self }
    }

    /// Adds another transport's stack under `name`.
    #[must_use]
    pub fn stack(self, name: &str, stack: impl Stack + 'static) -> Self {
        Self { stacks: self.stacks.add(name, stack), ..self }
    }
}
