//! A fading radio channel, and the bits that link adaptation gets out of it.
//!
//! ```text
//!   snr = median * shadowing * fading
//!   shadowing   normal in decibels, with a correlation of exp(-d / D) over a distance d                   (1)
//!   fading      mean of |g|^2 over independent branches; g complex normal, Gauss-Markov from report to report:
//!               g' = rho g + sqrt(1 - rho^2) n,   rho = J0(2 pi f_d t),   f_d = speed * carrier / c       (2)
//!   efficiency  0.6 log2(1 + snr) b/s/Hz, at most 4.4; 0 below -10 dB                                     (3)
//! ```
//!
//! (1) M. Gudmundson, "Correlation model for shadow fading in mobile radio systems", Electronics Letters 27(23), 1991,
//! with the deviation and the distance `D` of 3GPP TR 38.901 (tables 7.4.1-1 and 7.5-6) for an urban micro cell without
//! line of sight. (2) R. H. Clarke, "A statistical theory of mobile-radio reception", Bell System Technical Journal
//! 47(6), 1968; a Gauss-Markov process instead of Clarke's spectrum is the usual simplification. (3) 3GPP TR 36.942,
//! annex A, downlink.
//!
//! Judgement: a median of 12 dB, and four branches (two antennas, and two independent parts of a wide channel).

use rampmeter_units::{Duration, Random};

/// The deviation of the shadowing in decibels.
const SHADOWING_DB: f64 = 7.82;

/// The distance over which the shadowing decorrelates, in metres.
const DECORRELATION: f64 = 13.0;

/// The median ratio of signal to noise in decibels.
const MEDIAN_DB: f64 = 12.0;

/// Independent fading branches.
const BRANCHES: usize = 4;

const SPEED_OF_LIGHT: f64 = 299_792_458.0;

/// One terminal's channel.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    random: Random,
    /// The correlation of the shadowing from one report to the next.
    shadowing_memory: f64,
    /// The correlation of the fading from one report to the next.
    fading_memory: f64,
    /// The shadowing in standard deviations.
    shadowing: f64,
    /// Real and imaginary parts, each with a variance of 1.
    branches: [[f64; 2]; BRANCHES],
    mean_efficiency: f64,
}

impl Channel {
    /// The channel of a terminal that moves with `speed` metres a second, at a `carrier` frequency in hertz, with a
    /// report every `interval`.
    pub(super) fn new(speed: f64, carrier: f64, interval: Duration, mut random: Random) -> Self {
        let way = speed * interval.as_secs_f64();
        Self {
            shadowing_memory: libm::exp(-way / DECORRELATION),
            fading_memory: libm::j0(std::f64::consts::TAU * way * carrier / SPEED_OF_LIGHT).max(0.0),
            shadowing: random.normal(),
            branches: std::array::from_fn(|_| std::array::from_fn(|_| random.normal())),
            mean_efficiency: mean_efficiency(),
            random,
        }
    }

    /// The efficiency relative to its mean, up to the next report.
    pub(super) fn report(&mut self) -> f64 {
        let gain: f64 = self.branches.iter().flatten().map(|part| part * part).sum::<f64>() / (2 * BRANCHES) as f64;
        let now = efficiency(self.shadowing, gain) / self.mean_efficiency;
        let mut step = |value: &mut f64, memory: f64| {
            *value = memory * *value + (1.0 - memory * memory).sqrt() * self.random.normal();
        };
        step(&mut self.shadowing, self.shadowing_memory);
        for part in self.branches.iter_mut().flatten() {
            step(part, self.fading_memory);
        }
        now
    }
}

/// The efficiency in b/s/Hz where the shadowing is `shadowing` standard deviations, and fading multiplies by `gain`.
fn efficiency(shadowing: f64, gain: f64) -> f64 {
    let snr = libm::exp10((MEDIAN_DB + SHADOWING_DB * shadowing) / 10.0) * gain;
    if snr < 0.1 { 0.0 } else { (0.6 * libm::log2(1.0 + snr)).min(4.4) } // TR 36.942, annex A
}

/// The mean of [`efficiency`]: `shadowing` is normal, `gain` the mean of independent exponential variables.
fn mean_efficiency() -> f64 {
    const STEPS: usize = 60;
    let normal = |x: f64| libm::exp(-x * x / 2.0);
    let gamma = |x: f64| libm::exp((BRANCHES - 1) as f64 * libm::log(x) - BRANCHES as f64 * x);
    let middle = |step: usize, from: f64, to: f64| from + (to - from) * (step as f64 + 0.5) / STEPS as f64;
    let (mut sum, mut weights) = (0.0, 0.0);
    for shadowing in (0..STEPS).map(|step| middle(step, -4.5, 4.5)) {
        for gain in (0..STEPS).map(|step| middle(step, 0.0, 5.0)) {
            let weight = normal(shadowing) * gamma(gain);
            sum += weight * efficiency(shadowing, gain);
            weights += weight;
        }
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(speed: f64, count: usize) -> Vec<f64> {
        let mut channel = Channel::new(speed, 2e9, Duration::from_millis(5), Random::from_seed(4));
        (0..count).map(|_| channel.report()).collect()
    }

    fn correlation(values: &[f64], lag: usize) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let product = |lag: usize| values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
        product(lag) / product(0)
    }

    /// At 100 m/s the shadowing has 38 independent values a second.
    #[test]
    fn the_mean_efficiency_is_one() {
        let reports = reports(100.0, 1_000_000);
        let mean = reports.iter().sum::<f64>() / reports.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_faster_terminal_has_a_shorter_memory() {
        let [walking, driving] = [0.83, 8.3].map(|speed| reports(speed, 400_000));
        // 5 ms: 4 mm and 42 mm, of a wavelength of 150 mm. 5 s: 4 m and 42 m, of 13 m.
        assert!(correlation(&walking, 1) > correlation(&driving, 1) + 0.05);
        assert!(correlation(&walking, 1000) > 0.3 && correlation(&driving, 1000) < 0.1);
    }

    #[test]
    fn efficiency_has_the_limits_of_the_model() {
        assert_eq!(efficiency(0.0, 1e6), 4.4);
        assert_eq!(efficiency(0.0, 1e-3), 0.0);
        // 12 dB are a factor of 15.85.
        assert!((efficiency(0.0, 1.0) - 0.6 * 16.849_f64.log2()).abs() < 1e-3);
    }
}
