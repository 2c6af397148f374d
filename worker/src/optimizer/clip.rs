//! The global norm of a flat gradient, and the factor that clips it, as `torch.nn.utils.clip_grad_norm_` has them.

use super::Scalar;
use crate::kernels::widest;

/// Partial sums in [`global_norm`]. Fixed, since their number decides the rounding.
const LANES: usize = 8;

/// The Euclidean norm of `gradient`, summed in 64 bits in an order that depends on its length alone.
pub fn global_norm<T: Scalar>(gradient: &[T]) -> f64 {
    // independent sums let the processor work on several at once; one sum would wait for itself
    let mut sums = [0.0f64; LANES];
    let (blocks, rest) = gradient.as_chunks::<LANES>();
    widest(|| {
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                *sum += x.wide() * x.wide();
            }
        }
    });
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum += x.wide() * x.wide();
    }
    sums.iter().sum::<f64>().sqrt()
}

/// What a gradient of norm `norm` is multiplied by so that it is at most about `max_norm`: `min(1, max / (norm +
/// 1e-6))`, torch's definition. `max_norm` 0 stands for no clip.
pub fn clip_coefficient(norm: f64, max_norm: f64) -> f64 {
    if max_norm == 0.0 { 1.0 } else { (max_norm / (norm + 1e-6)).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{cases, close, numbers};

    #[test]
    fn norm_and_coefficient_equal_torch() {
        let mut seen = 0;
        for case in cases("clip_grad_norm") {
            let (input, output) = (&case["input"], &case["output"]);
            let max_norm = input["max_norm"].as_f64().unwrap();
            let gradient = if case["kind"] == "ranks" { mean_over_ranks(input) } else { numbers(&input["grads"]) };
            let norm = global_norm(&gradient);
            let coefficient = clip_coefficient(norm, max_norm);
            close(&[norm], &[output["total_norm"].as_f64().unwrap()], 1e-9);
            close(&[coefficient], &[output["coef"].as_f64().unwrap()], 1e-9);
            let clipped: Vec<f64> = gradient.iter().map(|g| g * coefficient).collect();
            close(&clipped, &numbers(&output["clipped"]), 1e-9);
            let narrow: Vec<f32> = gradient.iter().map(|g| *g as f32).collect();
            close(&[global_norm(&narrow)], &[norm], 2e-5);
            seen += 1;
        }
        assert!(seen >= 6, "only {seen} cases");
    }

    /// Sums over rows, then one division by the rows of all ranks.
    fn mean_over_ranks(input: &serde_json::Value) -> Vec<f64> {
        let ranks = input["grads_per_rank"].as_array().unwrap();
        let rows: Vec<f64> = match input["rows_per_rank"].as_array() {
            Some(rows) => rows.iter().map(|r| r.as_f64().unwrap()).collect(),
            None => vec![1.0; ranks.len()],
        };
        let mut sum = vec![0.0; numbers(&ranks[0]).len()];
        for (gradient, rows) in ranks.iter().zip(&rows) {
            sum.iter_mut().zip(numbers(gradient)).for_each(|(s, g)| *s += g * rows);
        }
        let all: f64 = rows.iter().sum();
        sum.iter().map(|s| s / all).collect()
    }

    #[test]
    fn no_clip_is_one_and_every_length_is_summed_whole() {
        assert_eq!(clip_coefficient(1e9, 0.0), 1.0);
        for n in [0usize, 1, 7, 8, 9, 1000] {
            let ones = vec![1.0f32; n];
            assert_eq!(global_norm(&ones), (n as f64).sqrt());
        }
    }
}
