//! Seeded random streams: independent ones for each purpose (`"arrivals"`, `"loss"`, ...) and index within it, so
//! adding a flow or a link does not change the draws of the others.
//!
//! Functions such as `exp` are those of the crate `libm`, which have the same bits on every platform. There is one
//! exception: `rand_distr` uses `exp` and `ln` of the platform's own library if any crate of the program enables `std`
//! of `num-traits`, as those of `rampmeter` do. It needs `ln` for the ends of the exponential and the normal
//! distribution, one draw in two thousand, and `exp` to decide about a few draws in a hundred, of which the last bit
//! changes almost none.

use rand::{RngCore, SeedableRng};
use rand_distr::{Distribution, Exp1, OpenClosed01, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One stream of random numbers from xoshiro256++. The generator is named, unlike "the standard generator", so that its
/// draws never change between library versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A stream with its own seed, for tests and examples.
    pub fn from_seed(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number in [0, 1), from the top 53 bits of a draw.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A whole number in [0, n), with negligible bias (multiply-shift; n is far below 2^32 here). Zero if n is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// An exponential draw with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        let draw: f64 = Exp1.sample(self);
        mean * draw
    }

    /// A Pareto draw with the given mean and shape (above 1): `P(X > x) = (scale/x)^shape` with
    /// `scale = mean (shape-1)/shape`.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let scale = mean * (shape - 1.0) / shape;
        let share: f64 = OpenClosed01.sample(self); // P(X > x)
        scale * libm::pow(share, -1.0 / shape)
    }

    /// A lognormal draw with the given median, whose logarithm has the standard deviation `sigma`.
    pub fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * libm::exp(sigma * self.normal())
    }

    /// A standard normal draw.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(self)
    }
}

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }
}

/// The source of all streams of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of the run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The `index`-th stream for `purpose`.
    pub fn stream(&self, purpose: &str, index: u64) -> Random {
        // FNV-1a over seed, purpose and index; xoshiro's own seeding (splitmix64) then spreads it over 256 bits.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let bytes = self.seed.to_le_bytes().into_iter().chain(purpose.bytes()).chain(index.to_le_bytes());
        for byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random::from_seed(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_never_change_between_versions() {
        let mut stream = Streams::new(1).stream("arrivals", 0);
        let first: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        let mut again = Streams::new(1).stream("arrivals", 0);
        assert_eq!(first, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(first[0], Streams::new(2).stream("arrivals", 0).next_u64());
        assert_ne!(first[0], Streams::new(1).stream("arrivals", 1).next_u64());
        assert_ne!(first[0], Streams::new(1).stream("loss", 0).next_u64());
    }

    #[test]
    fn distributions_have_their_means() {
        let mut stream = Random::from_seed(7);
        let n = 200_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || stream.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut || stream.pareto(3.0, 2.5)) - 3.0).abs() < 0.1);
        assert!(mean(&mut || stream.normal()).abs() < 0.02);
        assert!((mean(&mut || stream.lognormal(3.0, 0.5)) / (3.0 * f64::exp(0.125)) - 1.0).abs() < 0.01);
        assert!((mean(&mut || stream.below(10) as f64) - 4.5).abs() < 0.05);
    }
}
