//! Policies as distributions over actions, and the clipped losses of PPO (Schulman et al. 2017), each with its gradient.
//!
//! ```text
//! (1)  rho = exp(log pi(a) - log pi_old(a))
//! (2)  L_pi = -min(rho A, clip(rho, 1 - e, 1 + e) A)
//! (3)  L_V  = max[(V - R)^2, (V_old + clip(V - V_old, -e_V, e_V) - R)^2] / 2
//! (4)  L    = L_pi + c_V L_V - c_H H
//! (5)  KL(pi_old | pi) is about (rho - 1) - log rho    (Schulman 2020: never negative)
//! ```

use super::{Scalar, softmax};

/// ln(2 pi) / 2.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_7;

/// A distribution over actions, from what a network says of a row.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a, T> {
    /// One of some actions, by logits. An action is stored as its index.
    Categorical,
    /// Independent normal numbers, whose means are the outputs.
    Gaussian {
        /// Logarithm of each one's deviation.
        log_std: &'a [T],
    },
}

impl<T: Scalar> Policy<'_, T> {
    /// log pi(a).
    pub fn log_prob(&self, outputs: &[T], action: &[f32]) -> T {
        match self {
            Policy::Categorical => outputs[action[0] as usize] - softmax::log_sum_exp(outputs),
            Policy::Gaussian { log_std } => {
                let one = |i: usize| {
                    let z = (T::of(f64::from(action[i])) - outputs[i]) * (-log_std[i]).exp();
                    -(T::of(0.5) * z * z) - log_std[i] - T::of(HALF_LOG_TAU)
                };
                (0..outputs.len()).map(one).sum()
            }
        }
    }

    /// log pi(a) and the entropy. `room`, as long as `outputs`, is what [`Policy::backward`] goes on from.
    pub fn evaluate(&self, outputs: &[T], action: &[f32], room: &mut [T]) -> (T, T) {
        match self {
            Policy::Categorical => {
                let total = softmax::softmax(outputs, room);
                let mean: T = room.iter().zip(outputs).map(|(p, x)| *p * *x).sum();
                (outputs[action[0] as usize] - total, total - mean)
            }
            Policy::Gaussian { log_std } => {
                let (mut log_prob, mut entropy) = (T::ZERO, T::ZERO);
                for (i, z) in room.iter_mut().enumerate() {
                    *z = (T::of(f64::from(action[i])) - outputs[i]) * (-log_std[i]).exp();
                    log_prob += -(T::of(0.5) * *z * *z) - log_std[i] - T::of(HALF_LOG_TAU);
                    entropy += T::of(0.5 + HALF_LOG_TAU) + log_std[i];
                }
                (log_prob, entropy)
            }
        }
    }

    /// The gradient by the outputs, into `room`, which [`Policy::evaluate`] filled, of a loss with the slopes `by_log_prob`
    /// and `by_entropy`; that by the logarithms of deviations is added to `by_log_std`. `entropy` is the row's.
    pub fn backward(
        &self,
        action: &[f32],
        entropy: T,
        (by_log_prob, by_entropy): (T, T),
        room: &mut [T],
        by_log_std: &mut [T],
    ) {
        match self {
            Policy::Categorical => {
                let chosen = action[0] as usize;
                for (i, p) in room.iter_mut().enumerate() {
                    // p ln p is 0 where p is
                    let log = if *p > T::ZERO { p.ln() } else { T::ZERO };
                    let indicator = if i == chosen { T::ONE } else { T::ZERO };
                    *p = by_log_prob * (indicator - *p) - by_entropy * (*p * (log + entropy));
                }
            }
            Policy::Gaussian { log_std } => {
                for (i, z) in room.iter_mut().enumerate() {
                    by_log_std[i] += by_log_prob * (*z * *z - T::ONE) + by_entropy;
                    *z = by_log_prob * (*z * (-log_std[i]).exp());
                }
            }
        }
    }

    /// Draws an action from random numbers that `draw` gives.
    pub fn sample(&self, outputs: &[T], action: &mut [f32], draw: &mut dyn FnMut(Kind) -> f64) {
        match self {
            Policy::Categorical => {
                // in 64 bits, from the largest logit on: the last one that has a share takes what rounding leaves
                let largest = outputs.iter().copied().fold(outputs[0], T::max).wide();
                let share = |x: &T| (x.wide() - largest).exp();
                let total: f64 = outputs.iter().map(share).sum();
                let mut left = draw(Kind::Uniform) * total;
                let mut chosen = 0;
                for (i, x) in outputs.iter().enumerate() {
                    let share = share(x);
                    if share > 0.0 {
                        chosen = i;
                        if left < share {
                            break;
                        }
                        left -= share;
                    }
                }
                action[0] = chosen as f32;
            }
            Policy::Gaussian { log_std } => {
                for (i, action) in action.iter_mut().enumerate() {
                    *action = (outputs[i].wide() + log_std[i].wide().exp() * draw(Kind::Normal)) as f32;
                }
            }
        }
    }

    /// The likeliest action: the first of the largest logits, or the means.
    pub fn mode(&self, outputs: &[T], action: &mut [f32]) {
        match self {
            Policy::Categorical => {
                let best = (1..outputs.len()).fold(0, |best, i| if outputs[i] > outputs[best] { i } else { best });
                action[0] = best as f32;
            }
            Policy::Gaussian { .. } => {
                action.iter_mut().zip(outputs).for_each(|(action, mean)| *action = mean.wide() as f32);
            }
        }
    }
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From 0 to below 1.
    Uniform,
    /// Of the standard normal distribution.
    Normal,
}

