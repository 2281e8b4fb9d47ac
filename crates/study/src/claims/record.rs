//! `measured.json`: the results of the claims of one `claims.toml`, each from all its points and seeds.
//!
//! Complete runs of a paper's claims take hours, so their results are kept beside the claims. A result is current while
//! the digest of its runs is the same: the scenario at each point, the seeds, the metric, the world. A changed
//! simulator or controller changes no digest: with a digest of the program every build would run everything again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{Point, SEED, Scenario, ScenarioError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Claim, ClaimResult, Measured, Metric};
use crate::StudyError;
use crate::journal::{short_hash, write_atomically};

/// The first line of the file.
const ABOUT: &str = "Results of all seeds, written by `rampmeter claims PAPER --record`: docs/claims.md";

/// The recorded results of the claims in one file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    #[serde(rename = "about")]
    _about: String,
    /// The results by the ids of their claims.
    pub claims: BTreeMap<String, Record>,
    /// The claims that have no current result.
    pub missing: BTreeSet<String>,
}

/// The recorded result of a claim. Numbers have four significant digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The digest of its runs.
    pub digest: String,
    /// The expectation that `holds` is about.
    pub expect: String,
    /// Whether it holds.
    pub holds: bool,
    /// The value that decides.
    pub measured: Option<f64>,
    /// The number of seeds.
    pub seeds: usize,
    /// The metric's values.
    pub values: Vec<Measured>,
}

/// What the records say about a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// There is no result.
    #[default]
    Missing,
    /// The result is of other runs: the scenario, the points or the metric have changed.
    Stale,
    /// The result is of the runs that the claim needs.
    Current {
        /// Whether the claim holds.
        holds: bool,
        /// The value that decides.
        measured: Option<f64>,
    },
}

impl Records {
    /// The place of the records of the claims in `claims`.
    pub fn path(claims: &Path) -> PathBuf {
        claims.with_file_name("measured.json")
    }

    /// Reads the records at `path`; empty if there is no file.
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|error| StudyError::file(path, "read", &error))?,
        };
        serde_json::from_slice(&text).map_err(|error| StudyError::file(path, "read", &error))
    }

    /// Adds `results`, which must be of complete runs: without quick values, with all seeds. `all` are the claims of the
    /// file whose records are at `path`. Returns the new records. Results of other claims stay, compared with the
    /// expectations of today. Those of claims that no longer exist are dropped.
    pub fn update(path: &Path, all: &[Claim], results: &[ClaimResult<'_>]) -> Result<Self, StudyError> {
        let mut records = Self::read(path)?;
        for result in results {
            if let Some(holds) = result.holds.filter(|_| result.failed.is_empty()) {
                records.claims.insert(result.claim.id.clone(), Record::of(result, holds));
            }
        }
        records.claims.retain(|id, _| all.iter().any(|claim| claim.id == *id));
        records.missing.clear();
        for claim in all {
            match (records.standing(claim), records.claims.get_mut(&claim.id)) {
                (Standing::Current { holds, measured }, Some(record)) => {
                    (record.expect, record.holds, record.measured) = (claim.expect(), holds, measured);
                }
                _ => {
                    records.missing.insert(claim.id.clone());
                }
            }
        }
        write_atomically(path, records.text().as_bytes())?;
        Ok(records)
    }

    /// What they say about `claim`.
    pub fn standing(&self, claim: &Claim) -> Standing {
        let Some(record) = self.claims.get(&claim.id) else { return Standing::Missing };
        if record.digest != claim.digest {
            return Standing::Stale;
        }
        if record.expect == claim.expect() {
            return Standing::Current { holds: record.holds, measured: record.measured };
        }
        let measured = claim.bound.worst(&record.values);
        let holds = measured.is_some_and(|worst| claim.bound.holds(worst));
        Standing::Current { holds, measured: measured.map(rounded) }
    }

    /// The recorded result of `claim`.
    pub fn result<'c>(&self, claim: &'c Claim) -> ClaimResult<'c> {
        let (holds, measured, reason) = match self.standing(claim) {
            Standing::Current { holds, measured } => (Some(holds), measured, None),
            Standing::Missing => (None, None, Some("it has no recorded result: use --record")),
            Standing::Stale => (None, None, Some("its recorded result is of other runs: use --record")),
        };
        let record = self.claims.get(&claim.id).filter(|_| holds.is_some());
        let values = record.map_or_else(Vec::new, |record| record.values.clone());
        ClaimResult { claim, values, measured, holds, reason: reason.map(str::to_owned), failed: Vec::new() }
    }

    /// The file's text. Each value has its own line, so a changed value is a changed line.
    fn text(&self) -> String {
        let claim = |(id, record): (&String, &Record)| {
            let Record { digest, expect, holds, measured, seeds, values } = record;
            let head =
                json!({ "digest": digest, "expect": expect, "holds": holds, "measured": measured, "seeds": seeds });
            let head = head.to_string();
            let values: Vec<String> = values.iter().map(|value| format!("      {}", json!(value))).collect();
            let head = head.trim_end_matches('}');
            format!("    {}: {head},\"values\":[\n{}\n    ]}}", json!(id), values.join(",\n"))
        };
        let claims: Vec<String> = self.claims.iter().map(claim).collect();
        let missing: Vec<String> = self.missing.iter().map(|id| format!("    {}", json!(id))).collect();
        let (claims, missing) = (claims.join(",\n"), missing.join(",\n"));
        format!(
            "{{\n  \"about\": {},\n  \"claims\": {{\n{claims}\n  }},\n  \"missing\": [\n{missing}\n  ]\n}}\n",
            json!(ABOUT)
        )
    }
}

impl Record {
    fn of(result: &ClaimResult<'_>, holds: bool) -> Self {
        let round = |value: &Measured| Measured {
            at: value.at.clone(),
            value: value.value.map(rounded),
            min: value.min.map(rounded),
            max: value.max.map(rounded),
            terms: value.terms.iter().copied().map(rounded).collect(),
            seeds: Vec::new(),
        };
        Self {
            digest: result.claim.digest.clone(),
            expect: result.claim.expect(),
            holds,
            measured: result.measured.map(rounded),
            seeds: seed_count(result.claim),
            values: result.values.iter().map(round).collect(),
        }
    }
}

/// `value` with four significant digits.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The number of seeds of `claim`.
fn seed_count(claim: &Claim) -> usize {
    claim.scenario.axes().iter().find(|axis| axis.name == SEED).map_or(1, |axis| axis.values.len())
}

/// A digest of the runs of `scenario` in `world` and of what `metric` takes from them. Neither comments nor points of
/// other claims change it.
pub(super) fn digest(scenario: &Scenario, metric: &Metric, world: &str) -> Result<String, ScenarioError> {
    let seeds = scenario.axes().iter().find(|axis| axis.name == SEED).map(|axis| &axis.values);
    let first = seeds.and_then(|seeds| seeds.first());
    let points = scenario.points().into_iter();
    let points = points.filter(|point| metric.needs(point) && point.get(SEED) == first);
    let part = |point: Point| {
        let named: Vec<_> = metric.axes().map(|axis| point.get(axis)).collect();
        Ok(format!("{}\n{}", json!(named), scenario.content(&point)?))
    };
    let mut parts = points.map(part).collect::<Result<Vec<_>, ScenarioError>>()?;
    parts.sort();
    parts.extend([world.to_owned(), metric.text(), json!(seeds).to_string()]);
    Ok(short_hash(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
}
