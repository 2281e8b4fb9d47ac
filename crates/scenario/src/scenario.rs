//! A scenario file with its axes.
//!
//! A text that begins with `$` stands for the value of an axis (see [`Hole`]). It is replaced in the text of the file,
//! before anything but the axes is read, so that every other line stays what and where it was.

use std::path::Path;

use rampmeter_control::Registry;
use sha2::{Digest, Sha256};
use toml::Value;

use crate::document::{Item, NAME, Section, Source, is_name};
use crate::error::{Known, Problem, ScenarioError};
use crate::file::File;
use crate::hole::Hole;
use crate::{Plan, Point};

/// The axis that every scenario has.
const SEED: &str = "seed";

/// Most points of one sweep.
const MOST_POINTS: usize = 1_000_000;

/// A dimension of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values, in the order they are run: texts, whole numbers, numbers, true or false.
    pub values: Vec<Value>,
    line: usize,
}

/// A scenario file, read and checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    file: String,
    text: String,
    title: String,
    axes: Vec<Axis>,
    /// Where axes' values belong.
    holes: Vec<Hole>,
}

impl Scenario {
    /// Reads the file at `path`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let file = path.as_ref().display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(ScenarioError::Unreadable { file, error }),
        }
    }

    /// Reads `text`; `file` is its name in messages. Finds all that the file alone shows to be wrong; the names and
    /// settings of controllers and routers are [`Scenario::check`]'s.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let document = source.parse()?;
        let section = Section::whole(source, document.get_ref());
        let axes = read_axes(source, &section)?;
        let holes = Hole::all(source, &section, &axes)?;
        let unused = |axis: &&Axis| axis.name != SEED && !holes.iter().any(|hole| hole.axis == axis.name);
        if let Some(Axis { name, line, .. }) = axes.iter().find(unused) {
            return Err(source.error(*line, Problem::UnusedAxis { name: name.clone() }));
        }
        let title = section.get("title").and_then(|item| item.as_text()).unwrap_or(file).to_owned();
        let scenario = Self { file: file.to_owned(), text: text.to_owned(), title, axes, holes };
        scenario.each_value(|point| scenario.at(point).map(drop))?;
        Ok(scenario)
    }

    /// What the file says it is; its name if it says nothing.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The axes, in the order of the file: the first varies slowest. There is always a `seed`.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Gives an axis other values.
    pub fn set(&mut self, axis: &str, values: Vec<Value>) -> Result<(), ScenarioError> {
        let refuse = |problem| ScenarioError::Set { file: self.file.clone(), problem: Box::new(problem) };
        let Some(place) = self.axes.iter().position(|known| known.name == axis) else {
            let known = Known::near(axis, self.axes.iter().map(|axis| axis.name.as_str()));
            return Err(refuse(Problem::UnknownName { kind: "axis", name: axis.to_owned(), known }));
        };
        let line = self.axes[place].line;
        let changed = Axis { name: axis.to_owned(), values, line };
        changed.check().map_err(refuse)?;
        let mut scenario = self.clone();
        scenario.axes[place] = changed;
        scenario.check_size().map_err(refuse)?;
        scenario.each_value(|point| scenario.at(point).map(drop))?;
        *self = scenario;
        Ok(())
    }

    /// Every point of the sweep.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::default()];
        for axis in &self.axes {
            let mut longer = Vec::with_capacity(points.len() * axis.values.len());
            for (point, value) in points.iter().flat_map(|point| axis.values.iter().map(move |value| (point, value))) {
                let mut point = point.clone();
                point.0.push((axis.name.clone(), value.clone()));
                longer.push(point);
            }
            points = longer;
        }
        points
    }

    /// The plan of one point, with controllers from `registry`.
    pub fn plan(&self, point: &Point, registry: &Registry) -> Result<Plan, ScenarioError> {
        let text = self.text_at(point)?;
        let source = Source { file: &self.file, text: &text };
        crate::planner::plan(source, &File::read(source)?, point, registry)
    }

    /// Plans the first point, and one more for every further value of every axis: what is wrong with a value shows
    /// before anything runs.
    pub fn check(&self, registry: &Registry) -> Result<(), ScenarioError> {
        self.each_value(|point| self.plan(point, registry).map(drop))
    }

    /// A hash of the file's text, in hexadecimal (SHA-256).
    pub fn hash(&self) -> String {
        format!("{:x}", Sha256::digest(self.text.as_bytes()))
    }

    fn at(&self, point: &Point) -> Result<File, ScenarioError> {
        File::read(Source { file: &self.file, text: &self.text_at(point)? })
    }

    /// The text with the point's values in place.
    fn text_at(&self, point: &Point) -> Result<String, ScenarioError> {
        Hole::fill(&self.holes, Source { file: &self.file, text: &self.text }, point)
    }

    fn each_value(&self, check: impl Fn(&Point) -> Result<(), ScenarioError>) -> Result<(), ScenarioError> {
        let first = Point(self.axes.iter().map(|axis| (axis.name.clone(), axis.values[0].clone())).collect());
        check(&first)?;
        for (place, axis) in self.axes.iter().enumerate() {
            // The seed changes nothing that could be wrong.
            let others = if axis.name == SEED { &[] } else { &axis.values[1..] };
            for value in others {
                let mut point = first.clone();
                point.0[place].1 = value.clone();
                check(&point)?;
            }
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Problem> {
        check_size(&self.axes)
    }
}

fn check_size(axes: &[Axis]) -> Result<(), Problem> {
    let points = axes.iter().try_fold(1usize, |points, axis| points.checked_mul(axis.values.len()));
    if points.is_none_or(|points| points > MOST_POINTS) {
        let what = format!("the axes span more than {MOST_POINTS} points");
        return Err(Problem::impossible(what, "give them fewer values"));
    }
    Ok(())
}

impl Axis {
    fn check(&self) -> Result<(), Problem> {
        let name = &self.name;
        if self.values.is_empty() {
            return Err(Problem::impossible(format!("axis `{name}` has no values"), "give it one or more"));
        }
        for (place, value) in self.values.iter().enumerate() {
            let plain = match value {
                Value::String(text) => !text.chars().any(char::is_control),
                Value::Integer(_) | Value::Boolean(_) => true,
                Value::Float(number) => number.is_finite(),
                _ => false,
            };
            if !plain {
                let what = format!("axis `{name}` has a value that is no plain text or number");
                return Err(Problem::impossible(what, "list values like \"pcp\", 0.6, 30 or true"));
            }
            if name == SEED && value.as_integer().is_none_or(|seed| seed < 0) {
                let what = format!("axis `seed` has the value {value}");
                return Err(Problem::impossible(what, "seeds are whole numbers, 0 or more"));
            }
            if self.values[..place].contains(value) {
                let what = format!("axis `{name}` has the value {value} twice");
                return Err(Problem::impossible(what, "remove one"));
            }
        }
        Ok(())
    }
}

/// The values in a comma-separated list, as given on a command line: numbers, true and false are themselves, all else
/// is text.
pub fn values(list: &str) -> Vec<Value> {
    let value = |text: &str| match text.parse() {
        Ok(value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::String(_))) => value,
        _ => Value::String(text.to_owned()),
    };
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(value).collect()
}

fn read_axes(source: Source<'_>, file: &Section<'_>) -> Result<Vec<Axis>, ScenarioError> {
    let read = |item: Item<'_>| {
        if !is_name(item.key) {
            let what = format!("`{}` cannot be an axis's name", item.key);
            return Err(item.error(Problem::impossible(what, format!("use {NAME}"))));
        }
        let values = item.list()?.iter().map(Item::value).collect::<Result<Vec<_>, _>>()?;
        let axis = Axis { name: item.key.to_owned(), values, line: item.line() };
        axis.check().map_err(|problem| item.error(problem))?;
        Ok(axis)
    };
    let section = file.get("axes").map(|item| item.section("[axes]")).transpose()?;
    let mut axes = section.iter().flat_map(Section::items).map(read).collect::<Result<Vec<_>, _>>()?;
    if !axes.iter().any(|axis| axis.name == SEED) {
        axes.push(Axis { name: SEED.into(), values: vec![Value::Integer(1)], line: 1 });
    }
    let line = section.map_or(1, |section| section.line);
    check_size(&axes).map_err(|problem| source.error(line, problem))?;
    Ok(axes)
}
