//! A scenario file with its axes.
//!
//! A text that starts with `$` is a placeholder for the value of an axis (see [`Placeholder`]). Placeholders are
//! replaced in the text of the file before anything except the axes is read, so all other text keeps its content and
//! line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::axis::{Axis, CONDITION, SEED, check_size, read_axes};
use crate::beside::Beside;
use crate::conditions::{Condition, Conditions, is_condition, is_file, network, one_flow};
use crate::document::{Section, Source};
use crate::error::{Result, ScenarioError, unknown};
use crate::errors::Errors;
use crate::file::{File, LinkSpec, MetricText};
use crate::keys;
use crate::placeholder::{Placeholder, variable};
use crate::sets::{Edited, Set, parts};
use crate::shared_schemes::SharedSchemes;
use crate::traces::Traces;
use crate::{Plan, Point, Portable, Registries};

/// A scenario file, read and checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    file: String,
    /// The text of the file, and of the file of schemes that it names.
    text: String,
    /// Whether the text is part of the program: the scenario of a condition.
    built_in: bool,
    shared_schemes: Option<SharedSchemes>,
    title: String,
    axes: Vec<Axis>,
    /// The placeholders of its axes' values.
    placeholders: Vec<Placeholder>,
    pub(crate) traces: Traces,
    conditions: Conditions,
    used: Used,
}

/// The text of a scenario at one of its points.
#[derive(Debug, Default)]
struct Filled {
    text: Edited,
    /// The values for keys of its condition.
    of_condition: Vec<Set>,
}

/// The names of the traces and of the conditions that a scenario uses.
#[derive(Debug, Clone, Default)]
struct Used {
    traces: BTreeSet<String>,
    conditions: BTreeSet<String>,
}

