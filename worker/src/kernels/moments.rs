//! Mean and spread of numbers, of all of them or of parts that are put together (Chan, Golub and LeVeque 1979).

use super::Scalar;
use serde::{Deserialize, Serialize};

/// Count, mean, and the sum of squared distances from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many numbers.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Sum of (x - mean)^2.
    pub squares: f64,
}

impl Spread {
    /// Of `values`, in two passes: one that summed squares would lose all digits where the mean is large.
    pub fn of<T: Scalar>(values: impl Iterator<Item = T> + Clone) -> Spread {
        let (count, sum) = values.clone().fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x.wide()));
        if count == 0.0 {
            return Spread::default();
        }
        let mean = sum / count;
        let squares = values.fold(0.0, |sum, x| sum + (x.wide() - mean) * (x.wide() - mean));
        Spread { count, mean, squares }
    }

    /// Of the numbers of both.
    pub fn merged(self, other: Spread) -> Spread {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let count = self.count + other.count;
        let away = other.mean - self.mean;
        let mean = self.mean + away * (other.count / count);
        let squares = self.squares + other.squares + away * away * (self.count * other.count / count);
        Spread { count, mean, squares }
    }

    /// The variance of exactly these numbers (ddof 0); 0 of none.
    pub fn variance(&self) -> f64 {
        if self.count > 0.0 { self.squares / self.count } else { 0.0 }
    }

    /// The standard deviation as an estimate (ddof 1); 0 of fewer than two.
    pub fn deviation(&self) -> f64 {
        if self.count > 1.0 { (self.squares / (self.count - 1.0)).sqrt() } else { 0.0 }
    }
}

/// `(x - mean) / (deviation + eps)` for the numbers that `spread` is of, in place.
pub fn standardize<T: Scalar>(values: &mut [T], spread: Spread, eps: f64) {
    let by = 1.0 / (spread.deviation() + eps);
    values.iter_mut().for_each(|x| *x = T::of((x.wide() - spread.mean) * by));
}
