//! `claims.toml`: reads the file and checks it against its scenarios before any run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rampmeter_scenario::{Plan, Registries, Scenario, ScenarioError, Schema, expanded};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use super::metric::Extent;
use super::record::digest;
use super::{Bound, Metric, Records, Standing, Variant};
use crate::StudyError;
use crate::entries::Text;

/// The status that the file gives a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds; a failure is a regression.
    Holds,
    /// It does not hold yet; the note has the best value so far.
    Open,
}

/// A claim with its scenario.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name, unique in its file.
    pub id: String,
    /// Its place in the paper.
    pub place: String,
    /// The text of the claim.
    pub text: String,
    /// The paper's value, if its text gives one.
    pub paper: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// The bound of the metric.
    pub bound: Bound,
    /// Its status.
    pub status: Status,
    /// The best value so far and the reason, for an open claim.
    pub note: Option<String>,
    /// The world that tests it.
    pub world: String,
    /// The file of claims that has it.
    pub source: PathBuf,
    /// The scenario's file.
    pub file: PathBuf,
    /// The scenario, with its axes set.
    pub scenario: Scenario,
    /// Identifies its complete runs and what its metric takes from them, also if `scenario` has quick values or other
    /// seeds: a record with the same digest is current. Empty for questions of an evaluation, which are not recorded.
    pub digest: String,
    /// Its recorded result, which is of complete runs even if the scenario has quick values.
    pub recorded: Standing,
    /// The variants of its file.
    pub variants: Arc<[Variant]>,
}

impl Claim {
    /// The unit of the expected and the measured value; that of a shape is a ratio. Empty for a pure number.
    pub fn unit(&self) -> &str {
        if self.bound.is_shape() { "ratio" } else { self.metric.quantity() }
    }

    /// The worlds that test it: its own, and perhaps the one that it is compared with.
    pub(crate) fn worlds(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.world.as_str()).chain(self.metric.other_world())
    }

    /// Whether the recorded result contradicts the status.
    pub fn contradicts_record(&self) -> bool {
        matches!(self.recorded, Standing::Current { holds, .. } if holds != (self.status == Status::Holds))
    }

    /// The expectation, with the unit that the metric names with `in`. A fraction and a ratio have none. A unit that begins
    /// with a number is a multiple.
    pub fn expect(&self) -> String {
        let unit = self.metric.unit().filter(|unit| !self.bound.is_shape() && !["fraction", "ratio"].contains(unit));
        let is_number = |unit: &str| unit.starts_with(|first: char| first.is_ascii_digit());
        match unit {
            None => self.bound.to_string(),
            Some(unit) if is_number(unit) => format!("{} times {unit}", self.bound),
            Some(unit) => format!("{} {unit}", self.bound),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default, rename = "paper")]
    _paper: String,
    #[serde(default)]
    variant: Vec<Spanned<Variant>>,
    claim: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    id: String,
    r#where: String,
    text: String,
    paper: Option<String>,
    scenario: PathBuf,
    #[serde(default)]
    set: Table,
    #[serde(default)]
    quick: Quick,
    metric: Metric,
    expect: Bound,
    status: Status,
    note: Option<String>,
    #[serde(default = "simulated")]
    world: String,
}

/// Whether a claim is judged with `--quick`, and with which additional values.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "`quick` should be true, false or values for axes: { seed = [1] }")]
pub(crate) enum Quick {
    Plain(bool),
    With(Table),
}

impl Default for Quick {
    fn default() -> Self {
        Self::Plain(false)
    }
}

fn simulated() -> String {
    "simulated".to_owned()
}

/// Reads the claims of `file`; if `quick`, only the quick ones, with their quick values.
pub fn read(file: &Path, quick: bool, registries: &Registries, schema: &Schema) -> Result<Vec<Claim>, StudyError> {
    let mut errors = Vec::new();
    let claims = read_all(file, quick, registries, schema, &mut errors)?;
    errors.into_iter().next().map_or(Ok(claims), |first| Err(first.into()))
}

