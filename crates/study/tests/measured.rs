//! `studies/*/measured.json` compared with the claims, and the figures in Markdown compared with `measured.json`.
//!
//! A comment `<!-- measured: cm 12.aging -->` stands behind a figure: docs/claims.md has the rules.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rampmeter_scenario::Schema;
use rampmeter_study::claims::{self, Measured, Record, Records, Standing, Status};
use toml::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directories of papers that have claims.
fn papers() -> Vec<PathBuf> {
    let studies = fs::read_dir(root().join("studies")).unwrap().map(|study| study.unwrap().path());
    studies.filter(|study| study.join("claims.toml").exists()).collect()
}

fn name(paper: &Path) -> String {
    paper.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_claim_agrees_with_its_recorded_result() {
    let registries = rampmeter_stacks::registries();
    let mut wrong = Vec::new();
    for paper in papers() {
        let (name, file) = (name(&paper), paper.join("claims.toml"));
        let records = Records::read(&Records::path(&file)).unwrap();
        let claims = claims::read(&file, false, &registries, &Schema::default()).unwrap();
        for claim in &claims {
            let (id, command) = (&claim.id, format!("rampmeter claims {name} {} --record", claim.id));
            match claim.recorded {
                Standing::Current { measured, .. } if claim.contradicts_record() => {
                    let measured = measured.map_or("no value".to_owned(), |measured| measured.to_string());
                    let result = format!("{measured}, expected {}", claim.expect());
                    wrong.push(format!("{name} {id}: measured.json has {result}, which contradicts its status"));
                }
                Standing::Current { measured: Some(measured), .. } => {
                    let note = claim.note.as_deref().filter(|_| claim.status == Status::Open);
                    // "0.03 longer" states -0.03: the sign is not compared.
                    let states = |figure: &Figure<'_>| figure.states(measured.abs());
                    if note.is_some_and(|note| !figures(note).iter().any(states)) {
                        wrong.push(format!("{name} {id}: its note lacks the value of measured.json, {measured}"));
                    }
                }
                Standing::Current { .. } => {}
                _ if records.missing.contains(id) => {}
                Standing::Stale => wrong.push(format!("{name} {id}: its runs have changed: {command}")),
                Standing::Missing => wrong.push(format!("{name} {id}: it has no recorded result: {command}")),
            }
        }
        for id in records.claims.keys().chain(&records.missing) {
            if !claims.iter().any(|claim| claim.id == *id) {
                wrong.push(format!("{name} {id}: there is no such claim: rampmeter claims {name} --missing"));
            }
        }
        if !records.missing.is_empty() {
            // Directly, because the test harness captures what `eprintln!` writes.
            let count = format!("{} of {} claims", records.missing.len(), claims.len());
            let text = format!("{count} of {name} have no recorded result: rampmeter claims {name} --record\n");
            std::io::stderr().write_all(text.as_bytes()).unwrap();
        }
    }
    let later = "rampmeter claims PAPER --missing: lists claims to be recorded later";
    assert!(wrong.is_empty(), "\n{}\n{later}", wrong.join("\n"));
}

#[test]
fn figures_in_markdown_are_recorded_results() {
    let records: BTreeMap<String, Records> =
        papers().iter().map(|paper| (name(paper), Records::read(&paper.join("measured.json")).unwrap())).collect();
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|page| page.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let (mut figures, mut unchecked, mut wrong) = (0, 0, Vec::new());
    for page in pages.chain([root().join("README.md")]) {
        for tie in ties(&fs::read_to_string(&page).unwrap()) {
            match tie.check(&records) {
                Ok(Some(count)) => figures += count,
                Ok(None) => unchecked += 1,
                Err(problem) => wrong.push(format!("{}:{}: {problem}", name(&page), tie.line)),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(figures > 0);
    if unchecked > 0 {
        let text =
            format!("{figures} figures in Markdown checked, {unchecked} comments name claims without a result\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
}

const START: &str = "<!-- measured:";
const END: &str = "-->";

/// Figures, and the comment behind them that names their claims.
struct Tie<'t> {
    line: usize,
    /// A table's cells, or one text, each with the first cell of its row, which says at which points it was measured.
    texts: Vec<(&'t str, &'t str)>,
    /// The paper, then claims.
    names: Vec<&'t str>,
}

/// The comments of a page, outside of code.
fn ties(page: &str) -> Vec<Tie<'_>> {
    let comments = page.match_indices(START).filter(|(at, _)| !page[..*at].ends_with('`'));
    let tie = |(at, _): (usize, &str)| {
        let before = &page[..at];
        let end = at + page[at..].find(END).expect("a comment ends");
        let (names, columns) =
            page[at + START.len()..end].split_once('|').unwrap_or((&page[at + START.len()..end], ""));
        let columns: Vec<&str> = columns.split('|').map(str::trim).filter(|column| !column.is_empty()).collect();
        let names = names.split_whitespace().collect();
        Tie { line: 1 + before.matches('\n').count(), texts: texts(before, &columns), names }
    };
    comments.map(tie).collect()
}

/// The texts that a comment behind `before` is about: in a paragraph of its own below a table, the cells of its
/// `columns`, which are all except the first if there are no names; else the text since the start of the cell or of the
/// sentence, or since the comment before. Each has the first cell of its row, empty outside of tables.
fn texts<'t>(before: &'t str, columns: &[&str]) -> Vec<(&'t str, &'t str)> {
    if before.ends_with('\n') && before.trim_end().ends_with('|') {
        let mut rows = before.trim_end().rsplit("\n\n").next().unwrap_or(before).lines().map(cells);
        let head = rows.next().unwrap_or_default();
        assert!(columns.iter().all(|column| head.contains(column)), "of {columns:?} a column is not in {head:?}");
        let is_own =
            |n: usize| if columns.is_empty() { n > 0 } else { head.get(n).is_some_and(|it| columns.contains(it)) };
        let own = rows.skip(1).flat_map(|row| {
            let first = row[0];
            let own = row.into_iter().enumerate().filter(|(n, _)| is_own(*n));
            own.map(|(_, cell)| (first, cell)).collect::<Vec<_>>()
        });
        return own.collect();
    }
    let starts = ["\n\n", "\n- ", "|", ". ", ".\n", END];
    let start = starts.iter().filter_map(|start| Some(before.rfind(start)? + start.len())).max();
    let line = before.rsplit('\n').next().unwrap_or(before);
    let first = if line.starts_with('|') { cells(line)[0] } else { "" };
    vec![(first, &before[start.unwrap_or(0)..])]
}

/// The cells of a table's row, or of its beginning.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split('|').map(str::trim).collect()
}

impl Tie<'_> {
    /// The number of figures, all of which are recorded; `None` if a claim has no result.
    fn check(&self, records: &BTreeMap<String, Records>) -> Result<Option<usize>, String> {
        let [paper, ids @ ..] = &self.names[..] else { return Err("a comment names a paper and claims".into()) };
        let records = records.get(*paper).ok_or(format!("no paper is called `{paper}`"))?;
        let mut own: Vec<&Record> = Vec::new();
        for id in ids {
            let is_own =
                |claim: &&String| claim.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let (found, missing) = (records.claims.keys().filter(is_own), records.missing.iter().filter(is_own));
            if found.clone().chain(missing.clone()).next().is_none() {
                return Err(format!("{paper} has no claim `{id}` or `{id}.*`"));
            }
            if missing.count() > 0 {
                return Ok(None);
            }
            own.extend(found.map(|id| &records.claims[id]));
        }
        let figures: Vec<Vec<Figure<'_>>> = self.texts.iter().map(|(_, text)| figures(text)).collect();
        let count = figures.iter().map(Vec::len).sum();
        if count == 0 {
            return Err("there is no figure before the comment".into());
        }
        for ((row, text), figures) in self.texts.iter().zip(&figures) {
            for figure in figures {
                if !own.iter().flat_map(|record| recorded(record, row)).any(|value| figure.is(value)) {
                    let (number, ids) = (figure.text, ids.join(" "));
                    return Err(format!("{number} is no recorded result of {paper} {ids} in the row \"{row}\""));
                }
            }
            let values = own.iter().flat_map(|record| &record.values).filter_map(|value| value.value);
            if let Some(value) = values.into_iter().find(|value| !is_within(*value, text, figures)) {
                return Err(format!("{value} is recorded, which is beyond \"{}\"", text.trim()));
            }
        }
        Ok(Some(count))
    }
}

/// The numbers of a result: those at the point that `row` names, all if it names none, several or a range.
fn recorded(record: &Record, row: &str) -> Vec<f64> {
    let points = record.values.iter().flat_map(|value| &value.at);
    let named: BTreeSet<_> = points.filter(|(_, it)| names(row, it)).map(|(axis, it)| (axis, it.to_string())).collect();
    let is_one = named.len() == 1 && !row.replace("up to", "").contains(" to ") && !row.contains(';');
    let is_own =
        |value: &&Measured| !is_one || value.at.iter().any(|(axis, it)| named.contains(&(axis, it.to_string())));
    let values = record.values.iter().filter(is_own);
    let of = values.flat_map(|it| it.value.into_iter().chain(it.min).chain(it.max).chain(it.terms.iter().copied()));
    of.chain(record.measured.filter(|_| !is_one)).collect()
}

/// Whether `row` has the value of an axis as a word, "1ms" also as "1 ms". Values without a digit are usual words.
fn names(row: &str, value: &Value) -> bool {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if !value.contains(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let spaced = value.find(|c: char| !c.is_ascii_digit()).map_or(value.clone(), |unit| {
        let (number, unit) = value.split_at(unit);
        format!("{number} {}", unit.trim())
    });
    let is_word = |at: usize, len: usize| {
        let is_inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_inside(row[..at].chars().next_back()) && !is_inside(row[at + len..].chars().next())
    };
    [value, spaced].iter().any(|value| row.match_indices(value.as_str()).any(|(at, found)| is_word(at, found.len())))
}

/// A number in a text.
struct Figure<'t> {
    text: &'t str,
    at: usize,
    decimals: i32,
    /// The recorded value is multiplied by this: by 100 if percent follow.
    scale: f64,
}

const UNITS: [(&str, f64); 6] =
    [("%", 100.0), ("kb/s", 1e-3), ("Mb/s", 1e-6), ("Gb/s", 1e-9), ("ms", 1e3), ("\u{b5}s", 1e6)];

/// The numbers of `text` that are not part of a word.
fn figures(text: &str) -> Vec<Figure<'_>> {
    let mut figures = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c.is_ascii_digit()).map(|found| from + found) {
        let rest = &text[at..];
        let len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest[..len].trim_end_matches('.');
        from = at + len;
        let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if in_word(text[..at].chars().next_back()) || in_word(text[from..].chars().next()) {
            continue;
        }
        // "62, 90 and 145 kb/s" has the unit once.
        let list = |between: &str| {
            let mut words = between.split(|c: char| c.is_ascii_digit() || c.is_whitespace() || ",.".contains(c));
            words.all(|word| ["", "and", "or", "to", "at", "most"].contains(&word))
        };
        let units = UNITS.iter().filter_map(|(unit, scale)| Some((text[from..].find(unit)?, *scale)));
        let unit = units.filter(|(at, _)| list(&text[from..from + at])).min_by_key(|it| it.0);
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        figures.push(Figure { text: number, at, decimals, scale: unit.map_or(1.0, |(_, scale)| scale) });
    }
    figures
}

