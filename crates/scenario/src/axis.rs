//! The axes of a sweep: `[axes]`, their values, and records, which set several values at once.
//!
//! ```text
//!   load = [0.3, 0.6]                                          "$load"
//!   path = [{ name = "near", rate = "40 Mb/s", delay = "2 ms" },
//!           { name = "far", rate = "5 Mb/s", delay = "90 ms" }]  "$path.rate", "$path.delay"; "$path" is the name
//!   seed = "1..20"                                             the whole numbers from 1 to 20
//! ```

use rampmeter_units::Known;
use toml::{Table, Value};

use crate::document::{Item, NAME, Section, Source, is_name};
use crate::error::{Result, unknown};
use crate::errors::Errors;

/// The axis that every scenario has: the seeds of its random streams.
pub const SEED: &str = "seed";

/// The axis of a scenario with a condition, unless the file gives it a list of values.
pub(crate) const CONDITION: &str = "condition";

/// The key of a record's name in points, tables and on command lines.
const RECORD_NAME: &str = "name";

/// The maximum number of points of one sweep.
const MAX_POINTS: usize = 1_000_000;

/// A dimension of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values in the order of the runs: texts, whole numbers, numbers, true or false; the names of records.
    pub values: Vec<Value>,
    /// Every record of the file, also those that are not among the values; empty if values are plain.
    records: Vec<Table>,
    pub(crate) line: usize,
    /// Whether it is a key of the file, whose value it replaces.
    pub(crate) is_key: bool,
}

impl Axis {
    fn new(name: &str, listed: Vec<Value>, line: usize) -> Result<Self, String> {
        let (values, records) = if listed.iter().any(Value::is_table) {
            let records = listed.into_iter().map(|value| record(name, value)).collect::<Result<Vec<_>, _>>()?;
            (records.iter().map(|record| record[RECORD_NAME].clone()).collect(), records)
        } else {
            (expanded(listed)?, Vec::new())
        };
        let axis = Self { name: name.to_owned(), values, records, line, is_key: false };
        axis.check()?;
        Ok(axis)
    }

    /// The axis of the values that are set for a key of the file.
    pub(crate) fn of_key(key: &str, values: Vec<Value>) -> Result<Self, String> {
        let axis = Self { name: key.to_owned(), values: expanded(values)?, records: Vec::new(), line: 0, is_key: true };
        axis.check()?;
        Ok(axis)
    }

    /// The axis with other values; these must be records of the file if the axis has records.
    pub(crate) fn with(&self, values: Vec<Value>) -> Result<Self, String> {
        let axis = Self { values: expanded(values)?, ..self.clone() };
        axis.check()?;
        match axis.values.iter().find(|value| !axis.records.is_empty() && axis.record(value).is_none()) {
            None => Ok(axis),
            Some(value) => {
                let name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let known = axis.records.iter().filter_map(|record| record[RECORD_NAME].as_str());
                Err(unknown(&format!("record of the axis `{}`", self.name), &name, known))
            }
        }
    }

    /// The value of the placeholder `"$axis"` or `"$axis.field"` where the axis has `value`.
    pub(crate) fn field(&self, value: &Value, field: Option<&str>) -> Option<Value> {
        match field {
            None => Some(value.clone()),
            Some(field) => self.record(value)?.get(field).cloned(),
        }
    }

    /// The fields that every record has, except its name.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let first = self.records.first().into_iter().flat_map(Table::keys).map(String::as_str);
        first.filter(|field| *field != RECORD_NAME)
    }

    /// The first field, or the axis itself, that no placeholder in the file uses, according to `used`.
    pub(crate) fn unused(&self, used: impl Fn(Option<&str>) -> bool) -> Option<String> {
        if self.fields().next().is_none() {
            return (!used(None)).then(|| self.name.clone());
        }
        self.fields().find(|field| !used(Some(field))).map(|field| format!("{}.{field}", self.name))
    }

    fn record(&self, value: &Value) -> Option<&Table> {
        self.records.iter().find(|record| record[RECORD_NAME] == *value)
    }

    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.values.is_empty() {
            return Err(format!("axis `{name}` has no values; give it one or more"));
        }
        if let Some(different) = self.records.iter().find(|record| !record.keys().eq(self.records[0].keys())) {
            let wrong = format!("record {} of axis `{name}` has other keys than the first one", different[RECORD_NAME]);
            return Err(format!("{wrong}; give all records the same keys"));
        }
        if !self.records.iter().flat_map(|record| record.values()).chain(&self.values).all(is_plain) {
            let advice =
                "list values like \"pcp\", 0.6, 30 or true, or records { name = \"small\", ... } of such values";
            return Err(format!("axis `{name}` has a value that is not a plain text or number; {advice}"));
        }
        for (index, value) in self.values.iter().enumerate() {
            if name == SEED && value.as_integer().is_none_or(|seed| seed < 0) {
                return Err(format!("axis `seed` has the value {value}; seeds are whole numbers, 0 or more"));
            }
            if self.values[..index].contains(value) {
                return Err(format!("axis `{name}` has the value {value} twice; remove one"));
            }
        }
        Ok(())
    }
}

