//! Factorised noise on the weights of a linear layer (Fortunato et al. 2018, section 3).
//!
//! ```text
//! (10)  eps_w[o][i] = f(e_o) f(e_i)      (11)  eps_b[o] = f(e_o)      f(x) = sign(x) sqrt(|x|)
//!       W = mu_w + sigma_w eps_w               b = mu_b + sigma_b eps_b
//! ```
//!
//! With e_i and e_o normal, one number for each input and each output. One sample of noise serves a whole batch.

use super::Scalar;

/// f(x) of each of `normals`, in place.
pub fn scale<T: Scalar>(normals: &mut [T]) {
    for x in normals {
        let root = x.abs().root();
        *x = if *x < T::ZERO { -root } else { root };
    }
}

/// W, `[outputs][inputs]`, of mu and sigma and the scaled noise of outputs and inputs.
pub fn weight<T: Scalar>(mu: &[T], sigma: &[T], outputs: &[T], inputs: &[T], weight: &mut [T]) {
    let width = inputs.len().max(1);
    let rows = mu.chunks_exact(width).zip(sigma.chunks_exact(width)).zip(weight.chunks_exact_mut(width));
    for (((mu, sigma), weight), output) in rows.zip(outputs) {
        let pairs = mu.iter().zip(sigma).zip(weight).zip(inputs);
        pairs.for_each(|(((mu, sigma), weight), input)| *weight = *mu + *sigma * (*output * *input));
    }
}

/// b, `[outputs]`, of mu and sigma and the scaled noise of the outputs.
pub fn bias<T: Scalar>(mu: &[T], sigma: &[T], outputs: &[T], bias: &mut [T]) {
    let pairs = mu.iter().zip(sigma).zip(outputs).zip(bias);
    pairs.for_each(|(((mu, sigma), output), bias)| *bias = *mu + *sigma * *output);
}

/// The gradient by sigma_w from that by W, which is also that by mu_w; set, or with `add` added to what is there.
pub fn backward_weight<T: Scalar>(gradient: &[T], outputs: &[T], inputs: &[T], add: bool, sigma: &mut [T]) {
    let width = inputs.len().max(1);
    let rows = gradient.chunks_exact(width).zip(sigma.chunks_exact_mut(width));
    for ((gradient, sigma), output) in rows.zip(outputs) {
        for ((g, s), input) in gradient.iter().zip(sigma).zip(inputs) {
            let by_sigma = *g * (*output * *input);
            *s = if add { *s + by_sigma } else { by_sigma };
        }
    }
}

/// The gradient by sigma_b from that by b, which is also that by mu_b; set, or with `add` added to what is there.
pub fn backward_bias<T: Scalar>(gradient: &[T], outputs: &[T], add: bool, sigma: &mut [T]) {
    for ((g, s), output) in gradient.iter().zip(sigma).zip(outputs) {
        *s = if add { *s + *g * *output } else { *g * *output };
    }
}