/// Every error of `file`, as far as one reading finds them.
pub fn problems(file: &Path, registries: &Registries, schema: &Schema) -> Vec<StudyError> {
    let mut errors = Vec::new();
    let fatal = read_all(file, false, registries, schema, &mut errors).err();
    fatal.into_iter().chain(errors.into_iter().map(StudyError::from)).collect()
}

/// Reads the claims that have no errors. An error that is returned is one after which reading cannot go on.
fn read_all(
    file: &Path,
    quick: bool,
    registries: &Registries,
    schema: &Schema,
    errors: &mut Vec<ScenarioError>,
) -> Result<Vec<Claim>, StudyError> {
    let name = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Err(ScenarioError::Unreadable { file: name, error }.into()),
    };
    let text = Text { file: &name, text: &text };
    let records = Records::read(&Records::path(file))?;
    let parsed: File = match toml::from_str(text.text) {
        Ok(parsed) => parsed,
        Err(first) => {
            let (variant, claim) = (text.entries("variant", errors), text.entries("claim", errors));
            if errors.is_empty() {
                return Err(text.unread(&first).into());
            }
            File { _paper: String::new(), variant, claim }
        }
    };
    let places: Vec<usize> = parsed.variant.iter().map(|variant| variant.span().start).collect();
    let variants: Arc<[Variant]> = parsed.variant.into_iter().map(Spanned::into_inner).collect();
    let mut scenarios = Scenarios { registries, read: BTreeMap::new(), checked: BTreeMap::new() };
    let mut claims: Vec<Claim> = Vec::new();
    for entry in parsed.claim {
        let at = entry.span().start;
        let entry = entry.into_inner();
        if claims.iter().any(|claim| claim.id == entry.id) {
            errors.push(text.wrong(at, format!("there are two claims called `{}`; rename one", entry.id)));
            continue;
        }
        let id = entry.id.clone();
        match entry.claim(file, quick, schema, &mut scenarios) {
            Ok(Some(claim)) => claims.push(Claim { variants: variants.clone(), ..claim }),
            Ok(None) => {}
            Err(what) => errors.push(text.wrong(at, format!("claim `{id}`{what}"))),
        }
    }
    for claim in &mut claims {
        claim.recorded = records.standing(claim);
    }
    // What claims with errors are about is not known.
    for (variant, at) in variants.iter().zip(places).filter(|_| !quick && errors.is_empty()) {
        variant.check(&claims).map_err(|what| text.wrong(at, format!("variant `{}`: {what}", variant.name)))?;
    }
    Ok(claims)
}

impl Entry {
    /// The claim; `None` if it is not asked for. An error continues "claim `id`".
    fn claim(
        self,
        file: &Path,
        quick: bool,
        schema: &Schema,
        scenarios: &mut Scenarios<'_>,
    ) -> Result<Option<Claim>, String> {
        if self.status == Status::Open && self.note.is_none() {
            return Err(" is open without a `note`; write the best value so far and the reason".to_owned());
        }
        let values = match &self.quick {
            Quick::Plain(false) if quick => return Ok(None),
            Quick::With(values) if quick => values.clone(),
            Quick::Plain(_) | Quick::With(_) => Table::new(),
        };
        let path = file.with_file_name(&self.scenario);
        let refuse = |what: String| format!(": {what}");
        let invalid = |error: ScenarioError| refuse(error.to_string());
        let scenario = scenarios.with(&path, &self.set).map_err(invalid)?;
        let quick_set = self.set.clone().into_iter().chain(values).collect();
        let quick_scenario = scenarios.with(&path, &quick_set).map_err(invalid)?;
        let metric = self.metric.in_world(&self.world).map_err(refuse)?;
        let whole = scenarios.whole(&path).map_err(invalid)?;
        let both = [&whole, &quick_scenario];
        check(&metric, &self.expect, both, &self.set, scenarios.registries, schema).map_err(refuse)?;
        let digest = digest(&scenario, &metric, &self.world).map_err(invalid)?;
        Ok(Some(Claim {
            id: self.id,
            place: self.r#where,
            text: self.text,
            paper: self.paper,
            metric,
            bound: self.expect,
            status: self.status,
            note: self.note,
            world: self.world,
            source: file.to_owned(),
            file: path,
            scenario: quick_scenario,
            digest,
            recorded: Standing::Missing,
            variants: Arc::default(),
        }))
    }
}