fn record(axis: &str, value: Value) -> Result<Table, String> {
    match value {
        Value::Table(record) if record.get(RECORD_NAME).and_then(Value::as_str).is_some_and(is_label) => Ok(record),
        _ => {
            let advice = "give every value a name, a text without commas: { name = \"far\", delay = \"90 ms\" }";
            Err(format!("axis `{axis}` has a record without a name among its values; {advice}"))
        }
    }
}

/// Whether `name` can be written on the command line, where commas separate values, and spaces around them do not count.
fn is_label(name: &str) -> bool {
    !name.is_empty() && !name.contains(',') && name.trim() == name
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.chars().any(char::is_control),
        Value::Integer(_) | Value::Boolean(_) => true,
        Value::Float(number) => number.is_finite(),
        _ => false,
    }
}

pub(crate) fn check_size(axes: &[Axis]) -> Result<(), String> {
    let points = axes.iter().try_fold(1usize, |points, axis| points.checked_mul(axis.values.len()));
    if points.is_none_or(|points| points > MAX_POINTS) {
        return Err(format!("the axes span more than {MAX_POINTS} points; give them fewer values"));
    }
    Ok(())
}

/// The values in a comma-separated list from a command line: numbers, true and false as such, everything else as text.
pub fn values(list: &str) -> Vec<Value> {
    let value = |text: &str| match text.parse() {
        Ok(value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::String(_))) => value,
        _ => Value::String(text.to_owned()),
    };
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(value).collect()
}

/// The values of a list, in which a text like `1..20` stands for whole numbers, the first and the last included.
pub fn expanded(listed: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut values = Vec::with_capacity(listed.len());
    for value in listed {
        let Some((first, last)) = value.as_str().and_then(range) else {
            values.push(value);
            continue;
        };
        if last < first || last - first >= MAX_POINTS as i64 {
            let advice = format!("write the smaller number first, and at most {MAX_POINTS} numbers: \"1..20\"");
            return Err(format!("the range {value} cannot be used; {advice}"));
        }
        values.extend((first..=last).map(Value::Integer));
    }
    Ok(values)
}

/// The ends of a range of whole numbers.
fn range(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once("..")?;
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    Some((number(first.trim())?, number(last.trim())?))
}

pub(crate) fn read_axes(source: Source<'_>, file: &Section<'_>, errors: &mut Errors) -> Result<Vec<Axis>> {
    let read = |item: &Item<'_>| {
        if !is_name(item.key) {
            return Err(item.error(format!("`{}` cannot be an axis's name; use {NAME}", item.key)));
        }
        let values = match item.as_text().and_then(range) {
            Some(_) => vec![item.value()?],
            None => item.list()?.iter().map(Item::value).collect::<Result<_, _>>()?,
        };
        Axis::new(item.key, values, item.line()).map_err(|wrong| item.error(wrong))
    };
    let section = file.optional("axes", |item| item.section("[axes]"))?;
    let mut axes = Vec::new();
    for item in section.iter().flat_map(Section::items) {
        let axis = read(&item);
        if axis.is_err() {
            errors.lose(Some(item.key));
        }
        axes.extend(errors.keep(axis));
    }
    let line = section.map_or(1, |section| section.line());
    let at_axes = |wrong: String| source.error(line, wrong);
    if !axes.iter().any(|axis: &Axis| axis.name == SEED) {
        axes.push(Axis::new(SEED, vec![Value::Integer(1)], 1).map_err(at_axes)?);
    }
    if let Some(item) = fixed_condition(file, &axes) {
        axes.insert(0, Axis::new(CONDITION, vec![item.value()?], item.line()).map_err(at_axes)?);
    }
    check_size(&axes).map_err(at_axes)?;
    Ok(axes)
}

/// The condition of a file that names it itself, and not as an axis. It is an axis anyway, of one value: `--set` can
/// replace it, and results show it.
pub(crate) fn fixed_condition<'a>(file: &Section<'a>, axes: &[Axis]) -> Option<Item<'a>> {
    let is_new = |item: &Item<'_>| axes.iter().all(|axis| axis.name != CONDITION || axis.line == item.line());
    file.get(CONDITION).filter(|item| item.as_text().is_some_and(|text| !text.starts_with('$')) && is_new(item))
}

/// The axis called `name`, or the similar names for the error.
pub(crate) fn named<'a>(axes: &'a [Axis], name: &str) -> Result<&'a Axis, Known> {
    let near = || Known::near(name, axes.iter().map(|axis| axis.name.as_str()));
    axes.iter().find(|axis| axis.name == name).ok_or_else(near)
}
