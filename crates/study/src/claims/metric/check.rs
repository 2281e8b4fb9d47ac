//! Checks a metric before any run: that runs have its values, and that axes have the values that select runs.

use rampmeter_scenario::{Axis, Column, Kind, Schema, abouts};
use rampmeter_units::{Known, nearest};
use toml::Value;

use super::worlds::WORLD;
use super::{ALL, Metric, is_equal};

/// An error lists so many values of an axis at most.
const LISTED: usize = 12;

/// An error lists so many values of runs, if none is so near that it must be meant.
const SUGGESTIONS: usize = 3;

impl Metric {
    /// Checks that it fits a scenario with these axes, measured links and measured kinds of traffic.
    pub(crate) fn check(&self, schema: &Schema, axes: &[&str], links: &[&str], traffic: &[&str]) -> Result<(), String> {
        for axis in self.axes() {
            if !axes.contains(&axis.as_str()) {
                return Err(format!("no axis is called `{axis}`; {}", Known::near(axis, axes.iter().copied())));
            }
        }
        let paths = Paths::new(schema, links, traffic);
        for path in std::iter::once(&self.path).chain(&self.over) {
            paths.check(path)?;
        }
        match &self.over {
            Some(path) if path.contains(ALL) => Err(format!("`over` must be one value, `{path}` is several")),
            _ => Ok(()),
        }
    }

    /// Checks that `axes` have the values in `where`, `minus` and `relative_to`: with another one no run is selected.
    pub(crate) fn check_values(&self, axes: &[Axis], extent: Extent) -> Result<(), String> {
        let more = [("minus", &self.minus), ("relative_to", &self.relative_to)];
        let more = more.into_iter().filter_map(|(key, place)| Some((key, place.as_ref()?)));
        for (key, place) in std::iter::once(("where", &self.of)).chain(more) {
            for (name, wanted) in place.iter().filter(|(name, _)| *name != WORLD) {
                if let Some(axis) = axes.iter().find(|axis| axis.name == *name) {
                    has_values(axis, wanted, extent).map_err(|problem| format!("`{key}`: {problem}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Which values of a list an axis must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All: the axis has every value of the file.
    Complete,
    /// One at least: `set`, `--quick` or `--seeds` leave out the others.
    Part,
}

/// Checks that `axis` has the value `wanted`, or the values of that list.
pub(in crate::claims) fn has_values(axis: &Axis, wanted: &Value, extent: Extent) -> Result<(), String> {
    let name = &axis.name;
    let wanted = wanted.as_array().map_or(std::slice::from_ref(wanted), Vec::as_slice);
    let is_unknown = |wanted: &&Value| !axis.values.iter().any(|value| is_equal(value, wanted));
    let unknown: Vec<&Value> = wanted.iter().filter(is_unknown).collect();
    let unknown = match unknown[..] {
        _ if wanted.is_empty() => return Err(format!("the list of values of `{name}` is empty; name one or more")),
        [] => return Ok(()),
        [..] if extent == Extent::Part && unknown.len() < wanted.len() => return Ok(()),
        [first, ..] => text(first),
    };
    let values: Vec<String> = axis.values.iter().map(text).collect();
    let more = if values.len() > LISTED { format!(", ... ({} values)", values.len()) } else { String::new() };
    let all = format!("{}{more}", values[..values.len().min(LISTED)].join(", "));
    let advice = match Known::near(&unknown, values.iter().map(String::as_str)) {
        // A number is no misspelled word.
        Known::Near(near) if unknown.parse::<f64>().is_err() => format!("did you mean `{near}`? Its values are {all}"),
        _ => format!("its values are {all}"),
    };
    Err(format!("the axis `{name}` has no value `{unknown}`; {advice}"))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The values that runs of a scenario have, by their paths.
pub(crate) struct Paths<'a> {
    runs: Vec<&'static str>,
    flows: Vec<&'static str>,
    link: Vec<&'static str>,
    links: &'a [&'a str],
    /// The kinds of traffic; none if there is only one, for a summary then has no separate values of it.
    traffic: &'a [&'a str],
}

impl<'a> Paths<'a> {
    pub(crate) fn new(schema: &Schema, links: &'a [&'a str], traffic: &'a [&'a str]) -> Self {
        let (runs, flows, link) = (numbers(&schema.runs), numbers(&schema.groups), numbers(&schema.links));
        Self { runs, flows, link, links, traffic: if traffic.len() < 2 { &[] } else { traffic } }
    }

    /// The error says which names are near, or what there is.
    pub(crate) fn check(&self, path: &str) -> Result<(), String> {
        let all = self.all();
        if all.iter().any(|known| known == path) {
            return Ok(());
        }
        let (part, rest) = path.split_once('.').unwrap_or(("", path));
        let (name, column) = rest.rsplit_once('.').unwrap_or((ALL, rest));
        let advice = match (Known::near(path, all.iter().map(String::as_str)), part) {
            (near @ Known::Near(_), _) => near.to_string(),
            (_, "flows") => of("flows", column, &self.flows),
            (_, "links") if is_in(name, self.links) => of("links", column, &self.link),
            (_, "links") => none_called("link", name, self.links),
            (_, "traffic") if self.traffic.is_empty() => {
                format!("one kind of traffic is measured: write `flows.{column}`")
            }
            (_, "traffic") if is_in(name, self.traffic) => of("kinds of traffic", column, &self.flows),
            (_, "traffic") => none_called("kind of traffic", name, self.traffic),
            _ => {
                let more = "flows.NAME, links.LINK.NAME and traffic.KIND.NAME";
                format!("there are {}, {more}; docs/output.md lists the names", self.runs.join(", "))
            }
        };
        Err(format!("no value is called `{path}`; {advice}"))
    }

    fn all(&self) -> Vec<String> {
        let of = |part: &str, names: &[&str], columns: &[&str]| {
            let names: Vec<&str> =
                if names.is_empty() { Vec::new() } else { names.iter().copied().chain([ALL]).collect() };
            let paths =
                names.iter().flat_map(|name| columns.iter().map(move |column| format!("{part}.{name}.{column}")));
            paths.collect::<Vec<_>>()
        };
        let runs = self.runs.iter().map(|&column| column.to_owned());
        let flows = self.flows.iter().map(|column| format!("flows.{column}"));
        let links = of("links", self.links, &self.link);
        runs.chain(flows).chain(links).chain(of("traffic", self.traffic, &self.flows)).collect()
    }
}

fn is_in(name: &str, names: &[&str]) -> bool {
    name == ALL || names.contains(&name)
}

fn of(what: &str, column: &str, columns: &[&str]) -> String {
    let near = nearest(column, columns.iter().copied(), SUGGESTIONS).join(", ");
    format!("the nearest values of {what} are {near}; docs/output.md lists all")
}

fn none_called(what: &str, name: &str, names: &[&str]) -> String {
    format!("no measured {what} is called `{name}`; {}", Known::near(name, names.iter().copied()))
}

fn numbers<T>(columns: &[Column<T>]) -> Vec<&'static str> {
    let is_number = |kind| matches!(kind, Kind::Whole | Kind::Number);
    abouts(columns).filter(|about| is_number(about.kind)).map(|about| about.name).collect()
}
