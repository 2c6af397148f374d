//! Features of a row times the embeddings of its samples (Dabney et al. 2018, section 3.1): psi(x) * phi(tau).

use super::Scalar;

/// `[rows][samples][width]` of features, `[rows][width]`, and embeddings, `[rows][samples][width]`, or
/// `[samples][width]` where all rows have the same samples.
pub fn forward<T: Scalar>(features: &[T], embeddings: &[T], samples: usize, width: usize, out: &mut [T]) {
    let shared = embeddings.len() < out.len();
    for (row, out) in out.chunks_exact_mut((samples * width).max(1)).enumerate() {
        let features = &features[row * width..][..width];
        let of_row = if shared { embeddings } else { &embeddings[row * samples * width..][..samples * width] };
        for (embedding, out) in of_row.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            out.iter_mut().zip(features).zip(embedding).for_each(|((y, f), e)| *y = *f * *e);
        }
    }
}

/// The gradients by features, set or with `add` added to what is there, and by embeddings, one for each row and sample.
#[expect(clippy::too_many_arguments, reason = "both inputs and both gradients")]
pub fn backward<T: Scalar>(
    gradient: &[T],
    features: &[T],
    embeddings: &[T],
    samples: usize,
    width: usize,
    add: bool,
    by_features: &mut [T],
    by_embeddings: &mut [T],
) {
    if !add {
        by_features.fill(T::ZERO);
    }
    let rows = features.chunks_exact(width.max(1)).zip(by_features.chunks_exact_mut(width.max(1)));
    for (row, (features, by_features)) in rows.enumerate() {
        for sample in 0..samples {
            let at = (row * samples + sample) * width..(row * samples + sample + 1) * width;
            let (g, e) = (&gradient[at.clone()], &embeddings[at.clone()]);
            by_features.iter_mut().zip(g).zip(e).for_each(|((to, g), e)| *to += *g * *e);
            by_embeddings[at].iter_mut().zip(g).zip(features).for_each(|((to, g), f)| *to = *g * *f);
        }
    }
}
