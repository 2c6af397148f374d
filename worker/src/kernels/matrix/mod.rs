//! Products of small matrices on one thread, for the host.
//!
//! `C[i][j] = start + a[i][0] b[0][j] + a[i][1] b[1][j] + ...`, each term multiplied and added with one rounding, in this
//! order. So an element's bits depend on its row, its column and nothing else: not on the number of rows beside it, nor on
//! how the product is cut into tiles, nor on which instructions the processor has. A batch cut into shards has the bits
//! of the whole.

mod lanes;
mod panels;
mod tile;

pub use panels::Panels;

use std::sync::OnceLock;

/// A number that matrices are made of.
pub trait Element: Copy + Default + PartialEq + Send + Sync + 'static {
    /// Columns of a panel: 128 bytes.
    const PANEL: usize;

    /// [`multiply`], with the instructions of `instructions`.
    #[doc(hidden)]
    fn multiply_with(instructions: Instructions, product: Product<'_, Self>);
}

/// The left side of a product with m rows.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a, T> {
    /// Row-major `[m][k]`.
    Rows(&'a [T]),
    /// The transposed of the row-major `[k][m]`.
    Columns(&'a [T]),
}

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, T> {
    /// Nothing.
    Zero,
    /// The same for all rows: `[n]`.
    Row(&'a [T]),
    /// What is there.
    There,
}

/// One product: `C (+)= A B`.
#[derive(Debug)]
pub struct Product<'a, T> {
    /// A, `[m, k]`.
    pub left: Left<'a, T>,
    /// B, `[k, n]`.
    pub right: &'a Panels<T>,
    /// What is added to.
    pub start: Start<'a, T>,
    /// C, row-major `[m][n]`.
    pub out: &'a mut [T],
}

/// The instructions that a product is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Registers of 512 bits.
    Avx512,
    /// Registers of 256 bits.
    Avx2,
    /// What every processor has.
    Portable,
}

impl Instructions {
    /// Those that this processor has, the widest first.
    pub fn available() -> Vec<Instructions> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                all.push(Instructions::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Instructions::Avx2);
            }
        }
        all.push(Instructions::Portable);
        all
    }

    /// The widest that this processor has.
    pub fn widest() -> Instructions {
        static WIDEST: OnceLock<Instructions> = OnceLock::new();
        *WIDEST.get_or_init(|| Instructions::available()[0])
    }
}

/// Computes `product`.
///
/// # Panics
///
/// If the sizes do not fit.
pub fn multiply<T: Element>(product: Product<'_, T>) {
    T::multiply_with(Instructions::widest(), product);
}

macro_rules! element {
    ($t:ident, $panel:literal, $portable:literal, $wide:ident, $narrow:ident) => {
        impl Element for $t {
            const PANEL: usize = $panel;

            fn multiply_with(instructions: Instructions, product: Product<'_, $t>) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f")]
                    fn wide(product: Product<'_, $t>) {
                        tile::product::<std::arch::x86_64::$wide>(product)
                    }
                    #[target_feature(enable = "avx2,fma")]
                    fn narrow(product: Product<'_, $t>) {
                        tile::product::<std::arch::x86_64::$narrow>(product)
                    }
                    match instructions {
                        Instructions::Avx512 if is_x86_feature_detected!("avx512f") => {
                            // SAFETY: the processor has these instructions.
                            return unsafe { wide(product) };
                        }
                        Instructions::Avx2 if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => {
                            // SAFETY: as above.
                            return unsafe { narrow(product) };
                        }
                        _ => {}
                    }
                }
                let _ = instructions;
                tile::product::<[$t; $portable]>(product)
            }
        }
    };
}

element!(f32, 32, 4, __m512, __m256);
element!(f64, 16, 2, __m512d, __m256d);

#[cfg(test)]
mod tests;
