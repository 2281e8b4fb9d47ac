//! A scenario file with its axes.
//!
//! A text that begins with `$` stands for the value of an axis (see [`Hole`]). It is replaced in the text of the file,
//! before anything but the axes is read, so that every other line stays what and where it was.

use std::path::Path;

use rampmeter_units::Known;
use sha2::{Digest, Sha256};
use toml::Value;

use crate::axis::{Axis, SEED, check_size, read_axes};
use crate::document::{Section, Source};
use crate::error::{Problem, ScenarioError};
use crate::file::File;
use crate::hole::Hole;
use crate::{Plan, Point, Registries};

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
        Self::read_network(path).and_then(Self::with_traffic)
    }

    /// Reads the file at `path`, which may do without traffic: where something else brings it.
    pub fn read_network(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let file = path.as_ref().display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse_network(&file, &text),
            Err(error) => Err(ScenarioError::Unreadable { file, error }),
        }
    }

    /// Reads `text`; `file` is its name in messages. Finds all that the file alone shows to be wrong; the names and
    /// settings of controllers and routers are [`Scenario::check`]'s.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse_network(file, text).and_then(Self::with_traffic)
    }

    /// Reads `text`, which may do without traffic.
    pub fn parse_network(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let document = source.parse()?;
        let section = Section::whole(source, document.get_ref());
        let axes = read_axes(source, &section)?;
        let holes = Hole::all(source, &section, &axes)?;
        for axis in axes.iter().filter(|axis| axis.name != SEED) {
            if let Some(name) = axis.unused(|field| holes.iter().any(|hole| hole.names(&axis.name, field))) {
                return Err(source.error(axis.line, Problem::UnusedAxis { name }));
            }
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
        let mut scenario = self.clone();
        scenario.axes[place] = self.axes[place].with(values).map_err(refuse)?;
        check_size(&scenario.axes).map_err(refuse)?;
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

    /// The plan of one point, with controllers and routers from `registries`.
    pub fn plan(&self, point: &Point, registries: &Registries) -> Result<Plan, ScenarioError> {
        let text = self.text_at(point)?;
        let source = Source { file: &self.file, text: &text };
        crate::planner::plan(source, &File::read(source)?, point, registries)
    }

    /// Plans the first point, and one more for every further value of every axis: what is wrong with a value shows
    /// before anything runs.
    pub fn check(&self, registries: &Registries) -> Result<(), ScenarioError> {
        self.each_value(|point| self.plan(point, registries).map(drop))
    }

    /// A hash of the file's text, in hexadecimal (SHA-256).
    pub fn hash(&self) -> String {
        format!("{:x}", Sha256::digest(self.text.as_bytes()))
    }

    fn with_traffic(self) -> Result<Self, ScenarioError> {
        let source = Source { file: &self.file, text: &self.text };
        if Section::whole(source, source.parse()?.get_ref()).get("traffic").is_none() {
            let (place, key) = ("a scenario".into(), "[[traffic]]");
            let example = "[[traffic]] name = \"transfers\", scheme = \"tcp\"";
            return Err(source.error(1, Problem::MissingKey { place, key, example }));
        }
        Ok(self)
    }

    fn at(&self, point: &Point) -> Result<File, ScenarioError> {
        File::read(Source { file: &self.file, text: &self.text_at(point)? })
    }

    /// The text with the point's values in place.
    fn text_at(&self, point: &Point) -> Result<String, ScenarioError> {
        Hole::fill(&self.holes, Source { file: &self.file, text: &self.text }, &self.axes, point)
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
}
