use super::*;
use proptest::prelude::*;

/// Numbers of both signs and several sizes, so that the order of a sum shows.
fn numbers(seed: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) as f64).sin() * 10f64.powi((i + seed) as i32 % 4 - 2)).collect()
}

fn reference<T: Element>(
    (m, k, n): (usize, usize, usize),
    a: &[T],
    b: &[T],
    start: impl Fn(usize, usize) -> T,
    mul_add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let element = |i: usize, j: usize| (0..k).fold(start(i, j), |sum, t| mul_add(a[i * k + t], b[t * n + j], sum));
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

fn transposed<T: Copy>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..rows * columns).map(|at| values[at % rows * columns + at / rows]).collect()
}

/// Every instruction set, both layouts of both sides and all starts give the bits of the sum in order.
fn check<T: Element + std::fmt::Debug>(
    (m, k, n): (usize, usize, usize),
    of: impl Fn(f64) -> T,
    mul_add: impl Fn(T, T, T) -> T + Copy,
) {
    let make = |seed, len| -> Vec<T> { numbers(seed, len).into_iter().map(&of).collect() };
    let (a, b, bias, there) = (make(1, m * k), make(2, k * n), make(3, n), make(4, m * n));
    let a_columns = transposed(&a, m, k);
    let mut panels = Panels::new();
    let mut panels_transposed = Panels::new();
    // what was packed before must not show
    panels.pack(&make(5, (k + 1) * (n + 1)), k + 1, n + 1);
    panels.pack(&b, k, n);
    panels_transposed.pack_transposed(&transposed(&b, k, n), k, n);
    for instructions in Instructions::available() {
        for left in [Left::Rows(&a[..]), Left::Columns(&a_columns)] {
            for right in [&panels, &panels_transposed] {
                for start in [Start::Zero, Start::Row(&bias), Start::There] {
                    let mut out = there.clone();
                    T::multiply_with(instructions, Product { left, right, start, out: &mut out });
                    let first = |i: usize, j: usize| match start {
                        Start::Zero => T::default(),
                        Start::Row(row) => row[j],
                        Start::There => there[i * n + j],
                    };
                    let expected = reference((m, k, n), &a, &b, first, mul_add);
                    assert_eq!(out, expected, "{instructions:?} {start:?} {m} {k} {n}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_form_has_the_bits_of_the_sum_in_order(m in 0usize..30, k in 0usize..40, n in 0usize..70) {
        check::<f32>((m, k, n), |x| x as f32, f32::mul_add);
        check::<f64>((m, k, n), |x| x, f64::mul_add);
    }
}

#[test]
fn more_terms_than_one_block_are_added_in_the_same_order() {
    check::<f32>((3, 1100, 5), |x| x as f32, f32::mul_add);
    check::<f64>((2, 513, 17), |x| x, f64::mul_add);
}

#[test]
#[should_panic(expected = "a left side of 2 by 3")]
fn sizes_that_do_not_fit_are_refused() {
    let mut panels = Panels::new();
    panels.pack(&[0f32; 12], 3, 4);
    let product = Product { left: Left::Rows(&[0.0; 5]), right: &panels, start: Start::Zero, out: &mut [0.0; 8] };
    multiply(product);
}
