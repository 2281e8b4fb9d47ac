//! A least-squares line through delays, and whether a lower slope explains them.
//!
//! For `n` points with mean `(x, y)`, `Sxx = sum (xi - x)^2` and `Sxy = sum (xi - x)(yi - y)`:
//!
//! ```text
//! slope = Sxy / Sxx
//! error = sqrt( sum (yi - line(xi))^2 / (n - 2) / Sxx )
//! ```
//!
//! and `t = (slope - true slope) / error` follows Student's distribution with `n - 2` degrees of freedom. Sampling from
//! it needs no table of probabilities and gives the same bits on every machine.

use rampmeter_units::Random;

/// A fitted line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// Growth of `y` per unit of `x`.
    pub(crate) slope: f64,
    /// Standard error of the slope; zero for a perfect fit.
    pub(crate) error: f64,
    /// The number of points minus two.
    degrees_of_freedom: u32,
}

impl Line {
    /// Fits at least three points. `None` if there are fewer, or if all have the same `x`.
    pub(crate) fn fit(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let (mut n, mut x, mut y) = (0_u32, 0.0, 0.0);
        for (xi, yi) in points.clone() {
            n += 1;
            x += xi;
            y += yi;
        }
        if n < 3 {
            return None;
        }
        (x, y) = (x / f64::from(n), y / f64::from(n));
        let (mut sxx, mut sxy) = (0.0, 0.0);
        for (xi, yi) in points.clone() {
            sxx += (xi - x) * (xi - x);
            sxy += (xi - x) * (yi - y);
        }
        let slope = sxy / sxx;
        let residual: f64 = points.map(|(xi, yi)| (yi - y - slope * (xi - x)).powi(2)).sum();
        let error = (residual / f64::from(n - 2) / sxx).sqrt();
        // Where the error is finite, so is the slope.
        error.is_finite().then_some(Self { slope, error, degrees_of_freedom: n - 2 })
    }

    /// Whether the fit is consistent with a true slope of `max`, decided at random: with certainty if the slope is not
    /// above it, else with the probability that a fit to such a line deviates at least as far (the two-sided p-value).
    pub(crate) fn is_consistent_with(&self, max: f64, random: &mut Random) -> bool {
        let deviation = self.sample_deviation(random).abs();
        self.slope <= max || self.slope - max <= deviation
    }

    /// Samples `error * t`.
    fn sample_deviation(&self, random: &mut Random) -> f64 {
        let normal = random.normal();
        let spread: f64 = (0..self.degrees_of_freedom).map(|_| random.normal().powi(2)).sum();
        self.error * normal / (spread / f64::from(self.degrees_of_freedom)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(delays: &[f64]) -> Line {
        Line::fit(delays.iter().enumerate().map(|(i, y)| (i as f64, *y))).unwrap()
    }

    #[test]
    fn the_standard_error_matches_the_textbook() {
        let line = fit(&[0.0, 1.0, 1.0, 2.0, 2.0]); // Sxx 10, Sxy 5, residuals 0.3
        assert!((line.slope - 0.5).abs() < 1e-12);
        assert!((line.error - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_slope_is_consistent_with_a_lower_one_by_its_p_value() {
        let line = fit(&[0.0, 1.0, 1.0, 2.0, 2.0]); // slope 0.5, error 0.1
        let mut random = Random::from_seed(3);
        let n = 100_000;
        for (t, p) in [(-1.0, 1.0), (0.0, 1.0), (1.6377, 0.2), (3.1824, 0.05)] {
            let consistent = (0..n).filter(|_| line.is_consistent_with(0.5 - 0.1 * t, &mut random)).count();
            assert!((consistent as f64 / f64::from(n) - p).abs() < 0.005, "{consistent} at t = {t}");
        }
        let perfect = fit(&[1.0, 3.0, 5.0, 7.0]);
        assert_eq!([1.9, 2.0].map(|max| perfect.is_consistent_with(max, &mut random)), [false, true]);
    }

    #[test]
    fn too_few_points_or_a_single_time_give_no_line() {
        assert_eq!(Line::fit([(0.0, 1.0), (1.0, 1.0)].into_iter()), None);
        assert_eq!(Line::fit([(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)].into_iter()), None);
    }
}
