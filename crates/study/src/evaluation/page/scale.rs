//! The scale of an axis: from values to positions between 0 and 1, linear or logarithmic, with round ticks.

/// Values that differ by more than this factor are on a logarithmic scale.
const LINEAR_WITHIN: f64 = 40.0;

/// The part of an axis before the first value and after the last, so that no mark is cut.
const MARGIN: f64 = 0.04;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// A scale for `values`; logarithmic if they are positive and differ much.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let min_of = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min);
        let max = values.iter().copied().reduce(f64::max);
        let Some((low, high)) = min_of(&mut values.iter().copied()).zip(max) else {
            return Self { low: 0.0, high: 1.0, is_log: false };
        };
        let positive = min_of(&mut values.iter().copied().filter(|value| *value > 0.0));
        match positive {
            // Zero has no logarithm: it is drawn at the start of the axis, half a decade before the smallest value.
            Some(positive) if low >= 0.0 && high / positive > LINEAR_WITHIN => {
                Self { low: if low > 0.0 { low } else { positive / 3.0 }, high, is_log: true }
            }
            _ => {
                let low = if low > 0.0 && low <= 0.5 * high { 0.0 } else { low };
                let span = if high > low { high - low } else { low.abs().max(1.0) };
                Self { low, high: low + span, is_log: false }
            }
        }
    }

    /// The same scale with `share` of its length more before it and after it.
    pub(super) fn widened(self, share: f64) -> Self {
        if self.is_log {
            let factor = (self.high / self.low).powf(share);
            Self { low: self.low / factor, high: self.high * factor, ..self }
        } else {
            let more = share * (self.high - self.low);
            let low = if self.low == 0.0 { 0.0 } else { self.low - more };
            Self { low, high: self.high + more, ..self }
        }
    }

    /// The position of `value`, between 0 and 1. Values outside are at the ends.
    pub(super) fn at(self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        MARGIN + (1.0 - 2.0 * MARGIN) * part.clamp(0.0, 1.0)
    }

    /// At most `count` round values.
    pub(super) fn ticks(self, count: usize) -> Vec<f64> {
        if self.is_log { self.powers(count) } else { self.steps(count) }
    }

    /// Multiples of 1, 2 or 5 times a power of ten.
    fn steps(self, count: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let ticks = (first..).map(|index| index as f64 * step).take_while(|tick| *tick <= self.high + 1e-9 * step);
        ticks.take(count + 1).collect()
    }

    /// Powers of ten, so many apart that there are not more than `count`; with 2 and 5 times them where there is room.
    fn powers(self, count: usize) -> Vec<f64> {
        let [low, high] = [self.low, self.high].map(f64::log10);
        let exponents: Vec<i32> = ((low - 1e-9).ceil() as i32..=(high + 1e-9).floor() as i32).collect();
        let apart = exponents.len().div_ceil(count.max(1)).max(1);
        let powers: Vec<f64> = exponents.iter().step_by(apart).map(|exponent| 10_f64.powi(*exponent)).collect();
        if powers.len() > 2 {
            return powers;
        }
        let decades = low.floor() as i32..=high.floor() as i32;
        let all = decades.flat_map(|exponent| [1.0, 3.0].map(|it| it * 10_f64.powi(exponent)));
        all.filter(|tick| (self.low..=self.high).contains(tick)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_much_are_on_a_logarithmic_scale() {
        assert!(Scale::of([0.001, 1.0]).is_log);
        assert!(!Scale::of([0.1, 1.0]).is_log);
        assert!(!Scale::of([-0.001, 1.0]).is_log);
    }

    #[test]
    fn positions_are_in_the_order_of_values() {
        for values in [vec![0.0, 0.001, 0.3, 1.0], vec![0.2, 0.3, 1.0], vec![-3.0, 0.0, 5.0]] {
            let scale = Scale::of(values.iter().copied());
            let places: Vec<f64> = values.iter().map(|value| scale.at(*value)).collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{values:?} at {places:?}");
            assert!(places[0] >= MARGIN && places[values.len() - 1] <= 1.0 - MARGIN + 1e-9);
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = Scale::of([0.0, 1.0]).ticks(5);
        assert_eq!(
            ticks.iter().map(|tick| format!("{tick:.3}")).collect::<Vec<_>>().join(" "),
            "0.000 0.200 0.400 0.600 0.800 1.000"
        );
        assert_eq!(Scale::of([0.001, 1.0]).ticks(4), [0.001, 0.01, 0.1, 1.0]);
        assert!(Scale::of([1e-9, 1e9]).ticks(4).len() <= 5);
    }

    #[test]
    fn equal_or_missing_values_have_a_scale() {
        for scale in [Scale::of([]), Scale::of([0.0]), Scale::of([3.0, 3.0]), Scale::of([f64::NAN, f64::INFINITY])] {
            assert!(scale.at(3.0).is_finite());
            assert!(!scale.ticks(4).is_empty());
        }
    }
}
