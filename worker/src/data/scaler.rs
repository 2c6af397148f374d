//! Scaling of features, fitted on a fold's train part alone: what comes later must not shape what the agent sees.

use super::{Dataset, Part};
use serde::{Deserialize, Serialize};

/// Values are cut here, in standard deviations, so that one wild bar does not drown the rest.
const CLIP: f32 = 10.0;

/// Mean and scale of each feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    mean: Vec<f32>,
    /// One over the standard deviation; 0 for a constant column.
    inverse_deviation: Vec<f32>,
}

impl Scaler {
    /// Mean and standard deviation (ddof 0) of each feature over the bars of `part`, all instruments together.
    ///
    /// A column whose deviation is lost in rounding is constant: it scales to 0.
    pub fn fit(dataset: &Dataset, part: &Part) -> Scaler {
        let width = dataset.feature_names().len();
        let rows = || {
            let parts = dataset.instruments().iter().zip(&part.ranges);
            parts.flat_map(move |(i, range)| i.features[range.start * width..range.end * width].chunks_exact(width))
        };
        let count = part.bars().max(1) as f64;
        let mut mean = vec![0.0f64; width];
        for row in rows() {
            mean.iter_mut().zip(row).for_each(|(m, x)| *m += f64::from(*x));
        }
        mean.iter_mut().for_each(|m| *m /= count);
        let mut variance = vec![0.0f64; width];
        for row in rows() {
            for ((v, m), x) in variance.iter_mut().zip(&mean).zip(row) {
                *v += (f64::from(*x) - m).powi(2) / count;
            }
        }
        let inverse = |(v, m): (&f64, &f64)| {
            // below f32's own rounding of the mean there is nothing but rounding; far below 1 the inverse overflows
            let deviation = v.sqrt();
            if deviation <= (m.abs() * 1e-7).max(1e-30) { 0.0 } else { (1.0 / deviation) as f32 }
        };
        let inverse_deviation = variance.iter().zip(&mean).map(inverse).collect();
        Scaler { mean: mean.into_iter().map(|m| m as f32).collect(), inverse_deviation }
    }

    /// How many features it scales.
    pub fn len(&self) -> usize {
        self.mean.len()
    }

    /// Whether it scales none.
    pub fn is_empty(&self) -> bool {
        self.mean.is_empty()
    }

    /// Writes the scaled `row` into `out`; both have [`Scaler::len`] values.
    pub fn scale(&self, row: &[f32], out: &mut [f32]) {
        for (((y, x), m), d) in out.iter_mut().zip(row).zip(&self.mean).zip(&self.inverse_deviation) {
            *y = ((x - m) * d).clamp(-CLIP, CLIP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Bars;

    fn part(range: std::ops::Range<usize>) -> Part {
        Part { ranges: vec![range] }
    }

    fn dataset(columns: usize, values: Vec<f32>) -> Dataset {
        let n = values.len() / columns;
        let bars = Bars {
            symbol: "X".to_owned(),
            interval_ns: 1,
            start_ns: (0..n as i64).collect(),
            open: vec![1.0; n],
            high: vec![1.0; n],
            low: vec![1.0; n],
            close: vec![1.0; n],
            volume: vec![0.0; n],
        };
        Dataset::with_features(vec![bars], (0..columns).map(|i| format!("f{i}")).collect(), vec![values]).unwrap()
    }

    #[test]
    fn it_is_fitted_on_its_part_only_and_constant_columns_scale_to_0() {
        let values = vec![1.0, 0.1, 3.0, 0.1, 1e6, 1e6, -1e6, 5.0];
        let scaler = Scaler::fit(&dataset(2, values), &part(0..2));
        let mut out = [0.0; 2];
        scaler.scale(&[3.0, 0.1], &mut out);
        assert_eq!(out, [1.0, 0.0]);
        scaler.scale(&[1e6, 7.0], &mut out);
        assert_eq!(out, [10.0, 0.0]);
        let text = serde_json::to_string(&scaler).unwrap();
        assert_eq!(serde_json::from_str::<Scaler>(&text).unwrap(), scaler);
    }

    #[test]
    fn tiny_spreads_stay_finite() {
        let scaler = Scaler::fit(&dataset(1, vec![0.0, f32::from_bits(1), 0.0]), &part(0..3));
        let mut out = [f32::NAN];
        scaler.scale(&[1.0], &mut out);
        assert!(out[0].is_finite());
        scaler.scale(&[0.0], &mut out);
        assert!(out[0].is_finite());
    }
}
