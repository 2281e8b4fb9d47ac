//! Evaluation of a controller by questions, those of RFC 9743 (BCP 133) or of a conformance suite, beside its rivals on
//! the same runs.
//!
//! ```text
//!   questions.toml ─► Questionnaire ─ for each scheme and rival ─► claims ─► Judge ─► Evaluation ─► JSON, page, text
//!   schemes.toml   ─► what `--controller cubic` means                                     │
//!                                                     an earlier Evaluation ──► Comparison: what became worse
//! ```
//!
//! The RFC gives questions and not bounds. Each question here has a bound and the reason for it, and is asked of every
//! scheme of the evaluation, so that a verdict can be read beside those of controllers that are in use. A question
//! becomes one claim for each scheme, and for each rival beside it; [`crate::claims`] runs and judges them.
//!
//! Everything that an evaluation runs is in its directory: questions, scenarios and schemes, so that
//! `rampmeter run DIR/scenarios/outage.toml --set scheme=cubic` repeats any part of it.

mod builtin;
mod compare;
mod evaluate;
mod page;
mod paths;
mod questions;
mod report;
mod schemes;

pub use builtin::{SUITES, Suite};
pub use compare::{Change, Comparison};
pub use evaluate::{Evaluator, NO_RIVALS};
pub use page::{deciding, in_words, page};
pub use questions::{Level, Question, Questionnaire, Section};
pub use report::{Answer, Answered, Better, Evaluation, Part, Value, Verdict, formatted};
pub use schemes::Schemes;
