//! What chance explains of a mean, and of the difference of two.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The mean of a sample, and half of its 95% confidence interval (Student's t); without an interval for a single value.
pub(crate) fn mean_and_half_interval(sample: &[f64]) -> (f64, Option<f64>) {
    let n = sample.len() as f64;
    let quantile = StudentsT::new(0.0, 1.0, n - 1.0).map(|t| t.inverse_cdf(0.975)).ok();
    (mean(sample), quantile.map(|t| t * (squares(sample) / (n - 1.0) / n).sqrt()))
}

/// The mean of a sample.
pub(crate) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// The sum of the squares of the deviations from the mean.
fn squares(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    sample.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The difference of the means of `a` and `b` that chance exceeds with probability `level` if both are samples of the
/// same distribution: Student's t-test. No limit if one of them is empty or both have a single value.
///
/// Evaluations of the same program have the same variance, so that all seeds together estimate it. Welch's test, which
/// estimates one for each, has half as many degrees of freedom where one of the two happens to vary little: with four
/// seeds each it would need differences three times as large.
pub(crate) fn difference_by_chance(a: &[f64], b: &[f64], level: f64) -> f64 {
    let [n_a, n_b] = [a.len() as f64, b.len() as f64];
    let freedom = n_a + n_b - 2.0;
    if a.is_empty() || b.is_empty() || freedom < 1.0 {
        return f64::INFINITY;
    }
    let variance = (squares(a) + squares(b)) / freedom;
    let quantile = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - level / 2.0));
    if variance == 0.0 { 0.0 } else { quantile * (variance * (1.0 / n_a + 1.0 / n_b)).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_explains_what_the_tables_of_student_say() {
        // Means of 2 and 3, variances of 1: t = 2.776 at 5% with four degrees of freedom, times sqrt(2 / 3).
        let difference = difference_by_chance(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0], 0.05);
        assert!((difference - 2.776 * (2.0f64 / 3.0).sqrt()).abs() < 1e-3, "{difference}");
        assert_eq!(difference_by_chance(&[1.0, 1.0], &[2.0, 2.0], 0.05), 0.0);
    }

    #[test]
    fn the_interval_of_a_mean_is_that_of_student() {
        // The variance is 1, and t is 4.303 with two degrees of freedom.
        let (mean, half) = mean_and_half_interval(&[1.0, 2.0, 3.0]);
        assert!(mean == 2.0 && (half.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-3, "{mean} {half:?}");
        assert_eq!(mean_and_half_interval(&[7.0]), (7.0, None));
    }

    #[test]
    fn chance_has_no_limit_without_seeds_to_know_it() {
        for (a, b) in [(&[1.0][..], &[1.5][..]), (&[], &[1.0, 2.0, 3.0]), (&[1.0, 2.0, 3.0], &[])] {
            assert_eq!(difference_by_chance(a, b, 0.05), f64::INFINITY);
        }
    }
}
