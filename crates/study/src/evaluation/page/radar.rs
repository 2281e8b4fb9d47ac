//! Margins: for each scheme a web with a spoke for each section; the farther out, the better. The ring is the bound.

use std::f64::consts::TAU;

use maud::{Markup, html};

use super::limit::{MAX_MARGIN, margin};
use super::marks::{class, icon, short};
use super::{Page, anchor};
use crate::evaluation::Part;

/// The radius of the largest margin, and of the numbers of sections around.
const RADIUS: f64 = 92.0;
const LABELS: f64 = 108.0;

/// The fewest spokes that make a web.
const MIN_SPOKES: usize = 3;

/// A web for each scheme; nothing if there are too few sections.
pub(super) fn radars(page: &Page<'_>) -> Markup {
    let has_margin = |part: &&Part| page.schemes.iter().any(|scheme| margin_of(part, scheme).is_some());
    let parts: Vec<&Part> = page.evaluation.sections.iter().filter(has_margin).collect();
    html! {
        @if parts.len() >= MIN_SPOKES {
            section #margins {
                h2 { "Margins" }
                p.lead {
                    "A spoke for each section: its question that is nearest to failing, or farthest beyond its bound. "
                    "The ring is the bound. Inside it, a section fails: half way, the value is twice as bad as the bound. "
                    "The rim is twice as good as the bound, or better. "
                    @if page.schemes.len() > 1 { "The dashed line is " (page.schemes[0]) "." }
                }
                div.radars { @for (index, _) in page.schemes.iter().enumerate() { (radar(page, &parts, index)) } }
            }
        }
    }
}

/// The smallest margin of the section's questions; `None` if all were skipped.
fn margin_of(part: &Part, scheme: &str) -> Option<f64> {
    let margins = part.questions.iter().filter_map(|question| margin(question, question.of(scheme)?));
    margins.min_by(f64::total_cmp)
}

fn radar(page: &Page<'_>, parts: &[&Part], scheme: usize) -> Markup {
    let name = page.schemes[scheme];
    let point = |index: usize, radius: f64| {
        let angle = TAU * index as f64 / parts.len() as f64;
        (radius * angle.sin(), -radius * angle.cos())
    };
    let outline = |scheme: &str| {
        let corners = parts.iter().enumerate().filter_map(|(index, part)| {
            let (x, y) = point(index, RADIUS * margin_of(part, scheme)? / MAX_MARGIN);
            Some(format!("{},{} ", short(x), short(y)))
        });
        corners.collect::<String>()
    };
    let fails = parts.iter().filter(|part| margin_of(part, name).is_some_and(|margin| margin < 1.0)).count();
    html! {
        figure.radar.own[scheme == 0] {
            figcaption { (icon(scheme)) " " (name) }
            svg viewBox="-128 -120 256 240" role="img" aria-label={ (name) ": " (fails) " of " (parts.len()) " sections beyond their bounds" } {
                circle.rim r=(RADIUS) {}
                circle.inside r=(RADIUS / MAX_MARGIN) {}
                @for index in 0..parts.len() {
                    @let (x, y) = point(index, RADIUS);
                    line.grid x2=(short(x)) y2=(short(y)) {}
                }
                polygon.web.(class(scheme)) points=(outline(name)) {}
                @if scheme > 0 { polygon.ghost points=(outline(page.schemes[0])) {} }
                circle.ring r=(RADIUS / MAX_MARGIN) {}
                @for (index, part) in parts.iter().enumerate() {
                    @let (x, y) = point(index, LABELS);
                    @let margin = margin_of(part, name);
                    a href={ "#" (anchor("s", &part.id)) } {
                        text.spoke.wrong[margin.is_some_and(|margin| margin < 1.0)].muted[margin.is_none()] x=(short(x)) y=(short(y + 4.0)) {
                            title { (tip(part, margin)) }
                            (part.id)
                        }
                    }
                    @if let Some(margin) = margin {
                        @let (x, y) = point(index, RADIUS * margin / MAX_MARGIN);
                        circle.corner.(class(scheme)).wrong[margin < 1.0] cx=(short(x)) cy=(short(y)) r="3" { title { (tip(part, Some(margin))) } }
                    }
                }
            }
        }
    }
}

fn tip(part: &Part, margin: Option<f64>) -> String {
    let text = match margin {
        None => "skipped".to_owned(),
        Some(margin) if margin >= MAX_MARGIN => "twice as good as the bound, or better".to_owned(),
        Some(margin) if margin >= 1.0 => format!("within the bound, by a factor of {margin:.2}"),
        Some(margin) if margin > 0.0 => format!("beyond the bound, by a factor of {:.3}", 1.0 / margin),
        Some(_) => "far beyond the bound".to_owned(),
    };
    format!("{} {}: {text}", part.id, part.title)
}
