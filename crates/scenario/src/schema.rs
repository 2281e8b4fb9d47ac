//! The schema of results. A column is declared once: its name, its unit, its meaning, and how it is read from a run.
//!
//! ```text
//!                     ┌► JSON objects (Summary)      runs, groups, links
//!   Schema ── read ───┼► Parquet tables (study)      runs with groups, links, flows, link_series, flow_series
//!   of columns        ├► metrics of claims (study)   runs, groups, links: those that are numbers
//!                     ├► the terminal's table (cli)  those with a heading
//!                     └► the tables of docs/output.md
//! ```
//!
//! [`Schema::default`] has the built-in columns, which `columns/` declares. A new column is one entry in one of its
//! lists.

use std::fmt::{self, Write};

use serde::{Serialize, Serializer};

use crate::columns::{self, FlowGroup};
use crate::{FlowOutcome, FlowSample, LinkOutcome, LinkSample, Run};

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// True or false.
    Truth,
}

/// The value of a row in a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Truth(bool),
    /// Not applicable.
    Null,
}

/// The description of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// Its name in every output. The name of a quantity ends with its unit: `fct_mean_s`.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Its unit, as `docs/output.md` names it; empty for pure numbers.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its format in the terminal's table, if it is part of it.
    pub shown: Option<Shown>,
}

/// The format of a column in the terminal's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    /// The heading, with the unit of the scaled values.
    pub heading: &'static str,
    /// The factor by which values are multiplied.
    pub scale: f64,
    /// Digits after the point.
    pub digits: usize,
    /// Whether it is omitted if all rows have zero.
    pub unless_zero: bool,
}

/// A column: its description, and how it is read from a run and one of its parts, `T`.
pub struct Column<T> {
    /// Its description.
    pub about: About,
    /// Its value for a part of a run.
    pub read: Box<Read<T>>,
}

type Read<T> = dyn Fn(&Run, &T) -> Value + Send + Sync;

impl<T> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.fmt(f)
    }
}

impl<T: 'static> Column<T> {
    /// A column of texts.
    pub fn text(name: &'static str, meaning: &'static str, read: fn(&Run, &T) -> String) -> Self {
        Self::new(name, Kind::Text, meaning, move |run, part| Value::Text(read(run, part)))
    }

    /// A column of whole numbers; `None` where it does not apply.
    pub fn whole<N>(name: &'static str, meaning: &'static str, read: fn(&Run, &T) -> N) -> Self
    where
        N: Into<Option<u64>> + 'static,
    {
        let value = |number: Option<u64>| number.map_or(Value::Null, |number| Value::Whole(number as i64));
        Self::new(name, Kind::Whole, meaning, move |run, part| value(read(run, part).into()))
    }

    /// A column of numbers; `None` where it does not apply.
    pub fn number<N>(name: &'static str, meaning: &'static str, read: fn(&Run, &T) -> N) -> Self
    where
        N: Into<Option<f64>> + 'static,
    {
        let value = |number: Option<f64>| number.map_or(Value::Null, Value::Number);
        Self::new(name, Kind::Number, meaning, move |run, part| value(read(run, part).into()))
    }

    /// A column of true and false.
    pub fn truth(name: &'static str, meaning: &'static str, read: fn(&Run, &T) -> bool) -> Self {
        Self::new(name, Kind::Truth, meaning, move |run, part| Value::Truth(read(run, part)))
    }

    fn new(
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        read: impl Fn(&Run, &T) -> Value + Send + Sync + 'static,
    ) -> Self {
        let unit = match name.rsplit_once('_') {
            Some((_, "s")) => "s",
            Some((_, "bps")) => "b/s",
            Some((_, unit @ ("bytes" | "packets"))) => unit,
            _ => "",
        };
        Self { about: About { name, kind, unit, meaning, shown: None }, read: Box::new(read) }
    }

    /// The same column with another unit than its name ends with.
    #[must_use]
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.about.unit = unit;
        self
    }

    /// The same column, shown by the terminal's table: values times `scale`, with `digits` after the point.
    #[must_use]
    pub fn shown(mut self, heading: &'static str, scale: f64, digits: usize) -> Self {
        self.about.shown = Some(Shown { heading, scale, digits, unless_zero: false });
        self
    }

    /// The same column, omitted from the terminal's table if all rows have zero.
    #[must_use]
    pub fn unless_zero(mut self) -> Self {
        self.about.shown = self.about.shown.map(|shown| Shown { unless_zero: true, ..shown });
        self
    }
}