/// The scenarios of a file of claims. Many claims are about the same runs, and checking a scenario plans it with every
/// value of every axis, so each file is read once, and checked once with the same values.
struct Scenarios<'a> {
    registries: &'a Registries,
    read: BTreeMap<PathBuf, Scenario>,
    checked: BTreeMap<(PathBuf, String), Scenario>,
}

impl Scenarios<'_> {
    /// The scenario at `path` with these values of its axes.
    fn with(&mut self, path: &Path, values: &Table) -> Result<Scenario, ScenarioError> {
        let file = self.whole(path)?;
        let checked = match self.checked.entry((path.to_owned(), values.to_string())) {
            Occupied(known) => known.into_mut(),
            Vacant(place) => place.insert(set(file, values, self.registries)?),
        };
        Ok(checked.clone())
    }

    /// The scenario at `path` with the values of its file.
    fn whole(&mut self, path: &Path) -> Result<Scenario, ScenarioError> {
        let file = match self.read.entry(path.to_owned()) {
            Occupied(known) => known.into_mut(),
            Vacant(place) => place.insert(Scenario::read(path)?),
        };
        Ok(file.clone())
    }
}

/// Checks that runs of the scenario `asked` have the values of `metric`, and that `bound` fits them. `whole` has all
/// values of its file. `set` may leave out some of these, and `--quick` and `--seeds` some of both.
pub(crate) fn check(
    metric: &Metric,
    bound: &Bound,
    [whole, asked]: [&Scenario; 2],
    set: &Table,
    registries: &Registries,
    schema: &Schema,
) -> Result<(), String> {
    let plan = asked.points().first().and_then(|point| asked.plan(point, registries).ok());
    let (links, traffic) = plan.as_ref().map(measured_names).unwrap_or_default();
    let axes: Vec<&str> = asked.axes().iter().map(|axis| axis.name.as_str()).collect();
    metric.check(schema, &axes, &links, &traffic)?;
    bound.check(&metric.by)?;
    let mut all = asked.axes().to_vec();
    for axis in &mut all {
        let in_file =
            whole.axes().iter().filter(|known| known.name == axis.name).flat_map(|known| known.values.clone());
        let set = set.get(&axis.name).cloned().map(listed).and_then(|set| expanded(set).ok()).unwrap_or_default();
        let more = in_file.chain(std::mem::take(&mut axis.values)).chain(set);
        axis.values = more.fold(Vec::new(), |mut values, value| {
            if !values.contains(&value) {
                values.push(value);
            }
            values
        });
    }
    for (axes, extent) in [(all.as_slice(), Extent::Complete), (asked.axes(), Extent::Part)] {
        metric.check_values(axes, extent)?;
        bound.check_values(axes, extent)?;
    }
    Ok(())
}

/// The names of the measured links and kinds of traffic of a plan.
pub(crate) fn measured_names(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let measured = plan.traffic.iter().filter(|traffic| traffic.measured);
    let links = plan.measured_queues().map(|id| plan.queue_name(id));
    (links.collect(), measured.map(|traffic| traffic.name.as_str()).collect())
}

/// `scenario` with these values of its axes and keys.
pub(crate) fn set(mut scenario: Scenario, values: &Table, registries: &Registries) -> Result<Scenario, ScenarioError> {
    scenario.set_all(values.iter().map(|(axis, values)| (axis.clone(), listed(values.clone()))))?;
    scenario.check(registries)?;
    Ok(scenario)
}

/// The values of an axis, of which a file may give one without a list.
fn listed(values: Value) -> Vec<Value> {
    match values {
        Value::Array(values) => values,
        value => vec![value],
    }
}
