//! Counter-based random streams: what is drawn depends on seed, purpose and two numbers, never on which rank
//! draws or how much was drawn before. So 1 and 4 workers draw the same, and a resumed run needs no saved state.

use crate::kernels::exact;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// A generator for one draw: read as much from it as the draw needs.
pub type Draw = ChaCha8Rng;

/// All random streams of a run.
#[derive(Clone, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of `seed`.
    pub fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// The streams of a part of the run, as a fold, that shall not share draws with another.
    pub fn part(&self, part: u64) -> Streams {
        let digest = Sha256::digest([self.seed.to_le_bytes(), part.to_le_bytes()].concat());
        Streams { seed: u64::from_le_bytes(digest[..8].try_into().expect("eight bytes")) }
    }

    /// The draw for `purpose`, as `"explore"`, numbered by `a` and `b`, as environment and step.
    pub fn draw(&self, purpose: &str, a: u64, b: u64) -> Draw {
        self.purpose(purpose).draw(a, b)
    }

    /// All draws for `purpose`: quicker than [`Streams::draw`] where there are many.
    pub fn purpose(&self, purpose: &str) -> Purpose {
        let mut key = Sha256::new();
        key.update(self.seed.to_le_bytes());
        key.update(purpose.as_bytes());
        Purpose { key: key.finalize().into() }
    }
}

/// The draws for one purpose.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    key: [u8; 32],
}

impl Purpose {
    /// The generator's key, by which the device draws the same (`kernels/exact.cu`).
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    /// The draw numbered by `a` and `b`.
    pub fn draw(&self, a: u64, b: u64) -> Draw {
        let mut draw = ChaCha8Rng::from_seed(self.key);
        draw.set_stream(a);
        // 2^20 words, 4 MiB, for each draw: far more than any takes
        draw.set_word_pos(u128::from(b) << 20);
        draw
    }
}

/// A number from 0 to below 1 with 53 random bits. One word of `draw`.
pub fn uniform(draw: &mut Draw) -> f64 {
    (draw.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A number of the standard normal distribution (Box and Muller 1958). Two words of `draw`.
pub fn normal(draw: &mut Draw) -> f64 {
    // from above 0, since the logarithm of 0 is none
    let radius = (-2.0 * exact::ln(1.0 - uniform(draw))).sqrt();
    radius * exact::cos_turns(uniform(draw))
}

/// A whole number from 0 to below `n`, all equally likely (Lemire 2019).
///
/// # Panics
///
/// If `n` is 0: there is nothing to choose from.
pub fn below(draw: &mut Draw, n: usize) -> usize {
    assert!(n > 0, "a choice among nothing");
    let n = n as u64;
    let reject_under = n.wrapping_neg() % n;
    loop {
        let product = u128::from(draw.next_u64()) * u128::from(n);
        if product as u64 >= reject_under {
            return (product >> 64) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_its_name_alone() {
        let next = |seed, purpose, a, b| Streams::new(seed).draw(purpose, a, b).next_u64();
        assert_eq!(next(1, "explore", 2, 3), next(1, "explore", 2, 3));
        let others =
            [next(2, "explore", 2, 3), next(1, "sample", 2, 3), next(1, "explore", 3, 3), next(1, "explore", 2, 4)];
        assert!(others.iter().all(|x| *x != next(1, "explore", 2, 3)));
        assert_ne!(
            Streams::new(1).part(0).draw("x", 0, 0).next_u64(),
            Streams::new(1).part(1).draw("x", 0, 0).next_u64()
        );
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut draw = Streams::new(3).draw("normal", 0, 0);
        let numbers: Vec<f64> = (0..40_000).map(|_| normal(&mut draw)).collect();
        let moment = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64;
        // standard errors: 0.005, 0.007, 0.05
        assert!(moment(1).abs() < 0.025 && (moment(2) - 1.0).abs() < 0.035 && (moment(4) - 3.0).abs() < 0.25);
    }

    #[test]
    fn choices_are_even_and_in_range() {
        let mut draw = Streams::new(3).draw("choice", 0, 0);
        let mut counts = [0u32; 7];
        (0..70_000).for_each(|_| counts[below(&mut draw, 7)] += 1);
        // 10,000 each, with a standard deviation of 93
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 500), "{counts:?}");
        let mean = (0..10_000).map(|_| uniform(&mut draw)).inspect(|x| assert!((0.0..1.0).contains(x))).sum::<f64>();
        assert!((mean / 10_000.0 - 0.5).abs() < 0.02);
        assert_eq!(below(&mut draw, 1), 0);
    }
}
