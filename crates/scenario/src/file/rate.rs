//! `rate` of a link: constant, from a trace, or by a model of capacity.

use rampmeter_router::{Capacity, capacity};
use rampmeter_units::{Rate, RegistryError};

use crate::document::{Item, Place, Section, Settings};
use crate::error::Result;
use crate::keys;

/// A link's rate.
#[derive(Debug, Clone)]
pub(crate) enum RateSpec {
    Constant(Rate),
    /// A file of capacity over time, with the place that names it.
    Trace {
        name: String,
        place: Place,
    },
    /// A model of capacity.
    Model(Capacity),
}

impl RateSpec {
    pub(crate) fn read(item: &Item<'_>) -> Result<Self> {
        if !item.is_table() {
            return item.positive().map(Self::Constant);
        }
        let section = item.section("`rate`")?;
        let Some(trace) = section.get("trace") else { return Self::read_model(item, &section) };
        if section.get("model").is_some() {
            return Err(item.error("`rate` has a `trace` and a `model`; give one of the two"));
        }
        section.keys(&[keys::TRACE])?;
        match trace.text()? {
            "" => Err(trace.error("`trace` is empty; write the name of a file of mahimahi's format")),
            name => Ok(Self::Trace { name: name.to_owned(), place: trace.place() }),
        }
    }

    fn read_model(item: &Item<'_>, section: &Section<'_>) -> Result<Self> {
        let model = section.need("model", "model = \"lte\", or trace = \"lte.trace\"")?;
        let mut settings = Settings::read(item)?;
        settings.table.remove("model");
        let capacity = capacity::models().make(model.text()?, &settings.table);
        capacity.map(Self::Model).map_err(|error| match error {
            RegistryError::Unknown { .. } => model.error(error),
            RegistryError::Settings { .. } => settings.place_of(&error).error(error),
        })
    }

    pub(crate) fn varies(&self) -> bool {
        !matches!(self, Self::Constant(_))
    }

    /// The name of its trace, if it has one.
    pub(crate) fn trace(&self) -> Option<&str> {
        match self {
            Self::Trace { name, .. } => Some(name),
            Self::Constant(_) | Self::Model(_) => None,
        }
    }
}
