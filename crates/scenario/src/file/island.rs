//! `[[island]]`: a set of borders. TCP flows between two of them are carried as one VCP flow.

use super::{File, RouterSpec, no_duplicates};
use crate::document::{Item, Lines, Section, Settings, Source};
use crate::error::{Problem, ScenarioError};

/// An island of VCP routers.
#[derive(Debug, Clone)]
pub(crate) struct IslandSpec {
    pub(crate) lines: Lines,
    pub(crate) name: String,
    /// The names of the routers at its borders.
    pub(crate) borders: Vec<String>,
    /// The queue at the ingress of each aggregate.
    pub(crate) router: RouterSpec,
    /// The settings of VCP.
    pub(crate) settings: Settings,
    pub(crate) propagate_overload: bool,
    pub(crate) measured: bool,
    /// False if the island is disabled.
    pub(crate) active: bool,
}

impl IslandSpec {
    pub(crate) fn read(section: &Section<'_>) -> Result<Self, ScenarioError> {
        section.keys(&["name", "borders", "router", "settings", "propagate_overload", "measure", "active"])?;
        let name = section.need("name", "name = \"island\"")?.name()?.to_owned();
        let section = &section.called(format!("island `{name}`"));
        let borders = section.need("borders", "borders = [\"left\", \"right\"]")?;
        let names = borders.list()?.iter().map(|item| item.name().map(str::to_owned)).collect::<Result<Vec<_>, _>>()?;
        if names.len() < 2 {
            let what = format!("`borders` names {} router{}", names.len(), if names.len() == 1 { "" } else { "s" });
            return Err(
                borders.error(Problem::impossible(what, "flows enter at one and leave at another: name two or more"))
            );
        }
        let router = section.need("router", "router = { kind = \"drop-tail\", packets = 100 }")?;
        let default = Settings::omitted(section.line);
        let boolean = |key, default| section.get(key).map_or(Ok(default), |item: Item<'_>| item.boolean());
        Ok(Self {
            lines: section.lines(),
            name,
            borders: names,
            router: RouterSpec::read(&router)?,
            settings: section.get("settings").map_or(Ok(default), |item| Settings::read(&item))?,
            propagate_overload: boolean("propagate_overload", false)?,
            measured: boolean("measure", false)?,
            active: boolean("active", true)?,
        })
    }
}

impl File {
    pub(super) fn check_islands(&self, source: Source<'_>) -> Result<(), ScenarioError> {
        let names = self.islands.iter().map(|island| (island.name.as_str(), island.lines.of("name")));
        no_duplicates(source, "islands", names)?;
        let of = |island: &IslandSpec| island.lines.of("borders");
        let borders = || self.islands.iter().flat_map(|i| i.borders.iter().map(move |name| (name.as_str(), of(i))));
        no_duplicates(source, "borders", borders())?;
        let mut routers: Vec<&str> = self.links.iter().flat_map(|link| link.ends.iter().map(String::as_str)).collect();
        routers.sort_unstable();
        routers.dedup();
        match borders().find(|(border, _)| !routers.contains(border)) {
            Some((border, line)) => Err(source.error(line, Problem::unknown("router", border, routers))),
            None => Ok(()),
        }
    }
}
