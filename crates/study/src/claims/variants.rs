//! Variants: claims with the same sentence about other rules of the same scheme, such as a paper's own rules.
//!
//! ```toml
//! [[variant]]                         # in claims.toml, once for each variant
//! name = "letter"                     # `letter.3.drops` and `3.drops-letter` have the sentence of `3.drops`
//! where = { scheme = "vcp-letter" }   # the values of axes in its runs; a scenario has one of these axes
//! ```
//!
//! A claim is about the variant whose runs it uses. If its metric has separate values for the variants, it is about
//! all of them, and each is judged by its own values.

use std::collections::BTreeSet;

use rampmeter_units::Known;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use toml::Table;

use super::metric::{is_equal, matches};
use super::{Claim, ClaimResult, Measured, Status};

/// A variant that a file of claims declares.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The values of axes in its runs.
    #[serde(rename = "where")]
    place: Table,
}

impl Variant {
    /// Whether runs of `claim` are of this variant.
    fn is_used_by(&self, claim: &Claim) -> bool {
        let axes = claim.scenario.axes();
        let (axis, value) = match self.place.iter().find(|(axis, _)| axes.iter().any(|it| it.name == **axis)) {
            Some((axis, value)) => (axis.clone(), value.clone()),
            None => return false,
        };
        let place = std::iter::once((axis, value)).collect();
        claim.scenario.points().iter().any(|point| claim.metric.needs(point) && matches(point, &place))
    }

    /// Checks that some claim has runs with each of its values.
    pub(crate) fn check(&self, claims: &[Claim]) -> Result<(), String> {
        for (axis, value) in &self.place {
            let axes = || claims.iter().flat_map(|claim| claim.scenario.axes()).filter(|known| known.name == *axis);
            if axes().next().is_none() {
                let known = claims.iter().flat_map(|claim| claim.scenario.axes()).map(|known| known.name.as_str());
                let known = Known::near(axis, known.collect::<BTreeSet<_>>());
                return Err(format!("no axis of these scenarios is called `{axis}`; {known}"));
            }
            if !axes().any(|known| known.values.iter().any(|known| is_equal(known, value))) {
                return Err(format!("no claim has runs where the axis `{axis}` is {value}"));
            }
        }
        Ok(())
    }

    /// Whether `value` may be of this variant.
    fn has(&self, value: &Measured) -> bool {
        self.place.iter().all(|(axis, own)| value.at.get(axis).is_none_or(|at| is_equal(at, own)))
    }
}

impl Claim {
    /// Its id without the name of a variant: `3.drops` for `letter.3.drops`.
    pub fn sentence(&self) -> &str {
        let without = |Variant { name, .. }: &Variant| {
            let first = self.id.strip_prefix(name.as_str()).and_then(|id| id.strip_prefix('.'));
            first.or_else(|| self.id.strip_suffix(name.as_str()).and_then(|id| id.strip_suffix('-')))
        };
        self.variants.iter().find_map(without).unwrap_or(&self.id)
    }

    /// The variants that it is about, by their places in the list; none if its value compares several.
    fn own_variants(&self) -> Vec<usize> {
        let used: Vec<usize> =
            (0..self.variants.len()).filter(|index| self.variants[*index].is_used_by(self)).collect();
        let mut axes = self.variants.iter().flat_map(|variant| variant.place.keys());
        if used.len() < 2 || axes.any(|axis| self.metric.by.contains(axis)) { used } else { Vec::new() }
    }

    fn has_sentence_of(&self, other: &Self) -> bool {
        self.source == other.source && self.sentence() == other.sentence() && self.bound == other.bound
    }
}

/// The claims of `all` with a sentence that several variants have, and that a claim of `selected` has.
pub fn with_variants(all: &[Claim], selected: &[Claim]) -> Vec<Claim> {
    let is_shared = |claim: &Claim| {
        let same = all.iter().filter(|other| other.has_sentence_of(claim));
        same.map(|other| other.own_variants().len()).sum::<usize>() > 1
    };
    let is_selected = |claim: &Claim| selected.iter().any(|other| other.has_sentence_of(claim));
    let own = all.iter().filter(|claim| is_selected(claim) && !claim.own_variants().is_empty() && is_shared(claim));
    own.cloned().collect()
}

/// A sentence, and the result of each variant.
#[derive(Debug)]
pub struct Sentence<'r> {
    /// The first of its claims.
    pub claim: &'r Claim,
    /// The results in the order of the variants; `None` if a variant has no such claim.
    pub cells: Vec<Option<Cell<'r>>>,
}

/// The result of one variant.
#[derive(Debug)]
pub struct Cell<'r> {
    /// Its claim.
    pub claim: &'r Claim,
    /// The value that decides, of this variant only.
    pub measured: Option<f64>,
    /// Whether it meets the bound; `None` if it could not be judged.
    pub holds: Option<bool>,
}

impl<'r> Sentence<'r> {
    /// The sentences of `results` that several variants have, in the order of their first claims.
    pub fn of(results: &'r [ClaimResult<'_>]) -> Vec<Self> {
        let mut sentences: Vec<Self> = Vec::new();
        for result in results {
            let claim = result.claim;
            let known = sentences.iter().position(|sentence| sentence.claim.has_sentence_of(claim));
            let index = known.unwrap_or(sentences.len());
            if known.is_none() {
                let cells = claim.variants.iter().map(|_| None).collect();
                sentences.push(Self { claim, cells });
            }
            for own in claim.own_variants() {
                sentences[index].cells[own].get_or_insert_with(|| Cell::of(result, &claim.variants[own]));
            }
        }
        sentences.retain(|sentence| sentence.cells.iter().flatten().count() > 1);
        sentences
    }
}

impl<'r> Cell<'r> {
    fn of(result: &ClaimResult<'r>, variant: &Variant) -> Self {
        let (claim, bound) = (result.claim, &result.claim.bound);
        let own: Vec<Measured> = result.values.iter().filter(|value| variant.has(value)).cloned().collect();
        if own.len() == result.values.len() {
            return Self { claim, measured: result.measured, holds: result.holds };
        }
        let measured = bound.worst(&own);
        let holds = result.holds.map(|_| measured.is_some_and(|worst| bound.holds(worst)));
        Self { claim, measured, holds }
    }

    /// The result in a word: `holds`, `open`, `skipped`, or `fails` if the claim's status is `holds`.
    pub fn word(&self) -> &'static str {
        match (self.holds, self.claim.status) {
            (Some(true), _) => "holds",
            (Some(false), Status::Open) => "open",
            (Some(false), Status::Holds) => "fails",
            (None, _) => "skipped",
        }
    }
}

impl Serialize for Sentence<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let results = self.claim.variants.iter().zip(&self.cells).filter_map(|(variant, cell)| {
            let Cell { claim, measured, holds } = cell.as_ref()?;
            Some(json!({
                "variant": variant.name,
                "id": claim.id,
                "measured": measured,
                "holds": holds,
                "status": claim.status,
            }))
        });
        json!({
            "sentence": self.claim.sentence(),
            "where": self.claim.place,
            "expect": self.claim.expect(),
            "unit": self.claim.unit(),
            "results": results.collect::<Vec<_>>(),
        })
        .serialize(serializer)
    }
}
