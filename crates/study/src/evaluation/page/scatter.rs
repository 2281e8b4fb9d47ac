//! Goodput against delay: a mark for each scheme and place, and the area that the marks of a scheme span.

use maud::{Markup, html};

use super::limit::{place, tick};
use super::marks::{class, legend, mark, short};
use super::pairs::{Pair, pairs};
use super::scale::Scale;
use super::{Page, link, repeat};
use crate::evaluation::formatted;

/// The height of the plot, and of the axis below it.
const HEIGHT: f64 = 360.0;
const AXIS: f64 = 22.0;

/// The room of a name, in percent and in pixels.
const LABEL_WIDTH: f64 = 9.0;
const LABEL_HEIGHT: f64 = 15.0;

/// A plot for each pair of units; nothing if no questions are a pair.
pub(super) fn scatters(page: &Page<'_>) -> Markup {
    let groups = pairs(page);
    html! {
        @if !groups.is_empty() {
            section #tradeoffs {
                h2 { "Throughput against delay" }
                p.lead {
                    "A mark is one scheme at one place. The area spans all marks of a scheme, and its name is at the "
                    "medians. Better is up and to the left."
                }
                @for group in groups { (scatter(page, &group)) }
            }
        }
    }
}

/// A mark, in percent from the left and from the top.
type Position = (f64, f64);

fn scatter(page: &Page<'_>, group: &[Pair<'_>]) -> Markup {
    let points = || group.iter().flat_map(|pair| page.schemes.iter().flat_map(|scheme| pair.points(scheme)));
    let x = Scale::of(points().map(|point| point.delay)).widened(0.03);
    let y = Scale::of(points().map(|point| point.goodput)).widened(0.03);
    let (delay, goodput) = (group[0].delay, group[0].goodput);
    let position = |delay: f64, goodput: f64| (100.0 * x.at(delay), 100.0 * (1.0 - y.at(goodput)));
    let of_scheme = |scheme: &str| {
        let points = group.iter().flat_map(|pair| pair.points(scheme));
        points.map(|point| (point.at, point.delay, point.goodput)).collect::<Vec<_>>()
    };
    let positions = |scheme: &str| {
        of_scheme(scheme).iter().map(|(_, delay, goodput)| position(*delay, *goodput)).collect::<Vec<Position>>()
    };
    html! {
        figure.card {
            (legend(page))
            p.axis-name { "↑ " (goodput.asks) }
            svg.scatter width="100%" height=(HEIGHT + AXIS) role="img" aria-label="Goodput against delay of all schemes at all places; the values are with the questions" {
                svg width="100%" height=(HEIGHT) {
                    @for value in y.ticks(6) {
                        @let top = 100.0 * (1.0 - y.at(value));
                        line.grid x1="0" x2="100%" y1={ (short(top)) "%" } y2={ (short(top)) "%" } {}
                        text.tick.left x="2" y={ (short(top)) "%" } dy="-3" { (tick(value, &goodput.unit)) }
                    }
                    @for value in x.ticks(6) {
                        @let left = 100.0 * x.at(value);
                        line.grid x1={ (short(left)) "%" } x2={ (short(left)) "%" } y2="100%" {}
                    }
                    svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" {
                        @for (index, scheme) in page.schemes.iter().enumerate().rev() {
                            polygon.hull.(class(index)) points=(path(&hull(positions(scheme)))) {}
                        }
                    }
                    @for (index, scheme) in page.schemes.iter().enumerate().rev() {
                        g.(class(index)).own[index == 0] {
                            @for (at, delay_here, goodput_here) in of_scheme(scheme) {
                                @let (left, top) = position(delay_here, goodput_here);
                                @let (delay_here, goodput_here) = (formatted(delay_here, &delay.unit), formatted(goodput_here, &goodput.unit));
                                (mark(index, left, top * HEIGHT / 100.0, &format!("{scheme}, {}: {goodput_here} at {delay_here}", place(at))))
                            }
                        }
                    }
                    @for (index, (left, top)) in labels(page.schemes.iter().map(|scheme| medians(&positions(scheme)))) {
                        text.name.(class(index)).end[left > 80.0] x={ (short(left)) "%" } y=(short(top)) { (page.schemes[index]) }
                    }
                }
                @for value in x.ticks(6) {
                    text.tick x={ (short(100.0 * x.at(value))) "%" } y=(HEIGHT + 15.0) { (tick(value, &delay.unit)) }
                }
            }
            p.axis-name.right { (delay.asks) " →" }
            p.muted {
                "From "
                @for (index, pair) in group.iter().enumerate() {
                    @if index > 0 { "; " }
                    (link(pair.goodput, &pair.goodput.id)) " and " (link(pair.delay, &pair.delay.id))
                }
                "."
            }
            @for pair in group { (repeat(page, pair.delay, &format!("Repeat the runs of {}", pair.delay.id))) }
        }
    }
}

fn path(points: &[Position]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect::<Vec<_>>().join(" ")
}

fn medians(points: &[Position]) -> Option<Position> {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let (xs, ys) = points.iter().copied().unzip();
    median(xs).zip(median(ys))
}

/// Where the names of the schemes are, in percent from the left and in pixels from the top: above their medians, or
/// below a name that is there already.
fn labels(medians: impl Iterator<Item = Option<Position>>) -> Vec<(usize, Position)> {
    let mut labels: Vec<(usize, Position)> = Vec::new();
    for (index, median) in medians.enumerate() {
        let Some((left, top)) = median else { continue };
        let mut top = top * HEIGHT / 100.0 - 8.0;
        while labels.iter().any(|(_, (x, y))| (x - left).abs() < LABEL_WIDTH && (y - top).abs() < LABEL_HEIGHT) {
            top += LABEL_HEIGHT;
        }
        labels.push((index, (left, top)));
    }
    labels
}

/// The convex hull, by Andrew's monotone chains.
fn hull(mut points: Vec<Position>) -> Vec<Position> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let turns_left = |a: Position, b: Position, c: Position| (b.0 - a.0) * (c.1 - a.1) > (b.1 - a.1) * (c.0 - a.0);
    let chain = |points: &mut dyn Iterator<Item = Position>| {
        let mut chain: Vec<Position> = Vec::new();
        for point in points {
            while chain.len() > 1 && !turns_left(chain[chain.len() - 2], chain[chain.len() - 1], point) {
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut whole = chain(&mut points.iter().copied());
    whole.extend(chain(&mut points.iter().rev().copied()));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_cover_each_other() {
        let medians = [Some((50.0, 10.0)), Some((51.0, 10.0)), None, Some((52.0, 14.0)), Some((90.0, 10.0))];
        let labels = labels(medians.into_iter());
        assert_eq!(labels.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 3, 4]);
        for (index, (left, top)) in &labels {
            let others = labels.iter().filter(|(other, _)| other != index);
            let is_covered =
                |(_, (x, y)): &(usize, Position)| (x - left).abs() < LABEL_WIDTH && (y - top).abs() < LABEL_HEIGHT;
            assert_eq!(others.filter(|other| is_covered(other)).count(), 0);
        }
    }

    #[test]
    fn a_hull_has_only_the_outer_points() {
        let square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)];
        let points = square.into_iter().chain([(0.5, 0.5), (0.2, 0.7)]).collect();
        assert_eq!(hull(points), square);
    }
}
