//! The marks of the schemes: a shape and a colour each, so that neither alone has to tell them apart.
//!
//! The shapes are drawn about the origin; `<use>` places them. Plots have no `viewBox`: positions along the axis are
//! percentages, so a plot is as wide as its column while its marks and texts keep their size.

use maud::{Markup, html};

use super::Page;

/// One for each scheme: circle, square, triangle, diamond, triangle downwards, plus, cross, bow tie.
const SHAPES: [&str; 8] = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-3.8-3.8h7.6v7.6h-7.6z",
    "M0-4.8L4.7 3.6H-4.7z",
    "M0-5.2L5.2 0L0 5.2L-5.2 0z",
    "M0 4.8L4.7-3.6H-4.7z",
    "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "M-4.6-2.6L-2.6-4.6L0-2L2.6-4.6L4.6-2.6L2 0L4.6 2.6L2.6 4.6L0 2L-2.6 4.6L-4.6 2.6L-2 0z",
    "M-4.8-4.2L0-1L4.8-4.2V4.2L0 1L-4.8 4.2z",
];

/// The shapes, once for the whole page.
pub(super) fn definitions() -> Markup {
    html! {
        svg.definitions aria-hidden="true" focusable="false" {
            defs { @for (index, shape) in SHAPES.iter().enumerate() { path id={ "m" (index) } d=(shape) {} } }
        }
    }
}

/// The class of a scheme: its colour.
pub(super) fn class(scheme: usize) -> String {
    format!("s{}", scheme % SHAPES.len())
}

/// The mark of a scheme at `x` percent and `y` pixels, with `text` for the pointer.
pub(super) fn mark(scheme: usize, x: f64, y: f64, text: &str) -> Markup {
    html! { use href={ "#m" (scheme % SHAPES.len()) } x={ (short(x)) "%" } y=(short(y)) { title { (text) } } }
}

/// The mark of a scheme beside its name.
pub(super) fn icon(scheme: usize) -> Markup {
    html! {
        svg.icon.(class(scheme)) width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true" {
            use href={ "#m" (scheme % SHAPES.len()) } {}
        }
    }
}

/// The marks and names of all schemes.
pub(super) fn legend(page: &Page<'_>) -> Markup {
    html! {
        ul.legend aria-label="Schemes" {
            @for (index, scheme) in page.schemes.iter().enumerate() {
                li.own[index == 0] { (icon(index)) " " (scheme) }
            }
        }
    }
}

/// A number with at most two digits after its point.
pub(super) fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
