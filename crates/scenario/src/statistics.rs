//! Statistics of several values for columns: `None` for too few values.

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of a sample (n - 1).
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The coefficient of variation: standard deviation over mean.
pub(crate) fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(deviation(values)? / mean)
}

/// The quantile by nearest rank: the smallest value of `sorted` that is not below `share` of the values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Jain's fairness index: `(Σx)² / (n Σx²)`.
pub(crate) fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The largest over the smallest; `None` if one is zero.
pub(crate) fn spread(values: &[f64]) -> Option<f64> {
    let min = min(values).filter(|min| *min > 0.0)?;
    max(values).map(|max| max / min)
}

pub(crate) fn min(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

pub(crate) fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}
