//! Claims of papers: the text of a claim, the runs and the metric that test it, and the bound.
//!
//! ```toml
//! [[claim]]
//! id = "4.fct"
//! where = "Figure 4"
//! text = "At high load PCP's flow completion time stays near fair queueing's."
//! scenario = "offered_load.toml"                    # next to this file
//! set = { load = [0.45, 0.60, 0.75] }               # values of the scenario's axes
//! quick = { seed = [1] }                            # values with --quick; `true`: none; if missing: not run
//! metric = { mean = "flows.fct_mean_s", where = { scheme = "pcp" }, relative_to = { scheme = "fq" }, by = ["load"] }
//! expect = { at_most = 1.5 }
//! status = "holds"                                  # or "open", with a `note`: the best value so far, and why
//! ```
//!
//! The bound of a claim is never loosened to make it hold: the claim stays `open`. Docs: `docs/claims.md`.

mod expect;
mod file;
mod json_schema;
mod judge;
mod metric;
mod record;
mod variants;

pub use expect::Bound;
pub use file::{Claim, Status, problems, read};
pub(crate) use file::{Quick, check, measured_names, set};
pub use json_schema::json_schema;
pub use judge::{ClaimResult, Judge};
pub use metric::{Measured, Metric};
pub(crate) use metric::{Paths, value_at};
pub use record::{Record, Records, Standing, rounded};
pub use variants::{Cell, Sentence, Variant, with_variants};