impl Scenario {
    /// Reads the file at `path`. A condition, in a file or of the library, is read as a scenario of one flow over it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_file(path.as_ref(), one_flow).and_then(Self::with_traffic)
    }

    /// Reads the file at `path`, which may have no traffic if the caller adds it. A condition has none.
    pub fn read_network(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_file(path.as_ref(), network)
    }

    fn read_file(path: &Path, over: fn(&str) -> String) -> Result<Self> {
        let mut errors = Errors::default();
        let read = Self::open(path, over, &mut errors);
        errors.or(read)
    }

    /// Reads the file at `path`; `over` is the text of a scenario that uses the condition of a name.
    fn open(path: &Path, over: fn(&str) -> String, errors: &mut Errors) -> Result<Self> {
        let file = path.display().to_string();
        let mut over = |name: &str| Self::read_text(&file, &over(name), Beside::file(""), true, errors);
        if Condition::named(path).is_some() {
            return over(&file);
        }
        match std::fs::read_to_string(path) {
            Ok(text) if is_condition(&text) && is_file(&file) => over(&file),
            Ok(text) if is_condition(&text) => over(&format!("./{file}")),
            Ok(text) => Self::read_text(&file, &text, Beside::file(&file), false, errors),
            Err(error) if error.kind() == ErrorKind::NotFound && !is_file(&file) => {
                Err(ScenarioError::Set { problem: Condition::unknown(&file), file })
            }
            Err(error) => Err(ScenarioError::Unreadable { file, error }),
        }
    }

    /// The scenario of one flow over the condition `name`, of the library or in a file.
    pub(crate) fn over(name: &str) -> Result<Self> {
        // The names of files in a text of the program are relative to the current directory, as in `--set`.
        Self::parse_beside(name, &one_flow(name), Beside::file(""), true)
    }

    /// Reads `text`; `file` is its name in messages. Finds all errors that the file alone shows; names and settings of
    /// controllers and routers are checked by [`Scenario::check`].
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        Self::parse_network(file, text).and_then(Self::with_traffic)
    }

    /// Reads a scenario from another machine.
    pub fn from_portable(portable: Portable) -> Result<Self> {
        let Portable { file, text, beside } = portable;
        Self::parse_beside(&file, &text, Beside::Carried(beside), false).and_then(Self::with_traffic)
    }

    /// The scenario's file with the files that it names. Values of axes that were set are not part of it.
    pub fn portable(&self) -> Portable {
        let schemes = self.shared_schemes.iter().map(|schemes| (schemes.name.clone(), schemes.text.clone()));
        let text = self.shared_schemes.as_ref().map_or(self.text.as_str(), |schemes| schemes.remove_from(&self.text));
        Portable {
            file: self.file.clone(),
            text: text.to_owned(),
            beside: self.named_files().into_iter().chain(schemes).collect(),
        }
    }

    /// The contents of the traces and conditions that it names, by their names; without those of the library.
    pub fn named_files(&self) -> BTreeMap<String, String> {
        let traces = self.used.traces.iter().filter_map(|name| Some((name.clone(), self.traces.text(name)?)));
        let conditions = self.condition_texts(&self.used).into_iter().filter(|(name, _)| is_file(name));
        traces.chain(conditions).collect()
    }

    /// Reads `text`, which may have no traffic.
    pub fn parse_network(file: &str, text: &str) -> Result<Self> {
        Self::parse_beside(file, text, Beside::file(file), false)
    }

    fn parse_beside(file: &str, text: &str, beside: Beside, built_in: bool) -> Result<Self> {
        let mut errors = Errors::default();
        let read = Self::read_text(file, text, beside, built_in, &mut errors);
        errors.or(read)
    }

    /// Reads a text. An error that is returned is one after which reading cannot go on.
    fn read_text(file: &str, text: &str, beside: Beside, built_in: bool, errors: &mut Errors) -> Result<Self> {
        let shared_schemes = SharedSchemes::named_in(Source { built_in, ..Source::new(file, text) }, &beside)?;
        let text = &shared_schemes.as_ref().map_or_else(|| text.to_owned(), |schemes| schemes.append_to(text));
        let appended = shared_schemes.as_ref().map(SharedSchemes::place);
        let source = Source { file, text, appended, built_in, sets: &[] };
        let document = source.parse()?;
        let section = Section::root(source, document.get_ref());
        let axes = read_axes(source, &section, errors)?;
        let placeholders = Placeholder::all(source, &section, &axes, errors);
        let is_known = !errors.has_unfilled(); // a placeholder with an error may be the one that uses an axis
        for axis in axes.iter().filter(|axis| axis.name != SEED && is_known) {
            let used =
                |field: Option<&str>| placeholders.iter().any(|placeholder| placeholder.names(&axis.name, field));
            if let Some(name) = axis.unused(used) {
                let advice = format!("write \"${name}\" where its value belongs, or remove it");
                let wrong = format!("axis `{name}` changes nothing; {advice}");
                errors.add(source.error(axis.line, wrong));
            }
        }
        let title = section.get("title").and_then(|item| item.as_text()).unwrap_or(file).to_owned();
        let (file, text, used) = (file.to_owned(), text.clone(), Used::default());
        let (traces, conditions) = (Traces::new(beside.clone()), Conditions::new(beside));
        let scenario =
            Self { file, text, built_in, shared_schemes, title, axes, placeholders, traces, conditions, used };
        Ok(Self { used: scenario.check_values(errors), ..scenario })
    }

    /// The title of the scenario; the file's name if it has none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The axes in the order of the file; the first varies slowest. There is always a `seed`.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Replaces the values of the axis called `name`; or makes an axis of a key of the file: `link.bottleneck.rate`.
    pub fn set(&mut self, name: &str, values: Vec<Value>) -> Result<()> {
        self.set_all([(name.to_owned(), values)])
    }

    /// The same for several axes and keys, which need to be valid only together.
    pub fn set_all(&mut self, sets: impl IntoIterator<Item = (String, Vec<Value>)>) -> Result<()> {
        let mut scenario = self.clone();
        for (name, values) in sets {
            let refuse = |problem| ScenarioError::Key { key: name.clone(), problem };
            if let Some(index) = scenario.axes.iter().position(|known| known.name == name) {
                scenario.axes[index] = scenario.axes[index].with(values).map_err(refuse)?;
            } else {
                scenario.check_key(&name).map_err(refuse)?;
                let keys = scenario.axes.iter().filter(|axis| axis.is_key).count();
                scenario.axes.insert(keys, Axis::of_key(&name, values).map_err(refuse)?);
                if let Some(axis) = scenario.replaced_axis()? {
                    return Err(refuse(format!("its value is that of the axis `{axis}`; set `{axis}` instead")));
                }
            }
            check_size(&scenario.axes).map_err(refuse)?;
        }
        let mut errors = Errors::default();
        scenario.used = scenario.check_values(&mut errors);
        errors.or(Ok(()))?;
        *self = scenario;
        Ok(())
    }

    /// Its own metrics, in the order of the file.
    pub fn metrics(&self) -> Result<Vec<MetricText>> {
        let Filled { text, .. } = self.with_keys(self.text.clone(), &self.first_point())?;
        let source = self.source(&text);
        let document = source.parse()?;
        Section::root(source, document.get_ref()).or("metrics", Vec::new(), MetricText::read_all)
    }

    /// The value at `point` of what `$name` stands for in a metric: an axis, or a field of its records.
    pub fn variable(&self, name: &str, point: &Point) -> Result<Option<Value>, String> {
        variable(name, &self.axes, point)
    }

    /// Refuses what is neither an axis nor a key.
    fn check_key(&self, name: &str) -> Result<(), String> {
        const OTHERS: [&str; 5] = ["axes", "schemes", "title", "source", "metrics"];
        let known: Vec<&str> = keys::names(&[keys::SCENARIO]).into_iter().filter(|key| !OTHERS.contains(key)).collect();
        let parts = parts(name).unwrap_or_default();
        match (parts.first().map(String::as_str), parts.get(1)) {
            (Some("axes"), Some(axis)) => Err(format!("an axis is set by its name; write --set {axis}=...")),
            (Some(first), _) if known.contains(&first) => Ok(()),
            (first, _) => {
                let axes = self.axes.iter().map(|axis| axis.name.as_str());
                let keys = known.into_iter().filter(|key| !axes.clone().any(|axis| axis == *key));
                Err(unknown("axis or key", first.unwrap_or(name), axes.clone().chain(keys)))
            }
        }
    }

    /// An axis of the file that changes nothing any more, because keys that are set replace all that it sets.
    fn replaced_axis(&self) -> Result<Option<&str>> {
        let Filled { text, .. } = self.with_keys(self.text.clone(), &self.first_point())?;
        let source = self.source(&text);
        let document = source.parse()?;
        let file = Section::root(source, document.get_ref());
        let left = Placeholder::all(source, &file, &self.axes, &mut Errors::default());
        let is_used = |axis: &Axis| left.iter().any(|placeholder| placeholder.is_of(&axis.name));
        let replaced = self.axes.iter().find(|axis| !axis.is_key && axis.name != SEED && !is_used(axis));
        Ok(replaced.map(|axis| axis.name.as_str()))
    }

    /// Every point of the sweep.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::default()];
        for axis in &self.axes {
            let with = |point: &Point, value: &Value| {
                Point(point.0.iter().cloned().chain([(axis.name.clone(), value.clone())]).collect())
            };
            points = points.iter().flat_map(|point| axis.values.iter().map(move |value| with(point, value))).collect();
        }
        points
    }

    /// The plan of one point, with controllers and routers from `registries`.
    pub fn plan(&self, point: &Point, registries: &Registries) -> Result<Plan> {
        let file = self.file_at(point)?;
        crate::planner::plan(&file, point, registries, &self.traces)
    }

    /// Plans the first point, and one more for every further value of every axis, to find invalid values before the
    /// first run.
    pub fn check(&self, registries: &Registries) -> Result<()> {
        self.each_value().try_for_each(|point| self.plan(&point, registries).map(drop))
    }

    /// Every error of the scenario or condition at `path`, as far as one reading finds them, in the order of the lines. A
    /// file of schemes is checked as far as it can be without a scenario. A scenario without traffic has no error.
    pub fn problems(path: impl AsRef<Path>, registries: &Registries) -> Vec<ScenarioError> {
        let mut errors = Errors::default();
        let path = path.as_ref();
        if let Some(schemes) = std::fs::read_to_string(path).ok().filter(|text| SharedSchemes::is_alone(text)) {
            let read = SharedSchemes::read(Source::new(&path.display().to_string(), &schemes), &mut errors);
            errors.keep(read);
            return errors.into_sorted();
        }
        let scenario = Self::open(path, one_flow, &mut errors);
        if let Some(scenario) = errors.keep(scenario) {
            for point in scenario.each_value() {
                let file = scenario.read_at(&point, &mut errors);
                let Some(file) = errors.keep(file) else { continue };
                crate::planner::check(&file, registries, &scenario.traces, &mut errors);
                if errors.is_empty() {
                    errors.keep(crate::planner::plan(&file, &point, registries, &scenario.traces));
                }
            }
        }
        errors.into_sorted()
    }

    /// What a run at `point` depends on: the content of the file with the point's values, without comments, the title,
    /// the list of axes, and schemes that no traffic uses there; the content of its condition; and hashes of the traces.
    pub fn content(&self, point: &Point) -> Result<Table> {
        let Filled { text, of_condition } = self.filled_at(point)?;
        let mut content: Table = text.text.parse().map_err(|error: toml::de::Error| {
            let problem = error.message().replace('\n', "; ");
            self.source(&text).error(1, problem)
        })?;
        for key in ["title", "source", "axes", "schemes", "metrics"] {
            content.remove(key);
        }
        let traffic = content.get("traffic").and_then(Value::as_array).into_iter().flatten();
        let used: Vec<Value> = traffic.filter_map(|traffic| traffic.get("scheme").cloned()).collect();
        if let Some(schemes) = content.get_mut("scheme").and_then(Value::as_table_mut) {
            schemes.retain(|name, _| used.iter().any(|used| used.as_str() == Some(name)));
        }
        let names_no_files = self.used.traces.is_empty() && self.used.conditions.is_empty();
        // Reading the file again only finds traces and conditions.
        let used = if names_no_files { Used::default() } else { Self::used_by(self.file_at(point)?) };
        if !used.traces.is_empty() {
            let hashes = self.traces.hashes(&used.traces).map(|(name, hash)| (name, Value::String(hash)));
            content.insert("traces".into(), Value::Table(hashes.collect()));
        }
        for name in &used.conditions {
            let Ok((_, edited)) = self.conditions.edited(name, &of_condition) else { continue };
            let mut condition: Table = edited.text.parse().unwrap_or_default();
            for key in ["title", "source", "group"] {
                condition.remove(key);
            }
            content.insert("condition".into(), Value::Table(condition));
        }
        Ok(content)
    }

    /// A hash of the file's text, of its schemes, conditions and traces, in hexadecimal (SHA-256).
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new_with_prefix(self.text.as_bytes());
        for (name, hash) in self.traces.hashes(&self.used.traces) {
            digest.update(format!("\n{name} {hash}"));
        }
        for (name, text) in self.condition_texts(&self.used) {
            digest.update(format!("\n{name}\n{text}"));
        }
        format!("{:x}", digest.finalize())
    }

    fn with_traffic(self) -> Result<Self> {
        let text = Edited::new(self.text.clone());
        let source = self.source(&text);
        let document = source.parse()?;
        let file = Section::root(source, document.get_ref());
        if file.get("traffic").is_none() {
            return Err(file.missing("[[traffic]]", "[[traffic]] name = \"transfers\", scheme = \"tcp\""));
        }
        Ok(self)
    }

    /// Reads the file with every value of every axis. Returns what they use.
    fn check_values(&self, errors: &mut Errors) -> Used {
        let mut used = Used::default();
        for point in self.each_value() {
            let file = self.read_at(&point, errors);
            let Some(file) = errors.keep(file) else { continue };
            let Used { mut traces, mut conditions } = Self::used_by(file);
            used.traces.append(&mut traces);
            used.conditions.append(&mut conditions);
        }
        used
    }

    fn used_by(file: File) -> Used {
        let directions = file.links.iter().flat_map(LinkSpec::directions);
        let traces = directions.filter_map(|(_, direction)| direction.rate.trace().map(str::to_owned)).collect();
        Used { traces, conditions: file.condition.into_iter().collect() }
    }

    /// The texts of conditions by their names.
    fn condition_texts(&self, used: &Used) -> BTreeMap<String, String> {
        used.conditions.iter().filter_map(|name| Some((name.clone(), self.conditions.text(name).ok()?.text))).collect()
    }

    pub(crate) fn file_at(&self, point: &Point) -> Result<File> {
        let mut errors = Errors::default();
        let file = self.read_at(point, &mut errors);
        errors.or(file)
    }

    /// Reads the file at a point. An error that is returned is one after which reading cannot go on.
    fn read_at(&self, point: &Point, errors: &mut Errors) -> Result<File> {
        let Filled { text, of_condition } = self.filled_at(point)?;
        File::read(self.source(&text), &self.conditions, &of_condition, errors)
    }

    /// The text with the point's values in the place of placeholders and keys.
    fn filled_at(&self, point: &Point) -> Result<Filled> {
        let text = Edited::new(self.text.clone());
        let text = Placeholder::fill(&self.placeholders, self.source(&text), &self.axes, point)?;
        self.with_keys(text, point)
    }

    /// The text with the point's values in the place of keys.
    fn with_keys(&self, text: String, point: &Point) -> Result<Filled> {
        let mut filled = Filled { text: Edited::new(text), of_condition: Vec::new() };
        for axis in self.axes.iter().filter(|axis| axis.is_key) {
            let Some(value) = point.get(&axis.name) else { continue };
            let set = Set { key: axis.name.clone(), value: value.clone() };
            let Err(refused) = filled.text.set(&set) else { continue };
            // A table that the file does not have may be the condition's.
            let condition = point.get(CONDITION).and_then(Value::as_str).filter(|_| refused.is_no_table());
            let condition = condition.and_then(|name| self.conditions.text(name).ok());
            let wrong = match condition.map(|condition| Edited::new(condition.text).set(&set)) {
                Some(Ok(())) => {
                    filled.of_condition.push(set);
                    continue;
                }
                Some(Err(in_condition)) => in_condition.problem(refused.known()),
                None => refused.problem(&[]),
            };
            return Err(ScenarioError::Key { key: set.key, problem: wrong });
        }
        Ok(filled)
    }

    fn source<'a>(&'a self, text: &'a Edited) -> Source<'a> {
        let appended = self.shared_schemes.as_ref().map(SharedSchemes::place);
        let Edited { text, places } = text;
        Source { file: &self.file, text, appended, built_in: self.built_in, sets: places }
    }

    fn first_point(&self) -> Point {
        Point(self.axes.iter().map(|axis| (axis.name.clone(), axis.values[0].clone())).collect())
    }

    /// The first point, and one more for every further value of every axis.
    pub fn each_value(&self) -> impl Iterator<Item = Point> + use<'_> {
        let first = self.first_point();
        let others = self.axes.iter().enumerate().filter(|(_, axis)| axis.name != SEED); // no seed is invalid
        let others = others.flat_map(|(index, axis)| axis.values[1..].iter().map(move |value| (index, value)));
        let with = {
            let first = first.clone();
            move |(index, value): (usize, &Value)| {
                let mut point = first.clone();
                point.0[index].1 = value.clone();
                point
            }
        };
        std::iter::once(first).chain(others.map(with))
    }
}
