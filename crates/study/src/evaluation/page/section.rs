//! The sections of the RFC: what each asks, and its questions.

use maud::{Markup, html};

use super::question::question;
use super::summary::level;
use super::{Page, anchor, sign};
use crate::evaluation::Part;

/// All sections.
pub(super) fn sections(page: &Page<'_>) -> Markup {
    html! {
        @for part in &page.evaluation.sections { (section(page, part)) }
    }
}

fn section(page: &Page<'_>, part: &Part) -> Markup {
    html! {
        section.part id=(anchor("s", &part.id)) {
            h2 {
                a.up href="#summary" { "↑ verdicts" }
                span.number { (part.id) } " " (part.title) " "
                @if !part.questions.is_empty() { (sign(part.verdict(&page.evaluation.scheme))) }
            }
            p.lead { (level(part.level)) " " (part.asks) }
            @match &part.not_run {
                Some(reason) => p.note { b { "No runs. " } (reason) },
                None if part.questions.is_empty() => p.note { "A quick evaluation does not ask this section's questions." },
                None => @for it in &part.questions { (question(page, it)) },
            }
        }
    }
}