/// All columns of results, in the order of their outputs.
#[derive(Debug)]
pub struct Schema {
    /// Columns of runs.
    pub runs: Vec<Column<()>>,
    /// Columns of groups of flows: all measured flows of a run, and those of each kind of measured traffic.
    pub groups: Vec<Column<FlowGroup>>,
    /// Columns of measured links.
    pub links: Vec<Column<LinkOutcome>>,
    /// Columns of flows.
    pub flows: Vec<Column<FlowOutcome>>,
    /// Columns of samples of measured links.
    pub link_series: Vec<Column<LinkSample>>,
    /// Columns of samples of flows of measured traffic.
    pub flow_series: Vec<Column<FlowSample>>,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            runs: columns::runs(),
            groups: columns::groups(),
            links: columns::links(),
            flows: columns::flows(),
            link_series: columns::link_series(),
            flow_series: columns::flow_series(),
        }
    }
}

impl Schema {
    /// The Parquet tables by name, each with its columns. A run and the group of all its measured flows share a row.
    pub fn tables(&self) -> [(&'static str, Vec<&About>); 5] {
        let runs = self.runs.iter().map(|column| &column.about).chain(abouts(&self.groups));
        [
            ("runs", runs.collect()),
            ("links", abouts(&self.links).collect()),
            ("flows", abouts(&self.flows).collect()),
            ("link_series", abouts(&self.link_series).collect()),
            ("flow_series", abouts(&self.flow_series).collect()),
        ]
    }

    /// `text` with the columns of each table between its markers, `<!-- columns of NAME -->` and `<!-- end -->`.
    pub fn document(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (table, columns) in self.tables() {
            let marker = format!("<!-- columns of {table} -->\n");
            let Some((before, rest)) = text.split_once(&marker) else { continue };
            let Some((_, after)) = rest.split_once("<!-- end -->") else { continue };
            let mut rows = String::from("\n| column | unit | |\n|---|---|---|\n");
            for About { name, unit, meaning, .. } in columns {
                let _ = writeln!(rows, "| `{name}` | {unit}{}| {meaning} |", if unit.is_empty() { "" } else { " " });
            }
            text = format!("{before}{marker}{rows}\n<!-- end -->{after}");
        }
        text
    }
}

/// The descriptions of `columns`.
pub fn abouts<T>(columns: &[Column<T>]) -> impl Iterator<Item = &About> {
    columns.iter().map(|column| &column.about)
}

/// The values of a row by the names of their columns, in the order of the columns. An object in JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row(Vec<(&'static str, Value)>);

impl Row {
    /// The values of `columns` for `part` of `run`.
    pub fn of<T>(columns: &[Column<T>], run: &Run, part: &T) -> Self {
        Self(columns.iter().map(|column| (column.about.name, (column.read)(run, part))).collect())
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// The value of the column called `name`; null if there is none.
    pub fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(known, _)| *known == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// The value of the column called `name` as a number; `None` if it is not one.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Value::Whole(whole) => Some(*whole as f64),
            Value::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Value::Text(_) | Value::Truth(_) | Value::Null => None,
        }
    }
}

impl<const N: usize> From<[(&'static str, Value); N]> for Row {
    fn from(values: [(&'static str, Value); N]) -> Self {
        Self(values.into())
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