impl Figure<'_> {
    fn number(&self) -> f64 {
        self.text.parse().unwrap()
    }

    /// Whether it is `value`, with or without the unit. A value in the middle, which is rounded itself, may be rounded
    /// either way.
    fn is(&self, value: f64) -> bool {
        let half = 0.5 * 0.1_f64.powi(self.decimals);
        [1.0, self.scale].iter().any(|scale| (value * scale - self.number()).abs() <= half * (1.0 + 1e-9))
    }

    /// Whether a note that has this figure states `value`. An integer is that value or has its unit: "1 Mb/s" does not
    /// state a share of 0.9.
    fn states(&self, value: f64) -> bool {
        let has_unit = self.scale != 1.0 && (value * self.scale - self.number()).abs() <= 0.5;
        if self.decimals > 0 { self.is(value) } else { has_unit || value == self.number() }
    }

    /// Whether `value` is this or on that side of it.
    fn is_beside(&self, value: f64, side: Ordering) -> bool {
        self.is(value) || (value * self.scale).total_cmp(&self.number()) == side
    }
}

/// Whether `text` covers `value`, if it is a range: "0.9 to 1.1", "at most 5", "5 at most".
fn is_within(value: f64, text: &str, figures: &[Figure<'_>]) -> bool {
    match figures {
        [low, high] if text[low.at + low.text.len()..high.at].trim_start_matches('%').trim() == "to" => {
            low.is_beside(value, Ordering::Greater) && high.is_beside(value, Ordering::Less)
        }
        [bound] if text.contains("at most") => bound.is_beside(value, Ordering::Less),
        [bound] if text.contains("at least") => bound.is_beside(value, Ordering::Greater),
        _ => true,
    }
}

#[test]
fn a_figure_in_a_table_is_one_of_its_rows_point() {
    let at = |capacity: &str, value| {
        let at = [("capacity".to_owned(), Value::from(capacity))].into_iter().collect();
        Measured { at, value: Some(value), min: None, max: None, terms: Vec::new(), seeds: Vec::new() }
    };
    let values = vec![at("500 kb/s", 0.9), at("1 Mb/s", 0.8), at("40ms", 0.7)];
    let record =
        Record { digest: String::new(), expect: String::new(), holds: true, measured: Some(0.7), seeds: 5, values };
    for (row, numbers) in [
        ("Figure 3: 500 kb/s", &[0.9][..]),
        ("1 Mb/s", &[0.8]),
        ("up to 40 ms", &[0.7]),
        ("11 Mb/s", &[0.9, 0.8, 0.7, 0.7]),
        ("500 kb/s to 1 Mb/s", &[0.9, 0.8, 0.7, 0.7]),
    ] {
        assert_eq!(recorded(&record, row), numbers, "{row}");
    }
}
