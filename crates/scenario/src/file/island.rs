//! `[[island]]`: a set of borders. TCP flows between two of them are carried as one VCP flow.

use super::{File, RouterSpec, no_duplicates};
use crate::document::{Item, Lines, Section, Settings};
use crate::error::{Result, unknown};
use crate::errors::Errors;
use crate::keys;

#[derive(Debug, Clone)]
pub(crate) struct IslandSpec {
    pub(crate) lines: Lines,
    pub(crate) name: String,
    /// The names of the routers at its borders.
    pub(crate) borders: Vec<String>,
    /// The queue at the ingress of each aggregate.
    pub(crate) router: RouterSpec,
    pub(crate) settings: Settings,
    pub(crate) propagate_overload: bool,
    pub(crate) measured: bool,
    /// False if the island is disabled.
    pub(crate) active: bool,
}

impl IslandSpec {
    pub(crate) fn read(section: &Section<'_>) -> Result<Self> {
        section.keys(&[keys::ISLAND])?;
        let name = section.need("name", "name = \"island\"")?.name()?.to_owned();
        let section = &section.called(format!("island `{name}`"));
        let item = section.need("borders", "borders = [\"left\", \"right\"]")?;
        let borders = item.list()?.iter().map(|item| item.name().map(str::to_owned)).collect::<Result<Vec<_>>>()?;
        if borders.len() < 2 {
            let wrong =
                format!("`borders` names {} router{}", borders.len(), if borders.len() == 1 { "" } else { "s" });
            return Err(item.error(format!("{wrong}; flows enter at one and leave at another: name two or more")));
        }
        let router = section.need("router", "router = { kind = \"drop-tail\", packets = 100 }")?;
        Ok(Self {
            lines: section.lines(),
            name,
            borders,
            router: RouterSpec::read(&router)?,
            settings: section.or("settings", Settings::omitted(section), Settings::read)?,
            propagate_overload: section.or("propagate_overload", false, Item::boolean)?,
            measured: section.or("measure", false, Item::boolean)?,
            active: section.or("active", true, Item::boolean)?,
        })
    }
}

impl File {
    pub(super) fn check_islands<'f>(&'f self, errors: &mut Errors) {
        let names = self.islands.iter().map(|island| (&island.name, island.lines.of("name")));
        errors.keep(no_duplicates("islands", names));
        let named = |island: &'f IslandSpec| island.borders.iter().map(|name| (name, island.lines.of("borders")));
        let borders = || self.islands.iter().flat_map(named);
        errors.keep(no_duplicates("borders", borders()));
        let routers = self.routers();
        for (border, place) in borders().filter(|(border, _)| !routers.contains(border.as_str())) {
            if !errors.has_lost() {
                errors.add(place.error(unknown("router", border, routers.iter().copied())));
            }
        }
    }
}