/// [`surrogate`] of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surrogate<T> {
    /// (2)
    pub loss: T,
    /// Its derivative by log pi(a).
    pub slope: T,
    /// (1)
    pub ratio: T,
    /// (5)
    pub kl: T,
    /// Whether rho is out of the clip's range.
    pub clipped: bool,
}

/// (1), (2) and (5).
pub fn surrogate<T: Scalar>(log_prob: T, old_log_prob: T, advantage: T, clip: T) -> Surrogate<T> {
    let log_ratio = log_prob - old_log_prob;
    let ratio = log_ratio.exp();
    let bound = ratio.max(T::ONE - clip).min(T::ONE + clip);
    let (free, held) = (ratio * advantage, bound * advantage);
    // where the clip holds, nothing is gained by going on: no slope
    let slope = if free <= held || ratio == bound { -free } else { T::ZERO };
    // not `min`, which would hide what is not a number
    let least = if free > held { held } else { free };
    let clipped = (ratio - T::ONE).abs() > clip;
    Surrogate { loss: -least, slope, ratio, kl: (ratio - T::ONE) - log_ratio, clipped }
}

/// (3) and its derivative by V; without the clip where `clip` is none.
pub fn value_loss<T: Scalar>(value: T, old_value: T, target: T, clip: Option<T>) -> (T, T) {
    let half = T::of(0.5);
    let free = value - target;
    let Some(clip) = clip else { return (half * free * free, free) };
    let moved = value - old_value;
    let bound = moved.max(-clip).min(clip);
    let held = old_value + bound - target;
    if held * held > free * free {
        (half * held * held, if bound == moved { held } else { T::ZERO })
    } else {
        (half * free * free, free)
    }
}

/// Weights and limits of (2) to (4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clipping<T> {
    /// e
    pub clip: T,
    /// e_V, if any.
    pub value_clip: Option<T>,
    /// c_V
    pub value_coefficient: T,
    /// c_H
    pub entropy_coefficient: T,
}

/// Rows to learn from. Lists are row-major.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    /// What the policy's network says.
    pub outputs: &'a [T],
    /// V.
    pub values: &'a [T],
    /// Actions as they are stored.
    pub actions: &'a [f32],
    /// log pi_old(a).
    pub old_log_probs: &'a [T],
    /// V_old.
    pub old_values: &'a [T],
    /// A.
    pub advantages: &'a [T],
    /// R.
    pub returns: &'a [T],
}

/// Sums over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Of (2).
    pub policy: f64,
    /// Of (3).
    pub value: f64,
    /// Of H.
    pub entropy: f64,
    /// Of (5).
    pub kl: f64,
    /// Rows whose ratio is out of the clip's range.
    pub clipped: f64,
}

/// The gradients of (4), *summed* over rows, by outputs and values; that by the logarithms of deviations is added to what
/// is there, and so are the sums.
pub fn clipped_loss<T: Scalar>(
    policy: Policy<'_, T>,
    rows: Rows<'_, T>,
    how: Clipping<T>,
    by_outputs: &mut [T],
    by_values: &mut [T],
    by_log_std: &mut [T],
    sums: &mut Sums,
) {
    let count = rows.values.len();
    let (width, action_width) = (rows.outputs.len() / count.max(1), rows.actions.len() / count.max(1));
    for (row, by_value) in by_values.iter_mut().enumerate() {
        let of = row * width..(row + 1) * width;
        let action = &rows.actions[row * action_width..(row + 1) * action_width];
        let room = &mut by_outputs[of.clone()];
        let (log_prob, entropy) = policy.evaluate(&rows.outputs[of], action, room);
        let one = surrogate(log_prob, rows.old_log_probs[row], rows.advantages[row], how.clip);
        let (loss, slope) = value_loss(rows.values[row], rows.old_values[row], rows.returns[row], how.value_clip);
        policy.backward(action, entropy, (one.slope, -how.entropy_coefficient), room, by_log_std);
        *by_value = how.value_coefficient * slope;
        sums.policy += one.loss.wide();
        sums.value += loss.wide();
        sums.entropy += entropy.wide();
        sums.kl += one.kl.wide();
        sums.clipped += f64::from(u8::from(one.clipped));
    }
}
